"""Auxo on Flower: `AuxoStrategy` around a strategy, `AuxoClientApp` around an app; the extra ``auxo[flower]``.

In it: any strategy as the aggregator and the selector of each cohort, the client half for a ClientApp; `flower/engine`
runs apps in this process and in virtual time; a partitioner for flwr-datasets with hidden groups.

Each name is imported when it is asked for: a client needs numpy and flwr, and none of what a server needs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auxo.flower.affinity_file import cohort_of
    from auxo.flower.client import AuxoClientApp, AuxoMod, half_of, third_of
    from auxo.flower.foreign_step import CohortSeen
    from auxo.flower.result import AuxoResult
    from auxo.flower.strategy import AuxoStrategy

__all__ = ["AuxoClientApp", "AuxoMod", "AuxoResult", "AuxoStrategy", "CohortSeen", "cohort_of", "half_of", "third_of"]

_PLACES = {
    "AuxoClientApp": "auxo.flower.client:AuxoClientApp",
    "AuxoMod": "auxo.flower.client:AuxoMod",
    "AuxoResult": "auxo.flower.result:AuxoResult",
    "AuxoStrategy": "auxo.flower.strategy:AuxoStrategy",
    "CohortSeen": "auxo.flower.foreign_step:CohortSeen",
    "cohort_of": "auxo.flower.affinity_file:cohort_of",
    "half_of": "auxo.flower.client:half_of",
    "third_of": "auxo.flower.client:third_of",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'auxo.flower' has no attribute {name!r}")
    from auxo.registry.import_path import load_callable  # noqa: PLC0415

    found = load_callable(_PLACES[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

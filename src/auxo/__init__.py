"""Auxo: federated learning for clients that differ; cohorts are found while training goes on, each with its model.

`Server` and `Client` are the two halves for an FL loop of your own; `auxo` on the command line simulates whole
populations.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported when they are asked for: `auxo --help` should not wait for numpy and scikit-learn
    from auxo.algorithms.auxo import Auxo
    from auxo.core.affinity import AffinitySettings
    from auxo.core.aggregators import FedAvg, FedYogi
    from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn, Task, TaskFailure, TaskResult
    from auxo.runtime.client import Client
    from auxo.runtime.server import Rejection, Server

__version__ = "0.1.0"

__all__ = [
    "AffinityFeedback",
    "AffinityRequest",
    "AffinitySettings",
    "Auxo",
    "CheckIn",
    "Client",
    "FedAvg",
    "FedYogi",
    "Rejection",
    "Server",
    "Task",
    "TaskFailure",
    "TaskResult",
]

_WHERE = {
    "AffinityFeedback": "auxo.protocol.messages",
    "AffinityRequest": "auxo.protocol.messages",
    "AffinitySettings": "auxo.core.affinity",
    "Auxo": "auxo.algorithms.auxo",
    "CheckIn": "auxo.protocol.messages",
    "Client": "auxo.runtime.client",
    "FedAvg": "auxo.core.aggregators",
    "FedYogi": "auxo.core.aggregators",
    "Rejection": "auxo.runtime.server",
    "Server": "auxo.runtime.server",
    "Task": "auxo.protocol.messages",
    "TaskFailure": "auxo.protocol.messages",
    "TaskResult": "auxo.protocol.messages",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from auxo.registry.import_path import load_callable  # noqa: PLC0415 - as above

    found: object = load_callable(f"{_WHERE[name]}:{name}")
    globals()[name] = found  # the next time it is there
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

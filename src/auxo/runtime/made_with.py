"""What a federation was made with, in words: so that a record of it is not taken up by another one."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

import numpy as np

from auxo.core.types import Float32Array
from auxo.runtime.federation import Federation

_ID_BYTES = 12


def made_with(rules: Federation) -> dict[str, str]:
    """Return all that results follow from besides the initial model, by name."""
    return {
        **described("seed", rules.seed),
        **described("participants", rules.total_participants),
        **described("rounds", rules.total_rounds),
        **described("method", rules.algorithm),
        **described("aggregator", rules.aggregator),
        **described("selector", rules.selector),
        **described("guard", rules.guard),
        **described("most_weight", rules.most_weight),
        **described("shapes", rules.layers),
    }


def described(name: str, part: object) -> dict[str, str]:
    """Return a part and its settings by name; the same in every process, which an object's own words may not be.

    >>> from auxo.core.aggregators import FedAvg
    >>> described("aggregator", FedAvg(server_learning_rate=0.5))
    {'aggregator': 'FedAvg', 'aggregator.server_learning_rate': '0.5', 'aggregator.weighting': 'examples'}
    """
    if is_dataclass(part) and not isinstance(part, type):
        inside = [described(f"{name}.{one.name}", getattr(part, one.name)) for one in fields(part)]
        return {name: type(part).__name__} | {key: value for one in inside for key, value in one.items()}
    if isinstance(part, tuple | list):
        items = [described(f"{name}[{place}]", one) for place, one in enumerate(part)]
        return {name: f"{len(part)} items"} | {key: value for one in items for key, value in one.items()}
    if isinstance(part, np.ndarray):
        return {name: f"array {hashlib.blake2b(part.tobytes(), digest_size=_ID_BYTES).hexdigest()}"}
    is_plain = part is None or isinstance(part, bool | int | float | str)
    return {name: str(part) if is_plain else type(part).__qualname__}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return each thing that is not the same, such as "rounds: 5 in the record, 7 here"."""
    return [
        f"{name}: {before.get(name)} in the record, {now.get(name)} here"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]


def federation_id(rules: Federation, models: Sequence[Float32Array]) -> str:
    """Return what tells a federation from others: the same only for one with the same rules and initial models."""
    digest = hashlib.blake2b(repr(made_with(rules)).encode(), digest_size=_ID_BYTES)
    for model in models:
        digest.update(model.tobytes())
    return digest.hexdigest()

"""What is doubtful about a population before anything is learned of it, in a sentence each."""

from collections.abc import Sequence

import numpy as np

from auxo.core.types import IntArray
from auxo.population.federated_data import FederatedData
from auxo.population.preparation import Preparation

_MANY_CLASSES = 100  # of which each has few samples: they look like numbers or ids; our choice, and so is the next
_FEW_SAMPLES = 10
_NAMED = 8  # columns that are named; our choice


def doubts(data: FederatedData) -> tuple[str, ...]:
    """Return what is doubtful about a population, training and test samples together. Inputs are not read."""
    if data.has_tokens:  # there are tokens that are no labels, and labels that nobody has
        return ()
    clients = np.arange(data.n_clients)
    client = np.concatenate([np.repeat(clients, one.counts()) for one in (data.train, data.test)])
    y = np.concatenate([data.train.y, data.test.y]) if data.targets is None else None
    return doubts_about(client, y, data.preparation)


def doubts_about(client: IntArray, y: IntArray | None, done: Preparation) -> tuple[str, ...]:
    """Return the same of samples' clients and classes, and of the columns; without classes of the columns alone."""
    return (*(() if y is None or not len(y) else _about_labels(client, y, done.classes)), *_about_columns(done))


def _about_labels(client: IntArray, y: IntArray, names: Sequence[str]) -> list[str]:
    used, counts = np.unique(y, return_counts=True)
    found = []
    first = names[used[0]] if names else str(used[0])
    if len(used) == 1:
        found.append(
            f"all samples have the same label, {first!r}: there is nothing to learn; check the column of labels"
        )
    elif used[0] > 0:
        found.append(
            f"labels begin at {used[0]}: what is below has no sample, but outputs of the model; number classes from 0"
        )
    if len(used) >= _MANY_CLASSES and counts.mean() < _FEW_SAMPLES:
        found.append(
            f"there are {len(used):,} different labels among {len(y):,} samples: they look like ids or measurements; "
            "numbers are learned as such with --task regression"
        )
    owners = np.unique(client)
    pairs = np.unique(client * (int(used[-1]) + 1) + y)
    if len(pairs) == len(owners) == len(used) > 1:
        found.append(
            "every client has one label, which nobody else has: the label says who the client is, and nothing of a new "
            "client can be told; check the columns of clients and labels"
        )
    return found


def _about_columns(done: Preparation) -> list[str]:
    same = [place for place, (low, high) in enumerate(zip(done.lows, done.highs, strict=True)) if low == high]
    if not same:
        return []
    listed = ", ".join(done.columns[place] if done.columns else str(place) for place in same[:_NAMED])
    more = f", and {len(same) - _NAMED} more" if len(same) > _NAMED else ""
    return [
        f"the same value in all training samples, so that nothing can be learned of it: column {listed}{more}; "
        "leave it out, or check where it comes from"
    ]

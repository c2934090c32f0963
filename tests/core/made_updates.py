"""Updates of made-up clients, for tests of what becomes of them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer, Failure
from auxo.core.claims import Claims
from auxo.core.fingerprint import Fingerprint
from auxo.core.gathering import Admission, AdmitAll, Gathered, Returned, gather
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.protocol.messages import TaskResult

Said = TypeVar("Said", Returned, TaskResult)

N_PARAMS = 6
FINGERPRINT = Fingerprint(N_PARAMS)


def alike(n: int, seed: int = 0) -> Float32Array:
    """Return updates of clients that agree but for some noise."""
    noise = stream(seed, "alike").standard_normal((n, N_PARAMS))
    updates: Float32Array = (np.eye(N_PARAMS)[0] + 0.15 * noise).astype(np.float32)
    return updates


def of_two_groups(n: int, seed: int = 0) -> Float32Array:
    """Return updates of two groups in turn, with a direction in common."""
    updates: Float32Array = alike(n, seed) + np.eye(N_PARAMS, dtype=np.float32)[1 + np.arange(n) % 2]
    return updates


def answers(updates: Float32Array, late: Sequence[int] = ()) -> list[Returned]:
    """Return the answers of participants that were trained on 3, 4, 5 ... examples."""
    return [Returned(row, Answer(update, 3 + row), late=row in late) for row, update in enumerate(updates)]


def claims(n: int, *, known: int = 0, labels: IntArray | None = None, generation: int = 1) -> Claims:
    """Return what participants bring along of whom the first ``known`` are members."""
    label = np.full(n, -1) if labels is None else labels
    return Claims(
        vouched=np.arange(n) < known,
        known=np.arange(n) < known,
        label=label,
        generation=np.full(n, generation),
    )


def gathered(
    returned: Iterable[Returned], admission: Admission | None = None, aggregator: FedAvg | None = None, models: int = 1
) -> Gathered:
    """Gather answers for so many models."""
    aggregator = aggregator or FedAvg()
    server = aggregator.initial(np.zeros(N_PARAMS, dtype=np.float32))
    sums = [aggregator.accumulate(server) for _ in range(models)]
    return gather(iter(returned), FINGERPRINT, admission or AdmitAll(), sums)


def movement_of(result: Gathered, model: int = 0) -> FloatArray:
    """Return what a model is moved by."""
    movement = result.movements[model]
    assert movement is not None
    return movement


def saying(one: Said, **said: Any) -> Said:
    """Return an answer or a result that says something else."""
    answer: object = one.answer
    assert isinstance(answer, Answer)
    return replace(one, answer=replace(answer, **said))


def given(answers: Iterable[Answer | Failure]) -> list[Answer]:
    """Return the answers of participants none of which fails."""
    found = []
    for answer in answers:
        assert isinstance(answer, Answer)
        found.append(answer)
    return found

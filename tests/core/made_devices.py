"""A device whose participants train and look by functions of a test."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.asking import Answer, Ask, Losses, Part, do
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.training.trainer import Job

Trains = Callable[[Float32Array, Sequence[Job]], Iterator[Answer]]
MeanLosses = Callable[[Float32Array, Sequence[Job]], FloatArray]


@dataclass(frozen=True)
class Made:
    """A device whose participants train and look by functions of a test; a client has as many samples as its row."""

    weights: Sequence[Float32Array]
    jobs: Sequence[Job]
    trains: Trains
    mean_losses: MeanLosses

    @property
    def clients(self) -> IntArray:
        return np.array([job.client_row for job in self.jobs])

    @property
    def visits(self) -> IntArray:
        return np.zeros(len(self.jobs), dtype=np.int64)

    @property
    def samples(self) -> IntArray:
        return self.clients

    @property
    def models(self) -> int:
        return len(self.weights)

    def model(self, place: int) -> Float32Array:
        return self.weights[place]

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses:
        jobs = [
            replace(self.jobs[row], ask=replace(ask, fold=ask.half(part))) for row, ask in zip(rows, asks, strict=True)
        ]
        return Losses(self.mean_losses(self.weights[model], jobs))

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> None:
        return None

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer]:
        jobs = [replace(self.jobs[row], ask=ask) for row, ask in zip(rows, asks, strict=True)]
        return self.trains(self.weights[model], jobs)


def train_offered(
    models: Sequence[Float32Array],
    jobs: Sequence[Job],
    trains: Trains,
    mean_losses: MeanLosses,
) -> Iterator[Answer]:
    for answer in do([job.ask for job in jobs], Made(models, jobs, trains, mean_losses)):
        assert isinstance(answer, Answer)
        yield answer

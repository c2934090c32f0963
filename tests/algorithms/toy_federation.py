"""A federation of a few clients whose updates can be worked out by hand; all of a cohort's take part in its rounds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.aggregators import Aggregator, FedAvg
from auxo.core.asking import Answer, Ask, Losses, Part, do
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.cohort_state import CoordinatorState
from auxo.core.matching import CheckIns
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array, FloatArray, IntArray
from auxo.runtime.closing import Closed, Training, close_round, closing_of, models_of, returned_by
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.runtime.rounds import Opened, end_round, match, open_round, there_for
from auxo.training.trainer import Job


@dataclass(frozen=True)
class Toy:
    """Client i has all its samples at ``targets[i]``; one step takes it ``rate`` of the way there."""

    algorithm: CohortAlgorithm
    targets: Mapping[int, Sequence[float]]
    rate: float = 1.0
    aggregator: Aggregator = field(default_factory=FedAvg)

    @property
    def rules(self) -> Federation:
        width = len(next(iter(self.targets.values())))
        return Federation(self.algorithm, self.aggregator, width, total_participants=len(self.targets), total_rounds=99)

    def start(self, *models: Sequence[float]) -> CoordinatorState:
        return start(self.rules, lambda number: np.array(models[number], dtype=np.float32))

    def opened(self, state: CoordinatorState, cohort: CohortId, clients: Sequence[int] | None = None) -> Opened:
        there = np.array(sorted(self.targets) if clients is None else clients)
        here = CheckIns(there, Requests.silent(state.tree, np.zeros(len(there), dtype=np.int64)))
        arrived = match(self.rules, state, here, stream(0, "match"))
        return open_round(self.rules, state, there_for(self.rules, state, cohort, arrived), 0)

    def round(
        self, state: CoordinatorState, cohort: CohortId = ROOT, clients: Sequence[int] | None = None
    ) -> tuple[CoordinatorState, Closed]:
        opened = self.opened(state, cohort, clients)
        closing = closing_of(self.rules, opened.state, cohort, opened.participants)
        asks = list(closing.participants.each(usual_epochs=1))
        jobs = [Job(client, 0, ask) for client, ask in zip(closing.participants.clients.tolist(), asks, strict=True)]
        training = Training(np.arange(len(jobs)), jobs, np.zeros(len(jobs), dtype=np.bool_), models_of(closing))
        answers = do(asks, ToyDevice(self, closing.participants.clients, models_of(closing)))
        closed = close_round(self.rules, closing, returned_by(training, answers))
        assert closed.outcome is not None
        return end_round(self.rules, opened.state, closing, closed).state, closed


@dataclass(frozen=True)
class ToyDevice:
    """Where the clients of a toy federation train; each has one sample."""

    toy: Toy
    clients: IntArray
    weights: Sequence[Float32Array]

    @property
    def visits(self) -> IntArray:
        return np.zeros_like(self.clients)

    @property
    def samples(self) -> IntArray:
        return np.ones_like(self.clients)

    @property
    def models(self) -> int:
        return len(self.weights)

    def model(self, place: int) -> Float32Array:
        return self.weights[place]

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses:
        return Losses(np.array([(self._way(model, row) ** 2).sum() for row in rows]))

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> None:
        return None

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer]:
        for row, ask in zip(rows, asks, strict=True):
            part = 1 - (1 - self.toy.rate) ** (ask.steps or 1)
            yield Answer((part * self._way(model, row)).astype(np.float32), 1)

    def _way(self, model: int, row: int) -> FloatArray:
        return np.array(self.toy.targets[int(self.clients[row])]) - self.weights[model]


def models(state: CoordinatorState) -> dict[CohortId, list[float]]:
    """Return the leaves' models."""
    return {leaf: state.cohorts[leaf].server.weights.tolist() for leaf in state.tree.leaves}


def cohorts_of(state: CoordinatorState, toy: Toy) -> dict[int, CohortId]:
    """Return the cohort that each client would use, without looking at losses."""
    clients = np.array(sorted(toy.targets))
    here = CheckIns(clients, Requests.silent(state.tree, np.zeros(len(clients), dtype=np.int64)))
    placed = toy.algorithm.matching.place(state, here, stream(0, "place"))
    assert placed.vouched.all()
    names = [state.tree.cohorts[position] for position in placed.cohort]
    return dict(zip(clients.tolist(), names, strict=True))

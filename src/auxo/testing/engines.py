"""The contract of engines: where participants train must not show in a single bit."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.core.cohort_algorithm import Closing, CohortAlgorithm
from auxo.engines.in_process import InProcess
from auxo.population.federated_data import FederatedData
from auxo.runtime.closing import Closed, Training
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect
from auxo.testing.small_federation import SmallFederation, in_process, population, rules_of

MakeEngine = Callable[[InProcess], AbstractContextManager[Engine]]
"""Returns the engine that trains what another one would train in this process."""

_MANY_JOBS = 100  # more than any engine of ours trains at a time
_HALVES = Auxo(
    clustering=ClusteringSettings(clusters=2, pool_rounds=1),
    trial=TrialSettings(most_rounds=4),
)  # it tries a partition after its first round, and clients are few: all judge, by a half that they do not train on


CONTRACT = Contract[MakeEngine]("an engine", "Engine in auxo.runtime.engine")
check_engine = CONTRACT.check
"""Raises `ContractBroken` unless an engine keeps its contract; ``make`` is called a few times, and starts one."""


@dataclass(frozen=True)
class HeardRound:
    """A round that an engine was given, and what came of it."""

    rules: Federation
    closing: Closing
    training: Training
    closed: Closed


@dataclass(frozen=True)
class Listening:
    """Lets another engine work, and writes down what it is given and what it gives back."""

    inner: Engine
    heard: list[HeardRound] = field(default_factory=list)

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what the other engine makes of the round."""
        closed = self.inner.run_round(rules, closing, training)
        self.heard.append(HeardRound(rules, closing, training, closed))
        return closed


def heard_in_process(algorithm: CohortAlgorithm, data: FederatedData) -> list[HeardRound]:
    """Return the rounds of a small federation as the engine in this process runs them."""
    listening = Listening(in_process(data))
    SmallFederation.of(rules_of(algorithm), listening, data).end()
    return listening.heard


def _expect_same_rounds(make: MakeEngine, algorithm: CohortAlgorithm, data: FederatedData) -> None:
    """Run all over again with the engine, each round of it from the same values."""
    rounds = heard_in_process(algorithm, data)
    with make(in_process(data)) as engine:
        for number, heard in enumerate(rounds, start=1):
            closed = engine.run_round(heard.rules, heard.closing, heard.training)
            expect_same(heard.closed, closed, f"the bits of the engine in this process in round {number}")


@CONTRACT.promise
def trains_one_model(make: MakeEngine) -> None:
    """Rounds of one model have the bits of the engine in this process."""
    _expect_same_rounds(make, OneCohort(), population())


@CONTRACT.promise
def hears_late_ones_and_halves(make: MakeEngine) -> None:
    """Rounds with late answers, and participants that train on halves, have the bits of the engine in this process."""
    _expect_same_rounds(make, _HALVES, population())


@CONTRACT.promise
def offers_several_models(make: MakeEngine) -> None:
    """Rounds in which participants choose among models have the bits of the engine in this process."""
    _expect_same_rounds(make, Ifca(cohorts=3, warm_start=1), population())


@cache
def troubled_population() -> FederatedData:
    """Return the small population with clients whose inputs are no numbers, and clients without a sample."""
    data = population()
    x, offsets = data.x.copy(), data.train.offsets.copy()
    for row in range(3, data.n_clients - 1, 8):
        x[data.train.x_rows[data.train.of(row)]] = np.nan
        offsets[row + 1] = offsets[row + 2]  # the next one's samples are this one's
    return replace(data, x=x, train=replace(data.train, offsets=offsets))


@CONTRACT.promise
def refuses_what_cannot_be_used(make: MakeEngine) -> None:
    """Updates that are not finite, or of no example, are refused for the same reasons, and all others count."""
    _expect_same_rounds(make, OneCohort(), troubled_population())
    _expect_same_rounds(make, Ifca(cohorts=2, warm_start=1), troubled_population())


@CONTRACT.promise
def trains_nobody_and_many(make: MakeEngine) -> None:
    """Rounds without a job, and of more jobs than are trained at once, have the bits of the engine in this process."""
    data = population()
    heard = heard_in_process(OneCohort(), data)[0]
    with make(in_process(data)) as engine:
        for count in (0, _MANY_JOBS):
            some = np.resize(np.arange(len(heard.training.jobs)), count)
            jobs = [replace(heard.training.jobs[int(place)], visit=turn) for turn, place in enumerate(some)]
            training = Training(heard.training.rows[some], jobs, heard.training.late[some], heard.training.models)
            expected = in_process(data).run_round(heard.rules, heard.closing, training)
            closed = engine.run_round(heard.rules, heard.closing, training)
            expect_same(expected, closed, f"the bits of the engine in this process for {count} jobs")
            expect((closed.outcome is None) == (count == 0), "an outcome, unless nobody trains", closed.outcome)

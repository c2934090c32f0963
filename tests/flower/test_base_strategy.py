"""The strategy inside: what it has is reachable, what cannot be passed on is refused, too little noise is, too."""

import logging
from collections.abc import Iterable

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    Result,
    Strategy,
)

from auxo.algorithms.base import OneCohort
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.flower.foreign_step import CohortSeen
from auxo.flower.result import AuxoResult
from auxo.flower.strategy import AuxoStrategy
from tests.flower.linear_app import auxo_app, initial
from tests.flower.local_grid import LocalGrid
from tests.flower.small import NODES


class Bookkeeper(FedAvg):
    """Remembers what it has aggregated, and where it is to write it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder, self.rounds, self.losses = "", 0, list[float]()

    def save_to(self, folder: str) -> None:
        self.folder = folder

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.rounds += 1
        self.losses.append(float(metrics["train_loss"]) if metrics else 0.0)  # type: ignore[arg-type]
        return arrays, metrics


class WithOwnStart(FedAvg):
    """Does more than rounds."""

    def start(self, grid: Grid, initial_arrays: ArrayRecord, *given: object, **named: object) -> Result:
        raise AssertionError("nobody calls it")


def run(strategy: AuxoStrategy, groups: int = 2, rounds: int = 10) -> AuxoResult:
    return strategy.start(LocalGrid(auxo_app(groups), NODES), initial(), num_rounds=rounds, timeout=5.0)


def wrapping(base: Strategy, method: CohortAlgorithm | None = None) -> AuxoStrategy:
    return AuxoStrategy(base, participants=NODES, method=method)


# A base of one's own.


def test_a_start_of_its_own_is_not_left_out_without_a_word() -> None:
    with pytest.warns(RuntimeWarning, match=r"start\(\) of WithOwnStart is not called.*result\.cohorts") as told:
        AuxoStrategy(WithOwnStart, participants=NODES)
    assert told[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="WithOwnStart"):
        wrapping(WithOwnStart())


def test_what_is_set_through_the_wrapper_before_the_run_every_cohort_has() -> None:
    strategy = wrapping(Bookkeeper())
    assert strategy.folder == ""
    strategy.save_to("results")  # type: ignore[operator]
    strategy.fraction_evaluate = 0.5
    result = run(strategy)
    assert len(result.strategies) == 2
    for one in result.strategies.values():
        assert isinstance(one, Bookkeeper)
        assert (one.folder, one.fraction_evaluate) == ("results", 0.5)


def test_without_a_partition_the_strategy_that_was_given_is_that_of_all_nodes() -> None:
    base = Bookkeeper()
    strategy = wrapping(base, OneCohort())
    run(strategy, rounds=3)
    assert base.rounds == strategy.rounds == 3
    assert strategy.losses == base.losses
    assert len(base.losses) == 3
    adam = FedAdam(eta=0.3)
    run(wrapping(adam, OneCohort()), rounds=3)
    assert adam.m_t


def test_a_second_run_begins_as_the_first_did() -> None:
    base = Bookkeeper()
    strategy = wrapping(base, OneCohort())
    first, second = (run(strategy, rounds=2) for _ in range(2))
    assert base.rounds == 2
    np.testing.assert_allclose(first.arrays["w"].numpy(), second.arrays["w"].numpy(), atol=1e-12)


def test_with_several_cohorts_each_has_its_own_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    base = Bookkeeper()
    strategy = wrapping(base)
    with caplog.at_level(logging.WARNING, logger="flwr"):
        result = run(strategy)
    assert base.rounds == 0
    assert "the Bookkeeper that was given stays as it was" in caplog.text
    with pytest.raises(AttributeError, match=r"0\.0, 0\.1 have their own; read result\.strategies\[cohort\]\.losses"):
        _ = strategy.losses
    assert strategy.fraction_train == 1.0  # the same in all of them
    assert {one.rounds for one in result.strategies.values() if isinstance(one, Bookkeeper)} == {10}


def test_what_is_made_anew_for_each_cohort_is_not_changed_in_vain() -> None:
    strategy = AuxoStrategy(Bookkeeper, participants=NODES)
    assert strategy.fraction_train == 1.0
    with pytest.raises(AttributeError, match="call it where base makes the strategy"):
        strategy.save_to("results")  # type: ignore[operator]
    with pytest.raises(AttributeError, match="set it where base makes the strategy"):
        strategy.folder = "results"
    with pytest.raises(AttributeError, match="no_such"):
        _ = strategy.no_such


# Noise.


@pytest.mark.parametrize(
    "base",
    [
        DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 2.0, NODES),
        lambda: DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 2.0, NODES),
        DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 0.1, NODES),
    ],
)
def test_noise_for_all_nodes_together_is_refused(base: Strategy) -> None:
    with pytest.raises(ValueError, match=r"lambda cohort: .*num_sampled_clients=cohort\.participants"):
        AuxoStrategy(base, participants=NODES)


def test_noise_is_that_of_the_cohort_also_where_a_strategy_remembers_what_is_no_number() -> None:
    def base(cohort: CohortSeen) -> Strategy:
        return DifferentialPrivacyServerSideFixedClipping(Bookkeeper(), 0.001, 100.0, cohort.participants)

    result = run(AuxoStrategy(base, participants=NODES))
    assert [one.num_sampled_clients for one in result.strategies.values()] == [4, 4]  # type: ignore[attr-defined]
    assert all(len(one.strategy.losses) == 10 for one in result.strategies.values())  # type: ignore[attr-defined]

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.core.aggregators import (
    Accumulator,
    Aggregator,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedYogi,
    Report,
    ServerState,
)
from auxo.core.aggregators.norm_clipping import Clipped
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.aggregators.robust import Krum, Median, MultiKrum, TrimmedMean
from auxo.core.types import Float32Array, FloatArray
from auxo.experiments.parts import AGGREGATORS
from auxo.testing import ContractBroken, aggregators, check_aggregator
from auxo.testing.contract import Check
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

CONTRACT: Mapping[str, Aggregator] = {
    "fedavg": FedAvg(weighting="uniform"),
    "fedyogi": FedYogi(),
    "fedadam": FedAdam(),
    "fedadagrad": FedAdagrad(beta_1=0.9),
    "qfedavg": QFedAvg(q=2.0, learning_rate=0.1),
    "median": Median(),
    "trimmed_mean": TrimmedMean(),
    "krum": Krum(),
    "multi_krum": MultiKrum(server=FedYogi()),
    "clipped": Clipped(longest=2.0, aggregator=QFedAvg(learning_rate=0.1)),
}


def test_every_aggregator_that_has_a_name_keeps_the_contract() -> None:
    assert {name: type(part) for name, part in CONTRACT.items()} == {
        name: AGGREGATORS.find(name) for name in AGGREGATORS.names
    }


@pytest.mark.parametrize("name", CONTRACT)
@every(aggregators.CONTRACT.checks)
def test_aggregators_keep_the_contract(check: Check[Aggregator], name: str) -> None:
    check(CONTRACT[name])


@dataclass
class Kept:
    """Keeps all updates, and makes one of them in the end."""

    kind: str
    updates: list[FloatArray]

    def add(self, update: Float32Array, report: Report) -> None:
        if self.kind == "clips":
            np.clip(update, -1, 1, out=update)
        if self.kind == "weighs":
            update = update / np.float32(report.loss or 0.0)
        if self.kind == "trusts":
            assert report.loss is not None
        self.updates.append(update if self.kind == "keeps" else update.astype(np.float64))  # type: ignore[arg-type]

    def result(self) -> FloatArray | None:
        if not self.updates:
            return np.zeros(30) if self.kind == "something" else None
        if self.kind == "neighbours":
            return np.asarray(np.mean(self.updates[: max(0, len(self.updates) - 2)], axis=0), dtype=np.float64)
        if self.kind == "empties":
            self.updates.sort(key=lambda update: float(update[0]))
            del self.updates[0]
        mean: FloatArray = np.asarray(np.mean(self.updates, axis=0), dtype=np.float64)
        made = {"last": self.updates[-1], "matrix": np.outer(mean, mean), "restless": mean + 1e-3}
        return made.get(self.kind, mean)


@dataclass(frozen=True)
class Bent:
    """Federated averaging that does one thing wrong."""

    kind: str = ""

    def initial(self, weights: Float32Array) -> ServerState:
        state = FedAvg().initial(weights)
        if self.kind == "borrows":
            return replace(state, weights=weights)
        slots = (np.zeros(len(weights), dtype=np.complex64),)
        return replace(state, slots=slots) if self.kind == "complex" else state  # type: ignore[arg-type]

    def accumulate(self, state: ServerState) -> Accumulator:
        return Kept(self.kind, [])

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        if self.kind == "writes":
            state.weights[:] += movement.astype(np.float32)
            return state
        after = ServerState((state.weights + movement).astype(np.float32), state.slots, state.steps + 1)
        if self.kind == "double":
            return replace(after, weights=state.weights + movement)  # type: ignore[arg-type]
        if self.kind == "grows":
            return replace(after, slots=(*state.slots, movement))
        return replace(after, weights=state.weights) if self.kind == "standing" else after


class Loose(Bent):
    """Not frozen."""


CALLS: list[int] = []


@dataclass(frozen=True)
class Forgetful:
    """Counts its steps behind everybody's back."""

    def initial(self, weights: Float32Array) -> ServerState:
        return FedAvg().initial(weights)

    def accumulate(self, state: ServerState) -> Accumulator:
        return FedAvg().accumulate(state)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        CALLS.append(1)
        return FedAvg().step(state, movement * len(CALLS), rate_scale)


BROKEN: list[tuple[Check[Aggregator], Aggregator]] = [
    (aggregators.is_a_value, Loose()),
    (aggregators.begins_with_a_copy, Bent("borrows")),
    (aggregators.keeps_the_shape, Bent("double")),
    (aggregators.keeps_the_shape, Bent("matrix")),
    (aggregators.leaves_arguments_alone, Bent("writes")),
    (aggregators.leaves_arguments_alone, Bent("clips")),
    (aggregators.repeats_itself, Forgetful()),
    (aggregators.copies_what_it_keeps, Bent("keeps")),
    (aggregators.nothing_comes_of_nothing, Bent("something")),
    (aggregators.few_are_enough, Bent("neighbours")),
    (aggregators.can_be_asked_again, Bent("empties")),
    (aggregators.takes_any_loss, Bent("weighs")),
    (aggregators.takes_any_loss, Bent("trusts")),
    (aggregators.order_is_rounding, Bent("last")),
    (aggregators.zero_moves_nothing, Bent("restless")),
    (aggregators.state_goes_through_the_codec, Bent("complex")),
    (aggregators.states_can_be_averaged, Bent("grows")),
    (aggregators.trains_a_federation, Bent("standing")),
]


def test_a_bent_aggregator_that_is_not_bent_keeps_the_contract() -> None:
    check_aggregator(Bent())


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[Aggregator], part: Aggregator) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(aggregators.CONTRACT.checks, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match=r"Bent breaks a promise of an aggregator: An update lasts only until"):
        check_aggregator(Bent("keeps"))

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import pytest

pytest.importorskip("flwr")

from flwr.app import Message
from flwr.serverapp.strategy import FedAvg

from auxo.core.types import ROOT, CohortId
from auxo.flower.waiting import Waiting
from tests.flower.linear_app import auxo_app
from tests.flower.local_grid import LocalGrid
from tests.flower.small import NODES, federation

OTHER = CohortId("0.1")


def test_a_cohort_waits_twice_as_long_each_time_up_to_half_a_minute() -> None:
    waiting, now_s, pauses = Waiting(first_pause_s=1.0), 100.0, []
    for _ in range(8):
        waiting.wait(ROOT, now_s)
        pause_s = next(pause for pause in range(1, 99) if waiting.may_try(ROOT, now_s + pause))
        pauses.append(pause_s)
        now_s += pause_s

    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_it_counts_from_the_first_time_and_for_each_cohort_by_itself() -> None:
    waiting = Waiting(first_pause_s=1.0)

    assert waiting.wait(ROOT, 10.0) == 0.0
    assert waiting.wait(ROOT, 17.5) == 7.5
    assert waiting.wait(OTHER, 17.5) == 0.0
    assert ROOT in waiting


def test_who_goes_on_does_not_wait_any_more_and_begins_anew() -> None:
    waiting = Waiting(first_pause_s=1.0)
    waiting.wait(ROOT, 10.0)
    waiting.wait(ROOT, 20.0)

    assert waiting.go_on(ROOT)
    assert not waiting.go_on(ROOT)
    assert ROOT not in waiting
    assert waiting.may_try(ROOT, 20.0)
    assert waiting.wait(ROOT, 30.0) == 0.0
    assert waiting.may_try(ROOT, 31.0)


@dataclass
class Clock:
    """Time that passes by naps alone."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class FarGrid(LocalGrid):
    """Does not say how often it can be asked; nodes take so many seconds in each round."""

    pull_interval = None

    def __init__(self, clock: Clock, takes_s: list[float]) -> None:
        super().__init__(auxo_app(2), NODES)
        self.clock, self.takes_s, self.until_s = clock, takes_s, 0.0

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self.until_s = self.clock.now_s + self.takes_s.pop(0)
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return super().pull_messages(message_ids if self.clock.now_s >= self.until_s else [])


@pytest.mark.parametrize(
    ("takes_s", "looks", "ends_s"),
    [
        ([8.0] * 4, 3 + 2 + 2 + 2, 36.0),  # Flower's own looks 4 times in each round, and ends then, too
        ([8.0, 1.0, 1.0, 1.0], 3 + 1 + 1 + 1, 9.0 + 6.0 + 3.0 + 3.0),
        ([1.0, 1.0, 20.0, 20.0], 1 + 1 + 7 + 4, 3.0 + 3.0 + 21.0 + 21.0),
    ],
)
def test_a_grid_over_a_network_is_looked_at_less_often_than_by_flower_and_rounds_end_when_theirs_do(
    takes_s: list[float], looks: int, ends_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in ("cohort_run", "post"):
        monkeypatch.setattr(f"auxo.flower.{module}.time", clock)
    grid = FarGrid(clock, takes_s)
    result, _, _ = federation(rounds=4, grid=grid, base=partial(FedAvg, fraction_evaluate=0.0), timeout=600.0)
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3, 4]
    assert (grid.pulled, clock.now_s) == (looks, ends_s)


class SlowGrid(FarGrid):
    """One node answers its last message so many seconds after the others."""

    def __init__(self, clock: Clock, late_s: float) -> None:
        super().__init__(clock, [1.0])
        self.late_s = late_s

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        is_late = self.clock.now_s < self.until_s + self.late_s
        return super().pull_messages([name for name in message_ids if not (is_late and name == str(NODES))])


@pytest.mark.parametrize(("late_s", "ends_s"), [(12.0, 15.0), (500.0, 30.0)])
def test_a_run_does_not_end_while_a_node_is_at_work_on_it_but_waits_for_none_without_end(
    late_s: float, ends_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in ("cohort_run", "post"):
        monkeypatch.setattr(f"auxo.flower.{module}.time", clock)
    grid = SlowGrid(clock, late_s)
    result, _, _ = federation(rounds=1, grid=grid, base=partial(FedAvg, fraction_evaluate=0.0), timeout=8.0)
    assert sorted(result.train_metrics_clientapp) == [1]
    assert bool(grid.waiting) is (late_s > 400)
    assert clock.now_s <= ends_s

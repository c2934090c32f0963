"""What a coordinator does for the owners of its cohorts, and where it listens."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from auxo.core.types import ROOT, CohortId
from auxo.service.coordinator_process import ADDRESS_FILE, Supervisor, _ports
from auxo.service.desks import Pulse
from auxo.service.plan import begin
from auxo.service.pulses import Pulses
from auxo.service.starters import Started
from tests.service.made_store import parted
from tests.service.test_mending import planned


@dataclass
class Child:
    """A process that ends when it is told to."""

    why: str | None = None

    def why_ended(self) -> str | None:
        return self.why

    def kill(self) -> None:
        """It has ended."""

    def ask_to_end(self) -> None:
        """It has ended."""


@dataclass
class Children:
    """Starts them."""

    started: dict[CohortId, Child] = field(default_factory=dict)
    can_be_seen: bool = True

    def is_there(self) -> bool:
        return self.can_be_seen

    def start(self, cohort: CohortId, epoch: int) -> Started:
        self.started[cohort] = Child()
        return self.started[cohort]

    def adopt(self, cohort: CohortId, epoch: int, pid: int) -> Started:
        return self.start(cohort, epoch)


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_cohort_that_is_partitioned_between_two_looks_is_not_started_again(is_seen: bool, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    begin(plan, 0.0)
    children = Children()
    with plan.store() as store:
        cohorts = Supervisor(plan, store, store.new_coordinator(), children, Pulses.of(plan.directory), 0.0)
        assert cohorts.turn(store.read(()))
        if is_seen:  # to have been started again, which is no trouble any more
            children.started[ROOT].why = "exit code 1"
            assert cohorts.turn(store.read(()))
        held = store.read(())
        assert store.commit(held.owners[ROOT].epoch, parted(store.read().record.state, ROOT)) is None
        if not is_seen:
            children.started[ROOT].why = "exit code 0"
            assert cohorts.turn(held)
            assert cohorts.troubles == []
        assert cohorts.turn(store.read(()))
        assert cohorts.troubles == []
        assert list(children.started) == [ROOT, "0.0", "0.1"]


@pytest.mark.parametrize(("said", "port"), [("http://[::1]:4711", 4711), ("", 0), ("http://127.0.0.1:", 0)])
def test_an_address_that_was_half_written_is_no_reason_not_to_start(said: str, port: int, tmp_path: Path) -> None:
    plan = planned(tmp_path, "port = 0")
    plan.directory.mkdir()
    (plan.directory / ADDRESS_FILE).write_text(said)
    assert _ports(plan, plan.directory) == range(port, port + 1)


def test_while_no_sign_of_life_can_come_by_nobody_is_taken_for_dead(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    begin(plan, 0.0)
    children, now = Children(), [0.0]
    with plan.store() as store:
        pulses = Pulses.of(plan.directory)
        cohorts = Supervisor(plan, store, store.new_coordinator(), children, pulses, 0.0, lambda: now[0])
        cohorts.turn(store.read(()))
        epoch = store.read(()).owners[ROOT].epoch
        pulses.tell(Pulse(ROOT, epoch, 1, 1, 0, "idle"))
        cohorts.turn(store.read(()))
        children.can_be_seen = False
        now[0] += 1000
        cohorts.turn(store.read(()))
        children.can_be_seen = True
        now[0] += plan.service.silent_s / 2
        cohorts.turn(store.read(()))
        assert store.read(()).owners[ROOT].epoch == epoch
        now[0] += plan.service.silent_s
        cohorts.turn(store.read(()))
        assert store.read(()).owners[ROOT].epoch == epoch + 1

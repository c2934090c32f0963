"""Cohorts whose processes crash, wake up, and lose their disk, in any order: every round counts once, wherever."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from auxo.core.aggregators import Aggregator, FedAvg
from auxo.core.cohort_algorithm import Closing, Outcome, stepped
from auxo.core.gathering import Gathered
from auxo.core.partition import Keep, Partition
from auxo.core.plain_cohorts import PlainCohorts
from auxo.core.types import ROOT, CohortId
from auxo.protocol.events import Partitioned, RoundClosed
from auxo.protocol.messages import CheckIn
from auxo.runtime.federation import Federation
from auxo.service.desks import Assigned, Received
from tests.service.test_cohort_desk import DEADLINE_S, PARAMETERS, SETTINGS, WINDOW_S, Live

CLIENTS = range(4)


@dataclass(frozen=True)
class Parts(PlainCohorts):
    """Cohorts part in their second and in their fifth round."""

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        if not gathered.used:
            return None
        states = stepped(closing, gathered, aggregator)
        parts = states[0].round in {2, 5}
        return Outcome(states, Partition((0, 1), (0.5, 0.5)) if parts else Keep())


RULES = Federation(Parts(), FedAvg(), PARAMETERS, total_participants=4, total_rounds=8)


class Processes(RuleBasedStateMachine):
    """Owners of cohorts: the last of each is the one, and those before may still do whatever they do."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")  # noqa: S108 - a disk that others use as well takes minutes
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.owners: list[Live] = []
        self.respawn(0)

    def _started(self, cohort: CohortId) -> None:
        live = Live(self.folder, RULES, replace(SETTINGS, least_share=0.25), cohort)
        self.owners.append(live)

    @property
    def leaves(self) -> tuple[CohortId, ...]:
        return tuple(self.owners[0].store.read(()).owners) if self.owners else (ROOT,)

    def _one(self, place: int) -> Live:
        return self.owners[-1 - place % len(self.owners)]  # the newest first

    @rule(place=st.integers(0, 9))
    def respawn(self, place: int) -> None:
        self._started(self.leaves[place % len(self.leaves)])

    @rule(place=st.integers(0, 5))
    def crash(self, place: int) -> None:
        """End a process, and start the next owner of its cohort if it is still a leaf."""
        gone = self.owners.pop(-1 - place % len(self.owners))
        gone.store.__exit__()
        self._started(gone.cohort if not self.owners or gone.cohort in self.leaves else self.leaves[0])

    @rule(place=st.integers(0, 5))
    def open_a_round(self, place: int) -> None:
        live = self._one(place)
        for client in CLIENTS:
            live.desk.join(CheckIn(client), "a")
        live.now += 10 * WINDOW_S
        live.desk.turn()

    @rule(place=st.integers(0, 5), times=st.integers(1, 3))
    def train(self, place: int, times: int) -> None:
        for _ in range(times):
            self.open_a_round(place)
            self.answer(place, 4, again=False)
            self.turn(place)

    @rule(place=st.integers(0, 5), answers=st.integers(1, 4), again=st.booleans())
    def answer(self, place: int, answers: int, again: bool) -> None:
        live = self._one(place)
        for client in list(CLIENTS)[:answers]:
            given = live.desk.join(CheckIn(client), "a")
            if isinstance(given, Assigned):
                assert isinstance(live.do(given), Received)
                assert not again or isinstance(live.do(given), Received)

    @rule(place=st.integers(0, 5))
    def turn(self, place: int) -> None:
        self._one(place).desk.turn()

    @rule(place=st.integers(0, 5))
    def let_time_pass(self, place: int) -> None:
        live = self._one(place)
        live.now += DEADLINE_S
        live.desk.turn()

    @rule(place=st.integers(0, 5), is_full=st.booleans())
    def fill_the_disk(self, place: int, is_full: bool) -> None:
        self._one(place).disk.is_full = is_full

    @invariant()
    def every_round_has_moved_its_model_once(self) -> None:
        held = self.owners[0].store.read()
        assert not held.troubles
        for leaf, kept in held.record.state.cohorts.items():
            assert kept.server.weights.tolist() == [float(kept.round)] * PARAMETERS, leaf

    @invariant()
    def events_are_told_once_and_in_order(self) -> None:
        told, begun = self.owners[0].events, {ROOT: 0}
        for one in told:
            if isinstance(one, RoundClosed):
                assert one.round == begun[CohortId(one.cohort)] + 1
                begun[CohortId(one.cohort)] = one.round
            if isinstance(one, Partitioned):
                begun |= {CohortId(child): one.round for child in one.children}
        assert {leaf: begun[leaf] for leaf in self.leaves} == {
            leaf: owner.round for leaf, owner in self.owners[0].store.read(()).owners.items()
        }

    def teardown(self) -> None:
        for live in self.owners:
            live.store.__exit__()
        shutil.rmtree(self.folder)


@pytest.mark.slow
@pytest.mark.fault(1, 7)
def test_processes_in_any_order() -> None:
    Processes.TestCase.settings = settings(
        max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    Processes.TestCase().runTest()

"""Two owners of every cohort, one of whom may be asleep, in every order: the store says what the pure core says."""

import copy
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from auxo.core.cohort_state import CoordinatorState
from auxo.core.owners import Change, Fenced, commit, take_over
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from auxo.runtime.coordinator import start
from auxo.service.blobs import Steps
from auxo.service.store import Prepared, Store
from auxo.testing.small_federation import initial_model
from tests.service.made_store import KINDS, RULES, parted, record_of, trained

Asleep = tuple[CohortId, int, CoordinatorState]  # an owner's cohort, its epoch, and what it has seen last


Begun = tuple[
    CohortId, int, Prepared | Fenced, int
]  # a cohort, its owner's epoch, what held, and the writes until then


class Crash(Exception):  # noqa: N818
    """The process ends."""


class Fragile(Steps):
    """Crashes at a step, once."""

    left = -1

    def write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)

    def sync(self, folder: Path) -> None:
        """The power stays."""

    def execute(self, connection, statement, values=()):  # type: ignore[no-untyped-def]
        if self.left == 0 and statement != "ROLLBACK":
            self.left = -1
            raise Crash
        self.left -= 1
        return super().execute(connection, statement, values)


class Owners(RuleBasedStateMachine):
    """What a service's processes do to their store, beside the same done to one value in memory."""

    asleep = Bundle("asleep")
    elsewhere = Bundle("elsewhere")  # changes that were begun, and are made in another process

    def __init__(self) -> None:
        super().__init__()
        self.folder, self.disk = Path(tempfile.mkdtemp()), Fragile()
        self.state = start(RULES, initial_model)
        self.coordinator = 0
        self.rounds = dict[CohortId, int]()
        self.writes = 0
        with Store(self.folder, KINDS) as store:
            store.begin(record_of(self.state))
        self.store = self._opened()

    @initialize(target=asleep)
    def begin(self) -> Asleep:
        self.coordinator = self.store.new_coordinator()
        return self._taken_over(ROOT)

    def _taken_over(self, cohort: CohortId) -> Asleep:
        self.writes += 1
        epoch = self.store.take_over(self.coordinator, cohort)
        self.state, expected = take_over(self.state, (cohort,))
        assert epoch == expected
        return cohort, expected, self.state

    @rule(target=asleep, place=st.integers(0, 9))
    def respawn(self, place: int) -> Asleep:
        leaves = self.state.tree.leaves
        return self._taken_over(leaves[place % len(leaves)])

    @rule(owner=consumes(asleep), target=asleep, crash=st.sampled_from([-1, -1, 1, 2, 3, 4]))
    def close_a_round(self, owner: Asleep, crash: int) -> Asleep:
        cohort, epoch, seen = owner
        return cohort, epoch, self._committed(owner, trained(seen, cohort), crash)

    @rule(owner=consumes(asleep), target=asleep, crash=st.sampled_from([-1, -1, 2, 4, 6, 8]))
    def partition(self, owner: Asleep, crash: int):  # type: ignore[no-untyped-def]
        cohort, epoch, seen = owner
        if len(self.state.tree.leaves) > 4:
            return multiple()
        change = parted(seen, cohort)
        after = self._committed(owner, change, crash)
        is_done = cohort not in after.cohorts and set(change.cohorts) <= set(after.cohorts)
        return multiple(*((child, epoch, after) for child in change.cohorts)) if is_done else multiple(owner)

    def _committed(self, owner: Asleep, change: Change, crash: int) -> CoordinatorState:
        """Commit in both; return what the owner has seen of it."""
        cohort, epoch, seen = owner
        expected = commit(self.state, epoch, change) if set(change.of) <= set(self.state.cohorts) else None
        self.disk.left = crash
        try:
            found = self.store.commit(epoch, change)
        except Crash:
            self.start_again()
            return seen
        finally:
            self.disk.left = -1
        if expected is None or isinstance(expected, Fenced):
            current = self.state.epoch(cohort) if cohort in self.state.cohorts else None
            assert found == Fenced(cohort, epoch, current)
            return seen
        assert found is None
        self.writes += 1
        self.state = expected
        return expected

    @rule(owner=asleep, target=elsewhere)
    def begin_a_change(self, owner: Asleep) -> Begun:
        cohort, epoch, _ = owner
        found = self.store.prepare(cohort, epoch)
        current = self.state.epoch(cohort) if cohort in self.state.cohorts else None
        assert found == Fenced(cohort, epoch, current) if epoch != current else isinstance(found, Prepared)
        return cohort, epoch, found, self.writes

    @rule(begun=consumes(elsewhere), parts=st.booleans())
    def end_a_change(self, begun: Begun, parts: bool) -> None:
        """Carry out what was made of what held; it happens, unless anybody has written anything meanwhile."""
        cohort, epoch, prepared, writes = begun
        if isinstance(prepared, Fenced) or len(self.state.tree.leaves) > 4:
            return
        before = prepared.before.state
        made = commit(before, epoch, (parted if parts else trained)(before, cohort))
        assert isinstance(made, CoordinatorState)
        # As they come by on their way: together, so that what is the same stays the same.
        arrived, after = copy.deepcopy((prepared, replace(prepared.before, state=made)))
        found = self.store.carry_out(cohort, epoch, arrived, after, ())
        if cohort not in self.state.cohorts or self.state.epoch(cohort) != epoch:
            assert isinstance(found, Fenced)
        else:
            assert found is (writes == self.writes)
        if found is True:
            self.writes += 1
            state = commit(self.state, epoch, (parted if parts else trained)(self.state, cohort))
            assert isinstance(state, CoordinatorState)
            self.state = state

    @rule()
    def start_again(self) -> None:
        self.writes += 1  # what was begun before was begun with another
        self.store.__exit__()
        self.store = self._opened()

    def _opened(self) -> Store:
        store = Store(self.folder, KINDS, self.disk)
        store._database.connection.execute("PRAGMA synchronous = OFF")  # the power stays
        return store

    @rule()
    def another_coordinator(self) -> None:
        self.writes += 1
        before, self.coordinator = self.coordinator, self.store.new_coordinator()
        leaf = self.state.tree.leaves[0]
        assert self.store.take_over(before, leaf) == Fenced(leaf, before, self.coordinator)

    @invariant()
    def the_store_holds_what_the_core_says(self) -> None:
        held = self.store.read()
        assert not held.lost
        assert not held.troubles
        ordered = {leaf: self.state.cohorts[leaf] for leaf in self.state.tree.leaves}
        epochs = {leaf: self.state.epoch(leaf) for leaf in ordered if self.state.epoch(leaf)}
        expected = replace(self.state, cohorts=ordered, owners=epochs)
        assert to_bytes(held.record.state) == to_bytes(expected)

    @invariant()
    def rounds_never_go_back(self) -> None:
        for leaf, owner in self.store.read(()).owners.items():
            assert owner.round >= self.rounds.get(leaf, 0)
            self.rounds[leaf] = owner.round

    def teardown(self) -> None:
        self.store.__exit__()
        shutil.rmtree(self.folder)


@pytest.mark.slow
def test_owners_in_any_order() -> None:
    Owners.TestCase.settings = settings(
        max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
    )
    Owners.TestCase().runTest()

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from auxo.privacy.accounting import (
    Exponential,
    Gaussian,
    PrivacyBudget,
    Pure,
    RandomisedResponse,
    Release,
    times_within,
)
from auxo.privacy.ledger import Ledger
from auxo.privacy.spent import LedgerError, PrivacySpent
from tests.privacy.killed_clients import BUDGET, RELEASE, Clients, Fate, Job, forked_clients, ledger_in

MOST = times_within(BUDGET, {RELEASE: 1})


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with forked_clients() as found:
        yield found


@pytest.mark.fault(37)
def test_a_ledger_counts_what_leaves_and_then_refuses(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    assert [ledger.charge({RELEASE: 1}, BUDGET) for number in range(MOST)] == [""] * MOST
    refusal = ledger.charge({RELEASE: 1}, BUDGET)
    assert refusal.startswith("the privacy budget is spent: epsilon ")
    assert "of 4 at delta 1e-06" in refusal
    assert ledger.spent().releases == {RELEASE: MOST}


def test_without_a_budget_it_only_counts(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    for _ in range(MOST + 5):
        assert ledger.charge({RELEASE: 1}, None) == ""
    assert ledger.spent().releases == {RELEASE: MOST + 5}


def test_all_kinds_of_releases_are_read_as_they_were_written() -> None:
    releases: dict[Release, int] = {
        Gaussian(1.5): 3,
        RandomisedResponse(2.0, 4): 1,
        Exponential(0.1): 2,
        Pure(1 / 3): 9,
    }
    spent = PrivacySpent.nothing("sample").after(releases)
    assert PrivacySpent.from_bytes(spent.to_bytes()) == spent


def test_only_the_owner_can_read_a_ledger(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.spent()
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_losing_the_record_and_its_mark_loses_nothing_of_the_account(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.charge({RELEASE: 1}, BUDGET)
    shutil.rmtree(tmp_path / "record")
    assert ledger.spent().releases == {RELEASE: 1}
    assert ledger.mark.exists()


def _removed(ledger: Ledger) -> None:
    ledger.path.unlink()


def _cut(ledger: Ledger) -> None:
    ledger.path.write_bytes(ledger.path.read_bytes()[:-40])


def _empty(ledger: Ledger) -> None:
    ledger.path.write_bytes(b"")


def _flipped(ledger: Ledger) -> None:
    content = bytearray(ledger.path.read_bytes())
    content[len(content) // 2] ^= 1
    ledger.path.write_bytes(bytes(content))


def _another(ledger: Ledger) -> None:
    ledger.path.write_bytes(PrivacySpent.nothing("client").to_bytes())


def _folder(ledger: Ledger) -> None:
    ledger.path.unlink()
    ledger.path.mkdir()


@pytest.mark.fault(37)
@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_removed, "missing, but this client has enrolled"),
        (_cut, "cannot be relied on"),
        (_empty, "cannot be relied on"),
        (_flipped, "cannot be relied on"),
        (_another, "another ledger than the one that this client has enrolled with"),
        (_folder, "cannot be read"),
    ],
)
def test_a_ledger_that_is_lost_or_damaged_fails_closed(tmp_path: Path, harm: object, words: str) -> None:
    assert callable(harm)
    ledger = ledger_in(tmp_path)
    ledger.charge({RELEASE: 1}, BUDGET)
    harm(ledger)
    for _ in range(2):  # and it stays so
        with pytest.raises(LedgerError, match=words):
            ledger.charge({RELEASE: 1}, BUDGET)


@pytest.mark.fault(37)
def test_a_ledger_that_cannot_be_written_fails_closed(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("a file where the folder should be")
    with pytest.raises(LedgerError, match="nothing leaves this client"):
        ledger_in(tmp_path).charge({RELEASE: 1}, BUDGET)


def test_promises_are_never_mixed_up(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.charge({RELEASE: 1}, BUDGET)
    with pytest.raises(LedgerError, match="counts what was released at client level, and sample level is promised"):
        Ledger(ledger.path, ledger.mark, "sample").spent()


def test_the_mark_is_another_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected another file than the ledger"):
        Ledger(tmp_path / "a", tmp_path / "a", "client")


@pytest.mark.fault(37)
@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1])
def test_a_client_that_is_killed_at_any_line_never_counts_too_little(
    tmp_path: Path, clients: Clients, before: int
) -> None:
    points, fate = 0, Fate(has_left=False, was_killed=True, refusal="")
    while fate.was_killed:
        points += 1
        folder = tmp_path / str(points)
        left = sum(clients.do(Job(str(folder))).has_left for number in range(before))
        assert left == before
        fate = clients.do(Job(str(folder), kill_at=points))
        again = clients.do(Job(str(folder)))  # a ledger that was being written is still one
        assert again.has_left
        counted = ledger_in(folder).spent().releases[RELEASE]
        assert before + fate.has_left + 1 <= counted <= before + 2
    assert fate.has_left  # it was not killed any more
    assert points > 40  # each of the lines that read, write, sync and rename


class Accounts(RuleBasedStateMachine):
    """A client over restarts and kills, of which we know what has left it."""

    forks: ClassVar[Clients]

    @initialize()
    def starts(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.ledger = ledger_in(self.folder)
        self.left = 0
        self.is_harmed = False

    @rule(kill_at=st.integers(0, 120))
    def answers(self, kill_at: int) -> None:
        fate = self.forks.do(Job(str(self.folder), kill_at))
        assert not (fate.has_left and self.is_harmed)
        assert fate.has_left or fate.was_killed or fate.refusal
        self.left += fate.has_left

    @precondition(lambda self: not self.is_harmed)
    @rule()
    def loses_its_record(self) -> None:
        shutil.rmtree(self.folder / "record", ignore_errors=True)

    @precondition(lambda self: not self.is_harmed and self.ledger.mark.exists())
    @rule(harm=st.sampled_from([_removed, _cut, _empty, _flipped, _another]))
    def loses_its_ledger(self, harm: object) -> None:
        assert callable(harm)
        self.kept = self.ledger.path.read_bytes()
        harm(self.ledger)
        self.is_harmed = True

    @precondition(lambda self: self.is_harmed)
    @rule()
    def finds_its_ledger(self) -> None:
        self.ledger.path.write_bytes(self.kept)
        self.is_harmed = False

    @invariant()
    def never_counts_too_little(self) -> None:
        assert self.left <= MOST
        if not self.is_harmed:
            assert self.left <= self.ledger.spent().releases.get(RELEASE, 0) <= MOST

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


@pytest.mark.slow
def test_a_ledger_never_counts_too_little_whatever_happens_to_its_client(clients: Clients) -> None:
    Accounts.forks = clients
    run_state_machine_as_test(Accounts, settings=settings(max_examples=15, stateful_step_count=25, deadline=None))


@pytest.mark.slow
def test_several_at_once_are_all_counted(tmp_path: Path, clients: Clients) -> None:
    with forked_clients() as others:
        for number in range(10):
            folder = str(tmp_path / str(number))
            for some in (clients, others):
                some.begin(*[Job(folder)] * 3)
            assert all(some.fate().has_left for some in (clients, others) for _ in range(3))
            assert ledger_in(Path(folder)).spent().releases == {RELEASE: 6}


def test_a_larger_budget_has_room_again(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    assert ledger.charge({Pure(3.0): 1}, PrivacyBudget(2.0, 1e-6)) != ""
    assert ledger.charge({Pure(3.0): 1}, PrivacyBudget(4.0, 1e-6)) == ""

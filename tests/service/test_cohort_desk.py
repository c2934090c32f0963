import errno
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo
from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer
from auxo.core.cohort_tree import Branch
from auxo.core.owners import Change
from auxo.core.types import ROOT, CohortId
from auxo.core.watchful import Watchful
from auxo.protocol.events import Disturbance, EmptyRound, Event, RoundClosed, from_json
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn, Task, TaskFailure, TaskResult
from auxo.runtime.federation import Federation
from auxo.runtime.server import GatheredRound, Server
from auxo.service.blobs import Steps
from auxo.service.cohort_desk import LiveCohort, RoundSettings
from auxo.service.coordinator_desk import LiveCoordinator
from auxo.service.desks import Assigned, ComeAgain, Found, NoFeedback, Received, Refusal
from auxo.service.store import Store
from auxo.service.wire import Joining

PARTICIPANTS, PARAMETERS, DEADLINE_S, WINDOW_S = 4, 6, 100.0, 5.0
RULES = Federation(Auxo(), FedAvg(), PARAMETERS, PARTICIPANTS, 5, overcommit=0.25, guard=Watchful())
INITIAL = np.zeros(PARAMETERS, np.float32)
SETTINGS = RoundSettings(deadline_s=DEADLINE_S, window_s=WINDOW_S, waiting=10, gone_s=1000.0)


class Full(Steps):
    """A disk without room, while it is full."""

    is_full = False
    loses_answers = False  # what is committed is so, and nobody hears of it

    def execute(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[str | int | float | bytes] = ()
    ) -> sqlite3.Cursor:
        done = super().execute(connection, statement, values)
        if self.loses_answers and statement == "COMMIT":
            raise OSError(errno.ETIMEDOUT, "nobody answers")
        return done

    def write(self, path: Path, content: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        path.write_bytes(content)

    def sync(self, folder: Path) -> None:
        """The power stays."""


@dataclass
class Live:
    """A cohort in a store, and a clock that is set by hand."""

    folder: Path
    rules: Federation = RULES
    settings: RoundSettings = SETTINGS
    cohort: CohortId = ROOT
    now: float = 0.0
    wall: float = 1e9
    disk: Full = field(default_factory=Full)

    def __post_init__(self) -> None:
        self.store = Store(self.folder, self.rules.own_states, self.disk)
        self.store._database.connection.execute("PRAGMA synchronous = OFF")  # likewise
        if not self.store.has_begun:
            self.store.begin(Server.with_rules(self.rules, INITIAL).record, self.wall)
        epoch = self.store.take_over(self.store.new_coordinator(), self.cohort)
        assert isinstance(epoch, int)
        self.epoch = epoch
        server = Server.with_rules(self.rules, INITIAL)
        self.desk = LiveCohort(
            server, self.store, (self.cohort, epoch), self.settings, lambda: self.now, lambda: self.wall
        )

    def come(self, *clients: int) -> None:
        for client in clients:
            assert isinstance(self.desk.join(CheckIn(client), "a"), ComeAgain)

    def task(self, client: int, session: str = "a") -> Assigned:
        found = self.desk.join(CheckIn(client), session)
        assert isinstance(found, Assigned)
        return found

    def do(self, given: Assigned, value: float = 1.0) -> Received | Refusal:
        return self.desk.answer(result_of(given.task, value), given.epoch, given.nonce)

    def open_with(self, *clients: int) -> dict[int, Assigned]:
        """Return the tasks of a round of these clients."""
        self.come(*clients)
        self.now += WINDOW_S
        self.desk.turn()
        return {client: self.task(client) for client in clients}

    def whole_round(self, *clients: int) -> None:
        for given in self.open_with(*clients).values():
            assert isinstance(self.do(given), Received)
        self.desk.turn()

    @property
    def events(self) -> list[Event]:
        return [from_json(line) for _, line in self.store.events()]

    @property
    def rounds(self) -> int:
        return self.store.read(()).owners[self.cohort].round


@pytest.fixture
def live(tmp_path: Path) -> Live:
    return Live(tmp_path)


def result_of(task: Task, value: float = 1.0) -> TaskResult:
    return TaskResult(task.client, task.cohort, task.round, Answer(np.full(PARAMETERS, value, np.float32), 10))


def _why(found: object) -> str:
    assert isinstance(found, Refusal)
    assert "expected" in found.words
    assert "; " in found.words
    return found.why


def test_a_round_opens_when_as_many_wait_as_it_invites_and_closes_when_as_many_have_answered_as_it_wants(
    live: Live,
) -> None:
    live.come(1, 2, 3, 4)
    live.desk.turn()
    live.come(1)
    live.come(5)  # one more than it wants is invited
    live.desk.turn()
    given = {client: live.task(client) for client in (1, 2, 3, 4, 5)}
    assert given[1].task.round == 1
    assert given[1].epoch == live.epoch
    assert given[1].deadline_s == DEADLINE_S
    for client in (1, 2, 3):
        assert isinstance(live.do(given[client]), Received)
    live.desk.turn()
    assert isinstance(live.desk.feedback(1, 1), ComeAgain)
    assert live.desk.pulse().state == "training"
    live.do(given[4])
    live.desk.turn()
    assert isinstance(live.desk.feedback(1, 1), AffinityFeedback)
    assert live.rounds == 1
    assert _why(live.do(given[5])) == "LATE"
    (closed,) = live.events
    assert isinstance(closed, RoundClosed)
    assert (closed.participants, closed.failed) == (4, 1)


def test_after_a_short_window_a_round_takes_those_that_wait_if_they_are_not_too_few(live: Live) -> None:
    live.come(1)
    live.now += 10 * WINDOW_S
    live.desk.turn()
    live.come(1)
    live.come(2)
    live.desk.turn()
    assert live.task(1).task.round == live.task(2).task.round == 1


def test_whoever_waits_and_asks_no_more_is_gone(tmp_path: Path) -> None:
    live = Live(tmp_path, settings=replace(SETTINGS, gone_s=50.0))
    live.come(1, 2)
    live.now += 51
    live.come(3)
    live.desk.turn()
    live.now += WINDOW_S
    live.desk.turn()
    live.come(3)
    live.come(1)
    live.desk.turn()
    assert isinstance(live.desk.join(CheckIn(3), "a"), Assigned)


def test_the_waiting_room_is_bounded(live: Live) -> None:
    for client in range(30):
        found = live.desk.join(CheckIn(client), "a")
        assert isinstance(found, ComeAgain)
        assert found.after_s > 0
    live.desk.turn()
    assert len(live.desk._waiting) <= 10


def test_the_more_are_asked_the_longer_they_wait_for_feedback(tmp_path: Path) -> None:
    live = Live(tmp_path, settings=replace(SETTINGS, polls_per_s=0.1))
    live.open_with(1, 2, 3, 4)
    found = live.desk.feedback(1, 1)
    assert isinstance(found, ComeAgain)
    assert 20 <= found.after_s <= 60


def test_feedback_can_be_had_for_a_while_however_short_rounds_are(live: Live) -> None:
    for _ in range(4):
        live.whole_round(1, 2, 3, 4)
    assert isinstance(live.desk.feedback(1, 1), AffinityFeedback)
    live.now += SETTINGS.gone_s
    live.whole_round(1, 2, 3, 4)
    heard = [isinstance(live.desk.feedback(1, number), AffinityFeedback) for number in range(1, 6)]
    assert heard == [False, False, True, True, True]


@pytest.mark.fault(25, 26)
def test_with_too_few_answers_at_the_deadline_a_round_is_abandoned_and_tried_again_later(live: Live) -> None:
    given = live.open_with(1, 2, 3, 4)
    live.do(given[1])
    live.now += DEADLINE_S
    live.desk.turn()
    assert live.desk.pulse().state == "starved"
    assert isinstance(live.desk.feedback(1, 1), NoFeedback)
    (told,) = live.events
    assert isinstance(told, EmptyRound)
    assert "1 of 4" in told.reason
    assert _why(live.do(given[2])) == "LATE"
    live.come(1, 2, 3, 4, 5)
    live.desk.turn()
    live.come(1)
    assert live.rounds == 0
    live.now += DEADLINE_S
    live.desk.turn()
    again = live.task(1)
    assert again.task.round == 1
    assert _why(live.desk.answer(result_of(given[1].task), given[1].epoch, given[1].nonce)) == "NOT_SELECTED"


@pytest.mark.fault(26)
def test_with_enough_answers_at_the_deadline_a_round_closes_with_these(live: Live) -> None:
    given = live.open_with(1, 2, 3, 4)
    live.do(given[1])
    live.do(given[2])
    live.now += DEADLINE_S
    live.desk.turn()
    assert live.rounds == 1
    assert isinstance(live.desk.feedback(3, 1), NoFeedback)


def test_a_failure_ends_the_waiting_for_a_client(live: Live) -> None:
    given = live.open_with(1, 2, 3, 4)
    for client in (1, 2, 3):
        live.do(given[client])
    failure = TaskFailure(4, ROOT, 1, "no battery")
    assert isinstance(live.desk.answer(failure, live.epoch, given[4].nonce), Received)
    live.desk.turn()
    assert live.rounds == 1


@pytest.mark.fault(15)
def test_the_same_answer_again_counts_once_also_after_the_round_and_another_is_refused(live: Live) -> None:
    given = live.open_with(1, 2, 3, 4)
    assert isinstance(live.do(given[1]), Received)
    assert isinstance(live.do(given[1]), Received)
    assert _why(live.do(given[1], 2.0)) == "NOT_SELECTED"
    for client in (2, 3, 4):
        live.do(given[client])
    live.desk.turn()
    assert isinstance(live.do(given[1]), Received)
    assert _why(live.do(given[1], 2.0)) == "LATE"
    told, closed = live.events
    assert isinstance(told, Disturbance)
    assert isinstance(closed, RoundClosed)
    assert (closed.participants, closed.rejected) == (4, 0)


@pytest.mark.fault(16)
def test_answers_of_another_epoch_round_cohort_or_client_are_refused_by_their_reason(live: Live) -> None:
    given = live.open_with(1, 2, 3, 4)
    task, nonce = given[1].task, given[1].nonce
    assert _why(live.desk.answer(result_of(task), live.epoch - 1, nonce)) == "STALE_EPOCH"
    assert _why(live.desk.answer(result_of(replace(task, round=7)), live.epoch, nonce)) == "STALE_ROUND"
    assert _why(live.desk.answer(result_of(replace(task, cohort=CohortId("0.1"))), live.epoch, nonce)) == "NOT_SELECTED"
    assert _why(live.desk.answer(result_of(replace(task, client=9)), live.epoch, nonce)) == "NOT_SELECTED"
    assert _why(live.desk.answer(result_of(replace(task, client=2)), live.epoch, nonce)) == "NOT_SELECTED"


@pytest.mark.fault(16)
def test_refused_answers_are_told_with_the_next_round(live: Live) -> None:
    live.come(1, 2, 3, 4, 5)
    live.desk.turn()
    given = {client: live.task(client) for client in (1, 2, 3, 4, 5)}
    for client in (1, 2, 3, 4):
        live.do(given[client])
    live.desk.turn()
    for _ in range(2):  # the same again is one answer that was late
        assert _why(live.do(given[5])) == "LATE"
    assert _why(live.do(replace(given[5], epoch=9))) == "STALE_EPOCH"
    assert _why(live.desk.answer(TaskFailure(5, ROOT, 9, "no battery"), live.epoch, "n")) == "STALE_ROUND"
    live.whole_round(1, 2, 3, 4)
    live.whole_round(1, 2, 3, 4)
    assert [event.late for event in live.events if isinstance(event, RoundClosed)] == [0, 1, 0]
    (told,) = (event for event in live.events if isinstance(event, Disturbance))
    assert (told.round, told.reason) == (2, "answers were refused since the round before: 1 STALE_EPOCH")


def test_refused_answers_are_told_of_a_round_that_is_abandoned_for_them(live: Live) -> None:
    for given in live.open_with(1, 2, 3, 4).values():
        live.do(replace(given, nonce="another"))
    live.now += DEADLINE_S
    live.desk.turn()
    empty, told = live.events
    assert isinstance(empty, EmptyRound)
    assert isinstance(told, Disturbance)
    assert told.reason.endswith("4 NOT_SELECTED")


@pytest.mark.fault(28)
def test_of_two_sessions_of_a_client_the_newer_counts(live: Live) -> None:
    given = live.open_with(1, 2, 3, 4)
    newer = live.task(1, "b")
    assert newer.task == given[1].task
    assert newer.nonce != given[1].nonce
    assert _why(live.desk.join(CheckIn(1), "a")) == "SUPERSEDED"
    assert _why(live.do(given[1])) == "SUPERSEDED"
    assert isinstance(live.do(newer), Received)
    assert live.task(2, "a").nonce == given[2].nonce


def test_models_are_those_of_the_time_when_the_round_opened_and_for_its_participants_alone(live: Live) -> None:
    live.whole_round(1, 2, 3, 4)
    live.open_with(1, 2, 3, 4)
    found = live.desk.model(ROOT, 2, 1)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [1.0] * PARAMETERS
    assert _why(live.desk.model(ROOT, 2, 9)) == "NOT_SELECTED"
    assert _why(live.desk.model(CohortId("0.5"), 2, 1)) == "NOT_SELECTED"
    assert _why(live.desk.model(ROOT, 1, 1)) == "LATE"


@pytest.mark.fault(3)
def test_without_a_coordinator_a_round_ends_and_no_other_begins(live: Live) -> None:
    given = live.open_with(1, 2, 3, 4)
    for one in given.values():
        live.do(one)
    live.desk.turn(is_led=False)
    assert live.rounds == 1
    live.come(1, 2, 3, 4, 5)
    live.desk.turn(is_led=False)
    live.come(1)
    assert live.desk.pulse().state == "waiting for coordinator"
    live.desk.turn()
    assert live.task(1).task.round == 2


def test_an_answer_to_a_round_that_is_closing_is_late(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    given, said, end_round = live.open_with(1, 2, 3, 4), list[str](), live.desk._server.end_round
    for client in (1, 2, 3):
        live.do(given[client])

    def closing(gathered: GatheredRound) -> list[AffinityFeedback]:
        said.append(_why(live.do(given[4])))
        return end_round(gathered)

    monkeypatch.setattr(live.desk._server, "end_round", closing)
    live.now += DEADLINE_S
    live.desk.turn()
    assert said == ["LATE"]


@pytest.mark.fault(27)
def test_deadlines_go_by_a_clock_that_does_not_step(live: Live) -> None:
    live.open_with(1, 2, 3, 4)
    live.wall -= 10_000
    live.desk.turn()
    assert live.desk.pulse().state == "training"
    live.now += DEADLINE_S
    live.desk.turn()
    assert [event.time_s for event in live.events] == [0.0]


# Crashes, and others who own the cohort.


@pytest.mark.fault(1, 7)
def test_a_cohort_that_starts_again_does_its_unfinished_round_again(live: Live, tmp_path: Path) -> None:
    live.whole_round(1, 2, 3, 4)
    given = live.open_with(1, 2, 3, 4)
    live.do(given[1])
    again = Live(tmp_path)
    assert again.desk.pulse().round == 1
    assert _why(again.do(given[1])) == "STALE_EPOCH"
    assert isinstance(again.desk.feedback(1, 2), NoFeedback)
    again.whole_round(1, 2, 3, 4)
    assert again.rounds == 2
    # The one before wakes up, and closes its round.
    for one in given.values():
        live.do(one, 5.0)
    live.desk.turn()
    assert live.desk.is_fenced
    assert again.store.model(ROOT).tolist() == [2.0] * PARAMETERS


@pytest.mark.fault(7)
def test_one_that_wakes_up_tells_nothing_of_its_successor_s_round(live: Live, tmp_path: Path) -> None:
    live.open_with(1, 2, 3, 4)
    again = Live(tmp_path)
    live.now += DEADLINE_S
    live.desk.turn()
    assert live.desk.is_fenced
    assert again.events == []


@pytest.mark.fault(8)
def test_without_room_the_cohort_trains_on_and_commits_when_there_is_room(live: Live) -> None:
    live.whole_round(1, 2, 3, 4)
    live.disk.is_full = True
    live.whole_round(1, 2, 3, 4)
    assert isinstance(live.desk.feedback(1, 2), AffinityFeedback)
    live.whole_round(1, 2, 3, 4)
    assert live.rounds == 1
    (words,) = live.desk.pulse().health
    assert words.startswith("DISK_FULL")
    live.disk.is_full = False
    live.now += 10
    live.desk.turn()
    assert live.desk.pulse().health == ()
    assert live.rounds == 3
    assert live.store.model(ROOT).tolist() == [3.0] * PARAMETERS
    assert [event.round for event in live.events if isinstance(event, RoundClosed)] == [1, 2, 3]
    assert any(isinstance(event, Disturbance) for event in live.events)


@pytest.mark.fault(15)
def test_a_commit_whose_answer_is_lost_is_not_made_again(live: Live) -> None:
    live.whole_round(1, 2, 3, 4)
    live.disk.loses_answers = True
    live.whole_round(1, 2, 3, 4)
    assert isinstance(live.desk.feedback(1, 2), AffinityFeedback)
    (words,) = live.desk.pulse().health
    assert words.startswith("NOT_COMMITTED")
    live.disk.loses_answers = False
    live.whole_round(1, 2, 3, 4)
    live.now += 10
    live.desk.turn()
    assert live.desk.pulse().health == ()
    assert live.store.model(ROOT).tolist() == [3.0] * PARAMETERS
    assert [event.round for event in live.events if isinstance(event, RoundClosed)] == [1, 2, 3]


def test_a_cohort_that_has_trained_its_rounds_takes_nobody(live: Live) -> None:
    for _ in range(5):
        live.whole_round(1, 2, 3, 4)
    assert live.desk.is_over
    found = live.desk.join(CheckIn(1), "a")
    assert isinstance(found, ComeAgain)
    assert found.why == "CLOSED"
    assert isinstance(live.desk.feedback(1, 5), AffinityFeedback)


# The coordinator.


def test_the_coordinator_says_where_a_cohort_is_as_soon_as_it_is_there(live: Live) -> None:
    store = live.store
    desk = LiveCoordinator(Server.with_rules(RULES, INITIAL), store.read(()), 1)
    (found,) = desk.check_in([Joining(CheckIn(1), "a")])
    assert isinstance(found, ComeAgain)
    store.arrived(ROOT, live.epoch, "http://127.0.0.1:77", 5)
    desk.turn(store.read(()))
    both = [Joining(CheckIn(1), "a"), Joining(CheckIn("two"), "a")]
    assert desk.check_in(both) == [Found(ROOT, "http://127.0.0.1:77", live.epoch)] * 2
    (odd,) = desk.check_in([Joining(CheckIn(2.5), "a")])  # type: ignore[arg-type]
    assert isinstance(odd, Refusal)


def test_the_coordinator_tells_all_that_it_is_over(live: Live) -> None:
    desk = LiveCoordinator(Server.with_rules(RULES, INITIAL), live.store.read(()), 1)
    assert desk.pulse().state == "training"
    for _ in range(5):
        live.whole_round(1, 2, 3, 4)
    desk.turn(live.store.read(()))
    assert desk.is_over
    assert _why(desk.check_in([Joining(CheckIn(1), "a")])[0]) == "OVER"
    assert desk.pulse().state == "over"


def test_what_is_committed_knows_how_many_came(live: Live) -> None:
    live.whole_round(1, 2, 3, 4)
    first = live.store.read().record.state.cohorts[ROOT].check_ins
    live.whole_round(1, 2, 3)
    second = live.store.read().record.state.cohorts[ROOT].check_ins

    assert first == 4
    assert 3 < second < 4


def test_no_cohort_is_given_up_for_its_clients_may_come_yet(live: Live) -> None:
    desk, (left, right) = partitioned(live)
    for _ in range(1001 * PARTICIPANTS):
        desk.check_in([asking(left, 1)] * 2)

    (found,) = desk.check_in([asking(right, 2)])
    assert not isinstance(found, Refusal)
    assert not desk.is_over


@pytest.mark.fault(28)
def test_of_two_sessions_of_a_client_that_ask_for_two_cohorts_the_newer_is_sent_to_its_own(live: Live) -> None:
    desk, (left, right) = partitioned(live)
    older, newer, other = asking(left, 1, "a"), asking(right, 1, "b"), asking(left, 2, "a")

    assert [_cohort(one) for one in desk.check_in([older])] == [left]
    assert [_cohort(one) for one in desk.check_in([newer])] == [right]
    assert _why(desk.check_in([older])[0]) == "SUPERSEDED"
    assert [_cohort(one) for one in desk.check_in([other, newer])] == [left, right]
    third = replace(older, session="c")  # and all of them together
    together = desk.check_in([newer, third, older])
    assert _why(together[0]) == _why(together[2]) == "SUPERSEDED"
    assert _cohort(together[1]) == left


def partitioned(live: Live) -> tuple[LiveCoordinator, tuple[CohortId, ...]]:
    """Return a coordinator of two cohorts that are there, and these."""
    desk = LiveCoordinator(Server.with_rules(RULES, INITIAL), live.store.read(()), 1)
    parent, branch = live.store.read().record.state.cohorts[ROOT], Branch(ROOT, (0, 1), (0.5, 0.5))
    assert live.store.commit(live.epoch, Change((ROOT,), dict.fromkeys(branch.children, parent), (branch,))) is None
    for cohort in branch.children:
        assert live.store.arrived(cohort, live.store.read(()).owners[cohort].epoch, f"http://127.0.0.1/{cohort}", 5)
    desk.turn(live.store.read(()))
    return desk, branch.children


def asking(cohort: CohortId, client: int, session: str = "a") -> Joining:
    return Joining(CheckIn(client, AffinityRequest(cohort, 1.0, -1, -1, True, 9)), session)


def _cohort(said: object) -> CohortId:
    assert isinstance(said, Found)
    return said.cohort

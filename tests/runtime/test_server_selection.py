"""Selectors that know their clients, in a loop of one's own: times are known, or they are not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.core.asking import Answer, Ask
from auxo.core.own_state import own
from auxo.core.partial_uploads import without
from auxo.core.selectors import Asked, Selector, UsualWork
from auxo.core.selectors.oort import Oort, OortMemory
from auxo.core.selectors.pyramidfl import PyramidFL
from auxo.core.types import ROOT, IntArray
from auxo.protocol.codec import from_bytes
from auxo.protocol.messages import CheckIn, Task, TaskFailure, TaskResult
from auxo.runtime.reported_times import times_of
from auxo.runtime.server import Server
from auxo.runtime.server_record import ServerRecord
from tests.core.made_updates import saying
from tests.core.selectors_of_our_own import FewestTurns
from tests.runtime.made_rounds import SAME_SECRET

SHAPES = ((4, 3), (4,), (2, 4), (2,))
N_PARAMS, CLIENTS = 26, 30
ONLINE = [CheckIn(f"phone-{number}") for number in range(CLIENTS)]


def server(selector: Selector, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> Server:
    return Server(
        np.zeros(N_PARAMS, dtype=np.float32),
        secret=SAME_SECRET,
        participants=10,
        rounds=8,
        method=OneCohort(),
        selector=selector,
        shapes=shapes,
    )


def number_of(task: Task) -> int:
    return int(str(task.client).removeprefix("phone-"))


def result(task: Task, **said: Any) -> TaskResult:
    update = np.full(N_PARAMS, 0.1 * (1 + number_of(task)), dtype=np.float32)
    loss = 0.1 + number_of(task) % 5
    return TaskResult(task.client, task.cohort, task.round, Answer(update, 10, loss=loss, **said))


def timed(task: Task) -> TaskResult:
    """Return the result of a phone whose usual pass takes as many seconds as its number, and all else two seconds."""
    training_s = (1 + number_of(task)) * task.ask.work
    return result(task, took_s=training_s + 2, training_s=training_s)


def memory_of(one: Server) -> OortMemory:
    record = from_bytes(ServerRecord, one.to_bytes(), own=(OortMemory,))
    return own(OortMemory, record.state.cohorts[ROOT].selection)


def test_oort_asks_for_losses_and_without_times_goes_by_them_alone() -> None:
    loop = server(Oort(exploration=0.0, exploration_least=0.0))
    for _ in range(8):
        tasks = loop.open_round(ROOT, ONLINE)
        assert len(tasks) == 10
        assert all(task.ask.reports_loss and task.ask.work == 1 and task.ask.skipped == () for task in tasks)
        loop.close_round(ROOT, [result(task) for task in tasks])
    table = memory_of(loop).table

    assert np.isnan(table.usual_s).all()
    assert Oort().preferred_s(memory_of(loop)) == float("inf")
    assert sorted(set(table.utility.round(6).tolist())) == [1, 11, 21, 31, 41]


def test_times_that_are_told_are_those_of_the_usual_work() -> None:
    loop = server(PyramidFL(most_epochs=50))
    asked = []
    for _ in range(8):
        tasks = loop.open_round(ROOT, ONLINE)
        asked += [task.ask.work for task in tasks]
        loop.close_round(ROOT, [timed(task) for task in tasks])
    table = memory_of(loop).table

    assert max(asked) > 1
    np.testing.assert_allclose(table.usual_s, table.epoch_s + 2)
    assert set(table.epoch_s.round(6).tolist()) <= set(range(1, CLIENTS + 1))


def test_pyramidfl_names_tensors_that_need_not_be_sent_where_shapes_are_known() -> None:
    loop, blind = server(PyramidFL()), server(PyramidFL(), shapes=())
    skipped = []
    for _ in range(6):
        tasks = loop.open_round(ROOT, ONLINE)
        skipped += [task.ask.skipped for task in tasks]
        loop.close_round(ROOT, [saying(result(task), update=sent(task)) for task in tasks])
        tasks = blind.open_round(ROOT, ONLINE)
        assert all(task.ask.skipped == () for task in tasks)
        blind.close_round(ROOT, [result(task) for task in tasks])

    assert loop.rejections == ()
    assert {place for one in skipped for place in one} == {0, 1, 2, 3}
    assert max(map(len, skipped)) < 4
    assert 0.1 < np.mean([len(one) / 4 for one in skipped]) < 0.5


def sent(task: Task) -> Any:
    return without(result(task).answer.update, server(PyramidFL())._rules.layers, task.ask.skipped)


def test_selection_goes_on_from_bytes_with_the_same_tasks() -> None:
    loop = server(PyramidFL(most_epochs=50))
    for number in range(4):
        again = server(PyramidFL(most_epochs=50))
        again.restore(loop.to_bytes())
        tasks = loop.open_round(ROOT, ONLINE)
        assert again.open_round(ROOT, ONLINE) == tasks
        answers = [timed(task) for task in tasks]
        loop.close_round(ROOT, answers)
        again.close_round(ROOT, answers[::-1])
        assert again.to_bytes() == loop.to_bytes(), number


ODD: Any = [None, "fast", float("nan"), float("inf"), -3.0, 0, 1e12, 10**400, [4.0]]


@pytest.mark.parametrize("said", ODD)
def test_times_that_cannot_be_count_as_not_told(said: Any) -> None:
    tasks = [Task("a", ROOT, 1, (ROOT,), Ask()), Task("b", ROOT, 1, (ROOT,), Ask(work=2.0))]
    one = TaskResult("a", ROOT, 1, Answer(np.zeros(1, dtype=np.float32), 1, took_s=said, training_s=1.0))
    other = TaskResult("b", ROOT, 1, Answer(np.zeros(1, dtype=np.float32), 1, took_s=9.0, training_s=said))
    times = times_of(tasks, ROWS, [one, other])

    np.testing.assert_array_equal(times.usual_s, [np.nan, 9.0])
    assert np.isnan(times.epoch_s).all()
    assert np.isnan(times.upload_s).all()


def rows_of(*names: str) -> dict[int, int]:
    loop = Server(np.zeros(1), participants=5, rounds=1, method=OneCohort(), selector=FewestTurns())
    tasks = loop.open_round(ROOT, [CheckIn(name) for name in names])
    opened = loop._open[ROOT]
    found = {str(task.client): number for task, number in zip(tasks, opened.participants.clients.tolist(), strict=True)}
    return {found[name]: row for row, name in enumerate(names)}


ROWS = rows_of("a", "b")


def test_of_times_told_twice_the_longest_counts_and_strangers_and_failures_say_nothing() -> None:
    tasks = [Task("a", ROOT, 1, (ROOT,), Ask()), Task("b", ROOT, 1, (ROOT,), Ask(work=2.0))]
    update = np.zeros(1, dtype=np.float32)
    said: list[TaskResult | TaskFailure] = [
        TaskResult("b", ROOT, 1, Answer(update, 1, took_s=9.0, training_s=8.0)),
        TaskResult("b", ROOT, 1, Answer(update, 1, took_s=5.0, training_s=1.0)),
        TaskResult("x", ROOT, 1, Answer(update, 1, took_s=5.0)),
        TaskFailure("a", ROOT, 1, "battery"),
    ]
    for results in (said, said[::-1]):
        times = times_of(tasks, ROWS, results)
        # 8 seconds are two passes: with the usual one it would have been 1 + 4.
        np.testing.assert_array_equal(times.usual_s, [np.nan, 5.0])
        np.testing.assert_array_equal(times.epoch_s, [np.nan, 4.0])


@dataclass(frozen=True)
class AsksForTheImpossible(FewestTurns):
    """Sets work that nobody can do."""

    epochs: int = 1
    upload: float = 1.0
    missing: int = 0

    def work(self, memory: object, clients: IntArray, usual: UsualWork) -> Asked:
        count = len(clients) - self.missing
        return Asked(np.full(count, self.epochs), np.full(count, self.upload))


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        (AsksForTheImpossible(epochs=0), "at least 1 epoch each, got 0"),
        (AsksForTheImpossible(upload=0.0), "shares of the upload above 0 and up to 1"),
        (AsksForTheImpossible(upload=1.1), "shares of the upload above 0 and up to 1"),
        (AsksForTheImpossible(missing=1), "epochs and upload of each of 10 participants, got 9 and 9"),
    ],
)
def test_a_selector_that_asks_for_what_cannot_be_done_is_named(selector: Selector, said: str) -> None:
    with pytest.raises(ValueError, match=f"AsksForTheImpossible.work: expected {said}"):
        server(selector).open_round(ROOT, ONLINE)

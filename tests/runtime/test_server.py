import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo import (
    AffinityFeedback,
    AffinityRequest,
    Auxo,
    CheckIn,
    Client,
    FedAvg,
    FedYogi,
    Rejection,
    Server,
    Task,
    TaskFailure,
    TaskResult,
)
from auxo.algorithms.base import OneCohort
from auxo.algorithms.cfl import Cfl
from auxo.algorithms.flex_cfl import FlexCfl
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.kfed import KFed
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.asking import Answer
from auxo.core.guard import Guard
from auxo.core.layers import Layer
from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState
from auxo.core.partition import Partition
from auxo.core.rng import stream
from auxo.core.selectors import Selector
from auxo.core.turnout import Turnout
from auxo.core.types import ROOT, CohortId, Float32Array, FloatArray, IntArray
from auxo.core.validation import Reason
from auxo.protocol.codec import CodecError, from_bytes
from auxo.runtime.checked_in import CheckedIn
from auxo.runtime.server_record import ServerRecord
from tests.algorithms.planned_partitions import FOLLOWS, PlannedPartitions
from tests.core.made_updates import saying
from tests.core.selectors_of_our_own import FewestTurns
from tests.runtime.made_rounds import SAME_SECRET

N_PARAMS, CLIENTS, ROUNDS, PARTICIPANTS = 6, 40, 10, 12
LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
LEAVES = (CohortId("0.1"), CohortId("0.0.0"), CohortId("0.0.1"))  # after both partitions
HALVES = Partition((0, 1), (0.5, 0.5))
# The root after 3 of 10 rounds, and whichever cohort closes its 6th first.
TWO_PARTITIONS = PlannedPartitions((0.3, 0.6), HALVES, replace(FOLLOWS, sharing="equal"))


def new_server(aggregator: FedAvg | FedYogi | None = None, seed: int = 3, guard: Guard | None = None) -> Server:
    return Server(
        np.zeros(N_PARAMS, dtype=np.float32),
        secret=SAME_SECRET,
        participants=PARTICIPANTS,
        rounds=ROUNDS,
        method=TWO_PARTITIONS,
        aggregator=aggregator,
        seed=seed,
        guard=guard,
    )


def trained(client: int, task: Task) -> Float32Array:
    """Return an update of one of two groups, the same whenever this client gets this task."""
    noise = stream(0, "update", client, task.round, str(task.ask.fold)).standard_normal(N_PARAMS)
    update: Float32Array = (np.eye(N_PARAMS)[0] + np.eye(N_PARAMS)[1 + client % 2] + 0.1 * noise).astype(np.float32)
    return update


def good(task: Task) -> TaskResult:
    return TaskResult(
        task.client, task.cohort, task.round, Answer(trained(int(task.client), task), 5 + int(task.client))
    )


def failure(task: Task) -> TaskFailure:
    return TaskFailure(task.client, task.cohort, task.round, "battery")


Answering = Callable[[list[Task]], Sequence[TaskResult | TaskFailure]]


def everybody(tasks: list[Task]) -> list[TaskResult]:
    return [good(task) for task in tasks]


@dataclass
class Loop:
    """A server, its clients, and a loop."""

    server: Server = field(default_factory=new_server)
    clients: list[Client] = field(default_factory=lambda: [Client(number) for number in range(CLIENTS)])

    def check_ins(self) -> list[CheckIn]:
        return [client.check_in() for client in self.clients]

    def play(self, loops: int, answer: Answering = everybody) -> "Loop":
        """Train one round of every cohort that still trains, ``loops`` times."""
        for _ in range(loops):
            for cohort, check_ins in self.server.match(self.check_ins()).items():
                tasks = self.server.open_round(cohort, check_ins)
                for feedback in self.server.close_round(cohort, answer(tasks)):
                    self.clients[int(feedback.client)].receive(feedback)
        return self

    def copy(self, server: Server | None = None) -> "Loop":
        """Return the same federation in other processes, as it were: all that is left are bytes."""
        again = Loop(server or new_server())
        again.server.restore(self.server.to_bytes())
        for old, new in zip(self.clients, again.clients, strict=True):
            new.record_from_bytes(old.record_to_bytes())
        return again

    def to_bytes(self) -> list[bytes]:
        return [self.server.to_bytes(), *(client.record_to_bytes() for client in self.clients)]


@dataclass(frozen=True)
class Snapshot:
    """A federation at one time, to begin from again and again."""

    record: bytes
    check_ins: tuple[CheckIn, ...]  # of everybody

    @property
    def server(self) -> Server:
        server = new_server()
        server.restore(self.record)
        return server

    def opened(self, cohort: CohortId) -> tuple[Server, list[Task]]:
        """Return a server that has just opened the cohort's round, and its tasks."""
        server = self.server
        return server, server.open_round(cohort, server.match(self.check_ins)[cohort])


def after(loops: int) -> Snapshot:
    loop = Loop().play(loops)
    return Snapshot(loop.server.to_bytes(), tuple(loop.check_ins()))


YOUNG, GROWN = after(2), after(7)  # before the first partition, with labels in many records; after both
AGES = pytest.mark.parametrize("snapshot", [YOUNG, GROWN], ids=["young", "grown"])


# A loop.


def test_before_the_first_round_there_is_one_cohort_with_the_initial_weights() -> None:
    server = new_server()

    assert server.cohorts == (ROOT,)
    assert server.round(ROOT) == 0
    assert not server.is_over
    np.testing.assert_array_equal(server.weights(ROOT), np.zeros(N_PARAMS))


def test_a_round_moves_the_weights_by_the_mean_of_the_updates_weighted_by_examples() -> None:
    server = new_server()
    tasks = server.open_round(ROOT, [CheckIn(number) for number in range(CLIENTS)])
    server.close_round(ROOT, everybody(tasks))
    updates = np.array([trained(int(task.client), task) for task in tasks], dtype=np.float64)

    expected = np.average(updates, axis=0, weights=[5 + int(task.client) for task in tasks])
    np.testing.assert_allclose(server.weights(ROOT), expected, rtol=1e-5)
    assert server.round(ROOT) == 1
    assert server.rejections == ()


def test_cohorts_appear_while_the_loop_goes_on_and_every_one_trains_its_rounds() -> None:
    loop = Loop()
    seen = []
    while not loop.server.is_over:
        seen.append(loop.server.cohorts)
        loop.play(1)

    assert list(dict.fromkeys(seen)) == [("0",), ("0.0", "0.1"), LEAVES]
    assert [loop.server.round(cohort) for cohort in loop.server.cohorts] == [ROUNDS] * 3
    assert loop.server.match(loop.check_ins()) == {}


@pytest.mark.parametrize("shapes", [[(2, 2), (2,)], [Layer((2, 2), units_axis=1), Layer((2,))]])
def test_updates_are_compared_by_unit_where_shapes_are_given(shapes: list[tuple[int, ...]] | list[Layer]) -> None:
    def similarities(shapes: list[tuple[int, ...]] | list[Layer]) -> list[tuple[float | None, ...]]:
        weights = np.zeros(N_PARAMS, dtype=np.float32)
        method = PlannedPartitions(())
        server = Server(weights, participants=12, rounds=10, method=method, shapes=shapes)
        tasks = server.open_round(ROOT, [CheckIn(client) for client in range(12)])
        return [feedback.similarity for feedback in server.close_round(ROOT, everybody(tasks))]

    assert similarities(shapes) != similarities([])


def test_shapes_of_another_model_are_refused() -> None:
    weights = np.zeros(N_PARAMS, dtype=np.float32)
    with pytest.raises(ValueError, match="shapes: expected tensors of 6 parameters in all, got 4; give the shape"):
        Server(weights, participants=4, rounds=4, method=Auxo(), shapes=[(2, 2)])


def test_tasks_are_at_most_the_cohorts_share_and_of_clients_that_checked_in() -> None:
    server = GROWN.server
    for cohort, check_ins in server.match(GROWN.check_ins).items():
        tasks = server.open_round(cohort, check_ins)

        assert 0 < len(tasks) <= PARTICIPANTS // 3
        assert {task.client for task in tasks} <= {check_in.client for check_in in check_ins}
        assert {(task.cohort, task.round) for task in tasks} == {(cohort, server.round(cohort) + 1)}


def test_feedback_goes_once_to_each_participant_with_a_usable_result() -> None:
    server, tasks = YOUNG.opened(ROOT)
    feedback = server.close_round(ROOT, [good(task) for task in tasks[1:]])

    assert [told.client for told in feedback] == [task.client for task in tasks[1:]]
    assert [told.fold for told in feedback] == [task.ask.fold for task in tasks[1:]]


def test_weights_are_a_copy() -> None:
    server = new_server()
    server.weights(ROOT)[:] = 7

    np.testing.assert_array_equal(server.weights(ROOT), np.zeros(N_PARAMS))


def test_to_ask_whose_model_is_for_whom_changes_nothing_and_leaves_nobody_out() -> None:
    loop = Loop().play(ROUNDS)
    before = loop.server.to_bytes()
    members = loop.server.match(loop.check_ins(), everybody=True)

    assert loop.server.is_over
    assert tuple(members) == LEAVES
    assert sorted(check_in.client for mine in members.values() for check_in in mine) == list(range(CLIENTS))
    assert loop.server.to_bytes() == before


def test_another_seed_selects_other_participants() -> None:
    check_ins = [CheckIn(number) for number in range(CLIENTS)]
    one, other = new_server(seed=0).open_round(ROOT, check_ins), new_server(seed=1).open_round(ROOT, check_ins)

    assert {task.client for task in one} != {task.client for task in other}


def test_a_round_that_is_opened_again_selects_anew() -> None:
    server, check_ins = new_server(), [CheckIn(number) for number in range(CLIENTS)]
    one, other = server.open_round(ROOT, check_ins), server.open_round(ROOT, check_ins)

    assert {task.client for task in one} != {task.client for task in other}


# Equalities.


def test_which_cohort_opens_first_decides_nothing() -> None:
    def tasks_in(order: Sequence[CohortId]) -> tuple[dict[CohortId, list[Task]], bytes]:
        server = GROWN.server
        matched = server.match(GROWN.check_ins)
        return {cohort: server.open_round(cohort, matched[cohort]) for cohort in order}, server.to_bytes()

    tasks, after = tasks_in(LEAVES)
    assert all(tasks.values())
    for order in itertools.permutations(LEAVES):
        assert tasks_in(order) == (tasks, after)


def test_attempts_of_one_cohort_make_no_difference_to_another() -> None:
    one, other = GROWN.server, GROWN.server
    check_ins = [CheckIn(number) for number in range(CLIENTS)]
    for _ in range(5):
        one.open_round(RIGHT, check_ins)

    assert one.open_round(CohortId("0.0.0"), check_ins) == other.open_round(CohortId("0.0.0"), check_ins)


def test_check_ins_that_were_matched_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = GROWN.server
    matched, plain = server.match(GROWN.check_ins), GROWN.server
    plain.match(GROWN.check_ins)
    with monkeypatch.context() as patched:
        patched.setattr(CheckedIn, "of", None)
        tasks = {cohort: server.open_round(cohort, mine) for cohort, mine in matched.items()}

    # Of a list of one's own the requests say the same.
    assert {cohort: plain.open_round(cohort, list(mine)) for cohort, mine in matched.items()} == tasks


def test_who_was_matched_to_another_cohort_counts_as_if_nobody_had_matched_it() -> None:
    member = CheckIn(9, replace(ASKS, cohort=RIGHT, reward=0.5), 3)
    one, other, leaf = GROWN.server, GROWN.server, CohortId("0.0.0")
    here, same = (server.match([CheckIn(1), CheckIn(2), member])[RIGHT] for server in (one, other))

    assert member in here
    assert one.open_round(leaf, here) == other.open_round(leaf, list(same)) != []
    assert one.to_bytes() == other.to_bytes()


def test_somebody_else_may_choose_among_the_check_ins_up_to_the_share() -> None:
    server = new_server()
    matched = server.match([CheckIn(number) for number in range(CLIENTS)])
    few = server.open_round(ROOT, matched[ROOT], chosen=[7, 900, 3, 7])
    many = server.open_round(ROOT, matched[ROOT], chosen=range(CLIENTS))

    assert {task.client for task in few} == {7, 3}
    assert {task.client for task in many} == set(range(server.share(ROOT)))
    assert server.open_round(ROOT, matched[ROOT], chosen=[]) == []


def test_to_match_again_draws_anew_and_goes_on_so_after_a_crash() -> None:
    def drawn(server: Server) -> list[list[CheckIn]]:
        return [list(mine) for mine in server.match([CheckIn(number) for number in range(CLIENTS)]).values()]

    server, again = GROWN.server, new_server()
    first = drawn(server)
    again.restore(server.to_bytes())

    assert first != drawn(server) == drawn(again)


def test_the_order_in_which_results_arrive_decides_nothing() -> None:
    for cohort in GROWN.server.cohorts:
        server, tasks = GROWN.opened(cohort)
        results: list[TaskResult | TaskFailure] = [*everybody(tasks[1:]), failure(tasks[0])]
        results += [replace(good(tasks[1]), client=900), good(tasks[2])]
        feedback = server.close_round(cohort, results)
        for number in range(4):
            order = stream(number, "arrival").permutation(len(results))
            again, _ = GROWN.opened(cohort)

            assert again.close_round(cohort, [results[place] for place in order]) == feedback
            assert again.to_bytes() == server.to_bytes()
            assert again.rejections == server.rejections


@dataclass
class Renamed(Loop):
    """The same federation, in which clients have other names on the wire."""

    names: Mapping[int, int] = field(default_factory=lambda: dict(enumerate(range(CLIENTS))))

    def play_renamed(self, loops: int) -> list[list[int]]:
        """Return the clients of each round's tasks, by their old names."""
        old = {new: number for number, new in self.names.items()}
        rounds = []
        for _ in range(loops):
            online = [replace(one, client=self.names[int(one.client)]) for one in self.check_ins()]
            for cohort, check_ins in self.server.match(online).items():
                tasks = self.server.open_round(cohort, check_ins)
                rounds.append([old[int(task.client)] for task in tasks])
                results = [
                    replace(good(replace(task, client=old[int(task.client)])), client=task.client) for task in tasks
                ]
                for told in self.server.close_round(cohort, results):
                    number = old[int(told.client)]
                    self.clients[number].receive(replace(told, client=number))
        return rounds


@settings(max_examples=3)
@given(st.permutations(range(CLIENTS)), st.integers(0, 10**12))
def test_names_of_clients_decide_nothing_but_names(order: list[int], offset: int) -> None:
    one = Renamed()
    other = Renamed(names={number: name + offset for number, name in enumerate(order)})

    assert one.play_renamed(ROUNDS) == other.play_renamed(ROUNDS)
    assert one.server.cohorts == LEAVES
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
@pytest.mark.parametrize("loops", [0, 1, 3, 5, 8])
def test_a_restored_federation_goes_on_with_the_bits_of_an_uninterrupted_one(
    loops: int, aggregator: FedAvg | FedYogi
) -> None:
    whole = Loop(new_server(aggregator)).play(ROUNDS)
    first = Loop(new_server(aggregator)).play(loops)
    second = first.copy(new_server(aggregator))
    second.play(ROUNDS - loops)

    assert second.server.is_over
    assert second.to_bytes() == whole.to_bytes()


def test_a_round_that_was_open_when_the_server_went_down_is_opened_again() -> None:
    server, tasks = YOUNG.opened(ROOT)
    restored = new_server()
    restored.restore(server.to_bytes())

    with pytest.raises(KeyError, match="no round is open"):
        restored.close_round(ROOT, everybody(tasks))
    tasks = restored.open_round(ROOT, YOUNG.check_ins)
    assert restored.close_round(ROOT, everybody(tasks))


@pytest.mark.parametrize("damage", [b"", b"\x00" * 100])
def test_damaged_bytes_are_refused_and_change_nothing(damage: bytes) -> None:
    server = YOUNG.server
    before = server.to_bytes()
    for data in (damage, before[: len(before) // 2], before[:-1] + bytes([before[-1] ^ 1])):
        with pytest.raises(CodecError):
            server.restore(data)

    assert server.to_bytes() == before


def test_the_bytes_of_a_client_are_no_server() -> None:
    with pytest.raises(CodecError, match="ServerRecord"):
        new_server().restore(Client(0).record_to_bytes())


def test_the_bytes_of_another_model_are_refused() -> None:
    other = Server(np.zeros(N_PARAMS + 1, dtype=np.float32), participants=4, rounds=4, method=Auxo())

    with pytest.raises(ValueError, match="0: expected 7 parameters, got 6"):
        other.restore(YOUNG.record)
    assert other.cohorts == (ROOT,)


# Bad results.


def with_update(update: Callable[[Float32Array], object]) -> Callable[[Task], list[TaskResult]]:
    def send(task: Task) -> list[TaskResult]:
        spoilt: Any = update(trained(int(task.client), task))
        return [saying(good(task), update=spoilt)]

    return send


def with_examples(examples: Any) -> Callable[[Task], list[TaskResult]]:
    return lambda task: [saying(good(task), examples=examples)]


BAD: Mapping[str, tuple[Callable[[Task], list[TaskResult]], Reason]] = {
    "NaN": (with_update(lambda u: np.where(np.arange(N_PARAMS) == 2, np.nan, u).astype(np.float32)), "NON_FINITE"),
    "Inf": (with_update(lambda u: np.where(np.arange(N_PARAMS) == 2, np.inf, u).astype(np.float32)), "NON_FINITE"),
    "-Inf": (with_update(lambda u: np.full(N_PARAMS, -np.inf, dtype=np.float32)), "NON_FINITE"),
    "too large for float32": (with_update(lambda u: u.astype(np.float64) * 1e300), "NON_FINITE"),
    "too long": (with_update(lambda u: np.append(u, u[:1])), "SCHEMA_MISMATCH"),
    "one number": (with_update(lambda u: u[:1]), "SCHEMA_MISMATCH"),
    "empty": (with_update(lambda u: u[:0]), "SCHEMA_MISMATCH"),
    "whole numbers": (with_update(lambda u: u.astype(np.int64)), "SCHEMA_MISMATCH"),
    "complex numbers": (with_update(lambda u: u.astype(np.complex64)), "SCHEMA_MISMATCH"),
    "objects": (with_update(lambda u: u.astype(object)), "SCHEMA_MISMATCH"),
    "a list of texts": (with_update(lambda u: ["0.5"] * N_PARAMS + ["x"]), "SCHEMA_MISMATCH"),
    "a list that is too long": (with_update(lambda u: [*u.tolist(), 0.0]), "SCHEMA_MISMATCH"),
    "arrays of whole numbers": (with_update(lambda u: [u[:2].astype(np.int64), u[2:]]), "SCHEMA_MISMATCH"),
    "no update": (with_update(lambda u: None), "SCHEMA_MISMATCH"),
    "no examples": (with_examples(0), "BAD_WEIGHT"),
    "fewer than no examples": (with_examples(-5), "BAD_WEIGHT"),
    "absurdly many examples": (with_examples(10**30), "BAD_WEIGHT"),
    "half an example": (with_examples(0.5), "BAD_WEIGHT"),
    "NaN examples": (with_examples(float("nan")), "BAD_WEIGHT"),
    "no number of examples": (with_examples(None), "BAD_WEIGHT"),
    "unknown cohort": (lambda task: [replace(good(task), cohort=CohortId("0.9"))], "UNKNOWN_COHORT"),
    "past round": (lambda task: [replace(good(task), round=task.round - 1)], "NOT_SELECTED"),
    "future round": (lambda task: [replace(good(task), round=task.round + 1)], "NOT_SELECTED"),
    "two different ones": (lambda task: [good(task), saying(good(task), examples=1)], "NOT_SELECTED"),
}


@pytest.mark.parametrize("name", BAD)
@AGES
def test_a_bad_result_is_listed_with_its_reason_and_counts_as_a_failure(name: str, snapshot: Snapshot) -> None:
    send, reason = BAD[name]
    cohort = snapshot.server.cohorts[0]
    rejecting, tasks = snapshot.opened(cohort)
    failing, same_tasks = snapshot.opened(cohort)
    culprit, others = tasks[1], [good(task) for task in tasks if task is not tasks[1]]
    sent = send(culprit)
    told = rejecting.close_round(cohort, [*others[:1], *sent, *others[1:]])

    assert tasks == same_tasks
    assert failing.close_round(cohort, [failure(culprit), *others]) == told
    assert rejecting.rejections == (Rejection(culprit.client, reason),) * len(sent)
    assert failing.rejections == ()
    assert rejecting.to_bytes() == failing.to_bytes()


def test_where_updates_are_weighed_by_losses_a_result_without_one_is_refused() -> None:
    def server_and_tasks(aggregator: QFedAvg) -> tuple[Server, list[Task]]:
        server = Server(np.zeros(2), participants=3, rounds=5, method=OneCohort(), aggregator=aggregator)
        return server, server.open_round(ROOT, [CheckIn(client) for client in range(3)])

    def answers(tasks: list[Task], losses: Sequence[float | None]) -> list[TaskResult]:
        moves = [np.array(move, dtype=np.float32) for move in ([0.2, 0.0], [-0.1, 0.3], [0.5, 0.5])]
        return [
            TaskResult(task.client, ROOT, task.round, Answer(move, 5, loss=loss))
            for task, move, loss in zip(tasks, moves, losses, strict=True)
        ]

    server, tasks = server_and_tasks(QFedAvg(learning_rate=0.1))
    assert all(task.ask.reports_loss for task in tasks)
    server.close_round(ROOT, answers(tasks, [2.0, 0.5, float("nan")]))

    assert server.rejections == (Rejection(tasks[2].client, "NO_LOSS"),)
    # (2 (0.2, 0) + 0.5 (-0.1, 0.3)) / (2 + 0.4 + 0.5 + 1), see the tests of q-FedAvg
    np.testing.assert_allclose(server.weights(ROOT), [0.35 / 3.9, 0.15 / 3.9], rtol=1e-6)

    server, tasks = server_and_tasks(QFedAvg(learning_rate=0.1))
    with pytest.warns(RuntimeWarning, match="NO_LOSS .*answer Ask.reports_loss"):
        server.close_round(ROOT, answers(tasks, [None, None, None]))

    server, tasks = server_and_tasks(QFedAvg(q=0.0))
    assert not any(task.ask.reports_loss for task in tasks)
    server.close_round(ROOT, answers(tasks, [None, None, None]))
    assert server.rejections == ()


def test_the_result_of_a_client_that_was_not_selected_is_listed_and_takes_part_in_nothing() -> None:
    cohort = GROWN.server.cohorts[0]
    server, tasks = GROWN.opened(cohort)
    without, _ = GROWN.opened(cohort)
    stranger = next(number for number in range(CLIENTS) if number not in {task.client for task in tasks})
    uninvited = good(replace(tasks[0], client=stranger))
    told = server.close_round(cohort, [uninvited, *everybody(tasks)])

    assert server.rejections == (Rejection(stranger, "NOT_SELECTED"),)
    assert without.close_round(cohort, everybody(tasks)) == told
    assert server.to_bytes() == without.to_bytes()


def test_a_participant_that_sends_nothing_has_failed() -> None:
    silent, tasks = YOUNG.opened(ROOT)
    failing, _ = YOUNG.opened(ROOT)

    told = silent.close_round(ROOT, everybody(tasks[:-1]))
    assert failing.close_round(ROOT, [*everybody(tasks[:-1]), failure(tasks[-1])]) == told
    assert silent.to_bytes() == failing.to_bytes()


@AGES
def test_when_all_results_are_bad_nothing_changes_and_no_feedback_is_due(snapshot: Snapshot) -> None:
    cohort = snapshot.server.cohorts[0]
    server, tasks = snapshot.opened(cohort)
    before = server.to_bytes()
    sends = [send for send, _ in BAD.values()]
    results = [answer for row, task in enumerate(tasks) for answer in sends[row % len(sends)](task)]

    with pytest.warns(
        RuntimeWarning, match=rf"a round of cohort {cohort} came to nothing: .* x NON_FINITE \(an update holds NaN"
    ):
        assert server.close_round(cohort, results) == []
    assert {rejection.client for rejection in server.rejections} == {task.client for task in tasks}
    assert server.to_bytes() == before
    assert server.close_round(cohort, everybody(server.open_round(cohort, snapshot.check_ins)))
    assert server.rejections == ()


def test_a_round_in_which_everybody_fails_can_be_tried_again() -> None:
    server, tasks = YOUNG.opened(ROOT)

    assert server.close_round(ROOT, [failure(task) for task in tasks]) == []
    assert server.round(ROOT) == YOUNG.server.round(ROOT)


# Requests of any kind.

ASKS = AffinityRequest(CohortId("0"), 0.5, 1, 1, True)
HOSTILE = {
    "an unknown cohort": replace(ASKS, cohort=CohortId("0.7")),
    "no cohort": replace(ASKS, cohort=CohortId("")),
    "a cohort 10,000 levels down": replace(ASKS, cohort=CohortId("0" + ".0" * 10_000)),
    "a cluster that is none": replace(ASKS, cluster=2),
    "a negative cluster": replace(ASKS, cluster=-9),
    "a huge cluster": replace(ASKS, cluster=10**30),
    "a huge generation": replace(ASKS, generation=10**30),
    "a negative generation": replace(ASKS, generation=-(10**30)),
    "a reward of NaN": replace(ASKS, reward=float("nan")),
    "a reward of Inf": replace(ASKS, reward=float("inf")),
    "a reward of -Inf": replace(ASKS, reward=float("-inf")),
    "a huge whole reward": replace(ASKS, reward=10**30),
    "a reward beyond all floats": replace(ASKS, reward=10**400),
}


@pytest.mark.parametrize("asked", HOSTILE)
@AGES
def test_a_check_in_of_any_kind_is_matched_to_one_leaf_and_may_take_part(asked: str, snapshot: Snapshot) -> None:
    server = snapshot.server
    check_ins = [
        CheckIn(number, HOSTILE[asked], participations)
        for number, participations in enumerate([0, -3, 2**31, 2**64, -(10**30), 1])
    ]
    matched = server.match(check_ins)

    assert tuple(matched) == server.cohorts
    assert sorted(check_in.client for mine in matched.values() for check_in in mine) == list(range(6))
    for cohort, mine in matched.items():
        tasks = server.open_round(cohort, mine)
        assert len(tasks) == min(len(mine), PARTICIPANTS // len(server.cohorts))
        assert len(server.close_round(cohort, everybody(tasks))) == len(tasks)


SERVER = GROWN.server


@settings(max_examples=30)
@given(
    cohort=st.sampled_from(["0", "0.0", "0.1", "0.0.0", "0.0.1"]) | st.text(max_size=5),
    reward=st.floats(),
    whole=st.lists(st.integers(), min_size=5, max_size=5),
    ranked_first=st.booleans(),
)
def test_whatever_a_client_claims_it_is_matched_to_one_leaf(
    cohort: str, reward: float, whole: list[int], ranked_first: bool
) -> None:
    claim = AffinityRequest(CohortId(cohort), reward, whole[0], whole[1], ranked_first)
    matched = SERVER.match([CheckIn(7, claim, whole[4])], everybody=True)

    assert tuple(matched) == LEAVES
    assert sum(len(mine) for mine in matched.values()) == 1


def leaves_of(server: Server, wish: AffinityRequest) -> set[str]:
    """Return where 60 clients with the same wish are sent."""
    matched = server.match([CheckIn(number, wish, 3) for number in range(60)])
    return {cohort for cohort, mine in matched.items() if mine}


def test_a_request_of_any_age_leads_below_the_cohort_it_is_for() -> None:
    server = GROWN.server

    assert leaves_of(server, replace(ASKS, cohort=RIGHT)) == {"0.1"}
    for generation in (1, 99):
        below = leaves_of(server, replace(ASKS, cohort=LEFT, cluster=0, generation=generation))
        assert below == ({"0.0.0"} if generation == 1 else {"0.0.0", "0.0.1"})
    assert leaves_of(server, replace(ASKS, cohort=ROOT, cluster=1)) == {"0.1"}
    assert leaves_of(server, replace(ASKS, cohort=ROOT, cluster=0)) == {"0.0.0", "0.0.1"}


@pytest.mark.parametrize(
    ("reward", "is_member"), [(0.5, True), (0.0, False), (-0.5, False), (float("nan"), False), (float("inf"), False)]
)
def test_members_are_asked_first_and_an_impossible_reward_makes_none(reward: float, is_member: bool) -> None:
    member = CheckIn(9, replace(ASKS, cohort=RIGHT, reward=reward), 3)
    tasks = GROWN.server.open_round(RIGHT, [CheckIn(1), CheckIn(2), member])

    assert [task.client for task in tasks] == ([9, 1, 2] if is_member else [1, 2, 9])


def test_without_a_preference_clients_are_spread_over_all_leaves() -> None:
    matched = GROWN.server.match([CheckIn(number) for number in range(60)])

    assert all(mine for mine in matched.values())


def test_a_federation_in_which_nobody_checks_in_waits() -> None:
    server = GROWN.server

    assert {cohort: list(mine) for cohort, mine in server.match([]).items()} == {one: [] for one in server.cohorts}
    for cohort in server.cohorts:
        number = server.round(cohort)
        assert server.open_round(cohort, []) == []
        assert server.close_round(cohort, []) == []
        assert server.round(cohort) == number


def test_a_client_that_checks_in_several_times_gets_one_task() -> None:
    server = new_server()
    matched = server.match([CheckIn(number % 3) for number in range(9)])
    tasks = server.open_round(ROOT, [*matched[ROOT], *matched[ROOT]])

    assert len(matched[ROOT]) == 3
    assert sorted(task.client for task in tasks) == [0, 1, 2]


def test_a_client_that_asks_for_several_cohorts_is_sent_to_the_last_of_them() -> None:
    asks = [CheckIn(5, replace(ASKS, cohort=CohortId(leaf)), 3) for leaf in LEAVES]
    matched = GROWN.server.match(asks)

    assert [list(matched[leaf]) for leaf in LEAVES] == [[], [], [asks[2]]]


def test_a_client_that_checks_in_several_times_counts_once_in_what_the_cohort_hears() -> None:
    one, other = new_server(), new_server()
    check_ins = [CheckIn(number) for number in range(CLIENTS)]
    one.open_round(ROOT, check_ins)
    other.open_round(ROOT, [*check_ins, *check_ins])

    assert one.to_bytes() == other.to_bytes()


# Several models in one round.

MEANS = np.where(np.arange(CLIENTS) % 2 == 0, -5.0, 5.0)  # a client's only sample; a model is one number
FIRST, SECOND = CohortId("0.0"), CohortId("0.1")


def ifca_server(warm_start: int = 1, weights: float = 0.0, selector: Selector | None = None) -> Server:
    return Server(
        np.array([weights], dtype=np.float32),
        secret=SAME_SECRET,
        participants=PARTICIPANTS,
        rounds=ROUNDS,
        method=Ifca(cohorts=2, warm_start=warm_start),
        selector=selector,
        seed=3,
    )


def best(server: Server, task: Task) -> TaskResult:
    """Train the offered model with the least loss: go half of the way to the client's sample."""
    losses = {cohort: float((MEANS[task.client] - server.weights(cohort)[0]) ** 2) for cohort in task.models}
    chosen = min(losses, key=lambda cohort: losses[cohort])
    update = (0.5 * (MEANS[task.client] - server.weights(chosen))).astype(np.float32)
    return TaskResult(
        task.client, task.cohort, task.round, Answer(update, 1, model=task.models.index(chosen), loss=losses[chosen])
    )


ONLINE = [CheckIn(number) for number in range(CLIENTS)]


def ifca_round(server: Server) -> list[Task]:
    (cohort, check_ins), *nothing = server.match(ONLINE).items()
    assert (cohort, nothing) == (ROOT, [])
    tasks = server.open_round(cohort, check_ins)
    assert server.close_round(cohort, [best(server, task) for task in tasks]) == []  # clients keep no record
    assert server.rejections == ()
    return tasks


def test_a_loop_in_which_clients_choose_among_models_finds_both_groups() -> None:
    server = ifca_server()
    rounds = [ifca_round(server) for _ in range(ROUNDS)]

    assert server.is_over
    assert server.cohorts == (ROOT,)
    assert {len(tasks) for tasks in rounds} == {PARTICIPANTS}  # one round is for all models
    assert {task.models for task in rounds[0]} == {(FIRST,), (SECOND,)}  # dealt, and sent no other
    assert {task.models for tasks in rounds[1:] for task in tasks} == {(FIRST, SECOND)}
    assert sorted(float(server.weights(cohort)[0]) for cohort in (FIRST, SECOND)) == pytest.approx([-5, 5], abs=0.1)
    assert server.round(FIRST) == server.round(SECOND) == server.round(ROOT) == ROUNDS


def test_a_server_of_several_models_goes_on_from_bytes_with_the_same_bits() -> None:
    whole, first, second = ifca_server(), ifca_server(), ifca_server()
    for _ in range(5):
        ifca_round(whole)
    for _ in range(2):
        ifca_round(first)
    second.restore(first.to_bytes())
    for _ in range(3):
        ifca_round(second)

    assert second.to_bytes() == whole.to_bytes()


def opened_after(rounds: int) -> tuple[Server, list[Task]]:
    server = ifca_server()
    for _ in range(rounds):
        ifca_round(server)
    return server, server.open_round(ROOT, ONLINE)


NOT_OFFERED: Any = [2, -1, 10**30, "0", (0,), 0.0]


@pytest.mark.parametrize("trained_one", NOT_OFFERED, ids=str)
@pytest.mark.parametrize("rounds", [0, 2], ids=["one offered", "both offered"])
def test_a_result_that_names_a_model_which_was_not_offered_counts_as_a_failure(trained_one: Any, rounds: int) -> None:
    server, tasks = opened_after(rounds)
    failing, _ = opened_after(rounds)
    results = [best(server, task) for task in tasks]
    failing.close_round(ROOT, [failure(tasks[4]), *results[:4], *results[5:]])
    server.close_round(ROOT, [*results[:4], saying(results[4], model=trained_one), *results[5:]])

    assert server.rejections == (Rejection(tasks[4].client, "UNKNOWN_COHORT"),)
    assert server.to_bytes() == failing.to_bytes()


def test_in_a_warm_start_the_other_model_is_not_offered() -> None:
    server, tasks = opened_after(0)
    assert len(tasks[0].models) == 1
    with pytest.warns(RuntimeWarning, match="1 x UNKNOWN_COHORT"):
        server.close_round(ROOT, [saying(best(server, tasks[0]), model=1)])

    assert server.rejections == (Rejection(tasks[0].client, "UNKNOWN_COHORT"),)
    assert server.round(ROOT) == 0


@pytest.mark.filterwarnings("ignore:a round of cohort 0 came to nothing:RuntimeWarning")
def test_who_was_offered_one_model_need_not_name_it_and_who_was_offered_several_must() -> None:
    for rounds, rejected in ((0, 0), (1, PARTICIPANTS)):
        server, tasks = opened_after(rounds)
        server.close_round(ROOT, [saying(best(server, task), model=None) for task in tasks])

        assert len(server.rejections) == rejected
        assert server.round(ROOT) == 1


def test_a_model_that_nobody_has_trained_stays_as_it_is() -> None:
    server, tasks = opened_after(1)
    before = {cohort: server.weights(cohort) for cohort in (FIRST, SECOND)}
    results = [best(server, task) for task in tasks]
    server.close_round(ROOT, [result for result in results if result.answer.model == 0])

    assert {result.answer.model for result in results} == {0, 1}
    np.testing.assert_array_equal(server.weights(SECOND), before[SECOND])
    assert not np.array_equal(server.weights(FIRST), before[FIRST])
    assert server.round(SECOND) == 2


def test_a_cohort_without_rounds_of_its_own_opens_none() -> None:
    server = ifca_server()
    before = server.to_bytes()

    with pytest.raises(KeyError, match=r"0\.0: opens no rounds of its own; these do: 0"):
        server.open_round(FIRST, ONLINE)
    assert server.to_bytes() == before


@dataclass(frozen=True)
class Losses:
    """The losses of the last round."""

    seen: FloatArray


@dataclass(frozen=True)
class Listens:
    """Selects whoever comes first and remembers the losses that they report."""

    own_states = (Losses,)

    def begin(self, parent: OwnState | None = None) -> Losses:
        return Losses(np.zeros(0))

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        return rows[:wanted]

    def learn(self, memory: OwnState, turnout: Turnout) -> Losses:
        return Losses(turnout.loss)


REPORTED: Any = [0.5, 2, np.float32(0.25), None, "low", float("nan"), float("inf"), 10**30, 10**400, -1.0, 0.0, [1]]


def test_a_selector_of_ones_own_hears_of_losses_and_those_that_are_none_count_as_not_told() -> None:
    server = ifca_server(selector=Listens())
    tasks = server.open_round(ROOT, ONLINE)
    results = [saying(best(server, task), loss=loss) for task, loss in zip(tasks, REPORTED, strict=True)]
    server.close_round(ROOT, results)
    kept = from_bytes(ServerRecord, server.to_bytes(), own=(Losses,)).state.cohorts[FIRST].selection

    assert [task.client for task in tasks] == list(range(PARTICIPANTS))
    assert server.rejections == ()
    assert isinstance(kept, Losses)
    nothing = float("nan")
    expected = [0.5, 2.0, 0.25, nothing, nothing, nothing, nothing, 1e30, nothing, -1.0, 0.0, nothing]
    np.testing.assert_array_equal(kept.seen, expected)


def test_a_selector_with_a_memory_gives_everybody_a_turn_even_over_a_crash() -> None:
    server, took_part = turns_server(), []
    for _ in range(ROUNDS):
        again = turns_server()
        again.restore(server.to_bytes())
        server = again
        tasks = server.open_round(ROOT, ONLINE)
        server.close_round(ROOT, everybody(tasks))
        took_part += [task.client for task in tasks]

    assert set(Counter(took_part).values()) == {ROUNDS * PARTICIPANTS // CLIENTS}
    assert len(set(took_part)) == CLIENTS
    with pytest.raises(CodecError, match="selection: expected the state of one of Nothing"):
        new_server().restore(server.to_bytes())


def turns_server() -> Server:
    weights = np.zeros(N_PARAMS, dtype=np.float32)
    return Server(
        weights,
        participants=PARTICIPANTS,
        rounds=ROUNDS,
        method=OneCohort(),
        selector=FewestTurns(),
        secret=SAME_SECRET,
    )


# Mistakes in the loop.


def test_a_cohort_that_does_not_train_is_named_together_with_those_that_do() -> None:
    server = GROWN.server
    before = server.to_bytes()

    for cohort in (ROOT, LEFT, CohortId("0.7")):
        for call in (server.round, lambda cohort: server.open_round(cohort, [])):
            with pytest.raises(KeyError, match=rf"{cohort}: not a cohort that trains now; .* 0\.1, 0\.0\.0, 0\.0\.1"):
                call(cohort)
        with pytest.raises(KeyError, match=rf"{cohort}: no model of this name; there are: 0\.1, 0\.0\.0, 0\.0\.1"):
            server.weights(cohort)
    assert server.to_bytes() == before


def test_a_round_that_is_not_open_cannot_be_closed() -> None:
    server, tasks = YOUNG.opened(ROOT)
    server.close_round(ROOT, everybody(tasks))

    for cohort in (ROOT, CohortId("0.7")):
        with pytest.raises(KeyError, match=rf"{cohort}: no round is open; call open_round first \(open: none\)"):
            server.close_round(cohort, everybody(tasks))


@pytest.mark.parametrize(
    "weights",
    [
        np.zeros((0, 3), dtype=np.float32),
        np.zeros(0, dtype=np.float32),
        np.zeros(3, dtype=np.int64),
        np.array([0.0, np.nan], dtype=np.float32),
    ],
)
def test_initial_weights_must_be_a_flat_array_of_finite_floats(weights: Any) -> None:
    with pytest.raises(ValueError, match="weights: expected a flat, non-empty array of finite floats"):
        Server(weights, participants=4, rounds=4, method=Auxo())


@pytest.mark.parametrize(("participants", "rounds"), [(0, 4), (4, 0)])
def test_a_federation_without_participants_or_rounds_is_refused(participants: int, rounds: int) -> None:
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        Server(np.zeros(2, dtype=np.float32), participants=participants, rounds=rounds, method=Auxo())


def test_feedback_tells_the_tree_after_a_partition() -> None:
    server, tasks = YOUNG.opened(ROOT)
    feedback: list[AffinityFeedback] = server.close_round(ROOT, everybody(tasks))

    assert server.cohorts == (LEFT, RIGHT)
    assert {told.tree.leaves for told in feedback} == {(LEFT, RIGHT)}
    assert {told.cohort for told in feedback} == {ROOT}


def test_a_method_with_several_models_may_begin_with_one_for_each() -> None:
    models = [np.array([-1.0], dtype=np.float32), np.array([2.0], dtype=np.float32)]
    method = Ifca(cohorts=2, warm_start=0)
    server = Server(models, participants=PARTICIPANTS, rounds=ROUNDS, method=method, seed=3)
    ifca_round(server)

    assert float(server.weights(FIRST)[0]) < -1
    assert float(server.weights(SECOND)[0]) > 2
    with pytest.raises(ValueError, match="weights: expected models of one size, got 1 and 2 parameters"):
        Server([models[0], np.zeros(2, np.float32)], participants=2, rounds=1, method=method)
    with pytest.raises(ValueError, match="weights: expected an array or several, got none"):
        Server([], participants=2, rounds=1, method=method)


def test_clients_that_have_to_compare_models_are_in_nobodys_list() -> None:
    placed = ifca_server().match(ONLINE, everybody=True)

    assert {leaf: list(mine) for leaf, mine in placed.items()} == {FIRST: [], SECOND: []}


@pytest.mark.parametrize("method", [FlexCfl(groups=2, sample=2), KFed(cohorts=2)])
def test_a_method_that_asks_for_more_than_a_task_can_say_is_refused(method: FlexCfl | KFed) -> None:
    server = Server(np.zeros(3), participants=4, rounds=5, method=method)

    with pytest.raises(
        NotImplementedError, match=f"{type(method).__name__}: expected a method whose participants train"
    ):
        server.open_round(ROOT, [CheckIn(client) for client in range(4)])


def test_a_method_that_wants_everybody_has_everybody_who_has_checked_in() -> None:
    server = Server(np.zeros(3), participants=2, rounds=5, method=Cfl())

    assert len(server.open_round(ROOT, [CheckIn(client) for client in range(7)])) == 7

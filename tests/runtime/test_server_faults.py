"""What a live server takes, refuses and says: ids and arrays as users have them, what comes twice, dead ends."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from auxo import Auxo, CheckIn, Client, FedAvg, Rejection, Server, Task, TaskResult
from auxo.algorithms.base import OneCohort
from auxo.core.affinity import AffinitySettings
from auxo.core.asking import Answer
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.cohort_state import CohortState
from auxo.core.matching import Matched
from auxo.core.partition import Partition
from auxo.core.rng import stream
from auxo.core.types import ROOT, ClientId, CohortId, Float32Array
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.runtime.client_numbers import client_number
from auxo.runtime.server_record import ServerRecord
from auxo.runtime.singled_out import SingledOut
from tests.core.made_updates import saying
from tests.runtime.made_rounds import SAME_SECRET

N_PARAMS, ROUNDS, PARTICIPANTS = 6, 4, 8
NUMBERS = list(range(20))
NAMES = [f"phone-{number}" for number in NUMBERS]
UNSIGNED = [2**63 + number for number in NUMBERS]  # as Flower has them


def new_server(
    seed: int = 3,
    participants: int = PARTICIPANTS,
    rounds: int = ROUNDS,
    method: CohortAlgorithm | None = None,
    aggregator: FedAvg | None = None,
) -> Server:
    return Server(
        np.zeros(N_PARAMS, dtype=np.float32),
        secret=SAME_SECRET,
        participants=participants,
        rounds=rounds,
        method=method or Auxo(),
        aggregator=aggregator,
        seed=seed,
    )


def update_of(task: Task) -> Float32Array:
    update: Float32Array = (
        stream(0, "update", str(task.client), task.round).normal(1.0, 0.3, N_PARAMS).astype("float32")
    )
    return update


def good(task: Task) -> TaskResult:
    return TaskResult(task.client, task.cohort, task.round, Answer(update_of(task), 5))


@dataclass
class Loop:
    """A loop as the README has it."""

    names: list[Any]
    server: Server = field(default_factory=new_server)
    answer: Callable[[Task], TaskResult] = good

    def __post_init__(self) -> None:
        self.clients = {name: Client(name) for name in self.names}

    def play(self, loops: int | None = None) -> "Loop":
        done = 0
        while not self.server.is_over and done != loops:
            done += 1
            online = [client.check_in() for client in self.clients.values()]
            for cohort, check_ins in self.server.match(online).items():
                results = [self.answer(task) for task in self.server.open_round(cohort, check_ins)]
                for feedback in self.server.close_round(cohort, results):
                    self.clients[feedback.client].receive(feedback)
        return self


def opened(server: Server | None = None, names: list[Any] | None = None) -> tuple[Server, list[Task]]:
    server = server or new_server()
    return server, server.open_round(ROOT, [CheckIn(name) for name in names or NUMBERS])


# Ids.


@pytest.mark.parametrize("names", [NAMES, UNSIGNED, [*NAMES[:10], *UNSIGNED[:5], *NUMBERS[:5]]])
def test_clients_may_be_called_by_names_and_by_numbers_of_64_bits(names: list[ClientId]) -> None:
    loop = Loop(names).play()
    assert loop.server.round(ROOT) == ROUNDS
    assert loop.server.rejections == ()
    matched = loop.server.match([one.check_in(explore=False) for one in loop.clients.values()], everybody=True)
    assert {one.client for mine in matched.values() for one in mine} == set(names)
    assert any(one.request is not None for one in matched[ROOT])  # they had feedback, under their own names


def test_messages_with_names_go_through_the_codec() -> None:
    _, tasks = opened(names=NAMES)
    for message in (tasks[0], good(tasks[0]), CheckIn("phone-1"), CheckIn(2**63)):
        assert to_bytes(from_bytes(type(message), to_bytes(message))) == to_bytes(message)


@pytest.mark.parametrize("bad", [None, 7.0, True, "", "x" * 2000, b"7", [7], 2**64, -(2**70), float("nan"), object()])
def test_a_check_in_whose_id_is_none_is_in_no_list_and_gets_no_task(bad: Any) -> None:
    server = new_server()
    matched = server.match([CheckIn(bad), CheckIn("phone-1"), CheckIn(7)])
    assert [one.client for one in matched[ROOT]] == ["phone-1", 7]
    assert {task.client for task in server.open_round(ROOT, [CheckIn(bad), CheckIn(7)])} == {7}


@pytest.mark.fault(16)
@pytest.mark.parametrize("bad", [None, 7.0, "", b"7", [7], 2**64, 2**63, "stranger"])
def test_a_result_whose_sender_had_no_task_is_refused_whatever_it_is_called(bad: Any) -> None:
    server, tasks = opened()
    told = server.close_round(ROOT, [*map(good, tasks), replace(good(tasks[0]), client=bad)])
    assert len(told) == len(tasks)
    assert server.rejections == (Rejection(bad, "NOT_SELECTED"),)


@pytest.mark.parametrize("bad", [None, 7.5, "", True, 2**64])
def test_a_client_with_an_id_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="client: expected a number of up to 64 bits or a name"):
        Client(bad)


def test_a_number_and_its_name_are_two_clients() -> None:
    numbers = [client_number(one) for one in (7, "7", -7, 2**63, str(2**63), -(2**63), np.int64(8), np.str_("8"))]
    assert len(set(numbers)) == len(numbers)
    assert numbers[0] == 7
    assert all(number is not None and -(2**63) <= number < 2**63 for number in numbers)


# Updates and weights as users have them.


@pytest.mark.parametrize(
    "form",
    [
        lambda u: u.tolist(),
        lambda u: u.reshape(2, 3),
        lambda u: u[:, None],
        lambda u: [u[:2], u[2:].reshape(2, 2)],
        torch.from_numpy,
        lambda u: torch.from_numpy(u).reshape(3, 2).requires_grad_(),
        lambda u: torch.from_numpy(u).double(),
        lambda u: [torch.from_numpy(u[:4]), torch.from_numpy(u[4:])],
        lambda u: tuple(u.tolist()),
        lambda u: u.astype(np.float64),
    ],
)
def test_an_update_whose_meaning_is_plain_counts_as_the_flat_array(form: Callable[[Float32Array], Any]) -> None:
    (plain, tasks), (other, _) = opened(), opened()
    plain.close_round(ROOT, [good(task) for task in tasks])
    other.close_round(ROOT, [saying(good(task), update=form(update_of(task))) for task in tasks])
    assert other.rejections == ()
    assert other.to_bytes() == plain.to_bytes()


@pytest.mark.parametrize(
    "form",
    [
        lambda w: w.tolist(),
        lambda w: w.reshape(2, 3),
        torch.from_numpy,
        lambda w: torch.nn.Parameter(torch.from_numpy(w).reshape(2, 3)),
        lambda w: [torch.from_numpy(w)],
    ],
)
def test_initial_weights_may_be_whatever_plainly_is_one_model(form: Callable[[Float32Array], Any]) -> None:
    weights = np.arange(N_PARAMS, dtype=np.float32)
    server = Server(form(weights), participants=4, rounds=2, method=OneCohort())
    np.testing.assert_array_equal(server.weights(ROOT), weights)


@pytest.mark.parametrize("bad", [[], None, "weights", 3.0, ["a"], [[]], [float("nan")], np.arange(3), {"w": [1.0]}])
def test_weights_that_are_no_model_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="weights: expected"):
        Server(bad, participants=4, rounds=2, method=OneCohort())


# Retransmissions.


@pytest.mark.fault(15)
@pytest.mark.parametrize("times", [2, 3])
def test_a_result_that_is_delivered_again_counts_once(times: int) -> None:
    (once, tasks), (again, _) = opened(), opened()
    told = once.close_round(ROOT, [good(task) for task in tasks])
    assert again.close_round(ROOT, [good(task) for task in tasks for _ in range(times)]) == told
    assert again.rejections == ()
    assert again.to_bytes() == once.to_bytes()


@pytest.mark.fault(15)
@pytest.mark.parametrize("change", [{"examples": 6}, {"loss": 0.5}, {"update": np.ones(N_PARAMS, np.float32)}])
def test_different_results_of_one_participant_are_all_refused(change: dict[str, Any]) -> None:
    server, tasks = opened()
    server.close_round(ROOT, [*map(good, tasks), saying(good(tasks[0]), **change)])
    assert server.rejections == (Rejection(tasks[0].client, "NOT_SELECTED"),) * 2


# Rounds that come to nothing.


def test_a_loop_in_which_every_result_is_refused_says_why_and_ends() -> None:
    def wrong(task: Task) -> TaskResult:
        return saying(good(task), update=np.ones(N_PARAMS + 1, dtype=np.float32))

    with pytest.warns(RuntimeWarning) as warned:
        loop = Loop(NUMBERS, answer=wrong).play()
    too_few, *words = [str(one.message) for one in warned]
    assert too_few.startswith("no partition is possible: ")
    assert too_few.endswith("and there are 4; raise rounds")
    assert len(words) == 100
    assert words[0].startswith("a round of cohort 0 came to nothing: all its results were refused, 8 x SCHEMA_MISMATCH")
    assert words[-1].startswith("cohort 0 is given up after 100 such rounds in a row")
    assert loop.server.round(ROOT) == 0


def test_a_round_that_comes_to_something_makes_up_for_those_before_it() -> None:
    calls = 0

    def now_and_then(task: Task) -> TaskResult:
        nonlocal calls
        calls += 1
        is_good = (calls - 1) // PARTICIPANTS % 60 == 59
        return good(task) if is_good else saying(good(task), examples=0)

    with pytest.warns(RuntimeWarning) as warned:
        loop = Loop(NUMBERS, answer=now_and_then).play()
    assert loop.server.round(ROOT) == ROUNDS
    assert not any("given up" in str(one.message) for one in warned)


@dataclass(frozen=True)
class _TwoFromTheStart:
    """The base with two cohorts, of which everybody is in the first."""

    inner: OneCohort = field(default_factory=OneCohort)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def matching(self) -> Any:
        return _ToTheFirst()

    def begin(self, initial: Any) -> Any:
        return replace(self.inner.begin(initial), partition=Partition((0, 1), (0.5, 0.5)))


class _ToTheFirst:
    def match(self, state: Any, check_ins: Any, rng: Any) -> Any:
        return Matched(np.full(len(check_ins), state.tree.index[CohortId("0.0")]), np.ones(len(check_ins), np.bool_))

    place = match


def test_a_loop_in_which_nobody_ever_asks_for_a_cohort_ends() -> None:
    method: Any = _TwoFromTheStart()
    loop = Loop(NUMBERS, server=new_server(method=method, participants=4))
    with pytest.warns(RuntimeWarning, match=r"cohort 0\.1 is given up: none of the last 4000 check-ins led there"):
        loop.play()
    assert (loop.server.round(CohortId("0.0")), loop.server.round(CohortId("0.1"))) == (ROUNDS, 0)


def test_a_server_to_which_nobody_comes_waits() -> None:
    server = new_server()
    for _ in range(5000):
        assert list(server.match([])[ROOT]) == []
    assert not server.is_over


# Records.


OLD = Loop(NUMBERS).play(2).server.to_bytes()


@pytest.mark.fault(35)
@pytest.mark.parametrize(
    ("server", "difference"),
    [
        (new_server(seed=4), "seed: 3 in the record, 4 here"),
        (new_server(participants=9), "participants: 8 in the record, 9 here"),
        (new_server(rounds=5), "rounds: 4 in the record, 5 here"),
        (new_server(aggregator=FedAvg(0.5)), "aggregator.server_learning_rate: 1.0 in the record, 0.5 here"),
        (
            new_server(method=Auxo(affinity=AffinitySettings(exploration=0.2))),
            "method.affinity.exploration: 0.1 in the record, 0.2 here",
        ),
    ],
)
def test_a_record_of_a_server_with_other_arguments_is_refused_with_the_difference(
    server: Server, difference: str
) -> None:
    before = server.to_bytes()
    with pytest.raises(ValueError, match=re.escape(difference)):
        server.restore(OLD)
    assert server.to_bytes() == before


def spoilt(change: Callable[[CohortState], CohortState]) -> bytes:
    record = from_bytes(ServerRecord, OLD, Auxo().own_states)
    cohorts = {cohort: change(kept) for cohort, kept in record.state.cohorts.items()}
    return to_bytes(replace(record, state=replace(record.state, cohorts=cohorts)))


def with_weights(kept: CohortState, value: float) -> CohortState:
    weights = kept.server.weights.copy()
    weights[2] = value
    return replace(kept, server=replace(kept.server, weights=weights))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (spoilt(lambda kept: with_weights(kept, np.nan)), "0: expected finite numbers in weights, got 1 that are not"),
        (spoilt(lambda kept: with_weights(kept, np.inf)), "0: expected finite numbers in weights, got 1 that are not"),
        (spoilt(lambda kept: replace(kept, round=-1)), "0: expected a round from 0 to 4, got -1"),
        (spoilt(lambda kept: replace(kept, check_ins=float("nan"))), "0: expected a finite mean of check-ins, got nan"),
    ],
)
def test_a_record_that_no_server_can_go_on_from_is_refused_behind_a_valid_checksum(data: bytes, words: str) -> None:
    server = new_server()
    with pytest.raises(ValueError, match=re.escape(words)):
        server.restore(data)
    assert server.to_bytes() == new_server().to_bytes()


def test_a_record_without_the_model_of_a_leaf_is_refused() -> None:
    record = from_bytes(ServerRecord, OLD, Auxo().own_states)
    tree = record.state.tree.partition(ROOT, (0, 1), (0.5, 0.5), 1)
    left = {CohortId("0.0"): record.state.cohorts[ROOT]}
    with pytest.raises(
        ValueError, match=r"expected a model of each leaf of the tree \(0\.0, 0\.1\), got those of 0\.0;"
    ):
        new_server().restore(to_bytes(replace(record, state=replace(record.state, tree=tree, cohorts=left))))


# Clients that stand out.


def silo_and_clinics(most_weight: float, rounds: int = 20) -> tuple[float, list[str]]:
    """Return the model of seven clients of 120 samples whose mean is -5 and one of 20,000 whose mean is 5."""
    server = Server(
        np.zeros(1), participants=8, rounds=rounds, method=OneCohort(), aggregator=FedAvg(), most_weight=most_weight
    )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        while not server.is_over:
            tasks = server.open_round(ROOT, [CheckIn(name) for name in range(8)])
            model = server.weights(ROOT)
            server.close_round(
                ROOT,
                [
                    TaskResult(
                        task.client,
                        ROOT,
                        task.round,
                        Answer(
                            (np.float32(5 if task.client == 7 else -5) - model), 20_000 if task.client == 7 else 120
                        ),
                    )
                    for task in tasks
                ],
            )
            assert server.rejections == ()
    return float(server.weights(ROOT)[0]), [str(one.message) for one in warned]


def test_a_silo_with_many_examples_counts_and_is_told_of_once() -> None:
    model, words = silo_and_clinics(0.5)
    assert model == pytest.approx((1200 * 5 - 840 * 5) / 2040, abs=1e-5)  # ten times 120 examples of it count
    assert len(words) == 1
    assert words[0].startswith("client 7 claims 20000 examples, far more than is usual in its cohort")


def test_a_silo_that_is_trusted_counts_by_its_examples() -> None:
    model, words = silo_and_clinics(1.0)
    assert model == pytest.approx(4.6, abs=0.01)
    assert words == []


def test_a_client_that_is_refused_again_and_again_is_told_of_once() -> None:
    def one_is_bad(task: Task) -> TaskResult:
        return saying(good(task), examples=0) if task.client == 3 else good(task)

    server = new_server(rounds=30, method=OneCohort())
    with pytest.warns(RuntimeWarning) as warned:
        Loop(NUMBERS, server, one_is_bad).play()
    (words,) = [str(one.message) for one in warned]
    assert words.startswith("client 3 is refused again and again, now by 1 x BAD_WEIGHT (")


def test_what_is_counted_of_clients_that_are_refused_is_bounded_and_finds_the_most_frequent() -> None:
    singled_out, told = SingledOut(), []
    for turn in range(20_000):
        client = "culprit" if turn % 3 == 0 else f"stranger-{turn}"
        told.append(singled_out.refused(client, "NON_FINITE"))
    assert len([words for words in told if words]) == 1
    assert len(singled_out._refused) <= 1000


def test_a_server_that_can_partition_nothing_says_so_when_it_is_made() -> None:
    with pytest.warns(RuntimeWarning, match="no partition is possible: .* and there is 1; raise participants$"):
        new_server(participants=1)
    with pytest.warns(RuntimeWarning, match="no partition is possible: .* and there are 2; raise rounds$"):
        new_server(rounds=2)

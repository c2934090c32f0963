"""What goes wrong in a federation, through the real strategy over the grid in this process: the run goes on.

Each fault is a hand on one node's replies, or on the grid between. What is refused must not leave a trace: the model is
the one of a run in which that node failed openly. Faults of whole processes are in loopback/test_processes.py.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from auxo.algorithms.auxo import Auxo
from auxo.algorithms.base import OneCohort
from auxo.core.asking import Answer
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.types import CohortId
from auxo.flower import AuxoResult, AuxoStrategy
from auxo.flower.engine.grid import InProcessGrid
from auxo.flower.engine.nodes import FIRST_NODE, SimulatedNodes, partitions
from auxo.flower.wire import ANSWER, CHECK_IN, KEY, NO_UPDATE
from auxo.protocol.codec import to_parts
from auxo.protocol.events import EmptyRound, Event, Partitioned, RoundClosed, UpdateRejected
from auxo.protocol.messages import AffinityRequest, CheckIn, TaskResult
from tests.flower.linear_app import auxo_app, initial

NODES, GROUPS, ROUNDS = 12, 2, 5
BAD = 3  # the partition that misbehaves
Change = Callable[[Message, Context], Message]


class EverybodyInOrder(FedAvg):
    """Flower's FedAvg without its draw, so that two runs can be compared bit by bit."""

    def configure_train(self, server_round, arrays, config, grid):  # type: ignore[no-untyped-def]
        config["server-round"] = server_round
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return self._construct_messages(content, sorted(grid.get_node_ids()), "train")


def base() -> FedAvg:
    return EverybodyInOrder(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)


def tampered(app: ClientApp, change: Change, who: Callable[[int], bool]) -> Callable[[Message, Context], Message]:
    """Return an app whose replies are changed on the way, for some nodes."""

    def answer(message: Message, context: Context) -> Message:
        reply = app(message, context)
        if message.metadata.message_type == "train" and who(int(str(context.node_config["partition-id"]))):
            return change(reply, context)
        return reply

    return answer


@dataclass
class Ran:
    """A run and what it said."""

    result: AuxoResult
    events: list[Event] = field(default_factory=list)

    @property
    def reasons(self) -> set[str]:
        return {event.reason for event in self.events if isinstance(event, UpdateRejected)}

    @property
    def arrays(self) -> dict[str, dict[str, bytes]]:
        return {name: {key: a.data for key, a in one.arrays.items()} for name, one in self.result.cohorts.items()}


def run(
    app: Callable[[Message, Context], Message],
    method: CohortAlgorithm | None = None,
    *,
    rounds: int = ROUNDS,
    kind: Callable[[SimulatedNodes], InProcessGrid] = InProcessGrid,
    on_event: Callable[[Event, InProcessGrid], None] = lambda event, grid: None,
    timeout: float = 60.0,
) -> Ran:
    """Run the strategy to its end."""
    events: list[Event] = []
    with kind(SimulatedNodes(app, NODES, partitions(NODES), {})) as grid:

        def hear(event: Event) -> None:
            events.append(event)
            on_event(event, grid)

        strategy = AuxoStrategy(base, participants=NODES, method=method or OneCohort(), on_event=hear)
        return Ran(strategy.start(grid, initial(), num_rounds=rounds, timeout=timeout), events)


def is_bad(partition: int) -> bool:
    return partition == BAD


def raise_openly(reply: Message, context: Context) -> Message:
    raise RuntimeError("this node fails")


@pytest.fixture(scope="module")
def without_it() -> Ran:
    """Return the run in which the bad node fails openly."""
    return run(tampered(auxo_app(1), raise_openly, is_bad))


def with_arrays(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Change:
    def changed(reply: Message, context: Context) -> Message:
        arrays = {name: array.numpy() for name, array in reply.content.array_records["arrays"].items()}
        reply.content["arrays"] = ArrayRecord({name: Array(np.asarray(v)) for name, v in change(arrays).items()})
        return reply

    return changed


def with_metrics(**metrics: float | list[float]) -> Change:
    def changed(reply: Message, context: Context) -> Message:
        record = reply.content.metric_records["metrics"]
        reply.content["metrics"] = MetricRecord({**record, **{n.replace("_", "-"): v for n, v in metrics.items()}})
        return reply

    return changed


def without_metric(reply: Message, context: Context) -> Message:
    del reply.content.metric_records["metrics"]["num-examples"]
    return reply


def second_record(reply: Message, context: Context) -> Message:
    reply.content["more"] = reply.content.array_records["arrays"].copy()
    return reply


def no_bytes(reply: Message, context: Context) -> Message:
    for array in reply.content.array_records["arrays"].values():
        array.data = b"\x93NUMPY garbage"
    return reply


def header_bomb(reply: Message, context: Context) -> Message:
    """Claim a petabyte in the header of an array."""
    for array in reply.content.array_records["arrays"].values():
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000, 1000000), }".ljust(117) + b"\n"
        array.data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    return reply


def another_answer(cohort: str = "0", round: int | None = None, model: int | None = None) -> Change:
    """Let the reply say something else of its task."""

    def changed(reply: Message, context: Context) -> Message:
        turns = context.state.config_records.get("turns", ConfigRecord({"rounds": 0}))
        turns["rounds"] = number = int(str(turns["rounds"])) + 1
        context.state["turns"] = turns
        wrong = TaskResult(0, CohortId(cohort), round or number, Answer(NO_UPDATE, 0, model=model))
        before, _, _ = reply.metadata.group_id.partition(ANSWER)
        reply.metadata.group_id = f"{before}{ANSWER}{to_parts(wrong)[0]}"
        return reply

    return changed


REFUSED: dict[str, tuple[Change, set[str]]] = {
    "11 NaN": (with_arrays(lambda a: {n: v * np.nan for n, v in a.items()}), {"NON_FINITE"}),
    "11 infinity": (with_arrays(lambda a: {n: v + np.inf for n, v in a.items()}), {"NON_FINITE"}),
    "12 another shape": (with_arrays(lambda a: {**a, "b": np.zeros(9)}), {"SCHEMA_MISMATCH"}),
    "12 a shape that would be broadcast": (with_arrays(lambda a: {**a, "b": np.zeros(1)}), {"SCHEMA_MISMATCH"}),
    "12 whole numbers": (with_arrays(lambda a: {**a, "b": np.zeros(3, dtype=np.int64)}), {"SCHEMA_MISMATCH"}),
    "12 a missing key": (with_arrays(lambda a: {"w": a["w"]}), {"SCHEMA_MISMATCH"}),
    "12 another key": (with_arrays(lambda a: {"w": a["w"], "c": a["b"]}), {"SCHEMA_MISMATCH"}),
    "12 one more tensor": (with_arrays(lambda a: {**a, "more": np.zeros(2)}), {"SCHEMA_MISMATCH"}),
    "12 two records": (second_record, {"SCHEMA_MISMATCH"}),
    "12 no array at all": (with_arrays(lambda a: {}), {"SCHEMA_MISMATCH"}),
    "13 a change beyond all bounds": (with_arrays(lambda a: {n: v + 1e9 for n, v in a.items()}), {"TOO_LARGE"}),
    "14 a trillion examples": (with_metrics(num_examples=10**12), {"BAD_WEIGHT"}),
    "14 no example": (with_metrics(num_examples=0), {"BAD_WEIGHT"}),
    "14 less than none": (with_metrics(num_examples=-19), {"BAD_WEIGHT"}),
    "14 examples that are no number": (with_metrics(num_examples=float("nan")), {"SCHEMA_MISMATCH", "BAD_WEIGHT"}),
    "14 infinitely many": (with_metrics(num_examples=float("inf")), {"SCHEMA_MISMATCH", "BAD_WEIGHT"}),
    "14 a list of examples": (with_metrics(num_examples=[1.0, 2.0]), {"SCHEMA_MISMATCH", "BAD_WEIGHT"}),
    "14 examples left out": (without_metric, {"SCHEMA_MISMATCH", "BAD_WEIGHT"}),
    "16 a cohort that it was not asked for": (another_answer(cohort="0.7"), {"UNKNOWN_COHORT", "NOT_SELECTED"}),
    "16 another round": (another_answer(round=1000), {"UNKNOWN_COHORT", "NOT_SELECTED"}),
    "16 a model that it was not offered": (another_answer(model=7), {"UNKNOWN_COHORT", "NOT_SELECTED"}),
    "22 bytes that are no array": (no_bytes, {"SCHEMA_MISMATCH"}),
    "22 a header that claims a petabyte": (header_bomb, {"SCHEMA_MISMATCH"}),
}


@pytest.mark.parametrize("fault", [pytest.param(words, marks=pytest.mark.fault(int(words[:2]))) for words in REFUSED])
def test_what_is_refused_leaves_no_trace_and_has_a_reason(fault: str, without_it: Ran) -> None:
    change, reasons = REFUSED[fault]
    ran = run(tampered(auxo_app(1), change, is_bad))
    assert ran.arrays == without_it.arrays
    assert ran.reasons
    assert ran.reasons <= reasons
    assert [event.round for event in ran.events if isinstance(event, RoundClosed)] == list(range(1, ROUNDS + 1))


def later(context: Context) -> bool:
    """Return whether a node has been asked before: what is usual is known by then."""
    was = "asked" in context.state
    context.state["asked"] = ConfigRecord()
    return was


def distance(one: ArrayRecord, other: ArrayRecord) -> float:
    return float(np.sqrt(sum(((one[name].numpy() - other[name].numpy()) ** 2).sum() for name in one)))


@pytest.mark.fault(13)
@pytest.mark.parametrize(("times", "moves"), [(100.0, False), (1e6, False), (5.0, True)])
def test_fault_13_a_scaled_update_moves_nothing_beyond_what_is_usual(
    times: float, moves: bool, without_it: Ran
) -> None:
    """Up to thirty times the usual length counts, as docs/protocol.md says; what is beyond is kept out."""

    def scaled(reply: Message, context: Context) -> Message:
        factor = times if later(context) else 1.0
        return with_arrays(lambda a: {n: v * factor for n, v in a.items()})(reply, context)

    honest = run(auxo_app(1))
    ran = run(tampered(auxo_app(1), scaled, is_bad))
    assert ("UNUSUAL_LENGTH" in ran.reasons) is not moves
    longest_step = distance(honest.result.arrays, initial())
    assert distance(ran.result.arrays, honest.result.arrays) < longest_step * (times if moves else 1)


@pytest.mark.fault(14)
def test_fault_14_a_node_with_many_more_examples_than_usual_counts_for_no_more_than_all_others() -> None:
    def claiming(examples: int) -> Ran:
        def claims(reply: Message, context: Context) -> Message:
            return with_metrics(num_examples=examples if later(context) else 24)(reply, context)

        return run(tampered(auxo_app(1), claims, is_bad))

    ran, as_others, less = claiming(10**8), claiming((NODES - 1) * 24), claiming(24)
    assert ran.reasons == set()
    assert [event.capped for event in ran.events if isinstance(event, RoundClosed)] == [0, 1, 1, 1, 1]
    assert distance(ran.result.arrays, as_others.result.arrays) < 1e-9
    assert distance(ran.result.arrays, less.result.arrays) > 1e-3


@dataclass
class Repeating(InProcessGrid):
    """Delivers every reply twice, and once more whenever somebody asks; strangers answer as well."""

    _old: list[Message] = field(default_factory=list)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        fresh = list(super().pull_messages(message_ids))
        stray = [self._stray(message) for message in fresh[:1]]
        delivered = [*self._old, *fresh, *fresh, *stray]
        self._old = [*self._old, *fresh][-40:]
        return delivered

    def _stray(self, message: Message) -> Message:
        """Return a reply to a message that was never sent, by a node that does not exist."""
        copy = Message(RecordDict(dict(message.content)) if message.has_content() else RecordDict(), reply_to=message)
        copy.metadata.__dict__.update(_reply_to_message_id="never", _src_node_id=7)
        return copy


@pytest.mark.fault(15)
def test_fault_15_a_reply_that_comes_again_counts_once() -> None:
    plain = run(auxo_app(1))
    again = run(auxo_app(1), kind=Repeating)
    assert again.arrays == plain.arrays
    assert not again.reasons


@dataclass
class Mistaken(InProcessGrid):
    """Delivers a node's reply in the name of another node."""

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found = list(super().pull_messages(message_ids))
        for message in found:
            if message.metadata.src_node_id == FIRST_NODE + BAD:
                message.metadata.__dict__["_src_node_id"] = FIRST_NODE + BAD + 1
        return found


@pytest.mark.fault(16)
def test_fault_16_a_reply_in_another_nodes_name_is_left_out(without_it: Ran) -> None:
    ran = run(auxo_app(1), kind=Mistaken, timeout=1.0, rounds=2)
    shorter = run(tampered(auxo_app(1), raise_openly, is_bad), rounds=2)
    assert ran.arrays == shorter.arrays


def check_in_with(request: str) -> Change:
    def changed(reply: Message, context: Context) -> Message:
        _, mark, answer = reply.metadata.group_id.partition(ANSWER)
        reply.metadata.group_id = f"{CHECK_IN}{request}{mark}{answer}"
        return reply

    return changed


def asking_for(cohort: str, cluster: int = 0, reward: float = 1.0) -> str:
    request = AffinityRequest(CohortId(cohort), reward, cluster, 1, True, 5)
    return to_parts(CheckIn(0, request, 3))[0]


@pytest.mark.fault(18)
@pytest.mark.parametrize(
    "request_text",
    [
        asking_for("0.9.9"),
        asking_for("nowhere"),
        asking_for("../../etc"),
        asking_for("0" + ".1" * 10_000),
        asking_for("0", 10**9),
        asking_for("0", -7),
        asking_for("0", reward=1e300),
        asking_for("0", reward=-1e300),
        asking_for("0").replace('"cluster":0', '"cluster":"left"'),
        "",
        "{",
        "[" * 100_000,
        '{"client": 1}',
        "x" * 2_000_000,
    ],
    ids=lambda text: text[:40],
)
def test_fault_18_a_request_for_what_does_not_exist_is_no_preference(request_text: str) -> None:
    ran = run(tampered(auxo_app(GROUPS, halves=True), check_in_with(request_text), is_bad), Auxo(), rounds=12)
    assert len(ran.result.cohorts) == GROUPS
    assert max(event.round for event in ran.events if isinstance(event, RoundClosed)) == 12


@pytest.mark.fault(19)
def test_fault_19_a_node_with_a_record_from_before_a_partition_finds_its_leaf() -> None:
    app = auxo_app(GROUPS, halves=True)
    old: dict[str, ConfigRecord] = {}

    def forgetful(message: Message, context: Context) -> Message:
        """Fall back, after the partition, to what the node knew before it."""
        if parted and BAD not in back and int(str(context.node_config["partition-id"])) == BAD:
            context.state[KEY] = old["record"]
            back.add(BAD)
        reply = app(message, context)
        if int(str(context.node_config["partition-id"])) == BAD and not parted:
            old["record"] = context.state.config_records[KEY].copy()
        return reply

    parted: list[Partitioned] = []
    back: set[int] = set()

    def hear(event: Event, grid: InProcessGrid) -> None:
        if isinstance(event, Partitioned):
            parted.append(event)

    ran = run(forgetful, Auxo(), rounds=14, on_event=hear)
    assert back == {BAD}
    assert len(parted) == 1
    known = [event for event in ran.events if isinstance(event, RoundClosed) and event.round > parted[0].round + 2]
    assert all(event.participants == NODES // GROUPS for event in known)


@pytest.mark.fault(22)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    beside=st.dictionaries(
        st.sampled_from(["check-in", "answer", "federation", "task"]),
        st.one_of(st.text(max_size=30), st.binary(max_size=30), st.integers(-9, 9), st.lists(st.floats(), max_size=3)),
    ),
    text=st.one_of(st.text(max_size=30), st.text(max_size=30).map(lambda text: f"{CHECK_IN}{text}{ANSWER}{text}")),
)
def test_fault_22_whatever_is_said_beside_an_update_never_ends_the_run(beside: dict[str, object], text: str) -> None:
    def garbage(reply: Message, context: Context) -> Message:
        reply.content[KEY] = ConfigRecord(beside)  # type: ignore[arg-type]
        reply.metadata.group_id = text
        return reply

    ran = run(tampered(auxo_app(1), garbage, is_bad), rounds=2)
    assert max(event.round for event in ran.events if isinstance(event, RoundClosed)) == 2


@pytest.mark.fault(25)
def test_fault_25_a_cohort_whose_nodes_vanish_waits_and_goes_on_when_they_are_back() -> None:
    gone = {FIRST_NODE + one for one in range(0, NODES, 2)}  # one of the two groups
    seen: list[str] = []

    def hear(event: Event, grid: InProcessGrid) -> None:
        if isinstance(event, Partitioned):
            grid.absent |= gone
            seen.append("gone")
        if isinstance(event, RoundClosed) and event.round == 14 and grid.absent:
            grid.absent.clear()
            seen.append("back")

    ran = run(auxo_app(GROUPS, halves=True), Auxo(), rounds=16, on_event=hear, timeout=30.0)
    assert seen == ["gone", "back"]
    assert [event for event in ran.events if isinstance(event, EmptyRound)]
    last = {event.cohort: event.round for event in ran.events if isinstance(event, RoundClosed)}
    assert {last[name] for name in ran.result.cohorts} == {16}


@pytest.mark.fault(25)
def test_fault_25_a_run_whose_nodes_never_come_back_ends() -> None:
    def hear(event: Event, grid: InProcessGrid) -> None:
        if isinstance(event, RoundClosed) and event.round == 2:
            grid.absent |= set(grid.nodes.ids)

    ran = run(auxo_app(1), on_event=hear, timeout=1.0)
    assert [event.round for event in ran.events if isinstance(event, RoundClosed)] == [1, 2]


@pytest.mark.fault(26)
def test_fault_26_half_of_the_nodes_drop_out_and_the_rounds_close_with_the_others() -> None:
    ran = run(tampered(auxo_app(1), raise_openly, lambda partition: partition % 2 == 0))
    closed = [event for event in ran.events if isinstance(event, RoundClosed)]
    assert [(event.participants, event.failed) for event in closed] == [(NODES // 2, NODES // 2)] * ROUNDS


@pytest.mark.fault(26)
def test_fault_26_who_is_too_slow_for_the_deadline_is_left_out_and_the_next_round_does_without() -> None:
    def slowly(reply: Message, context: Context) -> Message:
        time.sleep(1.5)
        return reply

    ran = run(tampered(auxo_app(1), slowly, is_bad), kind=partial(InProcessGrid, workers=2), timeout=0.7, rounds=3)
    closed = [event for event in ran.events if isinstance(event, RoundClosed)]
    assert [event.round for event in closed] == [1, 2, 3]
    assert any(event.participants < NODES for event in closed)

"""Nodes that misbehave, vanish or fall behind, as SuperNodes of a real federation on loopback, with TLS and node keys.

The app is the example's; nodes 4 and 5 do to their replies what a file of orders says (`unruly_app.py`). What is
refused must leave no trace: the model is that of a run in this process in which these nodes fail openly instead.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp.strategy import FedAvg
from loopback import LoopbackFederation, Node
from loopback.looking import cohort_in, events_in, participations_in, partitions_in, rounds_in

from auxo.algorithms.auxo import Auxo, ClusteringSettings
from auxo.core.guard import Unguarded
from auxo.core.types import ROOT, CohortId
from auxo.flower import AuxoStrategy
from auxo.flower.engine.grid import InProcessGrid
from auxo.flower.engine.nodes import SimulatedNodes, partitions
from auxo.flower.engine.run_app import load_app
from auxo.protocol.events import EmptyRound, Partitioned, RoundClosed, UpdateRejected

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "federation" / "app"
NODES, STEP_S = 6, 300.0
NEVER = 300  # rounds that are pooled before a cohort looks for groups
LONG = 10_000  # rounds: more than there will be
FOUR, FIVE = 4, 5  # the nodes that are given orders

# What nodes 4 and 5 do in rounds 2 to 7, and the reason with which it is refused.
ORDERS: dict[int, list[tuple[str, str]]] = {
    FOUR: [
        ("11 NaN", "NON_FINITE"),
        ("12 another shape", "SCHEMA_MISMATCH"),
        ("12 another key", "SCHEMA_MISMATCH"),
        ("14 a trillion examples", "BAD_WEIGHT"),
        ("16 another cohort", "UNKNOWN_COHORT NOT_SELECTED"),
        ("15 an old update", "NOT_SELECTED STALE_ROUND"),
    ],
    FIVE: [
        ("11 infinity", "NON_FINITE"),
        ("12 broadcast", "SCHEMA_MISMATCH"),
        ("13 a hundred times", "UNUSUAL_LENGTH TOO_LARGE"),
        ("14 no examples", "BAD_WEIGHT"),
        ("16 another round", "UNKNOWN_COHORT NOT_SELECTED STALE_ROUND"),
        ("26 raise", ""),
    ],
}
ROUNDS = 1 + len(ORDERS[FOUR])


@dataclass
class Unruly:
    """A federation whose nodes do as they are told, and the run that it is at."""

    federation: LoopbackFederation
    app: Path
    run: str = ""
    name: str = ""

    @property
    def directory(self) -> Path:
        return self.federation.folder / f"run-{self.name}"

    @property
    def nodes(self) -> list[Node]:
        return self.federation.nodes[:NODES]

    def state_of(self, node: Node) -> Path:
        return Path(str(node.config["auxo-state"]))

    def order(self, node: Node, *words: str) -> None:
        (self.state_of(node) / "orders.json").write_text(json.dumps(words))

    def done(self, node: Node) -> list[tuple[int, str]]:
        path = self.state_of(node) / "done.jsonl"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def submit(self, name: str, rounds: int, timeout_s: float, pool_rounds: int = NEVER) -> None:
        """Begin a run that knows nothing of those before it."""
        self.name = name
        for node in self.nodes:
            shutil.rmtree(self.state_of(node), ignore_errors=True)
            self.state_of(node).mkdir()
        config: dict[str, str | float] = {"rounds": rounds, "timeout": timeout_s, "pool-rounds": pool_rounds}
        self.run = self.federation.submit(self.app, config | {"nodes": NODES, "directory": str(self.directory)})

    def wait(self, what: str, happens: Callable[[], bool]) -> None:
        self.federation.wait_for(what, happens, STEP_S, log="superlink")

    def closed(self, cohort: CohortId = ROOT) -> dict[int, RoundClosed]:
        events = events_in(self.directory)
        return {event.round: event for event in events if isinstance(event, RoundClosed) and event.cohort == cohort}


@pytest.fixture(scope="module")
def unruly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unruly]:
    folder = tmp_path_factory.mktemp("unruly")
    app = folder / "app"
    shutil.copytree(EXAMPLE, app)
    shutil.copy(HERE / "unruly_app.py", app / "opposites" / "unruly_app.py")
    settings = app / "pyproject.toml"
    settings.write_text(settings.read_text().replace("opposites.client_app:app", "opposites.unruly_app:app"))
    # They are refused for what they do in each round, and would be banned after the third.
    server = app / "opposites" / "server_app.py"
    text = server.read_text().replace("strategy = AuxoStrategy(", "strategy = AuxoStrategy(guard=Unguarded(), base=")
    server.write_text(text.replace("from auxo.flower", "from auxo.core.guard import Unguarded\nfrom auxo.flower"))
    with LoopbackFederation(folder / "federation") as federation:
        for number in range(NODES):
            state = folder / f"state-{number}"
            state.mkdir()
            config: dict[str, str | int] = {"partition-id": number, "num-partitions": NODES}
            federation.add_node(f"node-{number}", config | {"auxo-state": str(state), "orders": str(state)})
        federation.wait_online(NODES, STEP_S)
        yield Unruly(federation, app)
    assert federation.running() == {}


@pytest.fixture(scope="module")
def refused(unruly: Unruly) -> Unruly:
    """Let nodes 4 and 5 do all that is refused, one thing in a round."""
    unruly.submit("refused", ROUNDS, timeout_s=STEP_S)
    for number, orders in ORDERS.items():
        unruly.order(unruly.nodes[number], "nothing", *(words.partition(" ")[2] for words, _ in orders))
    assert unruly.federation.wait_finished(unruly.run, 2 * STEP_S) == "finished:completed"
    return unruly


@pytest.mark.quick
@pytest.mark.parametrize(
    ("number", "place"),
    [
        pytest.param(number, place, id=words, marks=pytest.mark.fault(int(words[:2])))
        for number, orders in ORDERS.items()
        for place, (words, _) in enumerate(orders)
    ],
)
def test_what_a_node_must_not_do_is_refused_with_its_reason(refused: Unruly, number: int, place: int) -> None:
    words, reasons = ORDERS[number][place]
    node, when = refused.nodes[number], place + 2
    assert (when, words.partition(" ")[2]) in refused.done(node)
    said = [event for event in events_in(refused.directory) if isinstance(event, UpdateRejected)]
    mine = {event.reason for event in said if event.round == when and event.client == str(node.node_id)}
    assert mine <= set(reasons.split())
    assert bool(mine) is bool(reasons)
    assert refused.closed()[when].participants == NODES - 2
    bad = {str(refused.nodes[one].node_id) for one in ORDERS}
    assert {event.client for event in said} <= bad


@pytest.mark.fault(11, 12, 13, 14, 15, 16)
def test_what_was_refused_has_left_no_trace_in_the_model(refused: Unruly) -> None:
    """The same nodes fail openly, in the same rounds, in this process: the model is the same."""
    example = load_app(EXAMPLE).client_app
    bad = {(number, place + 2) for number in ORDERS for place in range(ROUNDS - 1)}
    expected, live = run_here(failing(example, bad)), run_here(example, refused.directory)
    for name, array in expected.items():
        # Sums of float32 in another order, for nodes' ids are random there; any of those replies would show far more.
        np.testing.assert_allclose(live[name].numpy(), array.numpy(), rtol=0, atol=1e-5)


def failing(app: ClientAppCallable, when: set[tuple[int, int]]) -> ClientAppCallable:
    def answer(message: Message, context: Context) -> Message:
        number = int(message.content.config_records["config"]["server-round"])  # type: ignore[arg-type]
        if (int(context.node_config["partition-id"]), number) in when:
            raise RuntimeError("this node fails openly")
        return app(message, context)

    return answer


def run_here(app: ClientAppCallable, directory: Path | None = None) -> ArrayRecord:
    """Return the model of a run in this process; of one that has all its rounds behind it: what it has come to."""
    task = sys.modules["opposites.task"]  # has been loaded
    with InProcessGrid(SimulatedNodes(app, NODES, partitions(NODES), {})) as grid:
        strategy = AuxoStrategy(
            lambda: FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1),
            participants=NODES,
            method=Auxo(clustering=ClusteringSettings(pool_rounds=NEVER)),
            directory=directory,
            guard=Unguarded(),
        )
        return strategy.start(grid, ArrayRecord(task.initial_model()), num_rounds=ROUNDS).arrays


@pytest.mark.fault(15, 16, 26)
def test_faults_15_16_26_replies_that_come_again_in_another_name_or_late_are_not_waited_for_without_end(
    unruly: Unruly,
) -> None:
    """Such a reply never reaches the strategy, so the round closes at its deadline without that node."""
    unruly.submit("late", 3, timeout_s=30.0)
    three, four, five = unruly.nodes[3], unruly.nodes[FOUR], unruly.nodes[FIVE]
    unruly.order(three, "nothing", "slow")
    unruly.order(four, "nothing", "the first reply again")
    unruly.order(five, "nothing", "another name")
    assert unruly.federation.wait_finished(unruly.run, 2 * STEP_S) == "finished:completed"
    closed = unruly.closed()
    assert sorted(closed) == [1, 2, 3]
    for node in (three, four, five):
        (when,) = [number for number, words in unruly.done(node) if words != "nothing"]
        assert closed[when].participants <= NODES - 1
    assert min(one.participants for one in closed.values()) <= NODES - 3


@pytest.fixture(scope="module")
def parted(unruly: Unruly) -> Unruly:
    """Return the federation when it has found its groups, and each node knows its cohort."""
    unruly.submit("parted", LONG, timeout_s=60.0, pool_rounds=3)
    node = unruly.nodes[3]
    unruly.wait("a record", lambda: participations_in(unruly.state_of(node)) > 0)
    old = unruly.federation.folder / "old-record"
    while not partitions_in(unruly.directory):
        (record,) = unruly.state_of(node).glob("*.affinity")
        shutil.copy(record, old)
        before = participations_in(unruly.state_of(node))
        unruly.wait("another round, or a partition", partial(_has_moved, unruly, node, before))
    leaves = set(partitions_in(unruly.directory)[0].children)
    unruly.wait("every node in a cohort", lambda: {cohort_in(unruly.state_of(one)) for one in unruly.nodes} == leaves)
    return unruly


def _has_moved(unruly: Unruly, node: Node, before: int) -> bool:
    return bool(partitions_in(unruly.directory)) or participations_in(unruly.state_of(node)) > before


@pytest.mark.fault(18)
def test_fault_18_a_request_for_what_does_not_exist_is_no_preference(parted: Unruly) -> None:
    node = parted.nodes[FIVE]
    before, cohort = participations_in(parted.state_of(node)), cohort_in(parted.state_of(node))
    requests = ("nowhere", "ten thousand deep", "no cluster", "no text")
    parted.order(node, *requests)
    parted.wait("all of them to be said", lambda: [words for _, words in parted.done(node)] == list(requests))
    said = participations_in(parted.state_of(node))
    parted.wait("the node to train on", lambda: participations_in(parted.state_of(node)) > said)
    assert said > before
    assert cohort_in(parted.state_of(node)) == cohort
    assert len(partitions_in(parted.directory)) == 1


@pytest.mark.fault(19)
def test_fault_19_a_record_from_before_the_partition_leads_to_the_right_cohort(parted: Unruly) -> None:
    node = parted.nodes[3]
    state, cohort = parted.state_of(node), cohort_in(parted.state_of(node))
    parted.federation.stop_node(node)
    (record,) = state.glob("*.affinity")
    old = parted.federation.folder / "old-record"
    shutil.copy(old, record)
    before = participations_in(state)
    assert cohort_in(state) != cohort
    parted.federation.start_node(node)
    parted.wait("the node to be told its cohort", lambda: cohort_in(state) == cohort)
    assert participations_in(state) > before


@pytest.mark.fault(25)
def test_fault_25_a_cohort_whose_nodes_vanish_waits_and_the_other_goes_on(parted: Unruly) -> None:
    gone_cohort = cohort_in(parted.state_of(parted.nodes[0]))
    gone = [node for node in parted.nodes if cohort_in(parted.state_of(node)) == gone_cohort]
    assert len(gone) == NODES // 2
    (other,) = set(rounds_in(parted.directory)) - {gone_cohort}
    for node in gone:
        parted.federation.stop_node(node)
    parted.wait("it to wait", lambda: any(_is_wait(event, gone_cohort) for event in events_in(parted.directory)))
    assert gone_cohort is not None
    stood, went = rounds_in(parted.directory)[gone_cohort], rounds_in(parted.directory)[other]
    parted.wait("the other to go on", lambda: rounds_in(parted.directory)[other] >= went + 2)
    assert rounds_in(parted.directory)[gone_cohort] == stood
    for node in gone:
        parted.federation.start_node(node)
    parted.wait("it to go on", lambda: rounds_in(parted.directory)[gone_cohort] >= stood + 2)
    assert [event.children for event in events_in(parted.directory) if isinstance(event, Partitioned)]


def _is_wait(event: object, cohort: CohortId | None) -> bool:
    return isinstance(event, EmptyRound) and event.cohort == cohort

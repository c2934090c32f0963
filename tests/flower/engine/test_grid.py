"""Flower apps in this process and its workers: what nodes are told, what they keep, and what becomes of failures."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from auxo.flower.engine import InProcessGrid
from auxo.flower.engine.nodes import FIRST_NODE, SimulatedNodes, partitions

WORKERS = pytest.mark.parametrize("workers", [1, 2])


def counting_app() -> ClientApp:
    """Each node adds its partition to the model, counts its visits in its state, and obeys what its config says."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        order = message.content.config_records.get("config", ConfigRecord()).get("order")
        if order == "raise":
            raise ZeroDivisionError("as asked")
        if order == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if order == "sleep":
            time.sleep(0.3)
        visits = context.state.config_records.get("visits", ConfigRecord({"count": 0}))
        count = visits["count"] = int(str(visits["count"])) + 1
        if order != "forget":
            context.state["visits"] = visits
        arrays = message.content["arrays"]
        assert isinstance(arrays, ArrayRecord)
        weights = arrays.pop("weights").numpy() + float(str(context.node_config["partition-id"]))
        metrics = MetricRecord({"num-examples": 1, "visits": count, "pid": os.getpid()})
        content = RecordDict({"arrays": ArrayRecord({"weights": Array(weights)}), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


@contextmanager
def grid_of(nodes: int, workers: int) -> Iterator[InProcessGrid]:
    with InProcessGrid(SimulatedNodes(counting_app(), nodes, partitions(nodes), {}), workers) as grid:
        yield grid


MODEL = ArrayRecord({"weights": Array(np.arange(3.0))})


def messages(nodes: list[int], order: str = "") -> list[Message]:
    """Return messages that share one content, as Flower's strategies make them."""
    shared = RecordDict({"arrays": MODEL, "config": ConfigRecord({"order": order})})
    return [Message(shared, node, "train") for node in nodes]


def metric(reply: Message, name: str) -> float:
    value = reply.content.metric_records["metrics"][name]
    assert isinstance(value, int | float)
    return value


def weights(reply: Message) -> list[float]:
    return list(reply.content.array_records["arrays"]["weights"].numpy())


@WORKERS
def test_every_node_trains_its_own_copy_and_replies_come_in_the_order_of_the_messages(workers: int) -> None:
    with grid_of(20, workers) as grid:
        nodes = list(grid.get_node_ids())[::-1]
        replies = list(grid.send_and_receive(messages(nodes)))
    assert [reply.metadata.src_node_id for reply in replies] == nodes
    assert [weights(reply) for reply in replies] == [[n - FIRST_NODE + k for k in range(3)] for n in nodes]
    assert list(MODEL) == ["weights"]


@WORKERS
def test_nodes_keep_their_state_and_two_messages_at_once_lose_nothing_of_it(workers: int) -> None:
    with grid_of(3, workers) as grid:
        nodes = list(grid.get_node_ids())
        replies = list(grid.send_and_receive(messages(nodes * 4)))
        later = list(grid.send_and_receive(messages(nodes)))
    visits = {node: [metric(r, "visits") for r in replies if r.metadata.src_node_id == node] for node in nodes}
    assert visits == {node: [1, 2, 3, 4] for node in nodes}
    assert [metric(reply, "visits") for reply in later] == [5, 5, 5]


@WORKERS
def test_a_node_whose_app_raises_replies_with_an_error_and_keeps_its_state(workers: int) -> None:
    with grid_of(4, workers) as grid:
        nodes = list(grid.get_node_ids())
        list(grid.send_and_receive(messages(nodes)))
        (failure,) = grid.send_and_receive(messages(nodes[:1], "raise"))
        after = list(grid.send_and_receive(messages(nodes)))
    assert failure.error.code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION
    assert "as asked" in str(failure.error.reason)
    assert [metric(reply, "visits") for reply in after] == [2, 2, 2, 2]


@WORKERS
def test_an_app_that_returns_no_message_replies_with_an_error_that_says_so(workers: int) -> None:
    def forgetful(message: Message, context: Context) -> Message:
        return None  # type: ignore[return-value]

    with InProcessGrid(SimulatedNodes(forgetful, 2, partitions(2), {}), workers) as grid:
        replies = list(grid.send_and_receive([Message(RecordDict(), node, "train") for node in grid.get_node_ids()]))
    assert [reply.error.reason for reply in replies] == [
        "<class 'TypeError'>:<'expected the ClientApp to return a Message, got NoneType'>"
    ] * 2


def test_work_is_shared_among_workers_and_none_is_this_process() -> None:
    with grid_of(40, 2) as grid:
        replies = list(grid.send_and_receive(messages(list(grid.get_node_ids()), "forget")))
    pids = {metric(reply, "pid") for reply in replies}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_two_workers_give_the_bits_of_one() -> None:
    found = []
    for workers in (1, 2):
        with grid_of(30, workers) as grid:
            found.append(
                [
                    r.content.array_records["arrays"]["weights"].data
                    for r in grid.send_and_receive(messages(list(grid.get_node_ids())))
                ]
            )
    assert found[0] == found[1]


def test_a_worker_that_dies_costs_its_message_and_the_others_are_answered() -> None:
    with grid_of(12, 2) as grid:
        nodes = list(grid.get_node_ids())
        list(grid.send_and_receive(messages(nodes)))
        pushed = [*messages(nodes[:1], "die"), *messages(nodes[1:])]
        replies = {r.metadata.src_node_id: r for r in grid.send_and_receive(pushed)}
        again = list(grid.send_and_receive(messages(nodes)))
    assert set(replies) == set(nodes)
    failed = {node for node, reply in replies.items() if reply.has_error()}
    assert nodes[0] in failed
    # Whoever was served by the same worker just before may have lost its answer with it, nobody else.
    assert len(failed) <= 2
    assert {reply.error.code for reply in replies.values() if reply.has_error()} == {ErrorCode.CLIENT_APP_CRASHED}
    assert not any(reply.has_error() for reply in again)


@WORKERS
def test_nodes_that_are_not_there_are_not_listed_and_answer_with_an_error(workers: int) -> None:
    with grid_of(4, workers) as grid:
        gone = FIRST_NODE + 2
        grid.absent.add(gone)
        assert gone not in grid.get_node_ids()
        assert len(list(grid.get_nodes())) == 3
        replies = list(grid.send_and_receive(messages([FIRST_NODE, gone, 7])))
    assert [reply.has_error() for reply in replies] == [False, True, True]
    assert {reply.error.code for reply in replies[1:]} == {ErrorCode.NODE_UNAVAILABLE}


def test_what_comes_after_the_timeout_is_pulled_later() -> None:
    with grid_of(2, 2) as grid:
        nodes = list(grid.get_node_ids())
        ids = list(grid.push_messages(messages(nodes, "sleep")))
        assert not list(grid.pull_messages(ids))
        assert not list(grid.send_and_receive([], timeout=0.01))
        found: list[Message] = []
        until = time.monotonic() + 20
        while len(found) < 2 and time.monotonic() < until:
            found += grid.pull_messages(ids)
    assert sorted(reply.metadata.reply_to_message_id for reply in found) == sorted(ids)


def test_a_model_that_a_strategy_changes_in_place_is_sent_anew() -> None:
    model = ArrayRecord({"weights": Array(np.zeros(2))})
    with grid_of(2, 2) as grid:
        nodes, seen = list(grid.get_node_ids()), []
        for turn in range(40):  # more than a worker remembers
            model["weights"] = Array(np.full(2, float(turn)))
            content = RecordDict({"arrays": model})
            seen.append([weights(r)[0] for r in grid.send_and_receive([Message(content, n, "train") for n in nodes])])
    assert seen == [[turn, turn + 1.0] for turn in range(40)]


def test_no_worker_is_left_when_the_grid_is_closed() -> None:
    with grid_of(4, 2) as grid:
        replies = list(grid.send_and_receive(messages(list(grid.get_node_ids()), "forget")))
    for pid in {int(metric(reply, "pid")) for reply in replies}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_grid_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"):
        InProcessGrid(SimulatedNodes(ClientApp(), 1, partitions(1), {}), 0)

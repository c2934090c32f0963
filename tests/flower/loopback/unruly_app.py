"""The client app of test_unruly_nodes.py: the example's own, whose replies one does to as a file of orders says.

The test puts it beside the example's package, so that SuperNodes get it as part of the app. Orders are what becomes of
the node's next replies to train messages, first to last; what was done, and in which round, is written beside them.
"""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from opposites.client_app import app as example

from auxo.core.asking import Answer
from auxo.core.types import CohortId
from auxo.flower import AuxoClientApp
from auxo.flower.wire import ANSWER, CHECK_IN, NO_UPDATE
from auxo.protocol.codec import to_parts
from auxo.protocol.messages import AffinityRequest, CheckIn, TaskResult

SLOW_S = 60.0


class Unruly(AuxoClientApp):
    """An app that does as it is told."""

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer as the example does, then do to the reply what the orders say."""
        is_training = message.metadata.message_type == "train"
        number = int(str(message.content.config_records["config"]["server-round"])) if is_training else 0
        reply = example(message, context)
        folder = Path(str(context.node_config["orders"]))
        orders = folder / "orders.json"
        todo = json.loads(orders.read_text()) if orders.exists() else []
        kept = folder / "first-reply"
        if is_training and not kept.exists():
            kept.write_bytes(message_to_proto(reply).SerializeToString())
        if not is_training or not todo:
            return reply
        order, *rest = todo
        orders.write_text(json.dumps(rest))
        with (folder / "done.jsonl").open("a") as done:
            done.write(json.dumps([number, order]) + "\n")
        if order == "raise":
            raise RuntimeError("this node fails openly")
        return obeyed(order, reply, number, kept)


def obeyed(order: str, reply: Message, number: int, kept: Path) -> Message:
    """Return what is sent in place of a reply."""
    arrays = {name: array.numpy() for name, array in reply.content.array_records["arrays"].items()}
    first = next(iter(arrays))
    changes = {
        "NaN": {**arrays, first: arrays[first] * np.nan},
        "infinity": {**arrays, first: arrays[first] + np.inf},
        "another shape": {**arrays, first: np.zeros((3, 3), np.float32)},
        "broadcast": {**arrays, first: np.zeros((1,), np.float32)},
        "another key": {f"{name}-more": values for name, values in arrays.items()},
        "a hundred times": {name: 100 * values for name, values in arrays.items()},
    }
    if order in changes:
        reply.content["arrays"] = ArrayRecord({name: Array(np.asarray(v)) for name, v in changes[order].items()})
    if order in ("a trillion examples", "no examples"):
        reply.content["metrics"] = MetricRecord({"num-examples": 10**12 if order.startswith("a") else 0})
    if order in ("another cohort", "another round", "an old update"):
        cohort = "0.7" if order == "another cohort" else "0"
        if order == "an old update":
            reply.content = message_from_proto(ProtoMessage.FromString(kept.read_bytes())).content
        said = {"another round": number + 1000, "an old update": 1}.get(order, number)
        wrong = TaskResult(0, CohortId(cohort), said, Answer(NO_UPDATE, 0))
        reply.metadata.group_id = f"{reply.metadata.group_id.partition(ANSWER)[0]}{ANSWER}{to_parts(wrong)[0]}"
    if order in ("nowhere", "ten thousand deep", "no cluster", "no text"):
        _, mark, answer = reply.metadata.group_id.partition(ANSWER)
        reply.metadata.group_id = f"{_request(order)}{mark}{answer}"
    if order == "the first reply again":
        return message_from_proto(ProtoMessage.FromString(kept.read_bytes()))
    if order == "another name":
        reply.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id + 1
    if order == "slow":
        time.sleep(SLOW_S)
    return reply


def _request(order: str) -> str:
    if order == "no text":
        return f"{CHECK_IN}{{{{"
    cohort, cluster = {"nowhere": ("0.9.9", 0), "ten thousand deep": ("0" + ".1" * 10_000, 0)}.get(order, ("0", 10**9))
    request = AffinityRequest(CohortId(cohort), 1.0, cluster, 1, True, 5)
    return f"{CHECK_IN}{to_parts(CheckIn(0, request, 3))[0]}"


app = Unruly(halves=True)

"""What wrapping a Flower strategy costs the server: CPU time a round, with and without Auxo, round by round by turns.

    python benchmarks/flower_overhead.py --json build/flower_overhead.json
    python benchmarks/bench_tables.py build/flower_overhead.json docs/flower.md

The server is as it is in a deployment: Flower's own grid (`HttpGrid`), over TLS, which sends and fetches every object
of every message and reply in a request of its own. At the other end is another process, which keeps objects as a
SuperLink does and answers in the nodes' stead; its time is not counted. Replies are the model with noise. So what is
measured is all that the process of a ServerApp does: configure, serialise, encrypt, send, receive, check, fingerprint,
aggregate, cluster. ``--plain`` leaves out grid and TLS: messages are serialised, and nothing else.

Nodes answer at once, so that there is nothing to wait for. With ``--answer-after 8`` they take eight seconds, and a
round has all looks for replies that its server makes in the meantime, as in a live federation.

The overhead of a measurement is the median, over its rounds, of a round with Auxo over the round without it just
before; of several, their median is told, and their range. What is in the file of figures and not measured now stays.
"""

import argparse
import gc
import json
import logging
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.proto import message_pb2, runtime_pb2
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, Strategy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.core.rng import stream
from auxo.flower import AuxoClientApp, AuxoStrategy

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "federation"))

from loopback.keys import Certificates, make_certificates

MODELS = {
    "MLP 784-64-10": [(64, 784), (64,), (10, 64), (10,)],
    "CNN, 0.6 M": [(32, 1, 3, 3), (32,), (64, 32, 3, 3), (64,), (64, 9216), (64,), (10, 64), (10,)],
    "60 tensors, 1 M": [(128, 128), (128,)] * 30 + [(512, 1024)],
}
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "FedAvg": lambda: FedAvg(fraction_evaluate=0.0),
    "FedAdam": lambda: FedAdam(fraction_evaluate=0.0),
    "FedMedian": lambda: FedMedian(fraction_evaluate=0.0),
}

PHASES = {
    # Nobody has anything to say to anybody.
    "pools": Auxo(clustering=ClusteringSettings(pool_rounds=10**6, pool_most=10**6)),
    # A partition is on trial from the second round on, and nobody ever gains: everybody judges models besides.
    "tries": Auxo(
        clustering=ClusteringSettings(clusters=2, pool_rounds=1), trial=TrialSettings(min_gain=0.0, most_rounds=10**6)
    ),
}


class Nodes:
    """All nodes, in one place: what they remember, and the app that they run."""

    def __init__(self, with_auxo: bool, count: int) -> None:
        self._app = filled(AuxoClientApp() if with_auxo else ClientApp())
        self.contexts = {100 + n: Context(1, 100 + n, {"partition-id": n}, RecordDict(), {}) for n in range(count)}

    def answered(self, message: Message) -> Message:
        """Return the reply of the node that a message is for."""
        return self._app(message, self.contexts[message.metadata.dst_node_id])


class StandIn:
    """Stands for a SuperLink and its SuperNodes: keeps the objects of messages, and answers when it is asked to."""

    def __init__(self, nodes: Nodes, answer_after_s: float) -> None:
        self.nodes, self._answer_after_s = nodes, answer_after_s
        self._pushed_s = 0.0
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def answer(self, path: str, body: bytes) -> bytes:
        """Return the response to a request, by Flower's protocol."""
        return bytes(self._answer(path, body).SerializeToString())

    def _answer(self, path: str, body: bytes) -> Any:  # whichever of protobuf's messages it is
        match path.rpartition("/")[2]:
            case "get-nodes":
                return runtime_pb2.GetNodesResponse(nodes=[NodeInfo(node_id=one) for one in self.nodes.contexts])
            case "push-messages":
                return self._pushed(runtime_pb2.PushAppMessagesRequest.FromString(body))
            case "push-object":
                pushed = message_pb2.PushObjectRequest.FromString(body)
                with self._lock:
                    self._objects[pushed.object_id] = pushed.object_content
                return message_pb2.PushObjectResponse(stored=True)
            case "pull-messages":
                return self._pulled(runtime_pb2.PullAppMessagesRequest.FromString(body))
            case "pull-object":
                content = self._objects[message_pb2.PullObjectRequest.FromString(body).object_id]
                return message_pb2.PullObjectResponse(object_found=True, object_available=True, object_content=content)
            case "confirm-message-received":
                return message_pb2.ConfirmMessageReceivedResponse()
            case other:
                raise ValueError(f"path: expected one that a grid uses, got {other}")

    def _pushed(self, request: runtime_pb2.PushAppMessagesRequest) -> runtime_pb2.PushAppMessagesResponse:
        self._objects.clear()  # of the round before
        self._pushed_s = time.monotonic()
        wanted = {name for tree in request.message_object_trees for name in _names(tree)}
        return runtime_pb2.PushAppMessagesResponse(
            message_ids=[tree.object_id for tree in request.message_object_trees],
            objects_to_push=sorted(wanted),
            session_id="1",
        )

    def _pulled(self, request: runtime_pb2.PullAppMessagesRequest) -> runtime_pb2.PullAppMessagesResponse:
        replies, trees = [], []
        if time.monotonic() < self._pushed_s + self._answer_after_s:
            return runtime_pb2.PullAppMessagesResponse()
        with no_object_id_recompute():
            for name in request.message_ids:
                message = inflate_object_from_contents(name, self._objects, keep_object_contents=True)
                assert isinstance(message, Message)  # noqa: S101 - it was one
                message.metadata.__dict__["_message_id"] = name
                message.content = RecordDict(dict(message.content))
                reply = self.nodes.answered(message)
                reply.metadata.__dict__["_message_id"] = reply.object_id
                contents = {key: one.deflate() for key, one in get_all_nested_objects(reply).items()}
                self._objects.update(contents)
                trees.append(get_object_tree(reply))
                replies.append(message_to_proto(remove_content_from_message(reply)))
        return runtime_pb2.PullAppMessagesResponse(messages_list=replies, message_object_trees=trees)


def _names(tree: message_pb2.ObjectTree) -> Iterator[str]:
    yield tree.object_id
    for child in tree.children:
        yield from _names(child)


def _serve(port: Connection, certificates: Certificates, nodes: Nodes, answer_after_s: float) -> None:
    """Answer requests for as long as the process lives."""
    stand_in = StandIn(nodes, answer_after_s)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = stand_in.answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port.send(server.server_address[1])
    server.serve_forever()


class EagerGrid(HttpGrid):
    """Flower's grid, to nodes that answer at once, so that nobody need wait before looking for replies."""

    pull_interval = 0.001


@contextmanager
def over_tls(nodes: Nodes, answer_after_s: float) -> Iterator[Grid]:
    """Lend a grid, as a ServerApp has it, to nodes in another process."""
    here, there = Pipe()
    with tempfile.TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        process = Process(target=_serve, args=(there, certificates, nodes, answer_after_s), daemon=True)
        process.start()
        grid = (HttpGrid if answer_after_s else EagerGrid)(
            f"127.0.0.1:{here.recv()}",
            root_certificates=certificates.authority.read_bytes(),
            token="none",  # noqa: S106 - nobody looks at it
        )
        grid.set_run(Run.create_empty(1))
        try:
            yield grid
        finally:
            grid.close()
            process.terminate()
            process.join()


class PlainGrid(Grid):
    """Nodes in this process, behind Flower's serialisation; counts the time that is not the server's."""

    pull_interval = 0.001

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._waiting: dict[str, Message] = {}
        self.nodes_s = 0.0

    def set_run(self, run: Run) -> None:
        """Nothing to do."""

    @property
    def run(self) -> Run:
        """Return a run."""
        return Run.create_empty(1)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """Return the nodes."""
        return list(self._nodes.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Serialise messages as a grid over HTTP does: an object that several share is written once."""
        names = []
        pushed: set[str] = set()
        with no_object_id_recompute():
            for message in messages:
                name = message.object_id
                message.metadata.__dict__["_message_id"] = name
                for key, one in get_all_nested_objects(message).items():
                    if key not in pushed:
                        pushed.add(key)
                        one.deflate()
                self._waiting[name] = message
                names.append(name)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Let nodes answer, and read their replies from bytes."""
        replies = []
        for name in message_ids:
            message = self._waiting.pop(name, None)
            if message is None:
                continue
            began = time.process_time()
            message.content = RecordDict(dict(message.content))
            reply = self._nodes.answered(message)
            with no_object_id_recompute():
                contents = {key: one.deflate() for key, one in get_all_nested_objects(reply).items()}
                root = reply.object_id
            self.nodes_s += time.process_time() - began
            again = inflate_object_from_contents(root, contents)
            assert isinstance(again, Message)  # noqa: S101 - it was one
            replies.append(again)
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Push, then pull."""
        return self.pull_messages(self.push_messages(messages))


@contextmanager
def plain(nodes: Nodes, answer_after_s: float) -> Iterator[Grid]:
    """Lend a grid to nodes in this process."""
    yield PlainGrid(nodes)


def initial(shapes: list[tuple[int, ...]]) -> ArrayRecord:
    """Return a model."""
    rng = stream(0, "model")
    return ArrayRecord({f"p{n}": Array(rng.normal(size=s).astype(np.float32)) for n, s in enumerate(shapes)})


def filled(app: ClientApp) -> ClientApp:
    """Give an app functions that take no time worth mentioning."""
    rng = stream(0, "updates")

    @app.train()
    def train(message: Message, context: Context) -> Message:
        sent = message.content.array_records["arrays"]
        arrays = {}
        for name, array in sent.items():
            values = array.numpy()
            arrays[name] = Array(values + np.float32(0.01) * rng.standard_normal(values.shape, dtype=np.float32))
        metrics = MetricRecord({"train_loss": 1.0, "num-examples": 20})
        return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"eval_loss": 1.0, "num-examples": 20})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


class Turns:
    """Lets runs train round by round by turns, and counts the CPU time of each one's rounds.

    All are in one process, each in a thread of its own, of which one works at a time: what else goes on on the machine
    happens to all of them alike.
    """

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._turn = 0
        self._changed = threading.Condition()
        self.times: dict[str, list[float]] = {name: [] for name in names}

    def run(self, name: str, strategy: Strategy, grid: Grid, arrays: ArrayRecord, rounds: int) -> None:
        """Run a strategy, by turns with the others."""
        marks: list[float] = []

        def now() -> float:
            return time.process_time() - (grid.nodes_s if isinstance(grid, PlainGrid) else 0.0)

        def between_rounds(number: int, arrays: ArrayRecord) -> MetricRecord | None:
            if number:
                self.times[name].append(now() - marks.pop())
            with self._changed:
                if number:
                    self._turn += 1
                    self._changed.notify_all()
                if number < rounds:
                    self._changed.wait_for(lambda: self._names[self._turn % len(self._names)] == name)
            marks.append(now())
            return None

        strategy.start(grid, arrays, num_rounds=rounds, evaluate_fn=between_rounds)


def round_times(
    strategies: dict[str, Strategy], shapes: list[tuple[int, ...]], chosen: argparse.Namespace
) -> dict[str, list[float]]:
    """Return the CPU seconds of each strategy's rounds, those left out in which one of them begins or ends."""
    turns, lent = Turns(list(strategies)), plain if chosen.plain else over_tls
    gc.collect()
    with ExitStack() as stack, ThreadPoolExecutor(len(strategies)) as pool:
        works = [
            pool.submit(
                turns.run,
                name,
                strategy,
                stack.enter_context(lent(Nodes(isinstance(strategy, AuxoStrategy), chosen.nodes), chosen.answer_after)),
                initial(shapes),
                chosen.rounds + 2,
            )
            for name, strategy in strategies.items()
        ]
        for work in works:
            work.result()
    return {name: times[1:-1] for name, times in turns.times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20, help="participants a round")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of one measurement, between a first and a last")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each, by turns")
    parser.add_argument("--models", default=";".join(MODELS), help="which models, by name, with semicolons between")
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="which strategies, by name")
    parser.add_argument("--answer-after", type=float, default=0.0, help="seconds that nodes take; not with --plain")
    parser.add_argument("--plain", action="store_true", help="serialise only: no grid, no requests, no TLS")
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    if chosen.plain and chosen.answer_after:
        parser.error("--answer-after: expected without --plain, which has no grid to look at")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    logging.disable(logging.WARNING)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    rows = measured(chosen)
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        before = json.loads(chosen.json.read_text())["flower_overhead"] if chosen.json.exists() else []
        new = {(row["model"], row["strategy"]) for row in rows}
        kept = [row for row in before if (row["model"], row["strategy"]) not in new]
        chosen.json.write_text(json.dumps({"flower_overhead": [*kept, *rows]}, indent=1) + "\n", encoding="utf-8")


def measured(chosen: argparse.Namespace) -> list[dict[str, object]]:
    """Return a row for each model, strategy and phase."""
    rows: list[dict[str, object]] = []
    for model in chosen.models.split(";"):
        for name in chosen.strategies.split(","):
            rows += _of_strategy(model, name, chosen)
    return rows


def _of_strategy(model: str, name: str, chosen: argparse.Namespace) -> list[dict[str, object]]:
    make, base_s, overheads = STRATEGIES[name], list[float](), {phase: list[float]() for phase in PHASES}
    for _ in range(chosen.repeats):
        wrapped = {
            phase: AuxoStrategy(make, participants=chosen.nodes, method=method) for phase, method in PHASES.items()
        }
        times = round_times({"base": make(), **wrapped}, MODELS[model], chosen)
        base_s += times["base"]
        for phase, found in overheads.items():
            found.append(
                statistics.median(auxo / base - 1 for auxo, base in zip(times[phase], times["base"], strict=True))
            )
    for phase, found in overheads.items():
        print(
            f"{model:16} {name:10} {phase:9} {1e3 * statistics.median(base_s):8.1f} ms "
            f"{100 * statistics.median(found):+6.1f} %   ({100 * min(found):+.1f} to {100 * max(found):+.1f} %)",
            flush=True,
        )
    return [
        {
            "model": model,
            "strategy": name,
            "phase": phase,
            "nodes": chosen.nodes,
            "rounds": chosen.rounds,
            "base_s": statistics.median(base_s),
            "overheads": found,
            **({"answer_after_s": chosen.answer_after} if chosen.answer_after else {}),
        }
        for phase, found in overheads.items()
    ]


if __name__ == "__main__":
    main()

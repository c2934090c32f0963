"""What wrapping a Flower strategy costs the server: CPU time a round, with and without Auxo, by turns in one process.

    python benchmarks/flower_overhead.py --json build/flower_overhead.json

The server is as it is in a deployment: Flower's own grid (`HttpGrid`), over TLS, which sends and fetches every object
of every message and reply in a request of its own. At the other end is another process, which keeps objects as a
SuperLink does and answers in the nodes' stead; its time is not counted. Replies are the model with noise. So what is
measured is all that the process of a ServerApp does: configure, serialise, encrypt, send, receive, check, fingerprint,
aggregate, cluster. ``--plain`` leaves out grid and TLS: messages are serialised, and nothing else.
"""

import argparse
import gc
import json
import logging
import ssl
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

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

from auxo.algorithms.auxo import Auxo
from auxo.core.clustering import ClusteringSettings
from auxo.core.rng import stream
from auxo.core.trial import TrialSettings
from auxo.flower import AuxoClientApp, AuxoStrategy
from auxo.flower.loopback.keys import Certificates, make_certificates

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
    # Before there are clusters nobody has anything to say to anybody.
    "pools": Auxo(cross_fit_share=1.0),
    # Clusters are there from the first round on and no trial begins: every message and every reply carries affinity.
    "follows": Auxo(
        cross_fit_share=1.0,
        clustering=ClusteringSettings(clusters=8, pool_rounds=1, pool_per_cluster=1),
        trial=TrialSettings(looks_from=10, waits_for=1.0, patience=10**6),
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

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def answer(self, path: str, body: bytes) -> bytes:
        """Return the response to a request, by Flower's protocol."""
        match path.rpartition("/")[2]:
            case "get-nodes":
                nodes = [NodeInfo(node_id=number) for number in self.nodes.contexts]
                return runtime_pb2.GetNodesResponse(nodes=nodes).SerializeToString()
            case "push-messages":
                return self._pushed(runtime_pb2.PushAppMessagesRequest.FromString(body)).SerializeToString()
            case "push-object":
                pushed = message_pb2.PushObjectRequest.FromString(body)
                with self._lock:
                    self._objects[pushed.object_id] = pushed.object_content
                return message_pb2.PushObjectResponse(stored=True).SerializeToString()
            case "pull-messages":
                return self._pulled(runtime_pb2.PullAppMessagesRequest.FromString(body)).SerializeToString()
            case "pull-object":
                content = self._objects[message_pb2.PullObjectRequest.FromString(body).object_id]
                return message_pb2.PullObjectResponse(
                    object_found=True, object_available=True, object_content=content
                ).SerializeToString()
            case "confirm-message-received":
                return message_pb2.ConfirmMessageReceivedResponse().SerializeToString()
            case other:
                raise ValueError(f"path: expected one that a grid uses, got {other}")

    def _pushed(self, request: runtime_pb2.PushAppMessagesRequest) -> runtime_pb2.PushAppMessagesResponse:
        self._objects.clear()  # of the round before
        wanted = {name for tree in request.message_object_trees for name in _names(tree)}
        return runtime_pb2.PushAppMessagesResponse(
            message_ids=[tree.object_id for tree in request.message_object_trees],
            objects_to_push=sorted(wanted),
            session_id="1",
        )

    def _pulled(self, request: runtime_pb2.PullAppMessagesRequest) -> runtime_pb2.PullAppMessagesResponse:
        replies, trees = [], []
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


def _serve(orders: Connection, certificates: Certificates) -> None:
    """Answer requests for as long as the process lives; an order over the pipe is for other nodes."""
    stand_in: list[StandIn] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = stand_in[0].answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
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
    threading.Thread(target=server.serve_forever, daemon=True).start()
    orders.send(server.server_address[1])
    while True:
        with_auxo, count = orders.recv()
        stand_in[:] = [StandIn(Nodes(with_auxo, count))]
        orders.send(True)


MakeGrid = Callable[[bool], Grid]  # with Auxo's client half or without -> a grid with new nodes


@contextmanager
def over_tls(count: int) -> Iterator[MakeGrid]:
    """Lend what makes grids, as a ServerApp has them, to another process."""
    here, there = Pipe()
    with tempfile.TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        process = Process(target=_serve, args=(there, certificates), daemon=True)
        process.start()
        try:
            address = f"127.0.0.1:{here.recv()}"

            def made(with_auxo: bool) -> Grid:
                here.send((with_auxo, count))
                here.recv()
                grid = HttpGrid(address, root_certificates=certificates.authority.read_bytes(), token="none")  # noqa: S106 - nobody looks at it
                grid.set_run(Run.create_empty(1))
                return grid

            yield made
        finally:
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
def plain(count: int) -> Iterator[MakeGrid]:
    """Lend what makes grids of this process."""
    yield lambda with_auxo: PlainGrid(Nodes(with_auxo, count))


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


def round_times(strategy: Strategy, grid: Grid, shapes: list[tuple[int, ...]], rounds: int) -> list[float]:
    """Return the server's CPU seconds of each round but the first, in which what is needed is made and imported."""
    marks: list[float] = []

    def after_round(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        marks.append(time.process_time() - getattr(grid, "nodes_s", 0.0))
        return None

    arrays = initial(shapes)
    gc.collect()
    strategy.start(grid, arrays, num_rounds=rounds + 1, evaluate_fn=after_round)
    if isinstance(grid, HttpGrid):
        grid.close()
    return np.diff(marks)[1:].tolist()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20, help="participants a round")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of one measurement, after a first one")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each, by turns")
    parser.add_argument("--models", default=";".join(MODELS), help="which models, by name, with semicolons between")
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="which strategies, by name")
    parser.add_argument("--plain", action="store_true", help="serialise only: no grid, no requests, no TLS")
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    logging.disable(logging.WARNING)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    with plain(chosen.nodes) if chosen.plain else over_tls(chosen.nodes) as made:
        rows = measured(chosen, made)
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps({"nodes": chosen.nodes, "rounds": chosen.rounds, "rows": rows}, indent=2))


def measured(chosen: argparse.Namespace, made: MakeGrid) -> list[dict[str, str | float]]:
    """Return a row for each model and strategy."""
    rows: list[dict[str, str | float]] = []
    for model in chosen.models.split(";"):
        for name in chosen.strategies.split(","):
            make, shapes = STRATEGIES[name], MODELS[model]
            times: dict[str, list[float]] = {"base": [], **{phase: [] for phase in PHASES}}
            for _ in range(chosen.repeats):
                times["base"] += round_times(make(), made(False), shapes, chosen.rounds)
                for phase, method in PHASES.items():
                    inside = AuxoStrategy(make, participants=chosen.nodes, method=method)
                    times[phase] += round_times(inside, made(True), shapes, chosen.rounds)
            usual = {phase: statistics.median(found) for phase, found in times.items()}  # others use the machine, too
            for phase in PHASES:
                more = usual[phase] / usual["base"] - 1
                rows.append(
                    {
                        "model": model,
                        "strategy": name,
                        "phase": phase,
                        "base_s": usual["base"],
                        "auxo_s": usual[phase],
                        "overhead": more,
                        "least_overhead": min(times[phase]) / min(times["base"]) - 1,
                    }
                )
                print(
                    f"{model:16} {name:10} {phase:9} {1e3 * usual['base']:8.1f} ms {1e3 * usual[phase]:8.1f} ms "
                    f"{100 * more:+6.1f} %   least {100 * float(rows[-1]['least_overhead']):+6.1f} %",
                    flush=True,
                )
    return rows


if __name__ == "__main__":
    main()

"""What wrapping a Flower strategy costs the server: CPU time a round, with and without Auxo, by turns in one process.

    python benchmarks/flower_overhead.py --json build/flower_overhead.json

Nodes answer in this process, and their time is not counted. Every message and every reply goes through Flower's own
serialisation, and every object of it in a request of its own to another process on this machine, as Flower's grid over
HTTP has it, but without TLS; ``--no-http`` leaves the requests out. Replies are the model with noise, so that the time
is the server's: configure, serialise, send, receive, check, fingerprint, aggregate, cluster.
"""

import argparse
import gc
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, Strategy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from auxo.algorithms.auxo import Auxo
from auxo.core.clustering import ClusteringSettings
from auxo.core.rng import stream
from auxo.core.trial import TrialSettings
from auxo.flower import AuxoClientApp, AuxoStrategy

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


class _Sink(BaseHTTPRequestHandler):
    """Stands for a SuperLink: takes what it is sent, and gives as many bytes as it is asked for."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"x" * int(self.headers.get("X-Answer", "0"))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def _serve(port: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    port.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def superlink() -> Iterator[str]:
    """Lend the address of a process that answers requests."""
    here, there = Pipe()
    process = Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/"
    finally:
        process.terminate()
        process.join()


class WireGrid(Grid):
    """Nodes in this process, behind Flower's serialisation; counts the time that is not the server's."""

    pull_interval = 0.001

    def __init__(self, app: ClientApp, nodes: int, address: str | None) -> None:
        self._http = None if address is None else httpx.Client(base_url=address)
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.app = app
        self.contexts = {100 + n: Context(1, 100 + n, {"partition-id": n}, RecordDict(), {}) for n in range(nodes)}
        self.waiting: dict[str, Message] = {}
        self.nodes_s = 0.0

    def _exchange(self, sent: bytes, answer: int) -> None:
        if self._http is not None:
            self._http.post("/", content=sent, headers={"X-Answer": str(answer)}).raise_for_status()

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
        return list(self.contexts)

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
                        self._exchange(one.deflate(), 0)
                self.waiting[name] = message
                names.append(name)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Let nodes answer, and read their replies from bytes."""
        replies = []
        for name in message_ids:
            message = self.waiting.pop(name, None)
            if message is None:
                continue
            began = time.process_time()
            message.content = RecordDict(dict(message.content))
            reply = self.app(message, self.contexts[message.metadata.dst_node_id])
            with no_object_id_recompute():
                contents = {key: one.deflate() for key, one in get_all_nested_objects(reply).items()}
                root = reply.object_id
            self.nodes_s += time.process_time() - began
            for content in contents.values():
                self._exchange(b"", len(content))
            self._exchange(b"", 0)  # that it was received
            again = inflate_object_from_contents(root, contents)
            assert isinstance(again, Message)  # noqa: S101 - it was one
            replies.append(again)
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Push, then pull."""
        return self.pull_messages(self.push_messages(messages))


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


Made = Callable[[ClientApp], WireGrid]


def server_s(strategy: Strategy, app: ClientApp, shapes: list[tuple[int, ...]], rounds: int, made: Made) -> float:
    """Return the server's CPU seconds a round."""
    grid, arrays = made(filled(app)), initial(shapes)
    gc.collect()
    began = time.process_time()
    strategy.start(grid, arrays, num_rounds=rounds)
    return (time.process_time() - began - grid.nodes_s) / rounds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=40, help="participants a round")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of one measurement")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each, by turns")
    parser.add_argument("--models", default=";".join(MODELS), help="which models, by name, with semicolons between")
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="which strategies, by name")
    parser.add_argument("--no-http", action="store_true", help="serialise only")
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    logging.disable(logging.WARNING)
    with superlink() as address:
        rows = measured(chosen, None if chosen.no_http else address)
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps({"nodes": chosen.nodes, "rounds": chosen.rounds, "rows": rows}, indent=2))


def measured(chosen: argparse.Namespace, address: str | None) -> list[dict[str, str | float]]:
    """Return a row for each model and strategy."""

    def made(app: ClientApp) -> WireGrid:
        return WireGrid(app, chosen.nodes, address)

    rows: list[dict[str, str | float]] = []
    for model in chosen.models.split(";"):
        for name in chosen.strategies.split(","):
            make = STRATEGIES[name]
            times: dict[str, list[float]] = {"base": [], **{phase: [] for phase in PHASES}}
            for _ in range(chosen.repeats + 1):  # the first, in which much is imported, is left out
                times["base"].append(server_s(make(), ClientApp(), MODELS[model], chosen.rounds, made))
                for phase, method in PHASES.items():
                    inside = AuxoStrategy(make, participants=chosen.nodes, method=method)
                    times[phase].append(server_s(inside, AuxoClientApp(), MODELS[model], chosen.rounds, made))
            least = {phase: min(found[1:]) for phase, found in times.items()}  # others use the machine, too
            for phase in PHASES:
                more = least[phase] / least["base"] - 1
                rows.append(
                    {
                        "model": model,
                        "strategy": name,
                        "phase": phase,
                        "base_s": least["base"],
                        "auxo_s": least[phase],
                        "overhead": more,
                    }
                )
                print(
                    f"{model:16} {name:10} {phase:9} {1e3 * least['base']:8.1f} ms {1e3 * least[phase]:8.1f} ms "
                    f"{100 * more:+6.1f} %",
                    flush=True,
                )
    return rows


if __name__ == "__main__":
    main()

"""What a live service stands: ten thousand check-ins at the same moment, and clients that train through it.

    python benchmarks/service_load.py check-ins --json build/service.json
    python benchmarks/service_load.py check-ins --tls --json build/service.json
    python benchmarks/service_load.py train --clients 1000 --seconds 600 --json build/service.json
    python benchmarks/service_load.py cost --json build/service.json
    python benchmarks/bench_tables.py build/service.json docs/service.md

The service is `auxo serve` as anybody starts it, on this machine's loopback. Of check-ins every client has a connection
of its own, which is kept; all speak at the same moment, and each is timed until its own answer has come. Clients that
train speak as `auxo.connect` does, on one event loop in a process of their own, with a model of logistic regression: so
that what is measured is the service, and not their training. The cost of processes is that of the same rounds, of the
same clients, beside a `Server` and its `Client`s in one process. What is in the file and not measured now stays.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import uvloop
from numpy.typing import NDArray

from auxo.algorithms.base import OneCohort
from auxo.core.rng import stream
from auxo.core.types import ROOT, ClientId
from auxo.protocol.event_log import read_events
from auxo.protocol.events import RoundClosed
from auxo.runtime.client import Client
from auxo.runtime.server import Server
from auxo.service.client_tokens import ClientTokens, client_tokens
from auxo.service.http_server import collect_seldom
from auxo.service.pulses import COORDINATOR, Pulses

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "federation"))

from loopback.keys import Certificates, make_certificates
from service_crowd import Trainee, Work, all_check_in, connected, place_of

FEATURES, SAMPLES = 50, 40
START_S = 60.0  # that the service may take to be there
WARM = 3  # rounds before the cost of others is measured
COSTED = 10  # participants of a round whose cost is measured
PLAIN = ["--set", 'methods=["base"]', "--set", "service.overcommit=0", "--set", "service.signed=false"]
_LAST_S = 20.0  # that clients have for their last visit
CONFIG = """name = "load"
methods = ["auxo"]
[training]
rounds = 100000
participants = {participants}
[service]
model = "initial.safetensors"
directory = "service"
port = 0
window_s = 1.0
"""


@dataclass(frozen=True)
class Service:
    """A service that runs."""

    directory: Path
    address: str
    tokens: ClientTokens

    @property
    def place(self) -> tuple[str, int]:
        """Return host and port."""
        return place_of(self.address)

    def coordinator_cpu_s(self) -> float:
        """Return the processor time of the coordinator so far."""
        seen = Pulses.of(self.directory).see(COORDINATOR)
        return 0.0 if seen is None else _cpu_s(seen.pulse.pid)

    def cpu_s(self) -> float:
        """Return the processor time of all its processes so far."""
        seen = [Pulses.of(self.directory).see(path.stem) for path in (self.directory / "pulses").glob("*.json")]
        return sum(_cpu_s(one.pulse.pid) for one in seen if one is not None)

    def peak_mb(self) -> dict[str, float]:
        """Return the most memory that each process has had so far."""
        found: dict[str, float] = {}
        for path in (self.directory / "pulses").glob("*.json"):
            seen = Pulses.of(self.directory).see(path.stem)
            peak_mb = None if seen is None else _peak_mb(seen.pulse.pid)
            if seen is not None and peak_mb is not None:
                found[seen.pulse.who] = peak_mb
        return found


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process, whatever else the machine does."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float | None:
    """Return the most memory that a process has had; None: it has ended."""
    try:
        peak = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").partition("VmHWM:")[2]
    except OSError:
        return None
    return round(int(peak.split()[0]) / 1024, 1) if peak else None


@contextmanager
def serving(
    folder: Path,
    participants: int,
    tls: Certificates | None = None,
    initial: NDArray[np.float32] | None = None,
    more: Sequence[str] = (),
) -> Iterator[Service]:
    """Start a service, and end it."""
    weights = np.zeros(FEATURES, dtype=np.float32) if initial is None else initial
    (folder / "initial.safetensors").write_bytes(safetensors.numpy.save({"weights": weights}))
    files = "" if tls is None else f'certificate = "{tls.certificate}"\nkey = "{tls.key}"\n'
    (folder / "load.toml").write_text(CONFIG.format(participants=participants) + files, encoding="utf-8")
    with (folder / "serve.log").open("wb") as log:
        words = [sys.executable, "-m", "auxo", "serve", str(folder / "load.toml"), *more]
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - our own command
        try:
            yield _started(folder / "service", process)
        finally:
            process.terminate()
            process.wait(60)


def _started(directory: Path, process: "subprocess.Popen[bytes]") -> Service:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        seen = Pulses.of(directory).see("0") if (directory / "pulses").exists() else None
        if seen is not None and Pulses.of(directory).see(COORDINATOR) is not None:
            address = (directory / "address").read_text(encoding="utf-8")
            return Service(directory, address, client_tokens(directory))
        time.sleep(0.1)
    log = (directory.parent / "serve.log").read_text(encoding="utf-8")
    raise SystemExit(f"the service has not started within {START_S:g} s:\n{log}")


def measure_check_ins(folder: Path, clients: int, bursts: int, with_tls: bool) -> dict[str, Any]:
    """Return how long clients wait that check in at the same moment, burst by burst."""
    certificates = make_certificates(folder / "keys") if with_tls else None
    with serving(folder, 100, certificates) as service:
        collect_seldom()  # or else the crowd takes longer than the service
        context = None if certificates is None else ssl.create_default_context(cafile=certificates.authority)
        found: dict[str, Any] = uvloop.run(_bursts(service, clients, bursts, context))
        return found | {"coordinator_mb": service.peak_mb()[COORDINATOR]}


async def _bursts(service: Service, clients: int, bursts: int, tls: ssl.SSLContext | None) -> dict[str, Any]:
    names: list[ClientId] = list(range(clients))
    begun = time.perf_counter()
    speakers = await connected(service.place, names, service.tokens, tls)
    connecting_s = time.perf_counter() - begun
    rows: list[dict[str, Any]] = []
    for _ in range(bursts):
        before_s = service.coordinator_cpu_s()
        spoken = await all_check_in(speakers)
        seconds = np.array([one.seconds for one in spoken])
        statuses = Counter(one.status for one in spoken)
        p50, p99, most = np.percentile(seconds, [50, 99, 100]).tolist()
        cpu_s = service.coordinator_cpu_s() - before_s
        rows.append({"p50_s": p50, "p99_s": p99, "max_s": most, "cpu_s": cpu_s, "statuses": dict(statuses)})
        await asyncio.sleep(1)
    for one in speakers:
        if one.transport is not None:
            one.transport.close()
    return {"clients": clients, "connecting_s": connecting_s, "bursts": rows}


# Clients that train


def loss(w: NDArray[np.floating], x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Return the mean loss of samples."""
    return float(np.logaddexp(0, (1 - 2 * y) * (x @ w)).mean())


def train(w: NDArray[np.floating], x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return new weights minus old, after a few steps."""
    new = w.astype(float)
    for _ in range(5):
        new += 0.5 * x.T @ (y - 1 / (1 + np.exp(-x @ new))) / len(y)
    return np.asarray(new - w)


@dataclass(frozen=True)
class Perceptron:
    """Layers of a perceptron with tanh between them, in plain numpy; its weights are one flat array."""

    sizes: tuple[int, ...]  # of the input, of hidden layers, and of the output, which is one number

    @property
    def parameters(self) -> int:
        """Return how many weights there are."""
        return sum(one * other for one, other in pairwise(self.sizes))

    def loss(self, w: NDArray[np.floating], x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
        """Return the mean loss of samples."""
        return float(np.logaddexp(0, (1 - 2 * y) * self._outputs(self._layers(w), x)[-1][:, 0]).mean())

    def train(self, w: NDArray[np.floating], x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return new weights minus old, after a few steps of SGD."""
        new = w.copy()
        layers = self._layers(new)
        for _ in range(5):
            outputs = self._outputs(layers, x)
            error = (1 / (1 + np.exp(-outputs[-1])) - y[:, None]) / len(y)
            for place in reversed(range(len(layers))):
                gradient = outputs[place].T @ error
                error = error @ layers[place].T * (1 - outputs[place] ** 2)
                layers[place] -= 0.5 * gradient
        return np.asarray(new - w)

    def _layers(self, w: NDArray[np.floating]) -> list[NDArray[np.floating]]:
        ends = np.cumsum([one * other for one, other in pairwise(self.sizes)])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(w, ends), pairwise(self.sizes), strict=True)]

    def _outputs(self, layers: Sequence[NDArray[np.floating]], x: NDArray[np.floating]) -> list[NDArray[np.floating]]:
        found = [x.astype(np.float32)]
        for place, layer in enumerate(layers):
            made = found[-1] @ layer
            found.append(np.tanh(made) if place + 1 < len(layers) else made)
        return found

    def work(self, name: int) -> Work:
        """Return what a client of this name trains."""
        x = stream(0, "client", name).standard_normal((SAMPLES, self.sizes[0])).astype(np.float32)
        return Work(self.loss, self.train, (x, (x[:, 0] > 0).astype(np.float32)))


MODELS = {
    "logistic regression": Perceptron((FEATURES, 1)),
    "perceptron": Perceptron((784, 128, 1)),
    "large perceptron": Perceptron((784, 1024, 256, 1)),
}


def crowd(service: Service, names: Sequence[int], seconds: float, said: Connection) -> None:
    """Have clients take part for some time, and say how that went."""
    collect_seldom()
    said.send(uvloop.run(_train(service, names, seconds)))
    said.close()


async def _train(service: Service, names: Sequence[int], seconds: float) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()
    takes: list[float] = []
    trainees: list[Trainee] = []
    end = time.monotonic() + seconds
    truth = stream(0, "truth").standard_normal(FEATURES)

    async def client(name: int) -> None:
        x = stream(0, "client", name).standard_normal((SAMPLES, FEATURES))
        y = (x @ truth * (1 if name % 2 else -1) > 0).astype(float)
        trainee = Trainee(name, service.place, service.tokens.issue(name), Work(loss, train, (x, y)))
        trainees.append(trainee)
        while (begun := time.monotonic()) < end:
            try:
                outcomes[await trainee.take_part()] += 1
                takes.append(time.monotonic() - begun)
            except Exception as error:  # noqa: BLE001 - all of them are counted
                outcomes[f"error {type(error).__name__}: {error!s:.120}"] += 1
                await asyncio.sleep(1)

    running = [asyncio.create_task(client(name)) for name in names]
    await asyncio.sleep(seconds)
    done, waiting = await asyncio.wait(running, timeout=_LAST_S)
    for one in waiting:
        one.cancel()
    await asyncio.gather(*done)
    return {
        "outcomes": dict(outcomes),
        "median_visit_s": statistics.median(takes) if takes else 0.0,
        "carried_mb": sum(one.carried for one in trainees) / 1e6,
        "lost_connections": sum(one.lost for one in trainees),
        "still_waiting": len(waiting),
        "clients_mb": _peak_mb(os.getpid()),
    }


def in_one_process(model: Perceptron, initial: NDArray[np.float32], rounds: int) -> dict[str, float]:
    """Return what a participation costs where server and clients are one process."""
    server = Server(initial, participants=COSTED, rounds=WARM + rounds, method=OneCohort())
    clients = {name: Client(name) for name in range(COSTED)}
    works = {name: model.work(name) for name in clients}
    wall_s = cpu_s = 0.0
    while not server.is_over:
        if server.round(ROOT) == WARM:
            wall_s, cpu_s = time.perf_counter(), time.process_time()
        tasks = server.open_round(ROOT, [one.check_in() for one in clients.values()])
        done = [
            clients[int(task.client)].do(
                task,
                server.weights,
                works[int(task.client)].loss,
                works[int(task.client)].train,
                *works[int(task.client)].samples,
            )
            for task in tasks
        ]
        for said in server.close_round(ROOT, done):
            clients[int(said.client)].receive(said)
    return _each(time.perf_counter() - wall_s, time.process_time() - cpu_s, rounds)


def _each(wall_s: float, cpu_s: float, rounds: int) -> dict[str, float]:
    """Return milliseconds a participation."""
    return {"wall_ms": wall_s / (rounds * COSTED) * 1e3, "cpu_ms": cpu_s / (rounds * COSTED) * 1e3}


def as_processes(folder: Path, model: Perceptron, initial: NDArray[np.float32], rounds: int) -> dict[str, float]:
    """Return what a participation costs where coordinator, cohort and clients are processes that speak HTTP."""
    with serving(folder, COSTED, initial=initial, more=PLAIN) as service:

        def spent_s() -> float:
            return service.cpu_s() + time.process_time()

        uvloop.run(_rounds(service, model, WARM))
        wall_s, cpu_s = time.perf_counter(), spent_s()
        uvloop.run(_rounds(service, model, rounds))
        return _each(time.perf_counter() - wall_s, spent_s() - cpu_s, rounds)


async def _rounds(service: Service, model: Perceptron, rounds: int) -> None:
    async def client(name: int) -> None:
        trainee = Trainee(name, service.place, service.tokens.issue(name), model.work(name))
        counted = 0
        while counted < rounds:
            counted += await trainee.take_part() in {"counted", "NO_FEEDBACK"}  # the base has nothing to say

    await asyncio.gather(*(client(name) for name in range(COSTED)))


def measure_cost(folder: Path, name: str, rounds: int) -> dict[str, Any]:
    """Return what a participation costs in one process, and as processes."""
    model = MODELS[name]
    initial = (stream(0, "initial").standard_normal(model.parameters) * 0.02).astype(np.float32)
    alone, apart = in_one_process(model, initial, rounds), as_processes(folder, model, initial, rounds)
    return {"model": name, "parameters": model.parameters, "rounds": rounds, "alone": alone, "apart": apart}


def measure_training(folder: Path, clients: int, participants: int, seconds: float) -> dict[str, Any]:
    """Return how many rounds a minute there are, what they carry, and what goes wrong."""
    with serving(folder, participants) as service:
        hears, says = multiprocessing.Pipe(False)
        begun = time.monotonic()
        process = multiprocessing.get_context("spawn").Process(
            target=crowd, args=(service, range(clients), seconds, says)
        )
        process.start()
        says.close()
        seen: dict[str, Any] = hears.recv()
        minutes = (time.monotonic() - begun) / 60
        process.join()
        peaks = service.peak_mb()
        closed = [one for one in read_events(service.directory / "events.jsonl").events if isinstance(one, RoundClosed)]
    return {
        "clients": clients,
        "participants": participants,
        "minutes": minutes,
        "rounds_a_minute": len(closed) / minutes,
        "visits_a_minute": seen["outcomes"].get("counted", 0) / minutes,
        "errors": sum(count for words, count in seen["outcomes"].items() if words.startswith("error")),
        "coordinator_mb": peaks.pop(COORDINATOR),
        "largest_cohort_mb": max(peaks.values()),
        **seen,
    }


def main() -> None:
    """Measure, and write figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check-ins", "train", "cost"])
    parser.add_argument("--clients", type=int, help="how many; 10000 that check in, or 1000 that train")
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--participants", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rounds", type=int, default=30, help="rounds whose cost is measured")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]  # what else the machine does, before this begins
    if options.what == "cost":
        records = []
        for model in MODELS:
            with tempfile.TemporaryDirectory() as folder:
                records.append(measure_cost(Path(folder), model, options.rounds) | {"load": load})
        print(json.dumps(records, indent=1))
        _write(options.json, "service_cost", records)
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "train":
            name = "service_training"
            measured = measure_training(Path(folder), options.clients or 1000, options.participants, options.seconds)
        else:
            name = "service_check_ins"
            measured = measure_check_ins(Path(folder), options.clients or 10_000, options.bursts, options.tls)
    record = measured | {"tls": options.tls, "load": load}
    print(json.dumps(record, indent=1))
    held = json.loads(options.json.read_text(encoding="utf-8")) if options.json and options.json.exists() else {}
    others = [one for one in held.get(name, []) if one["tls"] != options.tls]
    _write(options.json, name, sorted([*others, record], key=lambda one: bool(one["tls"])))


def _write(path: Path | None, name: str, records: list[dict[str, Any]]) -> None:
    """Write records in the place of those of the same name; None: nowhere."""
    if path is not None:
        held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps(held | {name: records}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

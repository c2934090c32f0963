"""What a live service stands: ten thousand check-ins at the same moment, and clients that train through it.

    python benchmarks/service_load.py check-ins --json build/service.json
    python benchmarks/service_load.py check-ins --tls --json build/service.json
    python benchmarks/service_load.py train --clients 1000 --seconds 600 --json build/service.json
    python benchmarks/bench_tables.py build/service.json docs/service.md

The service is `auxo serve` as anybody starts it, on this machine's loopback. Of check-ins every client has a connection
of its own, which is kept; all speak at the same moment, and each is timed until its own answer has come. Clients that
train are `auxo.connect` in a thread each, in a process of their own, with a model of logistic regression: so that what
is measured is the service, and not their training. What is in the file of figures and not measured now stays.
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
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import uvloop
from numpy.typing import NDArray

import auxo
from auxo.core.rng import stream
from auxo.core.types import ClientId
from auxo.protocol.event_log import read_events
from auxo.protocol.events import RoundClosed
from auxo.service.client_tokens import ClientTokens, client_tokens
from auxo.service.http_server import collect_seldom
from auxo.service.link import ClientPatience
from auxo.service.pulses import COORDINATOR, Pulses

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "federation"))

from loopback.keys import Certificates, make_certificates
from service_crowd import all_check_in, connected

FEATURES, SAMPLES = 50, 40
START_S = 60.0  # that the service may take to be there
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
        host, _, port = self.address.partition("://")[2].rpartition(":")
        return host, int(port)

    def coordinator_cpu_s(self) -> float:
        """Return the processor time of the coordinator so far."""
        seen = Pulses.of(self.directory).see(COORDINATOR)
        return 0.0 if seen is None else _cpu_s(seen.pulse.pid)

    def peak_mb(self) -> dict[str, float]:
        """Return the most memory that each process has had so far."""
        found: dict[str, float] = {}
        for path in (self.directory / "pulses").glob("*.json"):
            seen = Pulses.of(self.directory).see(path.stem)
            if seen is not None:
                found[seen.pulse.who] = _peak_mb(seen.pulse.pid)
        return found


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process, whatever else the machine does."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return round(int(status.partition("VmHWM:")[2].split()[0]) / 1024, 1)


@contextmanager
def serving(folder: Path, participants: int, tls: Certificates | None = None) -> Iterator[Service]:
    """Start a service, and end it."""
    weights = np.zeros(FEATURES, dtype=np.float32)
    (folder / "initial.safetensors").write_bytes(safetensors.numpy.save({"weights": weights}))
    files = "" if tls is None else f'certificate = "{tls.certificate}"\nkey = "{tls.key}"\n'
    (folder / "load.toml").write_text(CONFIG.format(participants=participants) + files, encoding="utf-8")
    with (folder / "serve.log").open("wb") as log:
        words = [sys.executable, "-m", "auxo", "serve", str(folder / "load.toml")]
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


def crowd(service: Service, names: list[int], seconds: float, said: "Connection") -> None:
    """Have clients take part for some time, each in a thread, and say how that went."""
    counts: Counter[str] = Counter()
    takes: list[float] = []
    lock, end = threading.Lock(), time.monotonic() + seconds
    truth = stream(0, "truth").standard_normal(FEATURES)

    def client(name: int) -> None:
        x = stream(0, "client", name).standard_normal((SAMPLES, FEATURES))
        y = (x @ truth * (1 if name % 2 else -1) > 0).astype(float)
        patience = ClientPatience(gives_up_s=60)
        try:
            with auxo.connect(service.address, service.tokens.issue(name), patience=patience) as session:
                while time.monotonic() < end:
                    begun = time.monotonic()
                    visit = session.take_part(loss, train, x, y)
                    with lock:
                        counts["counted" if visit is not None and visit.counted else _why(visit)] += 1
                        takes.append(time.monotonic() - begun)
        except Exception as error:  # noqa: BLE001 - all of them are counted
            with lock:
                counts[f"error {type(error).__name__}: {error!s:.120}"] += 1

    threading.stack_size(512 * 1024)
    threads = [threading.Thread(target=client, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, end - time.monotonic()))
    with lock:
        said.send(
            (
                dict(counts),
                statistics.median(takes) if takes else 0.0,
                _peak_mb(multiprocessing.current_process().pid or 0),
            )
        )
    said.close()


def _why(visit: object) -> str:
    return f"not counted: {getattr(visit, 'why', 'it is over')!s:.40}"


def measure_training(folder: Path, clients: int, participants: int, seconds: float) -> dict[str, Any]:
    """Return how many rounds a minute there are, what they carry, and what goes wrong."""
    with serving(folder, participants) as service:
        hears, says = multiprocessing.Pipe(False)
        before = _bytes_on_loopback()
        begun = time.monotonic()
        process = multiprocessing.get_context("spawn").Process(
            target=crowd, args=(service, list(range(clients)), seconds, says)
        )
        process.start()
        says.close()
        counts, took_s, crowd_mb = hears.recv()
        elapsed_s = time.monotonic() - begun
        carried = _bytes_on_loopback() - before
        peaks = service.peak_mb()
        process.terminate()
        process.join()
        closed = [one for one in read_events(service.directory / "events.jsonl").events if isinstance(one, RoundClosed)]
    return {
        "clients": clients,
        "participants": participants,
        "seconds": elapsed_s,
        "rounds_a_minute": 60 * len(closed) / elapsed_s,
        "visits_a_minute": 60 * counts.get("counted", 0) / elapsed_s,
        "median_visit_s": took_s,
        "loopback_mb_a_minute": carried / 1e6 * 60 / elapsed_s,
        "errors": sum(count for words, count in counts.items() if words.startswith("error")),
        "outcomes": counts,
        "peak_mb": {
            "coordinator": peaks[COORDINATOR],
            "largest cohort": max(peaks[one] for one in peaks if one != COORDINATOR),
        },
        "clients_mb": crowd_mb,
    }


def _bytes_on_loopback() -> int:
    """Return all that this machine's loopback has carried, HTTP and TCP together."""
    line = next(one for one in Path("/proc/net/dev").read_text(encoding="utf-8").splitlines() if "lo:" in one)
    return int(line.partition(":")[2].split()[0])


def main() -> None:
    """Measure, and write figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check-ins", "train"])
    parser.add_argument("--clients", type=int, help="how many; 10000 that check in, or 1000 that train")
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--participants", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "train":
            clients = options.clients or 1000
            figures = {"train": measure_training(Path(folder), clients, options.participants, options.seconds)}
        else:
            name = "check-ins over TLS" if options.tls else "check-ins"
            clients = options.clients or 10_000
            figures = {name: measure_check_ins(Path(folder), clients, options.bursts, options.tls)}
    print(json.dumps(figures, indent=1))
    if options.json is not None:
        held = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        options.json.write_text(json.dumps(held | figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

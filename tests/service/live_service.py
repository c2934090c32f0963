"""A service of real processes, with clients of plain numpy in two groups, whose parts can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import safetensors.numpy
from numpy_clients import FEATURES, Clients

from auxo.core.types import CohortId
from auxo.files.atomic_write import write_whole
from auxo.protocol.events import Event, RoundClosed, from_json
from auxo.service.client_tokens import client_tokens
from auxo.service.plan import plan_in
from auxo.service.pulses import COORDINATOR, Pulses
from auxo.service.store import Owner, Store
from tests.service.injected.sitecustomize import VARIABLE, Injected

ROOT = Path(__file__).parents[2]
# A process started in the background may have been told to ignore SIGINT.
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from auxo.cli import main; main()"
INJECTED = "injected.json"
STOPPED = 0.2  # of those that are killed otherwise
PATIENCE_S = 120.0  # for anything that must happen; machines differ
CONFIG = """
name = "faults"
methods = ["auxo"]
[training]
aggregator = "fedavg"
rounds = 100000
participants = 8
[service]
model = "initial.safetensors"
directory = "service"
port = 0
deadline_s = 10.0
window_s = 1.0
linger_s = 2.0
silent_s = 4.0
"""


@dataclass
class LiveService:
    folder: Path
    clients: Clients
    keeper: "subprocess.Popen[str]"
    store: Store = field(init=False)

    @property
    def directory(self) -> Path:
        return self.folder / "service"

    @property
    def pulses(self) -> Pulses:
        return Pulses(self.directory / "pulses")

    def wait(self, what: str, until: Callable[[], object], limit_s: float = PATIENCE_S) -> float:
        """Wait for something; return how long it took."""
        began_s = time.monotonic()
        while not until():
            if time.monotonic() - began_s > limit_s:
                log = self.directory / "service.log"
                raise AssertionError(f"waited in vain for {what}; {self.owners}: {log.read_text()[-2000:]}")
            assert self.keeper.poll() is None or until(), f"the keeper ended before {what}"
            assert not self.clients.errors, self.clients.errors
            time.sleep(0.02)
        return time.monotonic() - began_s

    @property
    def owners(self) -> dict[CohortId, Owner]:
        return dict(self.store.read(()).owners)

    @property
    def rounds(self) -> dict[CohortId, int]:
        return {cohort: owner.round for cohort, owner in self.owners.items()}

    @property
    def events(self) -> list[Event]:
        return [from_json(line) for _, line in self.store.events()]

    def pid(self, who: str) -> int:
        self.wait(f"a pulse of {who}", lambda: self.pulses.see(who))
        seen = self.pulses.see(who)
        assert seen is not None
        return seen.pulse.pid

    def state(self, who: str) -> str:
        seen = self.pulses.see(who)
        return "" if seen is None else seen.pulse.state

    def kill(self, *whom: str, number: int = signal.SIGKILL) -> None:
        for pid in [self.pid(who) for who in whom]:
            os.kill(pid, number)

    @contextmanager
    def injected(self, what: Injected) -> Iterator[None]:
        """Have something wrong with the disk or the clock of processes as long as the block lasts."""
        path = self.folder / INJECTED
        write_whole(path, json.dumps(asdict(what)).encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def trains_again(self, *cohorts: CohortId) -> float:
        """Wait until cohorts, or all of them, have closed a round from now on; return how long it took."""
        before = self.rounds
        named = cohorts or tuple(before)
        return self.wait(f"rounds of {named}", lambda: all(self.rounds[one] > before[one] for one in named))

    def storm(self, seconds: float, every_s: tuple[float, float], rng: np.random.Generator) -> Counter[str]:
        """Kill, or stop, a random process every few seconds; return which, and how often."""
        killed, ends_s = Counter[str](), time.monotonic() + seconds
        while time.monotonic() < ends_s:
            whom = [who for who in (COORDINATOR, *self.owners) if self.pulses.see(who) is not None]
            if whom:
                who = whom[rng.integers(len(whom))]
                number = signal.SIGSTOP if rng.random() < STOPPED else signal.SIGKILL
                with suppress(ProcessLookupError):  # its pulse may be older than its death
                    self.kill(who, number=number)
                    killed[f"{number.name} {who}"] += 1
            time.sleep(rng.uniform(*every_s))
        return killed

    def check_invariants(self) -> None:
        """Check what must hold whatever has happened."""
        closed = [(one.cohort, one.round) for one in self.events if isinstance(one, RoundClosed)]
        assert len(set(closed)) == len(closed), "a round was counted twice"
        for cohort in {cohort for cohort, _ in closed}:
            rounds = [number for one, number in closed if one == cohort]
            assert rounds == list(range(rounds[0], rounds[0] + len(rounds)))
        state = self.store.read().record.state
        assert set(state.cohorts) == set(state.tree.leaves)
        assert all(np.isfinite(kept.server.weights).all() for kept in state.cohorts.values())


def serve(folder: Path, more: Sequence[str] = ()) -> "subprocess.Popen[str]":
    paths = f"{ROOT / 'src'}:{Path(__file__).parent / 'injected'}"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths, VARIABLE: str(folder / INJECTED)}
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", START, "serve", str(folder / "service.toml"), *more],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def live_service(folder: Path, count: int = 10, more: Sequence[str] = ()) -> Iterator[LiveService]:
    """Bring a service up, with clients; in the end nothing of it is left."""
    (folder / "service.toml").write_text(CONFIG)
    model = safetensors.numpy.save({"weights": np.zeros(FEATURES, np.float32)})
    (folder / "initial.safetensors").write_bytes(model)
    (folder / "records").mkdir()
    live = LiveService(folder, Clients(count, folder / "records"), serve(folder, more))
    try:
        live.wait("the address", (live.directory / "address").exists)
        live.pid(COORDINATOR)
        with plan_in(live.directory).store() as store:
            live.store = store
            tokens = client_tokens(live.directory)
            address = (live.directory / "address").read_text()
            live.clients.start(address, [tokens.issue(client) for client in range(count)])
            yield live
    finally:
        live.clients.is_stopped.set()
        if live.keeper.poll() is None:
            live.keeper.send_signal(signal.SIGINT)
        live.keeper.communicate(timeout=PATIENCE_S)
        assert not processes_of(live.directory), "something was left behind"


def processes_of(directory: Path) -> list[int]:
    """Return the processes of a service that are there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(directory).encode() in words and any(word.startswith(b"auxo.service.") for word in words):
            found.append(int(path.parent.name))
    return found

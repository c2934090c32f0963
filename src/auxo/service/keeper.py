"""The keeper: the process that people see. It keeps a coordinator running, tells what happens, and ends all of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from auxo.files.directory_lock import locked_directory
from auxo.protocol.events import CohortEnded, Disturbance, Event, OwnerChanged, Partitioned, from_json
from auxo.runtime.signing_keys import SigningKeys
from auxo.service.client_tokens import client_tokens
from auxo.service.coordinator_process import ADDRESS_FILE
from auxo.service.owners import adopt_coordinator, owners_of, start_coordinator
from auxo.service.plan import ServicePlan, begin
from auxo.service.process import log_path
from auxo.service.pulses import COORDINATOR, Pulses
from auxo.service.starters import Started, Starter
from auxo.service.supervision import ProcessWatch, Restarts, WatchLimits

_TURN_S = 0.1
_END_S = 10.0  # that processes have to end by themselves; our choice

Say = Callable[[str], None]


@dataclass
class Keeper:
    """Keeps one service running; use as a context manager, which ends all its processes."""

    plan: ServicePlan
    say: Say
    _process: Started | None = None
    _watch: ProcessWatch | None = None
    _restarts: Restarts = field(default_factory=Restarts)
    _why: str = ""
    _address: str = ""
    _owners: Starter = field(init=False)
    _told: int = 0  # the last event that was told

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have the service run while the block lasts; at its end all its processes have ended.

        Raises:
            DirectoryInUse: another keeper has the directory.
            ConfigError: the service there was begun with other settings.
        """
        directory = self.plan.directory
        directory.mkdir(parents=True, exist_ok=True)
        with locked_directory(directory):
            begin(self.plan, time.time())
            client_tokens(directory)  # keys, before several processes would make one each
            if self.plan.rules.signed:
                SigningKeys.of(directory).update(self.plan.server())
            own = self.plan.service
            self._patience, self._pulses = WatchLimits(own.silent_s, own.stuck_s), Pulses.of(directory)
            with self.plan.store() as store, owners_of(self.plan, is_keeper=True) as self._owners:
                self._store = store
                self._told = max((number for number, _ in store.events()), default=0)
                self._end_orphan()
                try:
                    yield
                finally:
                    self._end_all()

    def _end_orphan(self) -> None:
        """End the coordinator of a keeper that was killed; its cohorts are adopted."""
        seen = self._pulses.see(COORDINATOR)
        if seen is not None:
            adopt_coordinator(self.plan.directory, seen.pulse.pid).kill()
        if self._pulses.are_to_end:
            self._pulses.begin_again()

    def run(self) -> None:
        """Keep it running until all cohorts have trained their rounds."""
        while not self._is_over():
            self._tell()
            time.sleep(_TURN_S)
        self._tell()

    def _is_over(self) -> bool:
        now = time.monotonic()
        if self._process is None or self._watch is None:
            if now >= self._restarts.next_s(self._patience):
                self._start(now)
            return False
        self._watch.look(self._pulses.see(COORDINATOR), now)
        why = self._process.why_ended() or self._watch.why_dead(now, self._patience)
        if why == "exit code 0":
            return True
        if why is not None:
            self.say(f"the coordinator is started again: {why} (log: {log_path(self.plan.directory)})")
            self._process.kill()
            self._process = None
        return False

    def _start(self, now: float) -> None:
        # Coordinators count themselves; the pulse of the next one is the first that is larger.
        self._pulses.forget(COORDINATOR)
        self._watch = ProcessWatch(self._store.coordinator + 1, now)  # before it is there and counts itself
        self._process = start_coordinator(self.plan.directory)
        self._restarts = self._restarts.after(now, self._patience)

    def _tell(self) -> None:
        """Tell what has happened since."""
        with suppress(OSError):
            path = self.plan.directory / ADDRESS_FILE
            address = path.read_text(encoding="utf-8")
            if address != self._address and self._pulses.see(COORDINATOR) is not None:
                self._address = address
                self.say(_how_to_connect(address, self.plan.directory))
            for number, line in self._store.events(self._told):
                self._told = number
                words = _in_words(from_json(line))
                if words is not None:
                    self.say(words)

    def _end_all(self) -> None:
        """End the coordinator first, which would start cohorts again, then these."""
        self._pulses.ask_to_end()
        seen = self._pulses.see(COORDINATOR)
        if self._process is not None:
            self._process.kill()
        elif seen is not None:
            adopt_coordinator(self.plan.directory, seen.pulse.pid).kill()
        found = [(owner.cohort, self._pulses.see(owner.cohort)) for owner in self._store.read(()).owners.values()]
        ending = [
            self._owners.adopt(cohort, seen.pulse.epoch, seen.pulse.pid) for cohort, seen in found if seen is not None
        ]
        for one in ending:
            one.ask_to_end()
        end_s = time.monotonic() + _END_S
        while any(one.why_ended() is None for one in ending) and time.monotonic() < end_s:
            time.sleep(0.02)
        for one in ending:
            one.kill()
        self._tell()


def _how_to_connect(address: str, directory: Path) -> str:
    return (
        f"serving at {address}\n"
        f"  a client's token:  auxo clients invite {directory} NAME\n"
        f'  a client:          session = auxo.connect("{address}", token); session.take_part(loss, train, x, y)\n'
        f"  how it goes:       auxo report {directory}"
    )


def _in_words(event: Event) -> str | None:
    match event:
        case Partitioned():
            return f"cohort {event.cohort} became {', '.join(event.children)} in round {event.round}"
        case OwnerChanged(reason="it is new"):
            return f"cohort {event.cohort} has a process"
        case OwnerChanged():
            return f"cohort {event.cohort} is started again from round {event.round}: {event.reason}"
        case Disturbance():
            return f"cohort {event.cohort}, round {event.round}: {event.reason}" if event.cohort else event.reason
        case CohortEnded():
            return f"cohort {event.cohort} has trained its {event.round} rounds"
        case _:
            return None

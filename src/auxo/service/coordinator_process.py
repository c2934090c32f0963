"""The process of the coordinator: ``python -m auxo.service.coordinator_process DIRECTORY``.

It answers check-ins, and sees to it that every leaf has an owner: it adopts those that are alive and starts the others.
"""

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from auxo.core.owners import Fenced
from auxo.core.types import CohortId
from auxo.files.atomic_write import write_whole
from auxo.files.directory_lock import locked_directory
from auxo.protocol.events import OwnerChanged
from auxo.runtime.server import Server
from auxo.service.client_tokens import client_tokens
from auxo.service.coordinator_desk import LiveCoordinator
from auxo.service.files_for_people import FilesForPeople
from auxo.service.http_coordinator import coordinator_app
from auxo.service.http_limits import HttpLimits
from auxo.service.owners import owners_of
from auxo.service.plan import ServicePlan, plan_in
from auxo.service.process import Beats, listen, log_to_standard_error, run_process
from auxo.service.pulses import Pulses
from auxo.service.starters import Started, Starter
from auxo.service.store import Held, Owner, Store
from auxo.service.supervision import ProcessWatch, Restarts, WatchLimits

FOLLOWED = 4
"""Exit code of a coordinator that another has followed."""

ADDRESS_FILE = "address"
_ADOPTED_S = 2.0  # in which one that is alive has given a sign of it; our choice: four beats
_LOG = logging.getLogger("auxo.service")


def run_coordinator(directory: Path) -> int:
    """Run the coordinator until all cohorts are over; return the exit code.

    Raises:
        DirectoryInUse: there is another.
    """
    log_to_standard_error("coordinator:")
    plan = plan_in(directory)
    own = directory / "coordinator"
    own.mkdir(exist_ok=True)
    with locked_directory(own), plan.store() as store, owners_of(plan) as owners:
        epoch = store.new_coordinator()
        store.sweep()
        server = plan.server()
        held = store.read(())
        desk = LiveCoordinator(server, held, epoch)
        listener = listen(plan.service.host, _ports(plan, directory))
        write_whole(directory / ADDRESS_FILE, plan.address(listener).encode())
        app = coordinator_app(desk, client_tokens(directory), HttpLimits())
        cohorts = Supervisor(plan, store, epoch, owners, Pulses.of(directory), held.begun)
        beats = Beats(Pulses.of(directory), desk.pulse)
        return run_process(app, listener, plan, beats, _Turns(desk, server, plan, store, cohorts))


def _ports(plan: ServicePlan, directory: Path) -> range:
    """Return the port that clients know: that of the configuration, or the free one that was found before."""
    port, known = plan.service.port, directory / ADDRESS_FILE
    if port == 0 and known.exists():
        said = known.read_text(encoding="utf-8").rpartition(":")[2]
        port = int(said) if said.isdecimal() else 0
    return range(port, port + 1)


@dataclass
class _Cohort:
    """An owner as its supervisor sees it."""

    process: Started | None
    watch: ProcessWatch
    is_adopted: bool = False


@dataclass
class Supervisor:
    """Has an owner for every leaf that trains."""

    plan: ServicePlan
    store: Store
    epoch: int
    starter: Starter
    pulses: Pulses
    begun: float  # when the federation began, by the clock on the wall
    clock: Callable[[], float] = time.monotonic
    starts: int = 0  # of owners so far
    _cohorts: dict[CohortId, _Cohort] = field(default_factory=dict)
    _restarts: dict[CohortId, Restarts] = field(default_factory=dict)
    _reasons: dict[CohortId, str] = field(default_factory=dict)
    _leaving: list[Started] = field(default_factory=list)  # of cohorts that are over, to be waited for

    def __post_init__(self) -> None:
        own = self.plan.service
        self._patience = WatchLimits(own.silent_s, own.stuck_s)

    @property
    def troubles(self) -> list[str]:
        """Return which cohorts have no owner now, and why."""
        return [f"cohort {one}: {why}" for one, why in self._reasons.items() if one not in self._cohorts]

    @property
    def has_left(self) -> bool:
        """Return whether no process of a cohort is there any more."""
        self._leaving = [one for one in self._leaving if one.why_ended() is None]
        return not self._cohorts and not self._leaving

    def turn(self, held: Held) -> bool:
        """Look after all owners; return whether this coordinator still is the one.

        A cohort that is over, or has become others, is left alone: its process gives feedback for a while, and ends.
        """
        now = self.clock()
        if not self.starter.is_there():
            for one in self._cohorts.values():
                one.watch.at_work.go_on(now)  # that it was silent means nothing
            return True
        training = {one: owner for one, owner in held.owners.items() if owner.round < self.plan.rules.total_rounds}
        for cohort in self._cohorts.keys() - training.keys():
            gone = self._cohorts.pop(cohort)
            self._reasons.pop(cohort, None)  # that it was started again once is no trouble any more
            if gone.process is not None:
                self._leaving.append(gone.process)
        for cohort, owner in training.items():
            known = self._cohorts.get(cohort)
            if known is None and owner.pid and cohort not in self._reasons:
                adopted = self.starter.adopt(cohort, owner.epoch, owner.pid)
                known = _Cohort(adopted, ProcessWatch(owner.epoch, now), is_adopted=True)
                self._cohorts[cohort] = known
            if known is None:
                if not self._start(owner, now):
                    return False
                continue
            known.watch.look(self.pulses.see(cohort), now)
            why = self._why_dead(known, now)
            if why is not None:
                _LOG.warning("cohort %s, epoch %d: %s", cohort, owner.epoch, why)
                if known.process is not None:
                    known.process.kill()
                del self._cohorts[cohort]
                self._reasons[cohort] = why
                if not self._start(owner, now):
                    return False
        return True

    def _why_dead(self, known: _Cohort, now: float) -> str | None:
        ended = None if known.process is None else known.process.why_ended()
        if ended is not None:
            return ended
        silent = replace(self._patience, start_s=_ADOPTED_S) if known.is_adopted else self._patience
        return known.watch.why_dead(now, silent)

    def _start(self, owner: Owner, now: float) -> bool:
        """Start an owner of a leaf if it is time; return whether that is this coordinator's to do."""
        restarts = self._restarts.get(owner.cohort, Restarts())
        if now < restarts.next_s(self._patience):
            return True
        reason = self._reasons.get(owner.cohort, "it is new")
        time_s = max(0.0, time.time() - self.begun)
        try:
            epoch = self.store.take_over(
                self.epoch, owner.cohort, lambda new: OwnerChanged(time_s, owner.cohort, owner.round, new, reason)
            )
        except KeyError:  # it was partitioned since the last look, and the next one shows its children
            self._reasons.pop(owner.cohort, None)
            return True
        if isinstance(epoch, Fenced):
            return False
        self.starts += 1
        self._restarts[owner.cohort] = restarts.after(now, self._patience)
        self._cohorts[owner.cohort] = _Cohort(self.starter.start(owner.cohort, epoch), ProcessWatch(epoch, now))
        return True


class _Turns:
    """What the coordinator's process does again and again."""

    def __init__(
        self, desk: LiveCoordinator, server: Server, plan: ServicePlan, store: Store, cohorts: Supervisor
    ) -> None:
        self._desk, self._plan, self._store, self._cohorts = desk, plan, store, cohorts
        self._files = FilesForPeople(plan, store, server, cohorts.epoch)
        self._held = store.read(())
        self._seen: tuple[int, int] | None = None
        self._over_s: float | None = None
        self._full: list[str] = []

    def __call__(self) -> int | None:
        seen = self._store.version, self._cohorts.starts
        is_news = seen != self._seen
        if is_news:
            self._held, self._seen = self._store.read(()), seen
        try:
            if not self._cohorts.turn(self._held):
                return FOLLOWED
            self._full = []
        except OSError as error:
            self._full = [f"DISK_FULL: no cohort can have another owner ({error})"]
        self._desk.turn(self._held if is_news else None, [*self._cohorts.troubles, *self._files.troubles, *self._full])
        self._files.update()
        return self._ended()

    def _ended(self) -> int | None:
        if not self._desk.is_over or not self._cohorts.has_left:
            return None
        now = time.monotonic()
        self._over_s = now if self._over_s is None else self._over_s
        if now - self._over_s < self._plan.service.linger_s:
            return None
        self._files.update(is_last=True)
        return 0


if __name__ == "__main__":
    sys.exit(run_coordinator(Path(sys.argv[1])))

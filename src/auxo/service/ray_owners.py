"""Cohorts of a service as actors of a Ray cluster, on any of its nodes; the store stays where the coordinator is.

An actor on the service's own machine, the door, has the store and the pulses open for cohorts elsewhere: what they
commit is one transaction there, by their epoch, as everywhere. All of these actors outlive whoever has started them.
Whoever watches looks at the same pulses as for processes of one machine.
"""

import errno
import hashlib
import ipaddress
import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray import exceptions as ray_errors
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from auxo.core.cohort_state import CohortState
from auxo.core.owners import Fenced
from auxo.core.types import CohortId
from auxo.engines.ray_actors import get
from auxo.engines.ray_connection import connect
from auxo.engines.ray_pulse import lost_part
from auxo.files.key_file import Key
from auxo.protocol.events import Event
from auxo.runtime.failures import WorkersLost
from auxo.runtime.server_record import ServerRecord
from auxo.service.client_tokens import ClientTokens, client_tokens
from auxo.service.cohort_process import common_in, run_cohort
from auxo.service.commit_point import Common
from auxo.service.desks import Pulse
from auxo.service.plan import ServicePlan, plan_in
from auxo.service.process import Beats
from auxo.service.pulses import Pulses, Seen
from auxo.service.starters import Started
from auxo.service.store import Held, Prepared, Step
from auxo.service.supervision import ProcessWatch, WatchLimits

_DOOR = "door"
_STORE, _PULSES = "store", "pulses"  # what is asked of the door: a sign of life does not wait for a commit
_ASK_S = 10.0  # for which an answer of the door is waited for; our choice
_CHANGES = 20  # times that a change is made anew because somebody else was quicker; our choice
_FOREVER_S = 1e9  # the door has no turns of its own to go on with
_LOOK_S = 1.0  # between two looks at Ray's own processes; our choice


class Door:
    """The actor that has the store open for cohorts on other nodes; Ray starts it again when it is lost."""

    def __init__(self, directory: Path) -> None:
        plan = plan_in(directory)
        self._store = plan.store()
        self._common = common_in(plan, self._store)
        pulse = Pulse(_DOOR, 0, os.getpid(), 0, 0, "idle")
        beats, never = Beats(self._common.pulses, lambda: pulse), threading.Event()
        threading.Thread(target=beats.beat, args=(never,), daemon=True).start()

    def ask_store(self, method: str, given: tuple[object, ...]) -> object:
        """Return what a method of the store returns."""
        return getattr(self._store, method)(*given)

    def keys(self, now: int) -> tuple[Key, ...]:
        """Return the keys that claims are signed with."""
        return self._common.keys(now)

    def tell(self, pulse: Pulse) -> None:
        """Write down a sign of life."""
        self._common.pulses.tell(pulse)

    def see(self, who: str) -> tuple[Seen | None, bool]:
        """Return the last sign of life of a process, and whether all were asked to end."""
        return self._common.pulses.see(who), self._common.pulses.are_to_end


def _answer(reference: Any) -> Any:
    """Return what the door says.

    Raises:
        OSError: it does not answer, or has had one itself.
    """
    try:
        ready, _ = ray.wait([reference], timeout=_ASK_S)
        if ready:
            return get(reference)
    except ray_errors.RayError as error:
        raise OSError(errno.EHOSTUNREACH, f"the service's machine does not answer ({type(error).__name__})") from error
    raise OSError(errno.ETIMEDOUT, f"the service's machine has not answered within {_ASK_S:g} s")


@dataclass(frozen=True)
class StoreElsewhere:
    """A `CommitPoint` behind a door."""

    door: Any

    def _ask(self, method: str, *given: object) -> Any:
        # In one argument, for Ray copies each by itself: what is the same value twice has to be one there, too.
        return _answer(self.door.ask_store.options(concurrency_group=_STORE).remote(method, given))

    def read(self, whole: Collection[CohortId] | None = None, credited: int | None = None) -> Held:
        """Return what holds now."""
        held: Held = self._ask("read", whole, credited)
        return held

    def last(self, cohort: CohortId) -> CohortState | None:
        """Return the last state of a cohort."""
        found: CohortState | None = self._ask("last", cohort)
        return found

    def ancestor(self, cohort: CohortId) -> CohortState | None:
        """Return the last state of the nearest ancestor that can be used."""
        found: CohortState | None = self._ask("ancestor", cohort)
        return found

    def change(
        self, cohort: CohortId, epoch: int, step: Step, whole: Collection[CohortId] = (), credited: int | None = None
    ) -> ServerRecord | Fenced:
        """Make a change here and have it carried out there, unless anybody has committed something meanwhile."""
        for _ in range(_CHANGES):
            begun: Prepared | Fenced = self._ask("prepare", cohort, epoch, tuple(whole), credited)
            if isinstance(begun, Fenced):
                return begun
            after, events = step(begun.before)
            done: bool | Fenced = self._ask("carry_out", cohort, epoch, begun, after, tuple(events))
            if isinstance(done, Fenced):
                return done
            if done:
                return after
        raise OSError(errno.EBUSY, f"others have committed something {_CHANGES} times meanwhile")

    def tell(self, cohort: CohortId, epoch: int, events: Sequence[Event]) -> Fenced | None:
        """Keep events that go with no commit."""
        fenced: Fenced | None = self._ask("tell", cohort, epoch, tuple(events))
        return fenced

    def arrived(self, cohort: CohortId, epoch: int, address: str, pid: int) -> bool:
        """Say where the owner of this epoch is."""
        return bool(self._ask("arrived", cohort, epoch, address, pid))

    def put_aside(self, cohort: CohortId, epoch: int) -> bool:
        """Put damaged versions aside."""
        return bool(self._ask("put_aside", cohort, epoch))

    def sweep(self) -> None:
        """Remove what a crash has left half written."""
        self._ask("sweep")


@dataclass
class PulsesElsewhere:
    """A `PulseBoard` behind a door."""

    door: Any
    _are_to_end: bool = False

    def tell(self, pulse: Pulse) -> None:
        """Give a sign of life; where it cannot be given, the next one may."""
        with suppress(OSError):
            _answer(self.door.tell.options(concurrency_group=_PULSES).remote(pulse))

    def see(self, who: str) -> Seen | None:
        """Return a process's last one, and learn whether all are to end."""
        try:
            seen, self._are_to_end = _answer(self.door.see.options(concurrency_group=_PULSES).remote(who))
        except OSError:
            return None
        found: Seen | None = seen
        return found

    @property
    def are_to_end(self) -> bool:
        """Return whether all processes were asked to end, as of the last look at one."""
        return self._are_to_end


class CohortHost:
    """The actor that a cohort's owner is; it ends with it."""

    def __init__(self, plan: ServicePlan, tokens: ClientTokens, door: Any, cohort: CohortId, epoch: int) -> None:
        common = Common(
            StoreElsewhere(door),
            PulsesElsewhere(door),
            tokens,
            lambda now: _answer(door.keys.options(concurrency_group=_STORE).remote(now)),
        )
        threading.Thread(target=self._run, args=(plan, common, cohort, epoch), daemon=True).start()
        self._ended = threading.Event()

    @staticmethod
    def _run(plan: ServicePlan, common: Common, cohort: CohortId, epoch: int) -> None:
        node = None if _is_loopback(plan.service.host) else ray.util.get_node_ip_address()
        code = 1
        try:
            code = run_cohort(plan, common, cohort, epoch, lambda listener: plan.address(listener, node))
        finally:
            os._exit(code)  # nobody may be there to end it

    def ended(self) -> None:
        """Return never: whoever waits for it hears that the actor is gone."""
        self._ended.wait()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class HostedOwner:
    """An owner on the cluster; None: Ray knows no such actor."""

    actor: Any

    def __post_init__(self) -> None:
        self._end = None if self.actor is None else self.actor.ended.remote()

    def why_ended(self) -> str | None:
        """Return that its actor is gone, if it is."""
        is_gone = self._end is None or ray.wait([self._end], timeout=0)[0]
        return "its actor has ended" if is_gone else None

    def kill(self) -> None:
        """End it, also if it was stopped."""
        if self.actor is not None:
            ray.kill(self.actor)

    def ask_to_end(self) -> None:
        """Have it end by itself: it looks whether it is to."""


@dataclass
class RayOwners:
    """Starts cohorts as actors."""

    plan: ServicePlan
    door: Any
    namespace: str
    _watch: ProcessWatch = field(init=False)
    _looked_s: float = float("-inf")

    def __post_init__(self) -> None:
        self._tokens, self._pulses = client_tokens(self.plan.directory), Pulses.of(self.plan.directory)
        self._watch = ProcessWatch(0, time.monotonic())
        self._limits = WatchLimits(self.plan.service.silent_s, _FOREVER_S)

    def is_there(self) -> bool:
        """Return whether owners can give signs of life: the door stands open.

        Raises:
            WorkersLost: Ray itself is gone.
        """
        now = time.monotonic()
        if now - self._looked_s > _LOOK_S:
            self._looked_s, lost = now, lost_part()
            if lost is not None:
                raise WorkersLost(f"the Ray cluster is lost: its {lost} does not answer any more; start it again")
        self._watch.look(self._pulses.see(_DOOR), now)
        if self._watch.why_dead(now, self._limits) is not None:
            ray.kill(self.door, no_restart=False)
            self._watch = ProcessWatch(0, now)
        door = self._watch.at_work
        return door.has_started and now - door.heard_s < self.plan.service.silent_s / 2

    def start(self, cohort: CohortId, epoch: int) -> Started:
        """Start the owner of this epoch, on whichever node has the fewest."""
        host = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=4)(CohortHost).options(
            name=_name(cohort, epoch), namespace=self.namespace, lifetime="detached", scheduling_strategy="SPREAD"
        )
        return HostedOwner(host.remote(self.plan, self._tokens, self.door, cohort, epoch))

    def adopt(self, cohort: CohortId, epoch: int, pid: int) -> Started:
        """Return one that another coordinator has started."""
        try:
            return HostedOwner(ray.get_actor(_name(cohort, epoch), self.namespace))
        except ValueError:
            return HostedOwner(None)


def _name(cohort: CohortId, epoch: int) -> str:
    return f"cohort {cohort}, epoch {epoch}"


@contextmanager
def ray_owners(plan: ServicePlan, is_keeper: bool) -> Iterator[RayOwners]:
    """Be connected to the cluster of a service, and have its door; that of a keeper goes when the keeper does.

    Raises:
        ClusterError: the cluster cannot be used.
    """
    namespace = f"auxo-{hashlib.sha256(str(plan.directory).encode()).hexdigest()[:16]}"
    with connect(plan.config.run.ray_address):
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        made = ray.remote(num_cpus=0, max_restarts=-1, concurrency_groups={_STORE: 1, _PULSES: 1})(Door).options(
            name=_DOOR, namespace=namespace, lifetime="detached", scheduling_strategy=here, get_if_exists=True
        )
        door = made.remote(plan.directory)
        try:
            yield RayOwners(plan, door, namespace)
        finally:
            if is_keeper:
                ray.kill(door)

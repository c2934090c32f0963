"""The process of one cohort: ``python -m auxo.service.cohort_process DIRECTORY COHORT EPOCH``."""

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from auxo.core.cohort_state import CohortState
from auxo.core.owners import Fenced
from auxo.core.types import ROOT, CohortId
from auxo.protocol.events import Disturbance, Event
from auxo.runtime.coordinator import child_of, start
from auxo.runtime.server import Server
from auxo.runtime.server_record import ServerRecord
from auxo.runtime.signing_keys import SigningKeys
from auxo.service.client_tokens import client_tokens
from auxo.service.cohort_desk import LiveCohort
from auxo.service.commit_point import CommitPoint, Common, PulseBoard
from auxo.service.http_cohort import cohort_app
from auxo.service.http_limits import HttpLimits
from auxo.service.plan import ServicePlan, plan_in
from auxo.service.process import Beats, listen, log_to_standard_error, run_process
from auxo.service.pulses import COORDINATOR, Pulses
from auxo.service.store import Held

FENCED = 3
"""Exit code of a process that another has followed."""


def run_cohort(
    plan: ServicePlan, common: Common, cohort: CohortId, epoch: int, address: Callable[[socket.socket], str]
) -> int:
    """Run a cohort until it is over; return the exit code.

    Args:
        plan: of the service.
        common: what it shares with the other processes.
        cohort: which it is.
        epoch: of this owner.
        address: returns how clients reach a socket of this process.
    """
    log_to_standard_error(f"cohort {cohort}, epoch {epoch}:")
    store = common.store
    store.sweep()  # what the owner before it has left half written
    if not is_mended(plan, store, cohort, epoch):
        return FENCED
    server = plan.server()
    signing = SigningKeys(common.keys)
    desk = LiveCohort(server, store, (cohort, epoch), plan.rounds, time.monotonic, time.time)
    if plan.rules.signed:  # now that the server knows its round, by which older keys end
        signing.update(server)
    first, last = plan.service.cohort_ports or (0, 0)
    listener = listen(plan.service.host, range(first, last + 1))
    if not store.arrived(cohort, epoch, address(listener), os.getpid()):
        return FENCED
    app = cohort_app(desk, common.tokens, HttpLimits().for_model(len(plan.initial)))
    turn = _Turns(desk, server, plan, signing, common.pulses)
    return run_process(app, listener, plan, Beats(common.pulses, desk.pulse), turn)


def run_here(directory: Path, cohort: CohortId, epoch: int) -> int:
    """Run a cohort on the machine that has the directory of its service; return the exit code."""
    plan = plan_in(directory)
    with plan.store() as store:
        return run_cohort(plan, common_in(plan, store), cohort, epoch, plan.address)


def common_in(plan: ServicePlan, store: CommitPoint) -> Common:
    """Return what processes share on the machine that has the directory of their service."""
    directory = plan.directory
    keys = SigningKeys.of(directory).read
    return Common(store, Pulses.of(directory), client_tokens(directory), keys)


class _Turns:
    """What a cohort's process does again and again."""

    def __init__(
        self, desk: LiveCohort, server: Server, plan: ServicePlan, signing: SigningKeys, pulses: PulseBoard
    ) -> None:
        self._desk, self._server, self._plan, self._signing = desk, server, plan, signing
        self._pulses = pulses
        self._leader = _Leader(self._pulses, plan.service.silent_s)
        self._over_s: float | None = None
        self._looked_s = time.monotonic()

    def __call__(self) -> int | None:
        now = time.monotonic()
        if self._plan.rules.signed and now - self._looked_s > 1:
            with suppress(OSError):  # those that it has are good for a while
                self._signing.update(self._server)
            self._looked_s = now
        if self._pulses.are_to_end:
            return 0
        self._desk.turn(self._leader.is_there(now))
        if self._desk.is_fenced:
            return FENCED
        if not self._desk.is_over:
            return None
        self._over_s = now if self._over_s is None else self._over_s
        return 0 if now - self._over_s >= self._plan.service.linger_s else None


class _Leader:
    """Whether there is a coordinator, as a cohort sees it."""

    def __init__(self, pulses: PulseBoard, silent_s: float) -> None:
        self._pulses, self._silent_s = pulses, silent_s
        self._beat, self._seen_s, self._looked_s = -1, float("-inf"), float("-inf")

    def is_there(self, now: float) -> bool:
        """Return whether its pulse has been seen to beat lately."""
        if now - self._looked_s >= 0.25:
            self._looked_s = now
            seen = self._pulses.see(COORDINATOR)
            if seen is not None and seen.beat != self._beat:
                self._beat, self._seen_s = seen.beat, now
        return now - self._seen_s < self._silent_s


def is_mended(plan: ServicePlan, store: CommitPoint, cohort: CohortId, epoch: int) -> bool:
    """Have a cohort in the store that can be gone on with, and say what was wrong; False: it is another's by now."""
    held = store.read((cohort,))
    if cohort not in held.owners:
        return False
    if not held.troubles:
        return True
    events = [
        Disturbance(max(0.0, time.time() - held.begun), cohort, held.owners[cohort].round, one) for one in held.troubles
    ]
    if cohort in held.lost:
        state, words = _reborn(plan, store, held, cohort)
        events.append(replace(events[0], reason=f"cohort {cohort}: no version of it can be used; {words}"))

        def step(record: ServerRecord) -> tuple[ServerRecord, Sequence[Event]]:
            cohorts = {**record.state.cohorts, cohort: state}
            return replace(record, state=replace(record.state, cohorts=cohorts)), events

        if isinstance(store.change(cohort, epoch, step), Fenced):
            return False
    elif store.tell(cohort, epoch, events) is not None:
        return False
    store.put_aside(cohort, epoch)
    return True


def _reborn(plan: ServicePlan, store: CommitPoint, held: Held, cohort: CohortId) -> tuple[CohortState, str]:
    """Return what a cohort begins with again of which nothing is left, and what that is."""
    number = held.owners[cohort].round
    parent = store.ancestor(cohort)
    if parent is not None:
        return replace(child_of(plan.rules, parent), round=number), "it begins again with its parent's model"
    initial = start(plan.rules, lambda _: plan.initial).cohorts[ROOT]
    return replace(initial, round=number), "it begins again with the initial model of the federation"


if __name__ == "__main__":
    sys.exit(run_here(Path(sys.argv[1]), CohortId(sys.argv[2]), int(sys.argv[3])))

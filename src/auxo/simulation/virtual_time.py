"""A federation in virtual time: cohorts at their own pace, in one order of events that decides what each round sees.

A cohort's round is two events. At the first it opens: clients check in, are matched and selected, and the clock says
who will be kept and when it closes. At the second it closes: participants train, the cohort learns and answers.
A cohort's model does not change in between, so training when the round closes gives the bits of training meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo import Folded, Participants, RoundOutcome, folds_for
from auxo.core.cohort_tree import CohortTree
from auxo.core.partition import Partition
from auxo.core.rng import stream
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import (
    CohortEnded,
    EmptyRound,
    Event,
    Partitioned,
    RoundClosed,
    StoppedLooking,
    UpdateRejected,
)
from auxo.runtime.cohort_round import Training
from auxo.runtime.coordinator import Coordinator, CoordinatorState, Matched
from auxo.runtime.engine import Engine
from auxo.simulation.availability import Availability
from auxo.simulation.client_records import ClientRecords
from auxo.simulation.devices import Devices, durations_s
from auxo.simulation.round_timing import draw_failures_s, time_round
from auxo.training.trainer import Job

_BYTES_PER_PARAMETER = 4
_MAX_STARVED = 1000  # times in a row that a cohort may find nobody before it ends, about a week; our choice
_MAX_FUTILE = 100  # rounds in a row that may come to nothing before a cohort ends; our choice
_LOOK_AGAIN_S = 60.0  # how long a cohort that found too few waits before it looks again; our choice


@dataclass(frozen=True)
class OpenRound:
    """A round between its two events; rows are positions in ``clients``, in the order in which updates are folded."""

    opened_s: float
    round: int  # its number, counted along the cohort's lineage
    clients: IntArray  # rows of the population
    kept: BoolArray
    late: BoolArray  # neither kept nor late: failed
    participants: Participants
    spent_s: FloatArray  # device-seconds of each


@dataclass(frozen=True)
class Pace:
    """Where a cohort stands in virtual time."""

    next_event_s: float
    open_round: OpenRound | None = None
    waiting_since_s: float | None = None  # for enough clients to open a round with
    starved: int = 0  # times in a row that nobody was there
    futile: int = 0  # rounds in a row that came to nothing
    attempts: int = 0  # rounds opened or tried so far; names the round's random streams
    ended: bool = False


@dataclass(frozen=True)
class Spent:
    """Resources so far; wasted ones bought no aggregated update."""

    participations: int = 0
    wasted_participations: int = 0
    device_s: float = 0.0
    wasted_device_s: float = 0.0


@dataclass(frozen=True)
class SimulationState:
    """All of a simulated run that must survive a crash.

    The clients' columns are large, so `Simulation.step` changes them in place. A state that it was given is used up;
    give it a `copy` to keep one.
    """

    coordinator: CoordinatorState
    paces: dict[CohortId, Pace]
    records: ClientRecords  # the clients' own; the server never reads them
    busy_until_s: FloatArray  # (clients,)
    spent: Spent
    clock_s: float = 0.0

    def copy(self) -> "SimulationState":
        """Return a state of the same value that shares no array of clients with this one."""
        return replace(self, records=self.records.copy(), busy_until_s=self.busy_until_s.copy())


@dataclass(frozen=True)
class World:
    """What a simulation is run in."""

    data: FederatedData
    devices: Devices
    availability: Availability
    engine: Engine
    epochs: int = 1
    dropout: float = 0.0
    deadline_s: float = float("inf")
    patience_s: float = 600.0  # how long a round waits for as many clients as it wants to invite; our choice
    cooldown_s: float = 0.0  # how long a client stays away after it has taken part


@dataclass(frozen=True)
class Simulation:
    """Runs a coordinator's cohorts in a world; `step` takes a state to the next event's."""

    coordinator: Coordinator
    world: World
    on_event: Callable[[Event], None]

    def start(self, state: CoordinatorState) -> SimulationState:
        """Return the state at time zero, in which nobody has a record."""
        clients = self.world.data.n_clients
        return SimulationState(
            coordinator=state,
            paces={cohort: Pace(0.0) for cohort in state.tree.leaves},
            records=ClientRecords.empty(clients, self.coordinator.settings.clustering.clusters, state.tree),
            busy_until_s=np.zeros(clients),
            spent=Spent(),
        )

    def is_over(self, state: SimulationState) -> bool:
        """Return whether every cohort has ended."""
        return all(pace.ended for pace in state.paces.values())

    def step(self, state: SimulationState) -> SimulationState:
        """Return the state after the next event in virtual time, ties by cohort id; ``state`` itself is used up."""
        # At the same time rounds close before others open: until then their participants are not free.
        running = [
            (pace.next_event_s, pace.open_round is None, cohort)
            for cohort, pace in state.paces.items()
            if not pace.ended
        ]
        time_s, _, cohort = min(running)
        state = replace(state, clock_s=time_s)
        if state.paces[cohort].open_round is None:
            return self._open(state, cohort)
        return self._close(state, cohort)

    def _open(self, state: SimulationState, cohort: CohortId) -> SimulationState:
        pace, now = state.paces[cohort], state.clock_s
        online = np.flatnonzero(self.world.availability.online(now))
        online = online[state.busy_until_s[online] <= now]
        rng = self._stream("check-in", cohort, pace)
        requests = state.records.request(online, self.coordinator.settings.affinity, rng)
        matched = self.coordinator.match(state.coordinator, online, requests, rng)
        mine = np.flatnonzero(matched.leaf == state.coordinator.tree.index[cohort])
        wanted, invited = self.coordinator.wanted(state.coordinator, cohort)
        waiting_since_s = now if pace.waiting_since_s is None else pace.waiting_since_s
        if len(mine) < invited and now < waiting_since_s + self.world.patience_s:
            later = replace(pace, next_event_s=self._later(state), waiting_since_s=waiting_since_s)
            if np.isfinite(later.next_event_s):
                return replace(state, paces={**state.paces, cohort: replace(later, attempts=pace.attempts + 1)})
        state = replace(state, coordinator=self.coordinator.note_check_ins(state.coordinator, cohort, len(mine)))
        if len(mine) == 0:
            return self._try_later(state, cohort, "nobody on line")
        select = self._stream("select", cohort, pace)
        chosen = np.sort(select.permutation(mine)[:invited])
        fold = folds_for(
            self.coordinator.settings,
            state.coordinator.cohorts[cohort],
            self.coordinator.progress(state.coordinator, cohort),
            online[chosen],
            requests.participations[chosen],
        )
        brought = Participants.of(requests, chosen, matched.vouched[chosen], cohort, fold)
        order = np.argsort(~brought.known, kind="stable")
        return self._time(state, cohort, online[chosen][order], brought.take(order), wanted)

    def _time(
        self, state: SimulationState, cohort: CohortId, clients: IntArray, brought: Participants, wanted: int
    ) -> SimulationState:
        """Ask the clock who of the selected will be kept, and until when everybody is busy."""
        pace, now, world = state.paces[cohort], state.clock_s, self.world
        samples = world.data.train.counts(clients)
        half = np.where(samples > 1, (samples + 1 - brought.fold) // 2, samples)  # trained on twice as often
        trained = np.where(brought.fold < 0, samples, 2 * half) * world.epochs
        took_s = durations_s(world.devices, clients, trained, self.coordinator.n_params * _BYTES_PER_PARAMETER)
        online_for_s = world.availability.online_until_s(now, clients) - now
        fails_after_s = draw_failures_s(took_s, online_for_s, world.dropout, self._stream("drop-out", cohort, pace))
        timing = time_round(now, took_s, fails_after_s, wanted, world.deadline_s)
        kept, late = np.zeros(len(clients), dtype=np.bool_), np.zeros(len(clients), dtype=np.bool_)
        kept[timing.kept], late[timing.late] = True, True
        # The kept wait for their feedback; the late get theirs when they are done, hence before anybody can see it.
        state.busy_until_s[clients] = np.where(kept, timing.closes_at_s, timing.busy_until_s) + world.cooldown_s
        opened = OpenRound(
            now, state.coordinator.cohorts[cohort].round + 1, clients, kept, late, brought, timing.spent_s
        )
        after = Pace(timing.closes_at_s, opened, futile=pace.futile, attempts=pace.attempts + 1)
        return replace(state, paces={**state.paces, cohort: after})

    def _close(self, state: SimulationState, cohort: CohortId) -> SimulationState:
        opened = state.paces[cohort].open_round
        assert opened is not None  # noqa: S101 - step() only closes rounds that are open
        closing = self.coordinator.closing(state.coordinator, cohort, opened.participants)
        closed = self.world.engine.run_round(self.coordinator.rules, closing, self._training(state, opened))
        if isinstance(closed, Folded):
            self._report_rejected(state, cohort, opened, closed)
            wasted = Spent(0, len(opened.clients), 0.0, float(opened.spent_s.sum()))
            return self._try_later(_spend(state, wasted), cohort, "no usable update")
        coordinator, outcome, feedback = self.coordinator.act(state.coordinator, closing, closed)
        before = state.coordinator.tree
        state = _spend(replace(state, coordinator=coordinator), _spent(opened, outcome))
        receivers = opened.clients[outcome.folded.rows]
        records = state.records.learn(receivers, feedback, self.coordinator.settings.affinity)
        state = replace(state, records=records)
        self._report(state, cohort, opened, outcome, before)
        return self._go_on(state, cohort)

    def _training(self, state: SimulationState, opened: OpenRound) -> Training:
        answers = opened.kept | (opened.late & self.coordinator.settings.late_feedback)
        rows = np.flatnonzero(answers)
        visits = state.records.participations(opened.clients[rows])
        folds = opened.participants.fold[rows]
        jobs = [
            Job(int(client), int(visit), None if fold < 0 else int(fold))
            for client, visit, fold in zip(opened.clients[rows], visits, folds, strict=True)
        ]
        return Training(rows, jobs, opened.late[rows])

    def _report(
        self, state: SimulationState, cohort: CohortId, opened: OpenRound, outcome: RoundOutcome, before: CohortTree
    ) -> None:
        folded, verdict, number = outcome.folded, outcome.verdict, outcome.state.round
        self._report_rejected(state, cohort, opened, folded)
        late = int(opened.late.sum()) - sum(bool(opened.late[row]) for row, _ in folded.rejected)
        rejected_in_time = sum(not opened.late[row] for row, _ in folded.rejected)
        answered_in_time = int((~folded.late).sum()) + rejected_in_time
        self.on_event(
            RoundClosed(
                time_s=state.clock_s,
                cohort=cohort,
                round=number,
                participants=folded.used,
                late=late,
                failed=int((~opened.late).sum()) - answered_in_time,
                rejected=len(folded.rejected),
                duration_s=state.clock_s - opened.opened_s,
                known=int((opened.participants.known & opened.kept).sum()),
                labelled=outcome.labelled,
                judged=outcome.judged,
                gain=verdict.gain,
                gain_needed=verdict.needed,
                heterogeneity=outcome.heterogeneity,
                children=verdict.children,
                restarted=outcome.restarted,
                misfits=folded.misfits,
            )
        )
        if outcome.gives_up:
            self.on_event(StoppedLooking(state.clock_s, cohort, number))
        if isinstance(verdict.decision, Partition):
            tree = state.coordinator.tree
            children = tree.branches[len(before.branches)].children
            shares = tuple(state.coordinator.share(child, self.coordinator.total_participants) for child in children)
            self.on_event(Partitioned(state.clock_s, cohort, number, children, shares, verdict.gain or 0.0))

    def _report_rejected(self, state: SimulationState, cohort: CohortId, opened: OpenRound, folded: Folded) -> None:
        number = opened.round
        for row, reason in folded.rejected:
            name = self.world.data.client_names[int(opened.clients[row])]
            self.on_event(UpdateRejected(state.clock_s, cohort, number, name, reason))

    def _go_on(self, state: SimulationState, cohort: CohortId) -> SimulationState:
        """Start the next round of the cohort or of its children, or end it."""
        now, leaves = state.clock_s, state.coordinator.tree.leaves
        paces = {name: pace for name, pace in state.paces.items() if name in leaves}
        for name in leaves:
            if name == cohort or name not in paces:
                ended = state.coordinator.cohorts[name].round >= self.coordinator.total_rounds
                old = state.paces.get(name)
                paces[name] = Pace(now, attempts=old.attempts if old else 0, ended=ended)
                if ended:
                    self.on_event(CohortEnded(now, name, state.coordinator.cohorts[name].round))
        return replace(state, paces=paces)

    def _try_later(self, state: SimulationState, cohort: CohortId, reason: str) -> SimulationState:
        """Let the clock go on: an empty round is an outcome, and whoever is off line or busy now may be free later."""
        pace, now = state.paces[cohort], state.clock_s
        later = self._later(state)
        if not np.isfinite(later) and self.world.availability.online(now).any():
            later = now + _LOOK_AGAIN_S
        starved = pace.starved + 1 if pace.open_round is None else 0
        futile = pace.futile + (pace.open_round is not None)
        gives_up = not np.isfinite(later) or starved >= _MAX_STARVED or futile >= _MAX_FUTILE
        self.on_event(EmptyRound(now, cohort, state.coordinator.cohorts[cohort].round + 1, reason))
        after = replace(
            pace,
            next_event_s=now if gives_up else later,
            open_round=None,
            waiting_since_s=None,
            starved=starved,
            futile=futile,
            attempts=pace.attempts + 1,
            ended=gives_up,
        )
        if gives_up:
            self.on_event(CohortEnded(now, cohort, state.coordinator.cohorts[cohort].round))
        return replace(state, paces={**state.paces, cohort: after})

    def _later(self, state: SimulationState) -> float:
        """Return when somebody may be there who is off line or busy now; inf if nobody ever will."""
        now = state.clock_s
        busy = state.busy_until_s[state.busy_until_s > now]
        soon = min(self.world.availability.next_change_s(now), float(busy.min(initial=np.inf)))
        return max(soon, now + _LOOK_AGAIN_S)

    def _stream(self, purpose: str, cohort: CohortId, pace: Pace) -> np.random.Generator:
        return stream(self.coordinator.seed, purpose, cohort, pace.attempts)

    def placement(self, state: SimulationState, clients: IntArray | None = None) -> Matched:
        """Return the cohort each client would be matched to now, those never sampled included; nobody explores.

        ``vouched`` says here whether the client has reason to want that cohort, beyond a draw or a prediction.

        Args:
            state: as it stands; nothing in it changes.
            clients: rows of the population that are asked for; None: everybody.
        """
        if clients is None:
            clients = np.arange(self.world.data.n_clients)
        requests = state.records.request(clients, self.coordinator.settings.affinity, None)
        rng = stream(self.coordinator.seed, "placement")
        return self.coordinator.matching.place(state.coordinator.tree, clients, requests, rng)


def _spent(opened: OpenRound, outcome: RoundOutcome) -> Spent:
    used = np.zeros(len(opened.clients), dtype=np.bool_)
    used[outcome.folded.aggregated] = True
    return Spent(
        participations=int(used.sum()),
        wasted_participations=int((~used).sum()),
        device_s=float(opened.spent_s[used].sum()),
        wasted_device_s=float(opened.spent_s[~used].sum()),
    )


def _spend(state: SimulationState, more: Spent) -> SimulationState:
    spent = state.spent
    return replace(
        state,
        spent=Spent(
            spent.participations + more.participations,
            spent.wasted_participations + more.wasted_participations,
            spent.device_s + more.device_s,
            spent.wasted_device_s + more.wasted_device_s,
        ),
    )

"""A federation in virtual time: cohorts at their own pace, in one order of events that decides what each round sees.

A cohort's round is two events. At the first it opens: clients check in, are matched and selected, and the clock says
who will be kept and when it closes. At the second it closes: participants train, the cohort learns and answers.
A cohort's model does not change in between, so training when the round closes gives the bits of training meanwhile.
Other leaves' models, which some participants compare it with, are those of the time when it closes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.client_mod import ClientMod
from auxo.core.cohort_algorithm import EVERYBODY, Closing, Participants
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.guard import Ban
from auxo.core.matching import Matched
from auxo.core.partial_uploads import sent_share
from auxo.core.rng import stream
from auxo.core.selectors import SetsWork
from auxo.core.turnout import Times
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import CohortEnded, EmptyRound, Event
from auxo.runtime.closing import Closed, Training, closing_of, models_of
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.runtime.round_events import RoundEnd, children_made, round_events
from auxo.runtime.rounds import Opened, end_round, match, open_round, there_for
from auxo.simulation.availability import Availability
from auxo.simulation.client_side import ClientRules, ClientSide
from auxo.simulation.costs import Spent, cost_of, work_of
from auxo.simulation.devices import Devices, Work, durations_s, uploads_s
from auxo.simulation.round_timing import draw_failures_s, time_round
from auxo.simulation.showing_up import time_everybody, waits_s
from auxo.training.trainer import Job, LocalTraining

_BYTES_PER_PARAMETER = 4
_MAX_STARVED = 1000  # times in a row that a cohort may find nobody before it ends, about a week; our choice
_MAX_FUTILE = 100  # rounds in a row that may come to nothing before a cohort ends; our choice
_LOOK_AGAIN_S = 60.0  # how long a cohort that found too few waits before it looks again; our choice


@dataclass(frozen=True)
class OpenRound:
    """A round between its two events; participants' clients are rows of the population."""

    opened_s: float
    round: int  # its number, counted along the cohort's lineage
    participants: Participants
    kept: BoolArray
    late: BoolArray  # neither kept nor late: failed
    hears_late: bool
    spent_s: FloatArray  # device-seconds of each
    epochs: IntArray | None = None  # of each; None: all do all of them
    times: Times | None = None  # that the selector hears of


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
class SimulationState:
    """All of a simulated run that must survive a crash.

    The clients' columns are large, so `Simulation.step` changes them in place. A state that it was given is used up;
    give it a `copy` to keep one.
    """

    coordinator: CoordinatorState
    paces: dict[CohortId, Pace]
    clients: ClientSide  # what they keep; the server never reads it
    busy_until_s: FloatArray  # (clients,)
    spent: Spent
    clock_s: float = 0.0

    def copy(self) -> "SimulationState":
        """Return a state of the same value that shares no array of clients with this one."""
        return replace(self, clients=self.clients.copy(), busy_until_s=self.busy_until_s.copy())


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
    sends_partial_work: bool = False  # who cannot do all epochs before the deadline does as many as it can
    batch_size: int = LocalTraining().batch_size  # of participants, for those who are asked for steps of SGD
    mods: tuple[ClientMod, ...] = ()  # that all pass through what clients say
    forgets: float = 0.0  # share of the clients' records that are lost in a round of all cohorts together


@dataclass(frozen=True)
class Simulation:
    """Runs a federation's cohorts in a world; `step` takes a state to the next event's."""

    rules: Federation
    world: World
    on_event: Callable[[Event], None]

    def __post_init__(self) -> None:
        if isinstance(self.rules.selector, SetsWork) and self.rules.epochs != self.world.epochs:
            raise ValueError(
                f"rules.epochs: expected those of the world, {self.world.epochs}, got {self.rules.epochs}; a selector "
                "that asks some for more work has to know what is usual"
            )

    @property
    def _client_rules(self) -> ClientRules:
        return ClientRules(self.rules.algorithm.client_half, self.world.mods, self.rules.signed)

    def start(self, state: CoordinatorState) -> SimulationState:
        """Return the state at time zero, in which nobody has taken part."""
        clients = self.world.data.n_clients
        return SimulationState(
            coordinator=state,
            paces={cohort: Pace(0.0) for cohort in self.rules.openers(state)},
            clients=self._client_rules.newcomers(clients, state.tree),
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
        pace, now, rules = state.paces[cohort], state.clock_s, self.rules
        invited = rules.invited(state.coordinator, cohort)
        if invited == EVERYBODY:  # they come when they can
            online = np.arange(self.world.data.n_clients)
        else:
            online = np.flatnonzero(self.world.availability.online(now))
            online = online[state.busy_until_s[online] <= now]
        rng = self._stream("check-in", cohort, pace)
        check_ins = self._client_rules.check_in(state.clients, online, rng)
        arrived = match(rules, state.coordinator, check_ins, rng)
        waiting_since_s = now if pace.waiting_since_s is None else pace.waiting_since_s
        is_patient = now < waiting_since_s + self.world.patience_s
        there = there_for(rules, state.coordinator, cohort, arrived)
        later = self._later(state) if is_patient and len(there.rows) < invited else np.inf
        if np.isfinite(later):
            waits = replace(pace, next_event_s=later, waiting_since_s=waiting_since_s, attempts=pace.attempts + 1)
            return replace(state, paces={**state.paces, cohort: waits})
        opened = open_round(rules, state.coordinator, there, pace.attempts)
        state = replace(state, coordinator=opened.state)
        if len(opened.participants.clients) == 0:
            number = rules.of(state.coordinator, cohort).round + 1
            self.on_event(EmptyRound(now, cohort, number, "nobody on line"))
            return self._try_later(state, cohort)
        return self._time(state, cohort, opened)

    def _time(self, state: SimulationState, cohort: CohortId, opened: Opened) -> SimulationState:
        """Ask the clock who of the selected will be kept, and until when everybody is busy."""
        pace, now, world = state.paces[cohort], state.clock_s, self.world
        clients = opened.participants.clients
        usual_s, usual = self._took(opened.participants, np.full(len(clients), world.epochs), None)
        took_s, epochs = usual_s, usual if world.sends_partial_work and world.epochs > 1 else None
        asked = opened.participants
        if asked.asks.epochs is not None:
            skipped = asked.asks.skipped
            share = None if skipped is None else sent_share(skipped, self.rules.layers)
            took_s, epochs = self._took(asked, asked.asks.epochs, share)
        rng, wanted = self._stream("drop-out", cohort, pace), self.rules.wanted(state.coordinator, cohort)
        if wanted == EVERYBODY:
            waits = waits_s(world.availability, now, clients, state.busy_until_s[clients], took_s)
            timing = time_everybody(now, took_s, waits, world.deadline_s, world.dropout, rng)
        else:
            online_for_s = world.availability.online_until_s(now, clients) - now
            fails_after_s = draw_failures_s(took_s, online_for_s, world.dropout, rng)
            timing = time_round(now, took_s, fails_after_s, wanted, world.deadline_s)
        kept, late = np.zeros(len(clients), dtype=np.bool_), np.zeros(len(clients), dtype=np.bool_)
        kept[timing.kept], late[timing.late] = True, True
        # The kept wait for their feedback; the late get theirs when they are done, hence before anybody can see it.
        state.busy_until_s[clients] = np.where(kept, timing.closes_at_s, timing.busy_until_s) + world.cooldown_s
        number = self.rules.of(state.coordinator, cohort).round + 1
        times = self._times(asked, usual_s, kept, late)
        open_now = OpenRound(now, number, asked, kept, late, opened.hears_late, timing.spent_s, epochs, times)
        after = Pace(timing.closes_at_s, open_now, futile=pace.futile, attempts=pace.attempts + 1)
        return replace(state, paces={**state.paces, cohort: after})

    def _took(
        self, participants: Participants, epochs: IntArray, upload: FloatArray | None
    ) -> tuple[FloatArray, IntArray]:
        """Return how long participants take for so many epochs, or those they can do before the deadline, and these."""
        world, clients = self.world, participants.clients
        model_bytes, samples = self.rules.n_params * _BYTES_PER_PARAMETER, world.data.train.counts(clients)
        if participants.asks.centres is not None:  # a pass over their samples, and no model goes to and fro
            sent = participants.asks.centres * math.prod(world.data.x.shape[1:]) / self.rules.n_params
            work = Work(0 * samples, samples, 0 * samples, np.full(len(clients), sent))
            return durations_s(world.devices, clients, work, model_bytes), epochs
        work = self._work(participants, epochs, upload)
        took_s = durations_s(world.devices, clients, work, model_bytes)
        if not world.sends_partial_work:
            return took_s, epochs
        training_s = world.devices.compute_s_per_sample[clients] * work.trained
        done = _epochs_in_time(took_s, training_s, epochs, world.deadline_s)
        work = self._work(participants, done, upload)
        return durations_s(world.devices, clients, work, model_bytes), done

    def _work(self, participants: Participants, epochs: IntArray, upload: FloatArray | None) -> Work:
        """Return what participants have to do in so many epochs, and that they send so much of each update."""
        samples, batch_size = self.world.data.train.counts(participants.clients), self.world.batch_size
        work = work_of(participants, samples, epochs, self.rules.asks_for_loss, batch_size)
        if upload is None:
            return work
        return replace(work, uploads=upload if work.uploads is None else upload * work.uploads)

    def _times(self, participants: Participants, usual_s: FloatArray, kept: BoolArray, late: BoolArray) -> Times:
        """Return what the clock tells a selector; of those that failed it says nothing."""
        world, clients = self.world, participants.clients
        one = self._work(participants, np.ones(len(clients), dtype=np.int64), None)
        known = np.where(kept | late, 0.0, np.nan)
        return Times(
            usual_s=usual_s + known,
            epoch_s=world.devices.compute_s_per_sample[clients] * one.trained + known,
            upload_s=uploads_s(world.devices, clients, self.rules.n_params * _BYTES_PER_PARAMETER) + known,
            late=late,
        )

    def _close(self, state: SimulationState, cohort: CohortId) -> SimulationState:
        opened = state.paces[cohort].open_round
        assert opened is not None  # noqa: S101 - step() only closes rounds that are open
        closing = closing_of(self.rules, state.coordinator, cohort, opened.participants, opened.times)
        closed = self.world.engine.run_round(self.rules, closing, self._training(state, closing, opened))
        state = replace(state, spent=state.spent + _cost(opened, closed))
        before, ended = state.coordinator.tree, end_round(self.rules, state.coordinator, closing, closed)
        state = replace(state, coordinator=ended.state)
        self._report(state, cohort, opened, closed, before, ended.banned)
        if closed.outcome is None:
            return self._try_later(state, cohort)
        receivers = opened.participants.clients[closed.gathered.rows]
        clients = self._client_rules.learn(state.clients, receivers, ended.feedback)
        # Of a round of all cohorts together this one's is a part.
        part = len(receivers) / self.rules.total_participants
        lost = 1 - (1 - self.world.forgets) ** part
        clients = self._client_rules.forget(clients, lost, self._stream("forget", cohort, state.paces[cohort]))
        return self._go_on(replace(state, clients=clients), cohort)

    def _training(self, state: SimulationState, closing: Closing, opened: OpenRound) -> Training:
        rows = np.flatnonzero(opened.kept | (opened.late & opened.hears_late))
        asked = closing.participants  # whose models there are may have changed since the round opened
        visits = state.clients.participations(asked.clients[rows])
        if opened.epochs is not None:
            asked = replace(asked, asks=replace(asked.asks, epochs=opened.epochs))
        asks = asked.each(self.world.epochs, rows.tolist())
        clients = asked.clients[rows].tolist()
        jobs = [Job(client, visit, ask) for client, visit, ask in zip(clients, visits.tolist(), asks, strict=True)]
        return Training(rows, jobs, opened.late[rows], models_of(closing), self.world.epochs, self.world.mods)

    def _report(
        self,
        state: SimulationState,
        cohort: CohortId,
        opened: OpenRound,
        closed: Closed,
        before: CohortTree,
        bans: tuple[Ban, ...],
    ) -> None:
        refused = (*closed.gathered.rejected, *closed.gathered.unusual)
        names, clients = self.world.data.client_names, opened.participants.clients
        rejected = [(names[int(clients[row])], reason) for row, reason in refused]
        end = RoundEnd(
            cohort=cohort,
            round=opened.round,
            time_s=state.clock_s,
            duration_s=state.clock_s - opened.opened_s,
            asked=len(clients),
            late=int(opened.late.sum()) - sum(bool(opened.late[row]) for row, _ in closed.gathered.rejected),
        )
        children = children_made(before, state.coordinator.tree)
        shares = {child: self.rules.share(state.coordinator, child) for child in children}
        for event in round_events(closed, end, rejected, shares, [(names[ban.client], ban) for ban in bans]):
            self.on_event(event)

    def _go_on(self, state: SimulationState, cohort: CohortId) -> SimulationState:
        """Start the next round of the cohort or of its children, or end it."""
        now, openers = state.clock_s, self.rules.openers(state.coordinator)
        paces = {name: pace for name, pace in state.paces.items() if name in openers}
        for name in openers:
            if name == cohort or name not in paces:
                ended = self.rules.is_done(state.coordinator, name)
                old = state.paces.get(name)
                paces[name] = Pace(now, attempts=old.attempts if old else 0, ended=ended)
                if ended:
                    self.on_event(CohortEnded(now, name, self.rules.of(state.coordinator, name).round))
        return replace(state, paces=paces)

    def _try_later(self, state: SimulationState, cohort: CohortId) -> SimulationState:
        """Let the clock go on: an empty round is an outcome, and whoever is off line or busy now may be free later."""
        pace, now = state.paces[cohort], state.clock_s
        later = self._later(state)
        if not np.isfinite(later) and self.world.availability.online(now).any():
            later = now + _LOOK_AGAIN_S
        starved = pace.starved + 1 if pace.open_round is None else 0
        futile = pace.futile + (pace.open_round is not None)
        gives_up = not np.isfinite(later) or starved >= _MAX_STARVED or futile >= _MAX_FUTILE
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
            self.on_event(CohortEnded(now, cohort, self.rules.of(state.coordinator, cohort).round))
        return replace(state, paces={**state.paces, cohort: after})

    def _later(self, state: SimulationState) -> float:
        """Return when somebody may be there who is off line or busy now; inf if nobody ever will."""
        now = state.clock_s
        busy = state.busy_until_s[state.busy_until_s > now]
        soon = min(self.world.availability.next_change_s(now), float(busy.min(initial=np.inf)))
        return max(soon, now + _LOOK_AGAIN_S)

    def _stream(self, purpose: str, cohort: CohortId, pace: Pace) -> np.random.Generator:
        return stream(self.rules.seed, purpose, cohort, pace.attempts)

    def placement(self, state: SimulationState, clients: IntArray | None = None) -> Matched:
        """Return the cohort each client would be matched to now, those never sampled included; nobody explores.

        ``vouched`` says here whether the client has reason to want that cohort, beyond a draw or a prediction.

        Args:
            state: as it stands; nothing in it changes.
            clients: rows of the population that are asked for; None: everybody.
        """
        if clients is None:
            clients = np.arange(self.world.data.n_clients)
        check_ins = self._client_rules.check_in(state.clients, clients, None)
        rng = stream(self.rules.seed, "placement")
        return self.rules.algorithm.matching.place(state.coordinator, check_ins, rng)


def _epochs_in_time(took_s: FloatArray, training_s: FloatArray, epochs: IntArray, deadline_s: float) -> IntArray:
    """Return as many of its epochs as each participant can do before the deadline, but one at least."""
    epoch_s, rest_s = training_s / epochs, took_s - training_s
    possible = np.floor((deadline_s - rest_s) / np.maximum(epoch_s, np.finfo(np.float64).eps))
    return np.clip(possible, 1, epochs).astype(np.int64)


def _cost(opened: OpenRound, closed: Closed) -> Spent:
    """Return what a round has cost; without an outcome all of it is wasted."""
    used = np.zeros(len(opened.kept), dtype=np.bool_)
    if closed.outcome is not None:
        used[closed.gathered.aggregated] = True
    return cost_of(opened.participants, opened.spent_s, used)

"""What a run's files say, gathered for the report: each method's events by kind, and where it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from auxo.core.metric import ACCURACY, Metric
from auxo.experiments.cohort_profiles import CohortProfiles, read_profiles
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.summary import (
    BASE,
    ORACLE,
    AgainstBase,
    MethodSummary,
    best_accuracy,
    method_summaries,
)
from auxo.protocol.cohorts_seen import CohortsSeen
from auxo.protocol.events import (
    ClientBanned,
    CohortMembers,
    EmptyRound,
    Evaluated,
    Event,
    Measured,
    Partitioned,
    RoundClosed,
    StoppedLooking,
    UpdateRejected,
)
from auxo.protocol.notes import TrialsSeen
from auxo.reporting.method_names import AUXO, contenders, words_for

_A_ROUND = 1.0  # rounds between which evaluations are of the same one: cohorts do not close theirs together

_E = TypeVar(
    "_E",
    RoundClosed,
    EmptyRound,
    Partitioned,
    StoppedLooking,
    UpdateRejected,
    ClientBanned,
    Measured,
    CohortMembers,
    Evaluated,
)


@dataclass(frozen=True)
class MethodFacts:
    """One method's events by kind, in order, and where it stands at their end (None before the first evaluation)."""

    method: str
    is_truncated: bool = False
    evaluations: tuple[Evaluated, ...] = ()
    rounds: tuple[RoundClosed, ...] = ()
    empty_rounds: tuple[EmptyRound, ...] = ()
    partitions: tuple[Partitioned, ...] = ()
    rejections: tuple[UpdateRejected, ...] = ()
    bans: tuple[ClientBanned, ...] = ()
    end: MethodSummary | None = None
    clients: ClientScores | None = None
    profiles: CohortProfiles | None = None  # of its cohorts, at the end of a method that has several
    stops: tuple[StoppedLooking, ...] = ()
    seen: CohortsSeen = field(default_factory=CohortsSeen)
    measured: tuple[Measured, ...] = ()  # by an app's own metrics, on Flower
    members: tuple[CohortMembers, ...] = ()  # as far as a federation knows them
    trials: TrialsSeen = field(default_factory=TrialsSeen)

    def after(self, *events: Event) -> "MethodFacts":
        """Return the facts once these events have happened, one after another; see `RunFacts.after` for the end."""
        seen, trials = self.seen, self.trials
        for event in events:
            seen, trials = seen.after(event), trials.after(event)
        return replace(
            self,
            evaluations=_with(self.evaluations, events, Evaluated),
            rounds=_with(self.rounds, events, RoundClosed),
            empty_rounds=_with(self.empty_rounds, events, EmptyRound),
            partitions=_with(self.partitions, events, Partitioned),
            rejections=_with(self.rejections, events, UpdateRejected),
            bans=_with(self.bans, events, ClientBanned),
            stops=_with(self.stops, events, StoppedLooking),
            seen=seen,
            trials=trials,
            measured=_with(self.measured, events, Measured),
            members=_with(self.members, events, CohortMembers),
        )

    @property
    def name(self) -> str:
        """Return how the method is called in a sentence."""
        return words_for(self.method).name

    @property
    def metric(self) -> Metric:
        """Return what clients are scored by."""
        return self.evaluations[-1].metric if self.evaluations else ACCURACY

    @property
    def brought(self) -> AgainstBase:
        """Return what the method brings against the base; nothing where that cannot be told."""
        return self.end.brought if self.end else AgainstBase(None, None, None)

    @property
    def has_gains(self) -> bool:
        """Return whether its rounds say what a partition would bring; many methods know no gain."""
        return any(closed.gain is not None or closed.judged or closed.gain_needed for closed in self.rounds)

    @property
    def asks_for_gain(self) -> bool:
        """Return whether it says how large a gain must be, as the paper's variant does; a trial does not."""
        return any(closed.gain_needed for closed in self.rounds)

    def participations_at(self, time_s: float) -> int:
        """Return the updates aggregated up to a moment."""
        return sum(closed.participants for closed in self.rounds if closed.time_s <= time_s)


@dataclass(frozen=True)
class BesideBase:
    """A method's mean accuracy and that of its worst clients, beside the base's."""

    base: float
    ours: float
    base_worst_10: float
    worst_10: float
    round: int | None = None  # in which both are compared; None: at the end of both


@dataclass(frozen=True)
class RunFacts:
    """All that the report tells; ``seed`` is None before the run has ended."""

    name: str
    config_text: str = ""
    seed: int | None = None
    is_finished: bool = False
    has_failed: bool = False  # a method came to its end without having trained its rounds
    methods: Mapping[str, MethodFacts] = field(default_factory=dict)  # by name, in the order they ran

    def after(self, method: str, *events: Event) -> "RunFacts":
        """Return the facts once these events of a method have happened: of a run that goes on, one after another."""
        run = self.methods.get(method, MethodFacts(method)).after(*events)
        methods = {**self.methods, method: run}
        ends = method_summaries(
            {name: one.evaluations for name, one in methods.items()},
            {name: one.seen for name, one in methods.items()},
            finished=tuple(methods)[:-1],  # they run one after the other, so only the last may be unfinished
        )
        return replace(self, methods={name: replace(one, end=ends.get(name)) for name, one in methods.items()})

    @property
    def metric(self) -> Metric:
        """Return what clients are scored by, wherever a method's accuracy is spoken of."""
        return next((run.metric for run in self.methods.values() if run.evaluations), ACCURACY)

    @property
    def base(self) -> MethodFacts | None:
        """Return the method that others are held against; None when it has not begun."""
        return self.methods.get(BASE)

    @property
    def oracle(self) -> MethodFacts | None:
        """Return the method that is told the true groups; None when it has not begun."""
        return self.methods.get(ORACLE)

    @property
    def contenders(self) -> tuple[MethodFacts, ...]:
        """Return the methods that are neither the base nor the oracle."""
        return tuple(self.methods[method] for method in contenders(self.methods))

    @property
    def featured(self) -> MethodFacts | None:
        """Return the contender that the headline is about: Auxo, or else the first that was evaluated."""
        in_order = sorted(self.contenders, key=lambda run: (run.end is None, run.method != AUXO))
        return in_order[0] if in_order else None

    @property
    def target(self) -> float | None:
        """Return the base's best accuracy, the mark the others are timed against."""
        return best_accuracy(self.base.evaluations) if self.base else None

    @property
    def is_base_best_at_first(self) -> bool:
        """Return whether the base has learnt nothing after its first evaluation, so that anybody is as fast."""
        curve = self.base.evaluations if self.base else ()
        return len(curve) > 1 and curve[0].accuracy == self.target

    def beside_base(self, run: MethodFacts) -> BesideBase | None:
        """Return how a method stands against the base: at the end of both, or else in the last round that both have.

        None where there is no such round: a method that stopped early is not held against the end of another.
        """
        base = self.base
        if base is None or base.end is None or run.end is None:
            return None
        if base.end.is_finished and run.end.is_finished:
            ends = (base.end.final_accuracy, run.end.final_accuracy, base.end.worst_10, run.end.worst_10)
            return BesideBase(*ends)
        reached = min(base.evaluations[-1].round, run.evaluations[-1].round)
        theirs, ours = (min(one.evaluations, key=lambda at: abs(at.round - reached)) for one in (base, run))
        if abs(theirs.round - ours.round) >= _A_ROUND:
            return None
        return BesideBase(theirs.accuracy, ours.accuracy, theirs.worst_10, ours.worst_10, round(reached))

    def ends_below_base(self, run: MethodFacts) -> bool:
        """Return whether a method is less accurate than the base in the end, however soon it was as good."""
        beside = self.beside_base(run)
        return beside is not None and beside.ours < beside.base


def speedup_doubts(facts: RunFacts, run: MethodFacts) -> tuple[str, ...]:
    """Return in words why a method's speed-up says little; nothing where it says what it seems to."""
    return (
        *(("the base was best at its first evaluation",) if facts.is_base_best_at_first else ()),
        *(("ends below the base",) if facts.ends_below_base(run) else ()),
    )


def gather_facts(run: RunDirectory) -> RunFacts:
    """Read a run directory, finished or not."""
    facts = RunFacts(run.path.resolve().name, run.config_text())
    for method in run.methods():
        recorded = run.events(method)
        facts = facts.after(method, *recorded.events)
        one = replace(
            facts.methods[method],
            is_truncated=recorded.is_truncated,
            clients=run.read_clients(method),
            profiles=read_profiles(run, method),
        )
        facts = replace(facts, methods={**facts.methods, method: one})
    summary = run.read_summary()
    if summary is None:
        return facts
    return replace(
        facts,
        name=summary.population,
        seed=summary.seed,
        is_finished=summary.status == "finished",
        has_failed=summary.status == "failed",
        methods={name: replace(one, end=summary.methods.get(name)) for name, one in facts.methods.items()},
    )


def _with(before: tuple[_E, ...], events: tuple[Event, ...], kind: type[_E]) -> tuple[_E, ...]:
    return before + tuple(event for event in events if isinstance(event, kind))

"""What a run's files say, gathered for the report: each method's events by kind, and where it ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.summary import (
    BASE,
    ORACLE,
    AgainstBase,
    MethodSummary,
    best_accuracy,
    method_summaries,
    reach,
)
from auxo.protocol.cohorts_seen import CohortsSeen
from auxo.protocol.events import (
    EmptyRound,
    Evaluated,
    Event,
    Measured,
    Partitioned,
    RoundClosed,
    StoppedLooking,
    UpdateRejected,
)
from auxo.reporting.method_names import AUXO, contenders, words_for

_E = TypeVar("_E", RoundClosed, EmptyRound, Partitioned, StoppedLooking, UpdateRejected, Measured, Evaluated)


@dataclass(frozen=True)
class MethodFacts:
    """One method's events by kind, in order, and where it stands at their end (None before the first evaluation)."""

    method: str
    is_truncated: bool
    evaluations: tuple[Evaluated, ...]
    rounds: tuple[RoundClosed, ...]
    empty_rounds: tuple[EmptyRound, ...]
    partitions: tuple[Partitioned, ...]
    rejections: tuple[UpdateRejected, ...]
    end: MethodSummary | None
    clients: ClientScores | None
    stops: tuple[StoppedLooking, ...]
    seen: CohortsSeen
    measured: tuple[Measured, ...] = ()  # by an app's own metrics, on Flower

    @property
    def name(self) -> str:
        """Return how the method is called in a sentence."""
        return words_for(self.method).name

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

    def reach(self, accuracy: float, progress: Callable[[Evaluated], float]) -> float | None:
        """Return where on ``progress`` mean accuracy first is this good; None when it never was."""
        return reach(self.evaluations, accuracy, progress)

    def participations_at(self, time_s: float) -> int:
        """Return the updates aggregated up to a moment."""
        return sum(closed.participants for closed in self.rounds if closed.time_s <= time_s)


@dataclass(frozen=True)
class RunFacts:
    """All that the report tells; ``seed`` is None before the run has ended."""

    name: str
    seed: int | None
    is_finished: bool
    has_failed: bool  # a method came to its end without having trained its rounds
    methods: Mapping[str, MethodFacts]  # by name, in the order they ran
    config_text: str
    metric: str = "accuracy"  # what clients' scores are, wherever accuracy is spoken of

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

    def ends_below_base(self, run: MethodFacts) -> bool:
        """Return whether a method is less accurate than the base in the end, however soon it was as good."""
        base = self.base.end if self.base else None
        return base is not None and run.end is not None and run.end.final_accuracy < base.final_accuracy


def speedup_doubts(facts: RunFacts, run: MethodFacts) -> tuple[str, ...]:
    """Return in words why a method's speed-up says little; nothing where it says what it seems to."""
    return (
        *(("the base was best at its first evaluation",) if facts.is_base_best_at_first else ()),
        *(("ends below the base",) if facts.ends_below_base(run) else ()),
    )


def gather(run: RunDirectory) -> RunFacts:
    """Read a run directory, finished or not.

    Raises:
        FileError: a file of the run is damaged.
    """
    summary, methods = run.read_summary(), run.methods()
    recorded = {method: run.events(method) for method in methods}
    events = {method: one.events for method, one in recorded.items()}
    # Methods run one after the other, so of a run without a summary only the last may be unfinished.
    ends = summary.methods if summary else method_summaries(events, finished=methods[:-1])
    return RunFacts(
        name=summary.population if summary else run.path.resolve().name,
        seed=summary.seed if summary else None,
        is_finished=summary is not None and summary.status == "finished",
        has_failed=summary is not None and summary.status == "failed",
        methods={
            method: method_facts(
                method, one.events, one.is_truncated, end=ends.get(method), clients=run.read_clients(method)
            )
            for method, one in recorded.items()
        },
        config_text=run.config_text(),
        metric=summary.metric if summary else "accuracy",
    )


def method_facts(
    method: str,
    events: tuple[Event, ...],
    is_truncated: bool,
    *,
    end: MethodSummary | None = None,
    clients: ClientScores | None = None,
) -> MethodFacts:
    """Return what a method's events tell."""
    return MethodFacts(
        method=method,
        is_truncated=is_truncated,
        evaluations=_of_kind(events, Evaluated),
        rounds=_of_kind(events, RoundClosed),
        empty_rounds=_of_kind(events, EmptyRound),
        partitions=_of_kind(events, Partitioned),
        rejections=_of_kind(events, UpdateRejected),
        end=end,
        clients=clients,
        stops=_of_kind(events, StoppedLooking),
        seen=CohortsSeen.of(events),
        measured=_of_kind(events, Measured),
    )


def _of_kind(events: tuple[Event, ...], kind: type[_E]) -> tuple[_E, ...]:
    return tuple(event for event in events if isinstance(event, kind))

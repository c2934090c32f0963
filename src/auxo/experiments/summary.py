"""A run in a few numbers: where each method ended, and what it brought against the base and the oracle."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from statistics import median
from typing import Literal

from auxo.core.metric import ACCURACY, Metric
from auxo.protocol.cohorts_seen import CohortsSeen
from auxo.protocol.events import Evaluated, Event

BASE = "base"
"""The method that others are held against; without one of this name nothing is compared."""

ORACLE = "oracle"
"""The method that is told the true groups: how much of its gain another one has is a measure of that one."""

Status = Literal["finished", "interrupted", "failed"]
"""Failed: a method came to its end without having trained its rounds; what it says of itself is in its troubles."""


@dataclass(frozen=True)
class Between:
    """Where a speed-up lies: models are evaluated now and then, and a base may waver about its best for long."""

    low: float
    high: (
        float | None
    )  # None: the method was as good as the base at its first evaluation, and may have been long before


@dataclass(frozen=True)
class AgainstBase:
    """What a method brings; None for what it never reached, or what cannot be told."""

    speedup: float | None  # time of the base to its best accuracy over that of the method to the same
    resource_speedup: float | None  # the same in participations, what was wasted included
    oracle_gain_share: float | None  # None also for the oracle itself, and until all three have finished
    speedup_between: Between | None = None
    resource_speedup_between: Between | None = None


@dataclass(frozen=True)
class Loser:
    """A client that is worse off with a method than with the base; accuracies are fractions of its test samples."""

    client: str
    cohort: str
    accuracy: float
    base_accuracy: float


@dataclass(frozen=True)
class Losers:
    """Who is worse off than with the base, among those that were evaluated; clients.csv has all of them."""

    clients: int
    # Whose test samples are enough to tell: two standard errors and more; None where a score is no share of hits.
    beyond_chance: int | None
    worst: tuple[Loser, ...]  # a few of them, those that lose the most first


@dataclass(frozen=True)
class MethodSummary:
    """Where a method ended, or stands so far; accuracies are fractions, variances of accuracies in per cent."""

    is_finished: bool
    final_accuracy: float
    variance: float
    variance_beyond_binomial: float
    worst_10: float
    best_10: float
    time_s: float
    participations: int
    wasted_participations: int
    device_s: float
    wasted_device_s: float
    downloads: float
    perplexity: float | None  # None where nobody asked for it
    cohorts: int  # leaves of the tree
    ari: float | None  # agreement of cohorts with the known groups; None where none are known
    lost: int  # clients without a reason to want any cohort
    matched_accuracy: float  # with these sent somewhere at random
    matched_ari: float | None
    against_base: AgainstBase | None  # None for the base itself, and until it has finished
    are_cohorts_in_use: bool = False  # only those with clients are counted: events do not tell of others
    losers: Losers | None = None  # None for the base itself, and until both have finished
    troubles: tuple[str, ...] = ()  # what has to be known before the figures are believed, a failure first
    tuning_device_s: float = 0.0  # device-seconds of clients that make models their own; not in device_s
    attackers: int = 0  # clients that attack: all figures are those of the others, but for the next one
    accuracy_of_all: float | None = None  # the mean over attackers, too; None: nobody attacks

    @property
    def brought(self) -> AgainstBase:
        """Return what the method brings against the base; nothing where there is none to tell."""
        return self.against_base or AgainstBase(None, None, None)


@dataclass(frozen=True)
class Summary:
    """What summary.json holds. A method that has not been evaluated is not in it."""

    population: str
    seed: int
    status: Status
    methods: dict[str, MethodSummary]  # by name, in the order they ran
    metric: Metric = ACCURACY  # what clients' scores are, here and in events, wherever accuracy is spoken of
    refused: dict[str, str] = field(default_factory=dict)  # methods that were not run, and why they could not be

    @property
    def finished(self) -> dict[str, MethodSummary]:
        """Return the methods that came to their end."""
        return {name: method for name, method in self.methods.items() if method.is_finished}

    def only(self, names: Collection[str]) -> "Summary":
        """Return what is said of these methods."""
        return replace(
            self,
            methods={name: method for name, method in self.methods.items() if name in names},
            refused={name: words for name, words in self.refused.items() if name in names},
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the troubles of all methods, each with the method's name."""
        return tuple(f"{name}: {words}" for name, method in self.methods.items() for words in method.troubles)


def summarise(
    population: str,
    seed: int,
    status: Status,
    events: Mapping[str, Sequence[Event]],
    finished: Collection[str],
    troubles: Mapping[str, tuple[str, ...]] | None = None,
) -> Summary:
    """Return the summary of a run; see `method_summaries`."""
    curves = {name: evaluations(told) for name, told in events.items()}
    seen = {name: CohortsSeen.of(told) for name, told in events.items()}
    return Summary(population, seed, status, method_summaries(curves, seen, finished, troubles))


def method_summaries(
    curves: Mapping[str, Sequence[Evaluated]],
    seen: Mapping[str, CohortsSeen],
    finished: Collection[str],
    troubles: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[str, MethodSummary]:
    """Return what each method comes to by its evaluations and cohorts; those in ``finished`` came to their end."""
    curves = {name: curve for name, curve in curves.items() if curve}
    ends = {name: curve[-1].accuracy for name, curve in curves.items() if name in finished}
    base = curves.get(BASE) if BASE in ends else None
    return {
        name: _method_summary(
            curve[-1],
            is_finished=name in finished,
            seen=seen[name],
            against_base=None if base is None or name == BASE else _against_base(name, base, curve, ends),
            troubles=(troubles or {}).get(name, ()),
        )
        for name, curve in curves.items()
    }


def evaluations(events: Sequence[Event]) -> tuple[Evaluated, ...]:
    """Return a method's evaluations in order."""
    return tuple(event for event in events if isinstance(event, Evaluated))


def best_accuracy(curve: Sequence[Evaluated]) -> float | None:
    """Return the best of a method's mean accuracies, the mark that others are timed against; None without any."""
    return max((point.accuracy for point in curve), default=None)


def reach(curve: Sequence[Evaluated], accuracy: float, progress: Callable[[Evaluated], float]) -> float | None:
    """Return where on ``progress`` mean accuracy first is this good; None when it never was."""
    # The metrics bring scikit-learn, which takes a second to import; `auxo --help` should not wait for it.
    from auxo.core.metrics import first_reach  # noqa: PLC0415

    return first_reach([progress(point) for point in curve], [point.accuracy for point in curve], accuracy)


def reach_between(
    curve: Sequence[Evaluated], accuracy: float, progress: Callable[[Evaluated], float]
) -> tuple[float, float] | None:
    """Return the two evaluations between which mean accuracy first is this good; None when it never was."""
    from auxo.core.metrics import reached_between  # noqa: PLC0415 - as above

    return reached_between([progress(point) for point in curve], [point.accuracy for point in curve], accuracy)


def speedup(
    base: Sequence[Evaluated], other: Sequence[Evaluated], progress: Callable[[Evaluated], float]
) -> float | None:
    """Return how much sooner on ``progress`` a method is as good as the base ever gets; None when it never is."""
    target = best_accuracy(base)
    if target is None or not other:
        return None
    of_base, of_other = (reach(curve, target, progress) for curve in (base, other))
    return of_base / of_other if of_base is not None and of_other else None


def speedup_between(
    base: Sequence[Evaluated], other: Sequence[Evaluated], progress: Callable[[Evaluated], float]
) -> Between | None:
    """Return how much sooner a method is as good as the base at least, and at most; None when it never is.

    When a base that wavers on a plateau is at its best is chance; at the least it counts from when it came there.
    """
    target = best_accuracy(base)
    if target is None:
        return None
    of_base, of_other = (reach_between(curve, target, progress) for curve in (base, other))
    if of_base is None or of_other is None:
        return None
    there = reach_between(base, target - _usual_change(base), progress) or of_base
    return Between(there[0] / of_other[1], of_base[1] / of_other[0] if of_other[0] else None)


def _usual_change(curve: Sequence[Evaluated]) -> float:
    """Return twice the median change from one evaluation to the next in the second half: how far a curve wavers."""
    later = [point.accuracy for point in curve[len(curve) // 2 :]]
    changes = [abs(after - before) for before, after in pairwise(later)]
    return 2 * median(changes) if changes else 0.0


def _against_base(
    name: str, base: Sequence[Evaluated], curve: Sequence[Evaluated], ends: Mapping[str, float]
) -> AgainstBase:
    return AgainstBase(
        speedup_between=speedup_between(base, curve, lambda point: point.time_s),
        resource_speedup_between=speedup_between(base, curve, lambda point: point.resource),
        speedup=speedup(base, curve, lambda point: point.time_s),
        resource_speedup=speedup(base, curve, lambda point: point.resource),
        oracle_gain_share=_oracle_gain_share(name, ends),
    )


def _oracle_gain_share(name: str, ends: Mapping[str, float]) -> float | None:
    if name == ORACLE or name not in ends or ORACLE not in ends:
        return None
    from auxo.core.metrics import oracle_gain_share  # noqa: PLC0415 - as above

    return oracle_gain_share(ends[BASE], ends[name], ends[ORACLE])


def _method_summary(
    last: Evaluated,
    *,
    is_finished: bool,
    seen: CohortsSeen,
    against_base: AgainstBase | None,
    troubles: tuple[str, ...],
) -> MethodSummary:
    as_measured = {one.name for one in fields(MethodSummary)} & {one.name for one in fields(Evaluated)} - {"cohorts"}
    return MethodSummary(
        is_finished=is_finished,
        final_accuracy=last.accuracy,
        cohorts=max(1, len(seen.leaves)),
        against_base=against_base,
        are_cohorts_in_use=seen.are_counted_by_use,
        troubles=troubles,
        **{name: getattr(last, name) for name in as_measured},
    )

"""Several runs of the same experiment with other seeds: methods beside the base, with differences paired by seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from auxo.core.metric import ACCURACY, Metric
from auxo.experiments.summary import BASE, Between, MethodSummary, Summary

FEWEST_SEEDS = 3
"""Seeds before an interval says anything; our choice."""

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Measure:
    """Something that a summary says about each method."""

    key: str  # in MethodSummary
    title: str
    scale: float  # to what is shown
    unit: str
    digits: int

    def of(self, method: MethodSummary) -> float | None:
        """Return what a method's summary says, in the units that it is shown in; None where it was not measured."""
        value: float | None = getattr(method, self.key)
        return None if value is None else self.scale * value


SCORE_KEYS = frozenset({"final_accuracy", "matched_accuracy", "worst_10", "best_10"})
"""Keys of what is measured in the unit of the metric."""


def measures(metric: Metric) -> tuple[Measure, ...]:
    """Return what is told of each method whose clients are scored by a metric."""
    scale, unit, digits = metric.scale, metric.unit, 2 if metric.is_fraction else 4
    squared, squared_unit, fewer = metric.variance_scale, metric.variance_unit, 1 if metric.is_fraction else 4
    beyond = Measure("variance_beyond_binomial", "... beyond small test sets", squared, squared_unit, fewer)
    return (
        Measure("final_accuracy", f"final {metric.name}", scale, unit, digits),
        Measure("matched_accuracy", "... as matched", scale, unit, digits),
        Measure("perplexity", "perplexity", 1, "", 3),
        Measure("worst_10", "worst 10 % of clients", scale, unit, digits),
        Measure("best_10", "best 10 % of clients", scale, unit, digits),
        Measure("variance", "variance across clients", squared, squared_unit, fewer),
        *((beyond,) if metric == ACCURACY else ()),  # of other scores chance is not known
    )


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and how far from it the truth may lie, with 95 % confidence; None for one or two seeds."""

    mean: float
    half_width: float | None

    @property
    def is_beyond_chance(self) -> bool:
        """Return whether 0 is outside of the interval."""
        return self.half_width is not None and abs(self.mean) > self.half_width


@dataclass(frozen=True)
class Row:
    """One measure, in the units that it is shown in, by method; methods for which a seed lacks it are left out."""

    measure: Measure
    means: dict[str, float]  # over seeds
    differences: dict[str, Interval]  # method minus base, paired by seed; none without a base


@dataclass(frozen=True)
class BySeed:
    """What a method brought, seed by seed; None for what it never reached, or what cannot be told."""

    speedups: tuple[float | None, ...]  # in time to the base's best accuracy
    resource_speedups: tuple[float | None, ...]  # the same in participations
    cohorts: tuple[int, ...]
    are_cohorts_in_use: bool  # only those with clients are counted
    oracle_gain_shares: tuple[float | None, ...]
    aris: tuple[float | None, ...]  # agreement of cohorts with the known groups
    lost: tuple[int, ...]  # clients that had to compare models
    matched_aris: tuple[float | None, ...]  # with these sent somewhere at random
    speedup_between: Between | None = None  # where the mean of speed-ups lies, over all seeds
    resource_speedup_between: Between | None = None


@dataclass(frozen=True)
class Comparison:
    """What several seeds say together."""

    population: str
    seeds: tuple[int, ...]
    methods: tuple[str, ...]  # in the order they ran
    rows: tuple[Row, ...]
    by_seed: dict[str, BySeed]  # for every method but the base
    metric: Metric = ACCURACY  # what clients' scores are
    refused: dict[str, str] = field(default_factory=dict)  # methods that were not run, and why they could not be
    troubles: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by method, those of all seeds, each once
    # By each seed, samples included; False: all seeds have those of a file, which intervals then say nothing about.
    are_clients_drawn: bool = False

    @property
    def accuracy(self) -> Row:
        """Return the row of the final accuracy."""
        return next(row for row in self.rows if row.measure.key == "final_accuracy")


def interval(values: Sequence[float]) -> Interval:
    """Return the mean and its confidence interval by Student's distribution.

    Of fewer than three values there is none: that of two is 9 times as wide as they are apart.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> print(f"{found.mean:.1f} {found.half_width:.3f}")
    2.0 2.484
    """
    numbers = np.asarray(values, dtype=np.float64)
    mean = float(numbers.mean())
    if len(numbers) < FEWEST_SEEDS:
        return Interval(mean, None)
    from scipy import stats  # noqa: PLC0415 - takes long to import, and `auxo --help` should not wait

    error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Interval(mean, float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(numbers) - 1)) * error)


def compare(summaries: Sequence[Summary], *, are_clients_drawn: bool = False) -> Comparison:
    """Return what the summaries of finished runs, one a seed, say together.

    ``are_clients_drawn`` says whether each seed has clients and samples of its own.

    Raises:
        ValueError: there is none, or not all have finished the same methods.
    """
    if not summaries:
        raise ValueError("summaries: expected at least one, got none")
    methods = tuple(summaries[0].finished)
    for summary in summaries:
        if tuple(summary.finished) != methods:
            raise ValueError(
                f"summaries: expected {', '.join(methods)} of every seed, as of seed {summaries[0].seed}, "
                f"got {', '.join(summary.finished) or 'none'} of seed {summary.seed}; run it again"
            )
    is_anybody_lost = any(one.methods[method].lost for one in summaries for method in methods)
    rows = (_row(measure, methods, summaries) for measure in measures(summaries[0].metric))
    return Comparison(
        population=summaries[0].population,
        seeds=tuple(summary.seed for summary in summaries),
        methods=methods,
        rows=tuple(row for row in rows if row.means and (is_anybody_lost or row.measure.key != "matched_accuracy")),
        by_seed={method: _by_seed([one.methods[method] for one in summaries]) for method in methods if method != BASE},
        metric=summaries[0].metric,
        refused=summaries[0].refused,
        troubles={
            method: tuple(dict.fromkeys(words for one in summaries for words in one.methods[method].troubles))
            for method in methods
        },
        are_clients_drawn=are_clients_drawn,
    )


def mean_speedup(speedups: Sequence[float | None]) -> float | None:
    """Return the geometric mean; None if a seed never reached the base's accuracy."""
    known = [value for value in speedups if value is not None]
    if not known or len(known) < len(speedups):
        return None
    return math.exp(sum(math.log(value) for value in known) / len(known))


def mean_between(found: Sequence[Between | None]) -> Between | None:
    """Return where the geometric mean lies; None if it is not known of a seed."""
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    low = 0.0 if any(one.low == 0.0 for one in known) else mean_speedup([one.low for one in known])
    return Between(low or 0.0, mean_speedup([one.high for one in known]))


def _row(measure: Measure, methods: Sequence[str], summaries: Sequence[Summary]) -> Row:
    values = {
        method: found for method in methods if (found := _values(measure, [one.methods[method] for one in summaries]))
    }
    base = values.get(BASE)
    return Row(
        measure,
        means={method: float(np.mean(found)) for method, found in values.items()},
        differences={
            method: interval([ours - theirs for ours, theirs in zip(found, base, strict=True)])
            for method, found in values.items()
            if base is not None and method != BASE
        },
    )


def _values(measure: Measure, by_seed: Sequence[MethodSummary]) -> list[float] | None:
    """Return a measure for each seed; None if it is not known for one of them."""
    known = [value for method in by_seed if (value := measure.of(method)) is not None]
    return known if len(known) == len(by_seed) else None


def _by_seed(by_seed: Sequence[MethodSummary]) -> BySeed:
    brought = [method.brought for method in by_seed]
    return BySeed(
        speedups=tuple(one.speedup for one in brought),
        resource_speedups=tuple(one.resource_speedup for one in brought),
        cohorts=tuple(method.cohorts for method in by_seed),
        are_cohorts_in_use=any(method.are_cohorts_in_use for method in by_seed),
        oracle_gain_shares=tuple(one.oracle_gain_share for one in brought),
        aris=tuple(method.ari for method in by_seed),
        lost=tuple(method.lost for method in by_seed),
        matched_aris=tuple(method.matched_ari for method in by_seed),
        speedup_between=mean_between([one.speedup_between for one in brought]),
        resource_speedup_between=mean_between([one.resource_speedup_between for one in brought]),
    )

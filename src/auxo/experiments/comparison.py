"""Several runs of the same experiment with other seeds: Auxo beside the base, with differences paired by seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Measure:
    """Something that a summary says about each method."""

    key: str  # in MethodSummary
    title: str
    scale: float  # to what is shown
    unit: str
    digits: int
    is_better_higher: bool = True


MEASURES = (
    Measure("final_accuracy", "final accuracy", 100, "%", 2),
    Measure("perplexity", "perplexity", 1, "", 3, is_better_higher=False),
    Measure("worst_10", "worst 10 % of clients", 100, "%", 2),
    Measure("best_10", "best 10 % of clients", 100, "%", 2),
    Measure("variance", "variance across clients", 1, "%²", 1, is_better_higher=False),
    Measure("variance_beyond_binomial", "... beyond small test sets", 1, "%²", 1, is_better_higher=False),
)


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and how far from it the truth may lie, with 95 % confidence; None for a single seed."""

    mean: float
    half_width: float | None

    @property
    def is_above_zero(self) -> bool:
        """Return whether all of the interval is above 0."""
        return self.half_width is not None and self.mean - self.half_width > 0

    @property
    def is_below_zero(self) -> bool:
        """Return whether all of the interval is below 0."""
        return self.half_width is not None and self.mean + self.half_width < 0


@dataclass(frozen=True)
class Row:
    """One measure, in the units that it is shown in."""

    measure: Measure
    base: float  # means over seeds
    auxo: float
    difference: Interval  # Auxo minus base, paired by seed
    oracle: float | None


@dataclass(frozen=True)
class Comparison:
    """What several seeds say together."""

    population: str
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    speedups: tuple[float | None, ...]  # by seed, in time to the base's best accuracy; None: never reached
    resource_speedups: tuple[float | None, ...]  # the same in participations
    cohorts: tuple[int | None, ...]
    oracle_gain_shares: tuple[float | None, ...]

    @property
    def accuracy(self) -> Row:
        """Return the row of the final accuracy."""
        return next(row for row in self.rows if row.measure.key == "final_accuracy")


def interval(values: Sequence[float]) -> Interval:
    """Return the mean and its confidence interval by Student's distribution.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> print(f"{found.mean:.1f} {found.half_width:.3f}")
    2.0 2.484
    """
    numbers = np.asarray(values, dtype=np.float64)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return Interval(mean, None)
    from scipy import stats  # noqa: PLC0415 - takes long to import, and `auxo --help` should not wait

    error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Interval(mean, float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(numbers) - 1)) * error)


def compare(summaries: Sequence[Mapping[str, object]]) -> Comparison:
    """Return what the summaries of finished runs, one a seed, say together.

    Raises:
        ValueError: there is none, or one of them lacks the base or Auxo.
    """
    if not summaries:
        raise ValueError("summaries: expected at least one, got none")
    rows = []
    for measure in MEASURES:
        base, auxo = (_values(summaries, method, measure) for method in ("base", "auxo"))
        if base is None or auxo is None:
            if measure.key == "final_accuracy":
                raise ValueError("summaries: expected the base and Auxo in each, got one without; run both methods")
            continue
        oracle = _values(summaries, "oracle", measure)
        differences = [ours - theirs for ours, theirs in zip(auxo, base, strict=True)]
        rows.append(
            Row(
                measure,
                base=float(np.mean(base)),
                auxo=float(np.mean(auxo)),
                difference=interval(differences),
                oracle=None if oracle is None else float(np.mean(oracle)),
            )
        )
    return Comparison(
        population=str(summaries[0]["population"]),
        seeds=tuple(int(str(summary["seed"])) for summary in summaries),
        rows=tuple(rows),
        speedups=tuple(_number(summary.get("speedup")) for summary in summaries),
        resource_speedups=tuple(_number(summary.get("resource_speedup")) for summary in summaries),
        cohorts=tuple(
            None if (found := _number(summary.get("cohorts"))) is None else int(found) for summary in summaries
        ),
        oracle_gain_shares=tuple(_number(summary.get("oracle_gain_share")) for summary in summaries),
    )


def mean_speedup(speedups: Sequence[float | None]) -> float | None:
    """Return the geometric mean; None if a seed never reached the base's accuracy."""
    known = [value for value in speedups if value is not None]
    if not known or len(known) < len(speedups):
        return None
    return math.exp(sum(math.log(value) for value in known) / len(known))


def _values(summaries: Sequence[Mapping[str, object]], method: str, measure: Measure) -> list[float] | None:
    found = []
    for summary in summaries:
        scores = summary.get(method)
        value = _number(scores.get(measure.key)) if isinstance(scores, Mapping) else None
        if value is None:
            return None
        found.append(measure.scale * value)
    return found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

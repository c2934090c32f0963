"""Who is in which cohort, and what distinguishes cohorts: in words first, then in pictures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.core.types import FloatArray
from auxo.experiments.cohort_profiles import CohortProfile, CohortProfiles
from auxo.reporting.facts import MethodFacts
from auxo.reporting.figures import cohort_colours
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.number_format import PER_CENT, capital, counted, percent
from auxo.reporting.page import chart_figure, note
from auxo.reporting.svg import Axis, Line, LineChart, Moment

# Our choices: below these, cohorts are called alike.
_SHARE = 0.05  # of a class, between the least and the greatest
_DEVIATIONS = 0.25  # of a mean of inputs
_FEWEST = 20  # samples with a class before its inputs say something

_TOLD = 3  # differences of a kind that are told of a cohort
_DRAWN = 8  # and drawn of all
_MOST_COHORTS = 12  # that are told one by one
_ROW = 34  # pixels
_APART = 0.16  # rows from the point of one cohort to that of the next


def cohort_parts(run: MethodFacts) -> list[Markup]:
    """Return what there is to say of a method's cohorts; nothing where there is one, or it has not ended."""
    profiles = run.profiles
    if profiles is None:
        return []
    kinds = [kind for kind in _kinds(profiles) if kind.is_told]
    told = [_of_cohort(one, place, kinds) for place, one in _some(profiles.cohorts)]
    if len(profiles.cohorts) > _MOST_COHORTS:
        told.append(tag("li", escaped(f"and {len(profiles.cohorts) - _MOST_COHORTS} more")))
    return [
        tag("p", escaped(_lead(kinds))),
        tag("ul", *told, class_="cohorts"),
        *(chart_figure(_picture(kind, run), kind.caption) for kind in kinds),
        _members(profiles, run.method),
    ]


@dataclass(frozen=True)
class _Kind:
    """Something that cohorts may differ in: a row for each cohort, a column for each thing that is measured."""

    title: str
    caption: str
    names: tuple[str, ...]
    values: FloatArray  # (cohorts, names) NaN where too little is known
    everybody: FloatArray  # (names,)
    write: Callable[[float], str]
    axis: Axis
    least: float  # difference that is told

    @property
    def ranges(self) -> FloatArray:
        """Return how far apart cohorts are in each of the names."""
        high, low = (np.where(np.isnan(self.values), side, self.values) for side in (-np.inf, np.inf))
        return np.asarray(np.maximum(0.0, high.max(axis=0) - low.min(axis=0)))

    @property
    def is_told(self) -> bool:
        """Return whether cohorts differ in it by enough."""
        return len(self.names) > 0 and len(self.values) > 1 and bool(self.ranges.max() >= self.least)


def _kinds(profiles: CohortProfiles) -> Iterator[_Kind]:
    """Yield what cohorts may differ in, from what can be seen at once to what takes a look at both sides."""
    found, everybody = profiles.cohorts, profiles.everybody
    is_shares = profiles.task != "regression"
    what = {"classification": "classes", "regression": "numbers to be learned", "multi-label": "labels"}[profiles.task]
    deviations = Axis("deviations from everybody's mean")
    yield _Kind(
        what,
        f"{capital(what)} by cohort: share of its training samples."
        if is_shares
        else f"{capital(what)} by cohort: mean over its training samples.",
        profiles.answers,
        np.array([one.answers for one in found]).reshape(len(found), -1),
        np.array(everybody.answers),
        (lambda value: percent(value, 0)) if is_shares else _signed,
        Axis("share of samples", *PER_CENT, low=0.0) if is_shares else deviations,
        _SHARE if is_shares else _DEVIATIONS,
    )
    yield _Kind(
        "inputs",
        "Inputs by cohort: mean over its training samples, in everybody's deviations.",
        profiles.inputs,
        np.array([one.inputs for one in found]).reshape(len(found), -1),
        np.array(everybody.inputs),
        _signed,
        deviations,
        _DEVIATIONS,
    )
    if everybody.pairs:
        yield _Kind(
            f"how {what} go with inputs",
            "The same inputs where a class or label holds."
            if is_shares
            else "Mean product of an input and a number, both in deviations: about 0 if neither tells of the other.",
            tuple(
                f"{x} where {y}" if is_shares else f"{x} with {y}" for y in profiles.answers for x in profiles.inputs
            ),
            np.array([_known_pairs(one, is_shares) for one in found]),
            np.array(everybody.pairs).ravel(),
            _signed,
            deviations if is_shares else Axis("mean product"),
            _DEVIATIONS,
        )


def _known_pairs(profile: CohortProfile, is_shares: bool) -> FloatArray:
    """Return the pairs of a cohort, without those of an answer that too few samples have."""
    pairs = np.array(profile.pairs)
    if is_shares:
        pairs[np.array(profile.answers) * profile.samples < _FEWEST] = np.nan
    return pairs.ravel()


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "\N{MINUS SIGN}")  # no negative zero


def _lead(kinds: Sequence[_Kind]) -> str:
    if not kinds:
        return (
            "In their classes and their inputs cohorts are alike, as far as it is looked at here: it was their updates "
            "that told them apart."
        )
    told = []
    for kind in kinds:
        place = int(kind.ranges.argmax())
        column = kind.values[:, place]
        ends = f"from {kind.write(float(np.nanmin(column)))} to {kind.write(float(np.nanmax(column)))}"
        told.append(f"{kind.title} (most: {kind.names[place]}, {ends})")
    return f"They differ in {'; in '.join(told)}."


def _of_cohort(profile: CohortProfile, place: int, kinds: Sequence[_Kind]) -> Markup:
    lines = [
        f"{counted(profile.clients, 'client')}; nearest to its centre: {', '.join(profile.nearest)}.",
        *(f"{capital(kind.title)}: {_apart(kind, place)}." for kind in kinds),
    ]
    return tag("li", tag("b", escaped(profile.cohort)), *(tag("span", escaped(line)) for line in lines))


def _apart(kind: _Kind, place: int) -> str:
    """Return in what a cohort is furthest from everybody."""
    apart = np.abs(np.nan_to_num(kind.values[place] - kind.everybody))
    chosen = [one for one in np.argsort(-apart, kind="stable")[:_TOLD].tolist() if 2 * apart[one] >= kind.least]
    told = [
        f"{kind.names[one]} {kind.write(float(kind.values[place, one]))} (everybody "
        f"{kind.write(float(kind.everybody[one]))})"
        for one in chosen
    ]
    return ", ".join(told) or "like everybody"


def _picture(kind: _Kind, run: MethodFacts) -> LineChart:
    """Return a row for each of what cohorts differ in most, with a point for each cohort."""
    colours, profiles = cohort_colours(run), run.profiles
    rows = np.sort(np.argsort(-kind.ranges, kind="stable")[:_DRAWN])
    cohorts, places = profiles.cohorts if profiles else (), np.arange(len(rows), dtype=np.float64)
    shown = _some(cohorts)
    spread = min(_APART * (len(shown) - 1) / 2, 0.4)
    lines = tuple(
        # One below the other, or points would hide each other where cohorts are alike.
        Line(one.cohort, colours.get(one.cohort, "ink"), kind.values[place, rows], places + below, is_points=True)
        for (place, one), below in zip(shown, np.linspace(-spread, spread, len(shown)), strict=True)
    )
    return LineChart(
        f"{kind.caption} Cohorts: {', '.join(one.cohort for one in cohorts)}.",
        kind.axis,
        Axis("", names=tuple(kind.names[row] for row in rows)),
        lines,
        marks=() if kind.axis.low == 0.0 else (Moment(0.0, "", "everybody's mean"),),
        height=90 + _ROW * len(rows),
    )


def _some(cohorts: Sequence[CohortProfile]) -> list[tuple[int, CohortProfile]]:
    return list(enumerate(cohorts))[:_MOST_COHORTS]


def _members(profiles: CohortProfiles, method: str) -> Markup:
    lists = [
        tag("p", tag("b", escaped(f"{one.cohort}: ")), escaped(", ".join(one.members) + _more(one)))
        for one in profiles.cohorts
    ]
    last = note(f"{method}/clients.csv has every client with its cohort and scores.")
    return tag("details", tag("summary", escaped("Who is in which cohort")), *lists, last)


def _more(profile: CohortProfile) -> str:
    missing = profile.clients - len(profile.members)
    return f" and {missing:,} more" if missing else ""

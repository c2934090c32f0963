from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.reporting.svg import (
    MAX_POINTS,
    Axis,
    Band,
    Level,
    Line,
    LineChart,
    Moment,
    Span,
    Zone,
    decimated_rows,
    draw,
    spread_apart,
    tick_step,
    ticks,
    whole_step,
)

finite = st.floats(-1e6, 1e6, allow_nan=False)


def chart(*lines: Line) -> LineChart:
    return LineChart("what it shows", Axis("time"), Axis("accuracy"), lines)


def line(values: list[float], name: str = "a", label: str = "") -> Line:
    return Line(name, "auxo", np.arange(len(values), dtype=np.float64), np.array(values, dtype=np.float64), label)


def parsed(picture: LineChart, width: int = 900) -> ET.Element:
    return ET.fromstring(draw(picture, width))  # noqa: S314  # our own output


def texts(picture: LineChart, css: str) -> list[str]:
    found = parsed(picture).iter("text")
    return [element.text or "" for element in found if css in (element.get("class") or "").split()]


def points(picture: LineChart) -> list[tuple[float, float]]:
    (polyline,) = parsed(picture).iter("polyline")
    pairs = [pair.split(",") for pair in (polyline.get("points") or "").split()]
    return [(float(x), float(y)) for x, y in pairs]


@given(st.lists(finite, min_size=1, max_size=300), st.integers(4, 60))
def test_decimation_keeps_ends_extremes_and_order_within_the_limit(values: list[float], limit: int) -> None:
    column = np.array(values)
    rows = decimated_rows(column, limit)
    assert len(rows) <= max(limit, 2)
    assert (rows[0], rows[-1]) == (0, len(values) - 1)
    assert (np.diff(rows) > 0).all()
    assert column[rows].min() == column.min()
    assert column[rows].max() == column.max()


def test_short_column_is_not_decimated() -> None:
    assert decimated_rows(np.zeros(10), 10).tolist() == list(range(10))


def test_decimation_to_fewer_than_four_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="limit: expected at least 4, got 3"):
        decimated_rows(np.zeros(10), 3)


@given(finite, st.floats(1e-3, 1e6), st.integers(1, 12))
def test_ticks_are_few_and_inside(low: float, length: float, count: int) -> None:
    step = tick_step(low, low + length, count)
    places = ticks(low, low + length, step)
    assert len(places) <= count + 1
    assert all(low - 1e-6 * step <= place <= low + length + 1e-6 * step for place in places)


@pytest.mark.parametrize(
    ("high", "count", "step"), [(1.0, 5, 0.2), (1.0, 4, 0.25), (200, 4, 50), (55, 6, 10), (3, 3, 1)]
)
def test_ticks_are_at_round_numbers(high: float, count: int, step: float) -> None:
    assert tick_step(0.0, high, count) == pytest.approx(step)


@given(st.lists(st.floats(0, 100), max_size=12), st.floats(1, 30))
def test_labels_are_spread_apart_within_bounds_and_in_order(wanted: list[float], gap: float) -> None:
    placed = spread_apart(wanted, gap, 0.0, 100.0)
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in placed)
    room = min(gap, 100 / max(len(wanted) - 1, 1))
    ordered = sorted(placed)
    assert all(after - before >= room - 1e-6 for before, after in pairwise(ordered))
    for i, first in enumerate(wanted):
        for j, second in enumerate(wanted):
            assert first >= second or placed[i] < placed[j] + 1e-6


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread_apart([80.0, 10.0, 40.0], 15.0, 0.0, 100.0) == [80.0, 10.0, 40.0]


@pytest.mark.parametrize(("high", "count", "step"), [(2, 6, 1), (15, 6, 5), (7, 6, 2), (1000, 4, 500)])
def test_what_is_counted_has_ticks_at_whole_numbers(high: float, count: int, step: float) -> None:
    assert whole_step(0.0, high, count) == step
    assert Axis("round", is_whole=True).write(7.0, 0.01) == "7"


@pytest.mark.parametrize(
    ("factor", "unit", "value", "step", "text"),
    [
        (100.0, " %", 0.25, 0.25, "25 %"),
        (100.0, " %", 0.914, 0.002, "91.4 %"),
        (1.0, "", 20000.0, 5000.0, "20,000"),
        (1.0, "", 0.9992, 0.0002, "0.9992"),
        (1.0, "", 2.5, 2.5, "2.5"),
    ],
)
def test_neighbouring_ticks_are_written_with_the_digits_they_need(
    factor: float, unit: str, value: float, step: float, text: str
) -> None:
    assert Axis("", factor, unit).write(value, step) == text


def test_greater_values_are_higher_and_later_ones_further_right() -> None:
    (x0, y0), (x1, y1), (x2, y2) = points(chart(line([0.2, 0.8, 0.5])))
    assert x0 < x1 < x2
    assert y1 < y2 < y0


def test_line_of_many_points_is_drawn_with_few() -> None:
    assert len(points(chart(line([float(i % 7) for i in range(20_000)])))) <= MAX_POINTS


def test_values_that_are_not_finite_are_not_drawn() -> None:
    assert len(points(chart(line([0.1, float("nan"), 0.3, float("inf"), 0.2])))) == 3


@pytest.mark.parametrize("values", [[], [0.5], [0.0, 0.0], [1.0, 1.0], [float("nan")], [1e-12, 1e12]])
@pytest.mark.parametrize("width", [370, 900])
def test_odd_data_still_makes_a_picture_with_finite_coordinates(values: list[float], width: int) -> None:
    drawn = draw(chart(line(values, label="a")), width)
    ET.fromstring(drawn)  # noqa: S314  # our own output
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_picture_is_described_to_those_who_do_not_see_it() -> None:
    root = parsed(chart(line([0.1, 0.2])))
    assert root.get("role") == "img"
    assert root.get("aria-label") == "what it shows"
    assert root.findtext("desc") == "what it shows"


def test_words_from_data_are_escaped() -> None:
    evil = '<script>"&'
    picture = replace(
        chart(line([0.1, 0.2], name=evil, label=evil)),
        description=evil,
        marks=(Moment(0.5, evil, evil),),
        spans=(Span(0.0, 1.0, 0.1, evil),),
        zones=(Zone(0.0, 0.1, evil),),
        levels=(Level("auxo", 0.0, 0.1, 0.1, evil),),
    )
    assert "<script" not in draw(picture, 900)
    assert parsed(picture).get("aria-label") == evil
    assert texts(picture, "label") == [evil]


def test_every_line_is_labelled_wherever_it_ends() -> None:
    short = Line("short", "base", np.array([0.0, 1.0]), np.array([0.1, 0.2]), "short")
    middle = replace(line([0.3, 0.4, 0.5]), label="middle", label_x=1.0)
    assert sorted(texts(chart(line([0.0] * 9, label="long"), short, middle), "label")) == ["long", "middle", "short"]


def test_labels_of_lines_that_end_together_do_not_overlap() -> None:
    root = parsed(chart(*(line([0.1, 0.5], name=str(i), label=str(i)) for i in range(6))))
    heights = sorted(float(text.get("y") or 0) for text in root.iter("text") if text.get("class") == "label")
    assert len(heights) == 6
    assert min(np.diff(heights)) >= 12


def test_words_of_marks_that_would_overlap_are_left_to_the_pointer() -> None:
    marks = tuple(Moment(5 + i / 100, f"mark {i}", f"detail {i}") for i in range(5))
    picture = replace(chart(line([0.0] * 11)), marks=marks)
    assert texts(picture, "note") == ["mark 0"]
    titles = [title.text for title in parsed(picture).iter("title")]
    assert [f"detail {i}" for i in range(5)] == titles[:5]


def test_mark_after_the_last_point_is_inside_the_picture() -> None:
    picture = replace(chart(line([0.1, 0.2])), marks=(Moment(10.0, "late", "late"),))
    (mark,) = [element for element in parsed(picture).iter("line") if element.get("class") == "mark"]
    assert float(mark.get("x1") or 0) <= 900


def test_band_lies_between_its_bounds() -> None:
    x = np.array([0.0, 1.0])
    picture = replace(chart(line([0.5, 0.5])), bands=(Band("auxo", x, np.array([0.2, 0.3]), np.array([0.8, 0.9])),))
    (polygon,) = parsed(picture).iter("polygon")
    heights = [float(pair.split(",")[1]) for pair in (polygon.get("points") or "").split()]
    (_, height), _ = points(picture)
    assert min(heights) < height < max(heights)
    assert len(heights) == 4


def boxes(picture: LineChart, width: int) -> list[tuple[float, float, float]]:
    """Return left edge, right edge and height of each label."""
    found = [one for one in parsed(picture, width).iter("text") if "label" in (one.get("class") or "")]
    return [
        (float(one.get("x") or 0), float(one.get("x") or 0) + 7.2 * len(one.text or ""), float(one.get("y") or 0))
        for one in found
    ]


@pytest.mark.parametrize("width", [370, 900])
def test_labels_of_lines_that_end_early_overlap_neither_labels_nor_lines(width: int) -> None:
    long = Line("long", "m0", np.array([0.0, 10.0]), np.array([0.9, 0.9]), "long 90 %")
    ends = [(5.0, 0.9), (5.2, 0.905), (5.0, 0.5), (5.1, 0.1)]
    early = [
        Line(f"{place}", "m1", np.array([0.0, x]), np.array([0.0, y]), f"line {place} {y:.1%}")
        for place, (x, y) in enumerate(ends)
    ]
    found = boxes(chart(long, *early), width)
    assert len(found) == 5
    for place, (left, right, height) in enumerate(found):
        assert not any(
            abs(height - other_height) < 12 and left < other_right and other_left < right
            for other_left, other_right, other_height in found[:place]
        )
    beside = [left for left, _, _ in found].count(max(left for left, _, _ in found))
    assert beside >= 3  # where the long line passes there is no room


def test_a_line_that_ends_early_with_room_around_it_is_labelled_where_it_ends() -> None:
    short = Line("short", "m1", np.array([0.0, 4.0]), np.array([0.0, 0.2]), "short")
    long = Line("long", "m0", np.array([0.0, 10.0]), np.array([0.9, 0.9]), "long")
    (beside, within) = boxes(chart(long, short), 900)
    assert within[0] < beside[0] / 2


@pytest.mark.parametrize(("width", "is_beside"), [(900, True), (300, False)])
def test_names_stand_from_the_top_beside_their_lines_or_above_them_where_there_is_no_room(
    width: int, is_beside: bool
) -> None:
    names = ("the first of several measures", "the second")
    picture = LineChart("shown", Axis("points"), Axis("", names=names), (line([0.0, 1.0]),))
    words = [one for one in parsed(picture, width).iter("text") if one.text in names]
    first, second = sorted(words, key=lambda one: float(one.attrib["y"]))
    assert (first.text, second.text) == names
    assert {one.get("text-anchor") for one in words} == {"end" if is_beside else "start"}
    assert all(0 <= float(one.attrib["x"]) <= width for one in words)


def widths(*lines: Line) -> list[str]:
    return [(one.get("class") or "").split()[-1] for one in parsed(chart(*lines)).iter("polyline")]


def test_a_line_that_later_ones_lie_on_is_wide_enough_to_show_beneath_them() -> None:
    same, other = [0.1, 0.4, 0.6, 0.7], [0.9, 0.8, 0.9, 0.95]
    assert widths(line(same), line(same), line(same)) == ["under2", "under1", "c-auxo"]
    assert widths(line(same), line(other)) == ["c-auxo", "c-auxo"]
    assert widths(line(same), replace(line(same), is_dashed=True)) == ["c-auxo", "dashed"]
    crossing = [0.7, 0.6, 0.4, 0.1]
    assert widths(line(same), line(crossing)) == ["c-auxo", "c-auxo"]


def test_points_that_no_line_joins_are_named_in_a_key_that_fits_the_width() -> None:
    many = [replace(line([0.1 * number, 0.2], name=f"cohort {number}"), is_points=True) for number in range(8)]
    drawn = parsed(chart(*many), width=370)
    assert not list(drawn.iter("polyline"))
    keys = [one for one in drawn.iter("text") if (one.text or "").startswith("cohort")]
    assert [one.text for one in keys] == [f"cohort {number}" for number in range(8)]
    assert all(float(one.attrib["x"]) + 7 * len(one.text or "") < 370 for one in keys)
    assert len({one.attrib["y"] for one in keys}) > 1

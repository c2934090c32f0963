"""Line charts as inline SVG: few ticks, labels beside the lines, colours left to the page's style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from auxo.core.types import FloatArray, IntArray
from auxo.reporting.markup import Markup, escaped, joined, picture, tag

MAX_POINTS = 400  # our choice: more points than this on a line cannot be told apart at print size
MAX_HOVER_POINTS = 40  # our choice: places on a line that answer to the pointer
_CHARACTER = 7.2  # width in pixels of a character of a label; our estimate for wide fonts
_LINE_HEIGHT = 16.0
_HIDES = 2.0  # pixels between two lines of which the later hides the other; our choice
_MUCH = 0.25  # of a line that others must hide before it is drawn wider; our choice
_MOST_ABOVE = 2  # how many widths the style sheet has for it
_MOST_LEFT = 0.4  # of the width, for the words of the y axis; our choice


@dataclass(frozen=True)
class Axis:
    """A scale's words: what it measures, how a value is written, and its bounds (None: those of the data)."""

    label: str
    factor: float = 1.0  # what a value is multiplied by before it is written
    unit: str = ""
    low: float | None = None
    high: float | None = None
    is_whole: bool = False  # it counts, and there is nothing between two numbers
    names: tuple[str, ...] = ()  # of a y axis: what stands at 0, 1 and so on in place of numbers, from the top

    def write(self, value: float, step: float) -> str:
        """Write a value with the digits that tell it from the next one, ``step`` away."""
        if self.names:
            return self.names[round(value)]
        if self.is_whole:
            return f"{value:,.0f}{self.unit}"
        shown = step * self.factor
        digits = next((count for count in range(9) if abs(round(shown, count) - shown) <= 1e-6 * shown), 9)
        return f"{value * self.factor:,.{digits}f}{self.unit}"


@dataclass(frozen=True)
class Line:
    """A measured quantity; ``colour`` names a class of the style sheet, ``label`` stands beside the line."""

    name: str
    colour: str
    x: FloatArray
    y: FloatArray
    label: str = ""
    is_dashed: bool = False
    label_x: float | None = None  # where the label stands above the line instead; None: at the line's end
    is_points: bool = False  # nothing leads from one point to the next; the name stands in a key at the top


@dataclass(frozen=True)
class Band:
    """The area between two lines."""

    colour: str
    x: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Moment:
    """A moment: a vertical line with a word at its top."""

    x: float
    text: str
    detail: str


@dataclass(frozen=True)
class Span:
    """A horizontal distance worth measuring, with its words."""

    x0: float
    x1: float
    y: float
    text: str


@dataclass(frozen=True)
class Zone:
    """A shaded range of x with a word at its top."""

    x0: float
    x1: float
    text: str


@dataclass(frozen=True)
class Level:
    """A short heavy stroke: the mean of a line over a zone."""

    colour: str
    x0: float
    x1: float
    y: float
    detail: str


@dataclass(frozen=True)
class LineChart:
    """What a chart shows; `draw` decides where. ``description`` is read out in place of the picture."""

    description: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    bands: tuple[Band, ...] = ()
    marks: tuple[Moment, ...] = ()
    spans: tuple[Span, ...] = ()
    zones: tuple[Zone, ...] = ()
    levels: tuple[Level, ...] = ()
    height: int = 330


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True)
class _Frame:
    x: Scale
    y: Scale
    x_step: float
    y_step: float
    width: float
    beside: frozenset[int]  # lines whose labels stand to the right of the plot


def decimated_rows(values: FloatArray, limit: int = MAX_POINTS) -> IntArray:
    """Return at most ``limit`` rows (at least 4) that keep the ends and every stretch's least and greatest value."""
    if limit < 4:
        raise ValueError(f"limit: expected at least 4, got {limit}")
    if len(values) <= limit:
        return np.arange(len(values))
    kept = {0, len(values) - 1}
    edges = np.linspace(1, len(values) - 1, (limit - 2) // 2 + 1).astype(int).tolist()
    for start, stop in pairwise(edges):
        kept.add(start + int(np.argmin(values[start:stop])))
        kept.add(start + int(np.argmax(values[start:stop])))
    return np.array(sorted(kept))


def tick_step(low: float, high: float, count: int) -> float:
    """Return the least of 1, 2, 2.5, 5 times a power of ten that makes at most ``count`` steps from low to high."""
    return _step_of((high - low) / max(count, 1), (1, 2, 2.5, 5, 10))


def whole_step(low: float, high: float, count: int) -> float:
    """Return the least of 1, 2, 5 times a power of ten, from 1 on, that makes at most ``count`` steps."""
    return max(1.0, _step_of((high - low) / max(count, 1), (1, 2, 5, 10)))


def _step_of(rough: float, factors: Sequence[float]) -> float:
    power = 10.0 ** np.floor(np.log10(rough))
    return float(next(factor * power for factor in factors if factor * power >= rough * (1 - 1e-9)))


def ticks(low: float, high: float, step: float) -> FloatArray:
    """Return the multiples of ``step`` from low to high, both included when they are multiples."""
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return np.arange(first, last + 1) * step + 0.0  # no negative zero, which would be written "-0"


def spread_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places close to the wanted ones, in the same order, at least ``gap`` apart and within the bounds.

    When the bounds are too tight for that, the places are spread evenly over them.
    """
    if len(wanted) > 1 and gap * (len(wanted) - 1) > high - low:
        gap = (high - low) / (len(wanted) - 1)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed: list[float] = []
    for rank, index in enumerate(order):
        floor = placed[-1] + gap if placed else low
        ceiling = high - gap * (len(order) - 1 - rank)
        placed.append(min(max(wanted[index], floor), ceiling))
    return [place for _, place in sorted(zip(order, placed, strict=True))]


def draw(chart: LineChart, width: int) -> Markup:
    """Return the chart as an SVG element ``width`` units wide."""
    lines = tuple(_finite(line) for line in chart.lines)
    lines = tuple(line for line in lines if len(line.x))
    frame = _roomy_frame(chart, lines, width)
    return picture(
        chart.description,
        _grid(chart, frame),
        *(_zone(zone, frame) for zone in chart.zones),
        *(_band(band, frame) for band in chart.bands),
        _marks(chart.marks, frame),
        *(_path(line, frame, _above(place, lines, frame)) for place, line in enumerate(lines)),
        *(_level(level, frame) for level in chart.levels),
        *(_span(span, frame) for span in chart.spans),
        _end_labels(lines, frame),
        _key(lines, frame),
        *(_hover_points(line, chart, frame) for line in lines),
        width=width,
        height=chart.height,
    )


def _finite(line: Line) -> Line:
    rows = np.isfinite(line.x) & np.isfinite(line.y)
    return replace(line, x=line.x[rows], y=line.y[rows])


def _bounds(axis: Axis, columns: Sequence[FloatArray]) -> tuple[float, float]:
    values = np.concatenate([np.zeros(0), *columns])
    values = values[np.isfinite(values)]
    low = axis.low if axis.low is not None else float(values.min(initial=np.inf))
    high = axis.high if axis.high is not None else float(values.max(initial=-np.inf))
    if not (np.isfinite(low) and np.isfinite(high)):
        return 0.0, 1.0
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # one value, or none that can be told apart: give it room
        room = abs(high) * 0.1 or 1.0
        return (low if axis.low is not None else low - room), (high if axis.high == high else high + room)
    return low, high


def _roomy_frame(chart: LineChart, lines: Sequence[Line], width: int) -> _Frame:
    """Return a frame with room beside the plot for every label that has none within it."""
    beside: frozenset[int] = frozenset()
    while True:
        frame = _frame(chart, lines, width, beside)
        crowded = _crowded(lines, frame)  # labels beside the plot make it narrower, which may crowd others
        if not crowded:
            return frame
        beside = frame.beside | crowded


def _frame(chart: LineChart, lines: Sequence[Line], width: int, beside: frozenset[int]) -> _Frame:
    x_low, x_high = _bounds(chart.x, [*(line.x for line in lines), np.array([mark.x for mark in chart.marks])])
    y_low, y_high, step = _heights(chart, lines)
    words = chart.y.names or [chart.y.write(value, step) for value in (y_low, y_high)]
    # At least this much on either side, so that charts one above the other mostly share their x axis.
    left = max(52.0, 10 + _CHARACTER * max(len(one) for one in words))
    if left > _MOST_LEFT * width:  # words stand above their lines instead
        left = 0.0
    beside |= {place for place, line in enumerate(lines) if _ends_late(line, x_low, x_high)}
    right = max(64.0, 18 + _CHARACTER * max(len(lines[place].label) for place in beside)) if beside else 18.0
    x = Scale(x_low, x_high, left, width - min(right, width * 0.4))
    y = Scale(y_low, y_high, chart.height - 44, 46)
    x_count = max(3, int((x.end - x.start) // 110))
    x_step = (whole_step if chart.x.is_whole else tick_step)(x_low, x_high, x_count)
    return _Frame(x, y, x_step, step, width, beside)


def _heights(chart: LineChart, lines: Sequence[Line]) -> tuple[float, float, float]:
    """Return the values at the foot and at the top of the plot, and the step from one tick to the next."""
    if chart.y.names:
        return len(chart.y.names) - 0.5, -0.5, 1.0
    columns = [line.y for line in lines] + [column for band in chart.bands for column in (band.low, band.high)]
    low, high = _bounds(chart.y, [*columns, np.array([level.y for level in chart.levels])])
    step = tick_step(low, high, max(2, chart.height // 75))
    return float(np.floor(low / step + 1e-9)) * step, float(np.ceil(high / step - 1e-9)) * step, step


def _ends_late(line: Line, x_low: float, x_high: float) -> bool:
    # A line that ends well before the right edge is labelled where it ends, inside the plot, if there is room.
    return bool(line.label) and line.label_x is None and float(line.x[-1]) >= x_low + 0.85 * (x_high - x_low)


def _grid(chart: LineChart, frame: _Frame) -> Markup:
    x, y = frame.x, frame.y
    parts = [tag("text", escaped(chart.y.label), class_="axis", x=0, y=14)]
    for value in ticks(min(y.low, y.high), max(y.low, y.high), frame.y_step).tolist():
        parts.append(tag("line", class_="grid", x1=x.start, x2=x.end, y1=y(value), y2=y(value)))
        words = escaped(chart.y.write(value, frame.y_step))
        at_x, at_y, anchor = (x.start - 8, y(value) + 4, "end") if x.start else (4.0, y(value) - 7, "start")
        parts.append(tag("text", words, class_="tick", x=at_x, y=at_y, text_anchor=anchor))
    parts.append(tag("line", class_="floor", x1=x.start, x2=x.end, y1=y.start, y2=y.start))
    for value in ticks(x.low, x.high, frame.x_step).tolist():
        parts.append(tag("line", class_="floor", x1=x(value), x2=x(value), y1=y.start, y2=y.start + 5))
        words = escaped(chart.x.write(value, frame.x_step))
        parts.append(tag("text", words, class_="tick", x=x(value), y=y.start + 19, text_anchor="middle"))
    parts.append(tag("text", escaped(chart.x.label), class_="axis", x=x.end, y=y.start + 38, text_anchor="end"))
    return tag("g", *parts)


def _points(xs: FloatArray, ys: FloatArray, frame: _Frame) -> str:
    pairs = zip(xs.tolist(), ys.tolist(), strict=True)
    return " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in pairs)


def _above(place: int, lines: Sequence[Line], frame: _Frame) -> int:
    """Return how many later lines lie on a line: so much wider it has to be to show beneath them."""
    line = lines[place]
    if len(line.x) < 2 or line.is_points:
        return 0
    there = np.linspace(float(line.x[0]), float(line.x[-1]), 60)
    heights = np.interp(there, line.x, line.y)
    above = 0
    for other in lines[place + 1 :]:
        if len(other.x) < 2 or other.is_points or other.is_dashed:  # through dashes others are seen
            continue
        is_there = (there >= other.x[0]) & (there <= other.x[-1])
        apart = abs(frame.y(0.0) - frame.y(1.0)) * np.abs(np.interp(there, other.x, other.y) - heights)
        above += bool((is_there & (apart < _HIDES)).mean() >= _MUCH)
    return min(above, _MOST_ABOVE)


def _path(line: Line, frame: _Frame, above: int) -> Markup:
    rows = decimated_rows(line.y)
    style = f"line c-{line.colour}{' dashed' if line.is_dashed else ''}{f' under{above}' if above else ''}"
    if len(rows) == 1 or line.is_points:
        at = zip(line.x.tolist(), line.y.tolist(), strict=True)
        return joined(
            [tag("circle", class_=f"dot c-{line.colour}", cx=frame.x(x), cy=frame.y(y), r=3.5) for x, y in at]
        )
    return tag("polyline", class_=style, points=_points(line.x[rows], line.y[rows], frame))


def _band(band: Band, frame: _Frame) -> Markup:
    rows = np.union1d(decimated_rows(band.low), decimated_rows(band.high))
    there = _points(band.x[rows], band.high[rows], frame)
    back = _points(band.x[rows][::-1], band.low[rows][::-1], frame)
    return tag("polygon", class_=f"band c-{band.colour}", points=f"{there} {back}")


def _marks(marks: Sequence[Moment], frame: _Frame) -> Markup:
    parts: list[Markup] = []
    free_from = -np.inf  # a word that would run into the one before it is left to the pointer
    for mark in sorted(marks, key=lambda mark: mark.x):
        at, top = frame.x(mark.x), frame.y.end - 8
        stroke = tag("line", class_="mark", x1=at, x2=at, y1=top, y2=frame.y.start)
        parts.append(tag("g", tag("title", escaped(mark.detail)), stroke))
        half = _CHARACTER * len(mark.text) / 2
        middle = min(max(at, half), frame.width - half)
        if mark.text and middle - half >= free_from:
            parts.append(tag("text", escaped(mark.text), class_="note", x=middle, y=top - 5, text_anchor="middle"))
            free_from = middle + half + 6
    return tag("g", *parts)


def _zone(zone: Zone, frame: _Frame) -> Markup:
    start, end = frame.x(zone.x0), frame.x(zone.x1)
    top, bottom = frame.y.end, frame.y.start
    at, anchor = (end, "end") if start + end > frame.x.start + frame.x.end else (start, "start")
    shade = tag("rect", class_="zone", x=start, y=top, width=end - start, height=bottom - top)
    return tag("g", shade, tag("text", escaped(zone.text), class_="note", x=at, y=top - 8, text_anchor=anchor))


def _level(level: Level, frame: _Frame) -> Markup:
    at = frame.y(level.y)
    stroke = tag("line", class_=f"level c-{level.colour}", x1=frame.x(level.x0), x2=frame.x(level.x1), y1=at, y2=at)
    return tag("g", tag("title", escaped(level.detail)), stroke)


def _span(span: Span, frame: _Frame) -> Markup:
    start, end, at = frame.x(span.x0), frame.x(span.x1), frame.y(span.y)
    ends = [tag("line", class_="span", x1=x, x2=x, y1=at - 5, y2=at + 5) for x in (start, end)]
    line = tag("line", class_="span", x1=start, x2=end, y1=at, y2=at)
    words = tag("text", escaped(span.text), class_="strong halo", x=end - 6, y=at - 9, text_anchor="end")
    return tag("g", line, *ends, words)


def _end_labels(lines: Sequence[Line], frame: _Frame) -> Markup:
    x, y = frame.x, frame.y
    room = int((y.start - y.end) // (_LINE_HEIGHT - 2)) + 1
    beside = [line for place, line in enumerate(lines) if place in frame.beside]
    beside = beside[:room]  # what does not fit beside the plot answers to the pointer alone
    places = spread_apart([y(float(line.y[-1])) for line in beside], _LINE_HEIGHT, y.end, y.start)
    parts: list[Markup] = []
    for line, place in zip(beside, places, strict=True):
        at_x, at_y = x(float(line.x[-1])), y(float(line.y[-1]))
        if not _ends_late(line, x.low, x.high):  # its label is far away: lead the eye
            parts.append(tag("line", class_=f"leader far c-{line.colour}", x1=at_x, y1=at_y, x2=x.end, y2=at_y))
            at_x = x.end
        parts.append(tag("line", class_=f"leader c-{line.colour}", x1=at_x, y1=at_y, x2=x.end + 11, y2=place))
        parts.append(tag("circle", class_=f"dot c-{line.colour}", cx=x(float(line.x[-1])), cy=at_y, r=3.5))
        parts.append(tag("text", escaped(line.label), class_="label", x=x.end + 14, y=place + 4))
    heights = {line.name: y(_labelled_point(line)[1]) for line in lines if line.label_x is not None}
    for line in (line for place, line in enumerate(lines) if line.label and place not in frame.beside):
        at_x, at_y = x(_labelled_point(line)[0]), y(_labelled_point(line)[1])
        if line.label_x is None:  # beyond its end a line leaves room
            to_x, to_y, anchor = at_x + 8, at_y + 4, "start"
        elif at_y == min(heights.values()):  # the highest line has room above it, the others below
            to_x, to_y, anchor = at_x - 6, at_y - 9, "end"
        else:
            to_x, to_y, anchor = at_x + 6, at_y + 19, "start"
        parts.append(tag("circle", class_=f"dot c-{line.colour}", cx=at_x, cy=at_y, r=3.5))
        parts.append(tag("text", escaped(line.label), class_="label halo", x=to_x, y=to_y, text_anchor=anchor))
    return joined(parts)


def _key(lines: Sequence[Line], frame: _Frame) -> Markup:
    """Return the names of lines that are but points, with their colours, in rows at the top."""
    parts, x, y = list[Markup](), 4.0, 12.0
    for line in lines:
        if not line.is_points:
            continue
        room = 20 + _CHARACTER * len(line.name)
        if x + room > frame.width:
            x, y = 4.0, y + _LINE_HEIGHT
        parts.append(tag("circle", class_=f"dot c-{line.colour}", cx=x, cy=y - 4, r=4.5))
        parts.append(tag("text", escaped(line.name), class_="label", x=x + 8, y=y))
        x += room
    return joined(parts)


def _crowded(lines: Sequence[Line], frame: _Frame) -> frozenset[int]:
    """Return the lines whose label, just beyond their end, would lie on another line or label."""
    x, y, ends = frame.x, frame.y, {}
    for place, line in enumerate(lines):
        if line.label and line.label_x is None and place not in frame.beside:
            ends[place] = x(float(line.x[-1])), y(float(line.y[-1]))
    crowded = set()
    for place, (left, middle) in ends.items():
        right = left + 8 + _CHARACTER * len(lines[place].label)
        labels = [
            other
            for other, (start, height) in ends.items()
            if other != place
            and abs(height - middle) < _LINE_HEIGHT
            and start < right
            and left < start + 8 + _CHARACTER * len(lines[other].label)
        ]
        touched = any(
            _passes(line, frame, left + 4, right, middle) for other, line in enumerate(lines) if other != place
        )
        if labels or touched or right > x.end:
            crowded.add(place)
    return frozenset(crowded)


def _passes(line: Line, frame: _Frame, left: float, right: float, middle: float) -> bool:
    """Return whether a line goes through the room for words between two pixels around a height."""
    there = np.linspace(left, right, 20)
    places = np.array([frame.x(float(one)) for one in line.x])
    there = there[(there >= places[0]) & (there <= places[-1])]
    heights = np.interp(there, places, np.array([frame.y(float(one)) for one in line.y]))
    return bool((np.abs(heights - middle) < _LINE_HEIGHT / 2 + 2).any())


def _labelled_point(line: Line) -> tuple[float, float]:
    row = len(line.x) - 1 if line.label_x is None else int(np.argmin(np.abs(line.x - line.label_x)))
    return float(line.x[row]), float(line.y[row])


def _hover_points(line: Line, chart: LineChart, frame: _Frame) -> Markup:
    rows = decimated_rows(line.y, MAX_HOVER_POINTS)
    parts = []
    for x, y in zip(line.x[rows].tolist(), line.y[rows].tolist(), strict=True):
        # A hundredth of a step is what the eye can tell apart between two ticks.
        written = chart.y.write(y, frame.y_step / 100), chart.x.write(x, frame.x_step / 100)
        words = f"{line.name}: {written[0]} at {written[1]} ({chart.x.label})"
        parts.append(tag("circle", tag("title", escaped(words)), class_="hover", cx=frame.x(x), cy=frame.y(y), r=7))
    return joined(parts)

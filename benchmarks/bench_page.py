"""The figures of a benchmark run as one page: bars for engines, lines for what grows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from auxo.core.types import FloatArray
from auxo.reporting.markup import Markup, escaped, joined, tag
from auxo.reporting.page import page
from auxo.reporting.svg import Axis, Line, LineChart, draw

Records = Sequence[Mapping[str, Any]]

_WIDTH = 860
_ROW, _LABELS = 30, 150  # of a bar chart, in pixels
_COLOURS = {"auxo": "k0", "auxo-ray": "k5", "loop": "k4"}
_PEER_COLOUR = "k3"
_BARS = "svg.bars text{font:13px system-ui,sans-serif;fill:var(--ink)}" + "".join(
    f"svg.bars .k{number}{{fill:var(--k{number})}}" for number in range(6)
)


def bench_page(sections: Mapping[str, Records]) -> str:
    """Return the page of a run; sections that were not run are left out."""
    parts = [
        tag("h1", escaped("What Auxo costs, and how fast it is")),
        _text("Every figure is a ratio to something measured in the same run on the same machine: machines are noisy."),
    ]
    drawers = {
        "throughput": _throughput,
        "algorithms": _algorithms,
        "scaling": _scaling,
        "population": _population,
        "clustering": _clustering,
        "identification": _identification,
    }
    for name, drawer in drawers.items():
        if sections.get(name):
            parts.append(drawer(sections[name]))
    return page("Auxo benchmarks", parts, style=_BARS)


def _throughput(records: Records) -> Markup:
    parts = [tag("h2", escaped("Participants a second"))]
    for workload in dict.fromkeys(str(record["workload"]) for record in records):
        mine = [record for record in records if record["workload"] == workload]
        peers = [_number(record, "participants_per_s") for record in mine if record["limit_share"] is None]
        auxo = next(record for record in mine if record["engine"] == "auxo")
        words = [f"Auxo reaches {_number(auxo, 'limit_share'):.0%} of the limit"]
        if auxo["times_fastest_peer"] is not None:
            words.append(f"{_number(auxo, 'times_fastest_peer'):.1f} times the fastest peer")
        if peers:
            words.append(f"{_number(auxo, 'times_loop'):.1f} times a bare loop on one core")
        bars = [
            (str(record["engine"]), _number(record, "participants_per_s"), _COLOURS.get(str(record["engine"])))
            for record in sorted(mine, key=lambda record: -_number(record, "participants_per_s"))
        ]
        parts += [tag("h3", escaped(workload)), _text("; ".join(words) + "."), _bars(bars, "participants a second")]
    return joined(parts)


def _algorithms(records: Records) -> Markup:
    parts = [
        tag("h2", escaped("FL algorithms")),
        _text("Whole rounds in one process; those with two epochs or so are held against two epochs for everybody."),
    ]
    for workload in dict.fromkeys(str(record["workload"]) for record in records):
        mine = [record for record in records if record["workload"] == workload]
        bars = [(str(record["algorithm"]), _number(record, "ratio"), None) for record in mine]
        parts += [tag("h3", escaped(workload)), _bars(bars, "participants a second, beside FedAvg's")]
    return joined(parts)


def _scaling(records: Records) -> Markup:
    parts = [tag("h2", escaped("How speed scales"))]
    for grows in ("participants", "parameters"):
        mine = [record for record in records if record["workload"] == grows]
        x = np.log10([_number(record, grows) for record in mine])
        y = np.array([_number(record, "limit_share") for record in mine])
        parts.append(
            _chart(f"share of the limit by {grows}", f"{grows}, as a power of ten", "share of the limit", x, y)
        )
    return joined(parts)


def _population(records: Records) -> Markup:
    rounds = [
        record for record in records if record["workload"] == "population" and record["part"] == "all but training"
    ]
    parts = [tag("h2", escaped("A round without training, by the size of the population"))]
    for online in sorted({int(_number(record, "online")) for record in rounds}):
        lines = []
        for number, records_of in enumerate(("few", "all")):
            mine = [r for r in rounds if r["online"] == online and r["records"] == records_of]
            if len(mine) > 1:
                x = np.log10([_number(record, "clients") for record in mine])
                y = np.array([_number(record, "seconds") for record in mine])
                lines.append(Line(records_of, f"k{number}", x, y, f"{records_of} have taken part"))
        if lines:
            parts += [tag("h3", escaped(f"{online:,} on line")), _lines(lines, "clients, as a power of ten", "seconds")]
    rows = [
        [
            f"{_number(r, 'clients'):,.0f}",
            f"{_number(r, 'online'):,.0f}",
            str(r["records"]),
            f"{_number(r, 'seconds'):.3f}",
        ]
        for r in rounds
    ]
    parts.append(_table(["clients", "on line", "with records", "seconds"], rows))
    for record in records:
        if record["workload"] == "matching":
            parts.append(
                _text(f"Matching {_number(record, 'check_ins'):,.0f} check-ins: {_number(record, 'seconds'):.3f} s.")
            )
        if record["workload"] == "memory":
            peak = f"{_number(record, 'peak_gib'):.2f} GiB"
            parts.append(_text(f"Memory with {_number(record, 'clients'):,.0f} clients: {peak} at most."))
    return joined(parts)


def _clustering(records: Records) -> Markup:
    (record,) = records
    bars = [
        ("training", _number(record, "training_s"), "k0"),
        ("plain K-means", _number(record, "plain_kmeans_s"), _PEER_COLOUR),
        ("examining", _number(record, "examining_s"), "k2"),
        ("clustering", _number(record, "clustering_s"), "k2"),
    ]
    words = (
        f"{_number(record, 'participants'):.0f} participants, {_number(record, 'parameters'):,.0f} parameters: finding "
        f"cohorts takes {_number(record, 'clustering_share'):.2%} of the time of training, K-means on whole updates "
        f"{_number(record, 'plain_kmeans_share'):.0%}. Fingerprints: {_number(record, 'fingerprints_mib'):.1f} MiB, "
        f"whole updates {_number(record, 'plain_gib'):.1f} GiB."
    )
    return joined([tag("h2", escaped("What finding cohorts costs")), _text(words), _bars(bars, "seconds")])


def _identification(records: Records) -> Markup:
    rows = []
    for record in records:
        share = record["oracle_gain_share"]
        figures = [f"{_number(record, key):.1%}" for key in ("base", "auxo")]
        oracle = "" if record["oracle"] is None else f"{_number(record, 'oracle'):.1%}"
        gain = "" if share is None else f"{_number(record, 'oracle_gain_share'):.0%}"
        rows.append([str(record["population"]), str(record["seed"]), *figures, oracle, gain])
    heading = ["population", "seed", "base", "Auxo", "oracle", "of the oracle's gain"]
    return joined([tag("h2", escaped("Are the right clients in the right cohorts?")), _table(heading, rows)])


def _number(record: Mapping[str, object], key: str) -> float:
    value = record[key]
    if not isinstance(value, int | float):
        raise TypeError(f"{key}: expected a number, got {value!r} in {dict(record)}")
    return float(value)


def _text(words: str) -> Markup:
    return tag("p", escaped(words))


def _bars(bars: Sequence[tuple[str, float, str | None]], unit: str) -> Markup:
    longest = max(value for _, value, _ in bars)
    parts = []
    for number, (label, value, colour) in enumerate(bars):
        y, width = number * _ROW, (_WIDTH - _LABELS - 110) * value / longest
        parts += [
            tag("text", escaped(label), x=_LABELS - 10, y=y + 19, text_anchor="end"),
            tag("rect", x=_LABELS, y=y + 4, width=max(1.0, width), height=_ROW - 8, class_=colour or _PEER_COLOUR),
            tag("text", escaped(f"{value:,.4g}"), x=_LABELS + width + 8, y=y + 19),
        ]
    said = ", ".join(f"{label} {value:,.4g}" for label, value, _ in bars)
    svg = tag(
        "svg",
        *parts,
        class_="bars",
        role="img",
        aria_label=f"{unit}: {said}",
        viewBox=f"0 0 {_WIDTH} {_ROW * len(bars)}",
    )
    return tag("figure", svg, tag("figcaption", escaped(unit)))


def _chart(description: str, x_label: str, y_label: str, x: FloatArray, y: FloatArray) -> Markup:
    return _lines([Line(description, "k0", x, y)], x_label, y_label)


def _lines(lines: Sequence[Line], x_label: str, y_label: str) -> Markup:
    chart = LineChart(lines[0].name, Axis(x_label), Axis(y_label, low=0.0), tuple(lines))
    return tag("figure", draw(chart, _WIDTH), tag("figcaption", escaped(f"{y_label}, by {x_label}")))


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", escaped(word)) for word in heading)))
    body = tag("tbody", *(tag("tr", *(tag("td", escaped(cell)) for cell in row)) for row in rows))
    return tag("table", head, body)

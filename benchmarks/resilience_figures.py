"""The figures of resilience as pictures: base and Auxo over what a run is made to bear, a line each, a file each.

    python benchmarks/resilience_figures.py benchmarks/results/resilience.json build/resilience

writes an SVG for each figure and population that the records have: wrong labels, lost records, noise, judges that lie.
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from bench_page import Records

from auxo.reporting.standalone import standalone
from auxo.reporting.svg import Axis, Line, LineChart, draw

_WIDTH = 700
_AXES: Mapping[str, Axis] = {
    "corrupted": Axis("clients with wrong labels", 100, " %", low=0),
    "affinity-loss": Axis("records lost in a round", 100, " %", low=0),
    "judges": Axis("clients that lie as judges", 100, " %", low=0),
    "dp": Axis("epsilon that the paper prints", is_whole=True),
}
_COLOURS = {"base": "k3", "auxo": "k0"}
_NAMES = {"base": "base", "auxo": "Auxo"}


def pictures(records: Records) -> dict[str, str]:
    """Return an SVG for each figure and population by the name of its file."""
    found = {}
    for figure, population in dict.fromkeys((str(one["figure"]), str(one["population"])) for one in records):
        mine = [one for one in records if (one["figure"], one["population"]) == (figure, population)]
        if figure in _AXES:
            lines = [line for method in _COLOURS for line in _lines(figure, method, mine)]
            words = f"Accuracy of honest clients, {population}, over {_AXES[figure].label}."
            chart = LineChart(words, _AXES[figure], Axis("accuracy of honest clients", 100, " %"), tuple(lines))
            if any(len(line.x) > 1 for line in lines):
                found[f"{figure}-{population}"] = standalone(draw(chart, _WIDTH))
    return found


def _lines(figure: str, method: str, records: Records) -> list[Line]:
    """Return a method's line: two under noise, for the two readings of whose it is."""
    mine = [one for one in records if one["method"] == method]
    if method == "base" and figure == "affinity-loss" and mine:  # it keeps no records, and loses none
        mine = [{**one, "condition": each["condition"]} for one in mine[:1] for each in records]
    kinds = {"": mine}
    if figure == "dp":
        kinds = {kind: [one for one in mine if str(one["condition"]).endswith(kind)] for kind in ("client's", "shared")}
    made = []
    for kind, some in kinds.items():
        points: dict[float, list[float]] = {}
        for one in some:
            points.setdefault(_number(str(one["condition"])), []).append(float(one["accuracy"]))
        xs = sorted(points)
        label = " ".join(filter(None, (_NAMES[method], kind)))
        ys = np.array([np.mean(points[x]) for x in xs])
        if xs:
            made.append(Line(label, _COLOURS[method], np.array(xs), ys, label, is_dashed=kind == "client's"))
    return made


def _number(condition: str) -> float:
    """Return the share or the epsilon that a condition is called by."""
    found = re.search(r"(\d+)(%?)", condition)
    return 0.0 if found is None else int(found[1]) / (100 if found[2] else 1)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="what resilience.py has written")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    arguments = parser.parse_args(argv)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures(json.loads(arguments.records.read_text())).items():
        (arguments.folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(arguments.folder / f"{name}.svg")


if __name__ == "__main__":
    main()

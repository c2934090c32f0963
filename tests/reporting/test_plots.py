"""Charts as files for papers: plain colours, and a PDF whose table is right."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from auxo.reporting.plots import Plot, plot_section, write_plot
from auxo.reporting.svg import Axis, Line, LineChart, Moment

SAID = "a (b) \\ ± \N{MINUS SIGN}1 <"
CHART = LineChart(
    "toy",
    Axis("hours", low=0.0),
    Axis("", names=("first", SAID)),
    (
        Line("interval", "m0", np.array([1.0, 3.0]), np.array([0.0, 0.0])),
        Line("mean", "m0", np.array([2.0]), np.array([1.0])),
    ),
    marks=(Moment(0.0, "", "nothing"),),
)


@pytest.fixture
def figures(tmp_path: Path) -> Path:
    write_plot(tmp_path, Plot("toy", "A toy", CHART, [("name", "x"), ("first", 1.0), ("second", None)]))
    return tmp_path / "figures"


def test_a_pdf_has_its_objects_where_its_table_says(figures: Path) -> None:
    written = (figures / "toy.pdf").read_bytes()
    start = int(re.findall(rb"startxref\n(\d+)\n", written)[0])
    table = written[start:].splitlines()
    assert table[0] == b"xref"
    places = [int(line.split()[0]) for line in table[3:8]]
    for number, place in enumerate(places, start=1):
        assert written[place:].startswith(b"%d 0 obj" % number)
    length, stream = re.findall(rb"/Length (\d+) >>\nstream\n(.*)\nendstream", written, re.DOTALL)[0]
    assert int(length) == len(stream)
    assert rb"(a \(b\) \\ " + "±".encode("cp1252") + rb" -1 <) Tj" in stream
    orange = b"0.835 0.369 0.000"
    assert re.search(orange + rb" RG 2\.4 w \[\] 0 d [\d. ]+ m [\d. ]+ l S", stream)  # the interval
    assert re.search(orange + rb" rg .* f$", stream, re.MULTILINE)  # the dot


def test_an_svg_says_the_same_in_colours_that_need_no_style_sheet(figures: Path) -> None:
    text = (figures / "toy.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)  # noqa: S314 - our own
    shapes = {shape.tag.rpartition("}")[2]: shape for shape in root}
    assert shapes["title"].text == "toy"
    assert shapes["polyline"].get("stroke") == shapes["circle"].get("fill") == "#d55e00"
    assert SAID in [shape.text for shape in root]
    assert "class=" not in text
    assert "var(" not in text
    assert "hover" not in text


def test_numbers_are_beside_the_pictures_and_the_page_links_to_both(figures: Path) -> None:
    assert (figures / "toy.csv").read_text(encoding="utf-8") == "name,x\nfirst,1.0\nsecond,\n"
    links = re.findall(r'href="([^"]+)"', plot_section(Plot("toy", "A toy", CHART, [])))
    assert [(figures.parent / link).is_file() for link in links] == [True] * 3

"""Charts as figures for papers: on a page, and as SVG, PDF and CSV files that need nothing else."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from auxo.files.atomic_write import write_csv, write_whole
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.page import chart_figure, section
from auxo.reporting.style import STYLE
from auxo.reporting.svg import LineChart, draw

_WIDTH = 900
_FONT = "Helvetica, Arial, sans-serif"
_FONT_SIZE = 12.5
_WIDTH_OF_A_LETTER = 0.52  # of Helvetica on average, in sizes; for words that are centred or end somewhere in a PDF
_ROUND = 0.5523  # how far the handles of a quarter of a circle reach, in radii
_SHAPES = ("line", "polyline", "circle", "text")  # what charts without bands and zones are made of

Rows = Sequence[Sequence[str | float | None]]
Style = Mapping[str, str]


@dataclass(frozen=True)
class Plot:
    """A chart, and the numbers that it shows."""

    name: str  # of its files
    caption: str
    chart: LineChart
    rows: Rows  # for a CSV file, the headings first


def write_plot(folder: Path, plot: Plot) -> None:
    """Write a chart as SVG, PDF and CSV into the folder ``figures``."""
    (folder / "figures").mkdir(exist_ok=True)
    drawn = ET.fromstring(draw(plot.chart, _WIDTH))  # noqa: S314 - our own
    for ending, content in (("svg", as_svg(drawn)), ("pdf", as_pdf(drawn))):
        write_whole(folder / "figures" / f"{plot.name}.{ending}", content)
    write_csv(folder / "figures" / f"{plot.name}.csv", plot.rows)


def write_illustrated(folder: Path, page: str, plots: Sequence[Plot]) -> Path:
    """Write a page as report.html and its charts into the folder ``figures`` beside it; return where the page is."""
    for plot in plots:
        write_plot(folder, plot)
    path = folder / "report.html"
    write_whole(path, page.encode())
    return path


def plot_section(plot: Plot) -> Markup:
    """Return a chart for a page, with links to its files."""
    files = [
        tag("a", escaped(ending.upper()), href=f"figures/{plot.name}.{ending}") for ending in ("svg", "pdf", "csv")
    ]
    links = tag("p", escaped("As a file: "), *(part for file in files for part in (file, escaped(" "))), class_="soft")
    return section(plot.caption, chart_figure(plot.chart, ""), links)


def as_svg(drawn: ET.Element) -> bytes:
    """Return a chart as an SVG file in plain colours: programs for drawing know no style sheets with variables."""
    (words,) = drawn.iterfind("desc")
    left, top, width, height = drawn.attrib["viewBox"].split()
    shapes = (_plain(shape, style) for shape, style in _styled(drawn))
    whole = tag(
        "svg",
        tag("title", escaped(words.text or "")),
        tag("rect", x=float(left), y=float(top), width=float(width), height=float(height), fill="#ffffff"),
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=drawn.attrib["viewBox"],
        width=width,
        height=height,
        role="img",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'.encode()


def _plain(shape: ET.Element, style: Style) -> Markup:
    given = {name: value for name, value in (shape.attrib | dict(style)).items() if name != "class"}
    if shape.tag == "text":
        given |= {"font-family": _FONT, "font-size": str(_size(style))}
    return tag(shape.tag, escaped(shape.text or ""), **given)


def _styled(drawn: ET.Element) -> Iterator[tuple[ET.Element, Style]]:
    """Yield what is to be seen, from the back to the front, each with what the style sheet says of it on paper."""
    rules: dict[str, str] = {}
    for selectors, told in re.findall(r"([^{}]+)\{([^{}]*)\}", STYLE):
        for selector in selectors.split(","):
            rules[selector.strip()] = f"{rules.get(selector.strip(), '')};{told}"
    colours = dict(re.findall(r"(--[\w-]+):(#\w+)", STYLE.partition("@media")[0]))
    for shape in drawn.iter():
        classes = shape.get("class", "").split()
        if shape.tag not in _SHAPES or "hover" in classes:
            continue
        own = dict(part.split(":", 1) for name in classes for part in rules.get(f".{name}", "").split(";") if part)
        while any(value.startswith("var(") for value in own.values()):
            known = colours | own
            own = {name: known[value[4:-1]] if value.startswith("var(") else value for name, value in own.items()}
        yield shape, {name: value for name, value in own.items() if not name.startswith("--")}


def _size(style: Style) -> float:
    return float(style.get("font-size", f"{_FONT_SIZE}px").removesuffix("px"))


def as_pdf(drawn: ET.Element) -> bytes:
    """Return a chart as a PDF file of one page, with text that can be searched."""
    _, _, width, height = (float(one) for one in drawn.attrib["viewBox"].split())
    content = "\n".join(_in_pdf(shape, style, height) for shape, style in _styled(drawn)).encode("cp1252", "replace")
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:g} {height:g}] /Contents 5 0 R "
        "/Resources << /Font << /F 4 0 R >> >> >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    )
    written, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(written))
    return written + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table) + end


def _in_pdf(shape: ET.Element, style: Style, height: float) -> str:
    if shape.tag == "text":
        return _words_in_pdf(shape, style, height)
    if shape.tag == "circle":
        x, y, radius = (float(shape.attrib[name]) for name in ("cx", "cy", "r"))
        return f"{_rgb(style['fill'])} rg {_circle(x, height - y, radius)} f"
    at = shape.attrib
    points = at["points"] if shape.tag == "polyline" else f"{at['x1']},{at['y1']} {at['x2']},{at['y2']}"
    pairs = [[float(one) for one in pair.split(",")] for pair in points.split()]
    path = " ".join(f"{x:.2f} {height - y:.2f} {'l' if place else 'm'}" for place, (x, y) in enumerate(pairs))
    dashes = style.get("stroke-dasharray", "")
    return f"{_rgb(style['stroke'])} RG {style.get('stroke-width', '1')} w [{dashes}] 0 d {path} S"


def _words_in_pdf(shape: ET.Element, style: Style, height: float) -> str:
    text = (shape.text or "").replace("\N{MINUS SIGN}", "-").replace("\N{NARROW NO-BREAK SPACE}", " ")
    size = _size(style)
    share = {"start": 0.0, "middle": 0.5, "end": 1.0}[shape.get("text-anchor", "start")]
    x, y = float(shape.attrib["x"]) - share * len(text) * _WIDTH_OF_A_LETTER * size, height - float(shape.attrib["y"])
    safe = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"BT {_rgb(style['fill'])} rg /F {size:g} Tf {x:.2f} {y:.2f} Td ({safe}) Tj ET"


def _rgb(colour: str) -> str:
    return " ".join(f"{int(colour[place : place + 2], 16) / 255:.3f}" for place in (1, 3, 5))


def _circle(x: float, y: float, r: float) -> str:
    h = _ROUND * r
    arcs = (
        (x + r, y + h, x + h, y + r, x, y + r),
        (x - h, y + r, x - r, y + h, x - r, y),
        (x - r, y - h, x - h, y - r, x, y - r),
        (x + h, y - r, x + r, y - h, x + r, y),
    )
    return f"{x + r:.2f} {y:.2f} m " + " ".join(" ".join(f"{one:.2f}" for one in arc) + " c" for arc in arcs)

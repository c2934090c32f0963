"""Figures for papers: a few lines, dots and words, written as SVG or PDF files that need nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auxo.reporting.markup import Markup, escaped, tag

Anchor = Literal["start", "middle", "end"]

INK, SOFT, RULE = "#16202b", "#55616e", "#d5dae0"
_FONT = "Helvetica, Arial, sans-serif"
_WIDTH_OF_A_LETTER = 0.52  # of Helvetica on average, in sizes; for words that are centred or end somewhere in a PDF
_ROUND = 0.5523  # how far the handles of a quarter of a circle reach, in radii


@dataclass(frozen=True)
class Stroke:
    """A line through points."""

    points: Sequence[tuple[float, float]]
    colour: str = INK
    width: float = 1.0


@dataclass(frozen=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    colour: str = INK
    radius: float = 3.0


@dataclass(frozen=True)
class Words:
    """A line of text; ``y`` is its base."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    size: float = 11.0
    colour: str = INK


@dataclass(frozen=True)
class Figure:
    """What is drawn, from the back to the front, in points from the upper left corner."""

    width: float
    height: float
    marks: Sequence[Stroke | Dot | Words]
    description: str


def svg_markup(figure: Figure) -> Markup:
    """Return the figure as an element of a page."""
    return tag(
        "svg",
        tag("title", escaped(figure.description)),
        *(_as_svg(mark) for mark in figure.marks),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {figure.width:g} {figure.height:g}",
        width=figure.width,
        height=figure.height,
        role="img",
        style="max-width:100%;height:auto;background:#fff",
    )


def as_svg(figure: Figure) -> bytes:
    """Return the figure as an SVG file."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{svg_markup(figure)}\n'.encode()


def _as_svg(mark: Stroke | Dot | Words) -> Markup:
    if isinstance(mark, Stroke):
        points = " ".join(f"{x:.2f},{y:.2f}" for x, y in mark.points)
        return tag("polyline", points=points, fill="none", stroke=mark.colour, stroke_width=mark.width)
    if isinstance(mark, Dot):
        return tag("circle", cx=mark.x, cy=mark.y, r=mark.radius, fill=mark.colour)
    return tag(
        "text",
        escaped(mark.text),
        x=mark.x,
        y=mark.y,
        text_anchor=mark.anchor,
        font_family=_FONT,
        font_size=mark.size,
        fill=mark.colour,
    )


def as_pdf(figure: Figure) -> bytes:
    """Return the figure as a PDF file of one page, with text that can be searched."""
    content = "\n".join(_as_pdf(mark, figure.height) for mark in figure.marks).encode("cp1252", "replace")
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {figure.width:g} {figure.height:g}] /Contents 5 0 R "
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


def _as_pdf(mark: Stroke | Dot | Words, height: float) -> str:
    colour = " ".join(f"{int(mark.colour[place : place + 2], 16) / 255:.3f}" for place in (1, 3, 5))
    if isinstance(mark, Stroke):
        path = " ".join(f"{x:.2f} {height - y:.2f} {'l' if place else 'm'}" for place, (x, y) in enumerate(mark.points))
        return f"{colour} RG {mark.width:g} w {path} S"
    if isinstance(mark, Dot):
        return f"{colour} rg {_circle(mark.x, height - mark.y, mark.radius)} f"
    text = mark.text.replace("\N{MINUS SIGN}", "-")
    back = {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor] * len(text) * _WIDTH_OF_A_LETTER * mark.size
    safe = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"BT {colour} rg /F {mark.size:g} Tf {mark.x - back:.2f} {height - mark.y:.2f} Td ({safe}) Tj ET"


def _circle(x: float, y: float, r: float) -> str:
    h = _ROUND * r
    arcs = (
        (x + r, y + h, x + h, y + r, x, y + r),
        (x - h, y + r, x - r, y + h, x - r, y),
        (x - r, y - h, x - h, y - r, x, y - r),
        (x + h, y - r, x + r, y - h, x + r, y),
    )
    return f"{x + r:.2f} {y:.2f} m " + " ".join(" ".join(f"{one:.2f}" for one in arc) + " c" for arc in arcs)

"""The shell of every page that Auxo writes: one HTML file that needs nothing else, for screens, phones and paper."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.style import STYLE
from auxo.reporting.svg import LineChart, draw

_WIDE, _NARROW = 900, 370  # widths at which a picture is laid out: a page and a phone


def page(title: str, parts: Iterable[Markup], *, style: str = "") -> str:
    """Return a whole page; ``style`` is what it needs beyond the common style sheet."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{STYLE}{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{tag("main", *parts)}</body></html>\n'


def section(title: str, *parts: Markup) -> Markup:
    """Return parts under a heading of their own."""
    return tag("section", tag("h2", escaped(title)), *parts)


def note(words: str) -> Markup:
    """Return a paragraph that stands back behind the others."""
    return tag("p", escaped(words), class_="soft")


def figure(render: Callable[[int], Markup], caption: str) -> Markup:
    """Return a picture with its caption; ``render`` draws it as wide as it is told.

    It is laid out twice instead of being shrunk: on a phone, scaled-down words could not be read.
    """
    wide, narrow = tag("div", render(_WIDE), class_="wide"), tag("div", render(_NARROW), class_="narrow")
    return tag("figure", wide, narrow, tag("figcaption", escaped(caption)))


def chart_figure(chart: LineChart, caption: str) -> Markup:
    """Return a chart with its caption."""
    return figure(lambda width: draw(chart, width), caption)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kinds: Mapping[int, str] | None = None) -> Markup:
    """Return a table whose rows begin with what they are called.

    ``kinds`` are classes of the style sheet by column: "words" are to be read as text, a "name" stands on the left, a
    "list" may be broken.
    """
    of = kinds or {}
    named = [tag("th", escaped(one), scope="col", class_=of.get(place)) for place, one in enumerate(heads)]
    body = (
        tag(
            "tr",
            tag("th", escaped(name), scope="row"),
            *(tag("td", escaped(cell), class_=of.get(place)) for place, cell in enumerate(cells, start=1)),
        )
        for name, *cells in rows
    )
    return scrolling(tag("table", *([tag("thead", tag("tr", *named))] if heads else []), tag("tbody", *body)))


def scrolling(made: Markup) -> Markup:
    """Return a table that scrolls by itself where it is too wide; tabindex lets the keyboard scroll it, too."""
    return tag("div", made, class_="scroll", tabindex=0)

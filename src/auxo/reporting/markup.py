"""HTML and SVG as text that is safe by type: only `escaped` and `tag` make `Markup` of data."""

import html
from collections.abc import Iterable
from typing import NewType

Markup = NewType("Markup", str)
"""Text that may stand in a page as it is."""


def escaped(text: str) -> Markup:
    """Return text as it is to be read.

    >>> escaped("a < b")
    'a &lt; b'
    """
    return Markup(html.escape(text))


def joined(parts: Iterable[Markup]) -> Markup:
    """Return the parts one after the other."""
    return Markup("".join(parts))


def tag(name: str, *children: Markup, **attributes: str | float | None) -> Markup:
    """Return an element; ``class_`` stands for class, ``aria_label`` for aria-label, None for no attribute.

    >>> tag("text", escaped("R&D"), class_="label", x=1.25, y=3.0)
    '<text class="label" x="1.2" y="3">R&amp;D</text>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(children)}</{name}>")


def picture(description: str, *parts: Markup, width: int, height: float) -> Markup:
    """Return an SVG element; the description is read out in place of it."""
    view, shown = f"0 0 {width} {height:.0f}", tag("desc", escaped(description))
    return tag("svg", shown, *parts, role="img", aria_label=description, viewBox=view, class_="chart")


def _attribute(value: str | float) -> str:
    # A tenth of a pixel is finer than the eye; more digits only make the page bigger.
    return html.escape(value) if isinstance(value, str) else f"{round(value, 1):g}"

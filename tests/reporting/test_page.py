"""The shell of pages: whole documents that need nothing else, and pictures laid out for a screen and for a phone."""

import pytest

from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.page import figure, note, page, scrolling, section
from auxo.reporting.style import STYLE


def test_a_page_is_a_whole_document_with_its_parts_in_order() -> None:
    html = page("Runs", [tag("h1", escaped("first")), tag("p", escaped("second"))])
    assert html.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert "<title>Runs</title>" in html
    assert html.endswith("<body><main><h1>first</h1><p>second</p></main></body></html>\n")


@pytest.mark.fault(36)
def test_a_title_is_escaped() -> None:
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in page("</title><script>", [])


def test_what_a_page_needs_of_its_own_comes_after_the_common_style() -> None:
    assert f"<style>{STYLE}svg.own{{fill:red}}</style>" in page("a", [], style="svg.own{fill:red}")
    assert f"<style>{STYLE}</style>" in page("a", [])


def test_a_figure_is_laid_out_for_a_screen_and_for_a_phone() -> None:
    widths: list[int] = []

    def render(width: int) -> Markup:
        widths.append(width)
        return tag("svg", width=width)

    html = figure(render, "a < b")
    wide, narrow = widths
    assert wide > 640 > narrow  # the width at which the style sheet changes over
    assert f'<div class="wide"><svg width="{wide}"></svg></div><div class="narrow"><svg width="{narrow}">' in html
    assert html.endswith("<figcaption>a &lt; b</figcaption></figure>")


def test_sections_notes_and_tables_are_marked_as_such() -> None:
    assert section("R&D", note("soft <b>")) == ('<section><h2>R&amp;D</h2><p class="soft">soft &lt;b&gt;</p></section>')
    assert scrolling(tag("table")) == '<div class="scroll" tabindex="0"><table></table></div>'

"""Markup: data never becomes tags."""

import pytest

from auxo.reporting.markup import escaped, joined, tag


@pytest.mark.fault(36)
def test_text_and_attributes_are_escaped() -> None:
    assert escaped("<a href='x'>&") == "&lt;a href=&#x27;x&#x27;&gt;&amp;"
    assert tag("p", escaped("<"), title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;">&lt;</p>'


def test_names_of_attributes_are_those_of_html() -> None:
    assert tag("p", class_="soft", aria_label="words", id=None) == '<p class="soft" aria-label="words"></p>'


def test_numbers_have_a_tenth_of_a_pixel() -> None:
    assert tag("rect", x=1.23456, y=2.0) == '<rect x="1.2" y="2"></rect>'


def test_parts_come_one_after_the_other() -> None:
    assert joined([tag("b"), tag("i")]) == "<b></b><i></i>"

"""What descriptions are drawn with: bars to one scale, and distributions."""

import io

import numpy as np
import pytest
from rich.console import Console

from auxo.commands.describing import bar, bars, distributions
from auxo.reporting.number_format import ABSENT, number


def test_a_bar_fills_its_share_to_an_eighth_of_a_character() -> None:
    assert bar(1.0) == "\N{FULL BLOCK}" * 24
    assert bar(0.0) == ""
    assert bar(1 / 24 / 8) == "\N{LEFT ONE EIGHTH BLOCK}"
    assert bar(1.0, is_ascii=True) == "#" * 24


def test_bars_of_all_columns_are_to_one_scale_and_what_is_not_known_has_none() -> None:
    console = Console(file=io.StringIO(), width=100)
    columns = {"one": np.array([4.0, np.nan]), "two": np.array([8.0, 0.0])}
    with console.capture() as shown:
        console.print(bars("title", ["first", "second"], columns, number, is_ascii=True))
    title, names, first, second = (line.split() for line in shown.get().splitlines())
    assert (title, names) == (["title"], ["one", "two"])
    assert first == ["first", "#" * 12, "4", "#" * 24, "8"]
    assert second == ["second", ABSENT, "0"]


def test_half_of_them_have_at_most_the_median() -> None:
    (line,) = distributions("samples", "clients", {"all": np.arange(101.0)}).lines
    assert np.interp(50.0, line.x, line.y) == pytest.approx(0.5)

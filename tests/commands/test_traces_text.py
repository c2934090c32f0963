"""Traces in words and bars."""

from auxo.commands.traces_text import bar, figure_rows
from auxo.traces.synthetic import synthetic_trace


def test_a_bar_fills_its_share_to_an_eighth_of_a_character() -> None:
    assert bar(1.0) == "\N{FULL BLOCK}" * 24
    assert bar(0.0) == ""
    assert bar(1 / 24 / 8) == "\N{LEFT ONE EIGHTH BLOCK}"
    assert bar(1.0, is_ascii=True) == "#" * 24


def test_every_row_has_a_value_for_each_trace() -> None:
    traces = {"few": synthetic_trace(20, 0, 0.1, 1), "many": synthetic_trace(20, 0, 0.5, 1)}
    rows = figure_rows(traces)
    assert {heading for heading, _ in rows} >= {"devices with sessions", "mean share on line", "devices with speeds"}
    assert all(len(values) == 2 for _, values in rows)

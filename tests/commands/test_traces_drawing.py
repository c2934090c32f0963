"""Traces drawn: figures in words, and charts of what there is."""

from dataclasses import replace
from pathlib import Path

from auxo.commands.traces_drawing import figure_rows, write_traces_page
from auxo.traces.synthetic import synthetic_trace


def test_the_page_has_a_chart_for_each_kind_of_values_that_some_trace_has(tmp_path: Path) -> None:
    both = synthetic_trace(20, 0, 0.5, 1)
    for trace, headings in (
        (both, {"On line by hour of the day", "Time to train a sample", "Bandwidth"}),
        (replace(both, speeds=None), {"On line by hour of the day"}),
        (replace(both, sessions=None), {"Time to train a sample", "Bandwidth"}),
    ):
        write_traces_page({"<b>": trace}, tmp_path / "page.html")
        html = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert {part.split("</h2>")[0] for part in html.split("<h2>")[1:]} == headings
        assert "<title>Traces of devices: &lt;b&gt;</title>" in html
        assert "<b>" not in html
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_every_row_has_a_value_for_each_trace() -> None:
    traces = {"few": synthetic_trace(20, 0, 0.1, 1), "many": synthetic_trace(20, 0, 0.5, 1)}
    rows = figure_rows(traces)
    assert {heading for heading, _ in rows} >= {"devices with sessions", "mean share on line", "devices with speeds"}
    assert all(len(values) == 2 for _, values in rows)

"""Traces on a page: charts of what there is, written whole."""

from dataclasses import replace
from pathlib import Path

from auxo.commands.traces_page import write_page
from auxo.traces.synthetic import synthetic_trace


def test_the_page_has_a_chart_for_each_kind_of_values_that_some_trace_has(tmp_path: Path) -> None:
    both = synthetic_trace(20, 0, 0.5, 1)
    for trace, headings in (
        (both, {"On line by hour of the day", "Time to train a sample", "Bandwidth"}),
        (replace(both, speeds=None), {"On line by hour of the day"}),
        (replace(both, sessions=None), {"Time to train a sample", "Bandwidth"}),
    ):
        write_page({"<b>": trace}, tmp_path / "page.html")
        html = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert {part.split("</h2>")[0] for part in html.split("<h2>")[1:]} == headings
        assert "<title>Traces of devices: &lt;b&gt;</title>" in html
        assert "<b>" not in html
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]

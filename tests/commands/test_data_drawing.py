"""A data set's description drawn: ranges of sizes, and a page with every fact."""

from pathlib import Path

from auxo.commands.data_drawing import facts, size_edges, write_data_page
from auxo.datasets.describe import describe
from auxo.datasets.open_dataset import open_named
from auxo.reporting.markup import escaped


def test_sizes_of_any_magnitude_have_ranges() -> None:
    assert size_edges(1, 1) == [1, 2]
    assert size_edges(20, 131) == [20, 50, 100, 200]
    assert size_edges(0, 10**9)[-1] > 10**9


def test_the_page_tells_every_fact_and_lists_groups_only_where_there_are_some(tmp_path: Path) -> None:
    for name, group in (("grouped", ",group"), ("plain", "")):
        rows = [f"u{row % 4},{row},{row % 2}{(',a', ',b')[row % 2] if group else ''}" for row in range(24)]
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([f"client,x,label{group}", *rows]) + "\n", encoding="utf-8")
        described = describe(*open_named(path))
        assert ("samples a client", "6 to 6, quartiles 6, 6, 6") in facts(described)
        write_data_page(described, tmp_path / "page.html")
        html = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert f"<title>Data set: {name}</title>" in html
        assert all(escaped(value) in html for _, value in facts(described))
        assert ("<h2>Groups</h2>" in html) == bool(group)

"""A data set's description drawn: ranges of sizes, and a page with every fact."""

from dataclasses import replace
from pathlib import Path

from auxo.commands.data_drawing import facts, size_edges, write_data_page
from auxo.datasets.describe import TargetSummary, describe
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


def test_of_numbers_and_labels_it_is_told_what_they_are_and_how_clients_differ(tmp_path: Path) -> None:
    (tmp_path / "toy.csv").write_text("client,x,label\n" + "a,1,0\nb,2,1\n" * 5, encoding="utf-8")
    described = describe(*open_named(tmp_path / "toy.csv"))
    price = TargetSummary("price", 1000.0, 100.0, 900.0, 1100.0, 950.0, 1050.0, 40.0, 20.0)
    told = dict(facts(replace(described, task="regression", n_classes=1, targets=(price,))))
    assert told["price"] == (
        "1,000 on average, deviation 100, 900 to 1,100; clients' means deviate by 40, by chance 20"
    )
    assert "label skew" not in told
    late = TargetSummary("late", 0.25, 0.4, 0.0, 1.0, 0.1, 0.6, 0.2, 0.05)
    labels = dict(facts(replace(described, task="multi-label", n_classes=1, targets=(late,))))
    assert labels["late"] == "25 % of samples, by client 10 % to 60 %; clients deviate by 20.0 %, by chance 5.0 %"

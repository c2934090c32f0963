"""The table and the page of a grid, of numbers chosen by hand."""

import io
import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from auxo.experiments.comparison import Interval
from auxo.experiments.grid import GridAxis
from auxo.experiments.grid_comparison import GridComparison, GridRow
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Between
from auxo.reporting.grid_report import grid_table, write_grid_report
from tests.reporting.test_comparison_report import evaluated

ROWS = (
    GridRow("aggregator-fedavg", ("fedavg",), "base", (0, 1), Interval(50.0, None), device_s=7200.0, cohorts=(1, 1)),
    GridRow(
        "aggregator-fedavg",
        ("fedavg",),
        "auxo",
        (0, 1),
        Interval(61.5, None),
        Interval(11.5, None),
        speedup=2.5,
        speedup_between=Between(2.0, 3.25),
        device_s=3600.0,
        tuning_device_s=1800.0,
        cohorts=(2, 4),
        ari=0.9,
        troubles=("no partition is possible: so it is",),
    ),
    GridRow("aggregator-fedavg", ("fedavg",), "ifca", (), note="refused: it needs everybody, and <some> are away"),
)
GRID = GridComparison("toy[1]", (GridAxis("training.aggregator", ("fedavg",)),), (0, 1), ROWS)


def rendered(grid: GridComparison) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(grid_table(grid))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_row_says_what_is_known_and_a_refusal_why() -> None:
    text = rendered(GRID)
    lines = [line.split() for line in text.splitlines() if line.strip().startswith("fedavg")]
    assert lines == [
        ["fedavg", "base", "50.00", "-", "-", "-", "2", "-", "1", "-"],
        ["fedavg", "Auxo", "61.50", "+11.50", "2.50", "x", "(2.0", "to", "3.2)", "never", "1", "0.5", "2-4", "0.90"],
        ["fedavg", "IFCA", "refused", "-", "-", "-", "-", "-", "-", "-"],
    ]
    assert "IFCA, fedavg: refused: it needs everybody, and <some> are away" in text
    assert "Auxo, fedavg: no partition is possible: so it is" in text
    assert "toy[1], 2 seeds" in text
    assert "never: a seed missed the base's best accuracy" in text
    assert "in brackets: what evaluations and a base that wavers leave open" in text
    assert "say next to nothing about chance" in text
    assert "models" not in text  # which is known of none


def test_intervals_of_a_grid_come_with_what_they_leave_out() -> None:
    three = replace(GRID, seeds=(0, 1, 2))
    assert "intervals leave out chance in clients and test samples: all seeds share them" in rendered(three)
    assert "each with clients and samples of its own" in rendered(replace(three, are_clients_drawn=True))
    assert "intervals leave out" not in rendered(GRID)


def test_the_page_has_the_table_the_picture_and_links(tmp_path: Path) -> None:
    for seed in (0, 1):
        run = RunDirectory.create(tmp_path / "aggregator-fedavg" / f"seed-{seed}", 'methods = ["base", "auxo"]\n')
        for method, gain in (("base", 0.0), ("auxo", 0.1)):
            run.replace_events(method, [evaluated(at, 0.3 + 0.01 * at + gain) for at in (5, 10, 15)])
    page = write_grid_report(tmp_path, GRID).read_text(encoding="utf-8")
    assert "and &lt;some&gt; are away" in page
    assert "Auxo, fedavg: no partition is possible: so it is" in page
    assert 'href="aggregator-fedavg/seed-1/report.html"' in page
    for name, axis in (("time", "simulated hours"), ("work", '"participations, what was wasted included"')):
        file = f"accuracy-over-{name}_aggregator-fedavg"
        assert (tmp_path / "figures" / f"{file}.pdf").is_file()
        numbers = (tmp_path / "figures" / f"{file}.csv").read_text(encoding="utf-8").splitlines()
        assert numbers[0] == f"method,{axis},accuracy"
        assert len(numbers) == 1 + 2 * 100
    assert "Accuracy against time, fedavg; mean over 2 seeds" in page
    assert "Accuracy against resources, fedavg; mean over 2 seeds" in page
    assert "main{max-width:78rem}" in page  # all columns are seen on a screen


def test_each_cell_has_a_picture_with_the_colours_of_its_methods_and_the_same_scale(tmp_path: Path) -> None:
    for place, cell in enumerate(("aggregator-fedavg", "aggregator-fedyogi")):
        run = RunDirectory.create(tmp_path / cell / "seed-0", 'methods = ["base", "auxo"]\n')
        for method, gain in (("base", 0.0), ("auxo", 0.1)):
            run.replace_events(method, [evaluated(at, 0.3 + 0.02 * at * place + gain) for at in (5, 10, 15)])
    rows = [
        GridRow(f"aggregator-{name}", (name,), method, (0,), accuracy=Interval(50.0, None))
        for name in ("fedavg", "fedyogi")
        for method in ("base", "auxo")
    ]
    page = write_grid_report(tmp_path, replace(GRID, seeds=(0,), rows=tuple(rows))).read_text(encoding="utf-8")
    pictures = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)[::2]  # wide ones
    assert len(pictures) == 4  # two cells, against time and against resources
    for picture in pictures:
        assert re.findall(r'polyline class="line c-([a-z0-9]+)', picture) == ["base", "auxo"]
        assert {"40 %", "60 %"} <= set(re.findall(r"\d+.%", picture.replace("\N{NARROW NO-BREAK SPACE}", " ")))

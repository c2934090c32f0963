"""The page of a comparison: intervals, verdicts, and figures as files of their own."""

import csv
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from auxo.experiments.comparison import compare
from auxo.experiments.run_directory import RunDirectory
from auxo.protocol.events import CohortScore, Evaluated
from auxo.reporting.comparison_report import comparison_page, write_comparison_report
from tests.experiments.made_summaries import made_method, made_summary


def evaluated(at: int, accuracy: float) -> Evaluated:
    return Evaluated(
        time_s=60.0 * at,
        round=float(at),
        participations=10 * at,
        wasted_participations=0,
        device_s=1.0,
        wasted_device_s=0.0,
        downloads=10 * at,
        accuracy=accuracy,
        worst_10=accuracy,
        best_10=accuracy,
        variance=0.0,
        variance_beyond_binomial=0.0,
        cohorts=(CohortScore("0", 10, accuracy),),
        ari=None,
        lost=0,
        matched_accuracy=accuracy,
        matched_ari=None,
        perplexity=None,
        tuning_device_s=0.0,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return runs of three seeds."""
    for seed in range(3):
        run = RunDirectory.create(tmp_path / f"seed-{seed}", 'methods = ["base", "auxo"]\n')
        for method, gain in (("base", 0.0), ("auxo", 0.1)):
            run.replace_events(method, [evaluated(at, 0.3 + 0.01 * at + gain) for at in (5, 10, 15)])
    return tmp_path


def test_the_page_has_intervals_a_verdict_and_links_to_runs_and_figures(folder: Path) -> None:
    seeds = [
        made_summary(seed, base=made_method(0.5), auxo=made_method(0.6 + seed / 100, cohorts=2)) for seed in range(3)
    ]
    page = write_comparison_report(folder, compare(seeds)).read_text(encoding="utf-8")
    assert "<h1>Auxo is better than the base, beyond chance in training.</h1>" in page
    assert "<p>Intervals leave out chance in clients and test samples: all seeds share them.</p>" in page
    assert "95 % intervals, of the same clients and held-out samples" in page
    assert "+11.00 ± 2.48" in page
    for link in re.findall(r'href="([^"]+)"', page):
        assert (folder / link).exists() or link.startswith("seed-")
    assert "seed-2/report.html" in page
    for name in ("differences", "accuracy-over-time", "accuracy-over-work"):
        assert ET.parse(folder / "figures" / f"{name}.svg").getroot().tag.endswith("svg")  # noqa: S314 - our own
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF-1.4")
    with (folder / "figures" / "differences.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    (first, *_) = rows
    assert (first["measure"], first["method"]) == ("final accuracy", "auxo")
    assert float(first["difference"]) == pytest.approx(11)
    assert float(first["half_width_95"]) == pytest.approx(2.484, abs=1e-3)
    with (folder / "figures" / "accuracy-over-time.csv").open(encoding="utf-8") as file:
        points = [row for row in csv.DictReader(file) if row["method"] == "Auxo"]
    assert [float(points[place]["simulated hours"]) for place in (0, -1)] == pytest.approx([5 / 60, 15 / 60])
    assert [float(points[place]["accuracy"]) for place in (0, -1)] == pytest.approx([0.45, 0.55])


def test_two_seeds_have_a_page_without_intervals(folder: Path) -> None:
    seeds = [made_summary(seed, base=made_method(0.5), auxo=made_method(0.6 + seed / 100)) for seed in range(2)]
    page = write_comparison_report(folder, compare(seeds)).read_text(encoding="utf-8")
    assert "±" not in page
    assert "95 %" not in page
    assert "<h1>Two seeds say next to nothing about chance" in page


def test_of_several_contenders_the_first_is_the_headline_and_what_they_brought_stands_side_by_side() -> None:
    seeds = [
        made_summary(seed, base=made_method(0.5), auxo=made_method(0.6, cohorts=2), ifca=made_method(0.4, cohorts=3))
        for seed in range(3)
    ]
    page = comparison_page(compare(seeds, are_clients_drawn=True), [])
    assert "<h1>Auxo is better than the base, beyond chance.</h1>" in page
    assert "<p>IFCA is worse than the base, beyond chance.</p>" in page
    section = re.search(r"What they brought</h2>(.*?)</section>", page, re.DOTALL)
    assert section is not None
    assert re.findall(r'scope="row">([^<]+)<', section[1]) == ["Auxo", "IFCA"]
    assert "3, 3, 3" in section[1]
    assert page.count("beyond chance") == 2


def test_a_measure_is_a_heading_of_its_methods_and_takes_no_column_from_a_phone(folder: Path) -> None:
    seeds = [made_summary(seed, base=made_method(0.5), auxo=made_method(0.6 + seed / 100)) for seed in range(3)]
    page = write_comparison_report(folder, compare(seeds)).read_text(encoding="utf-8")
    measures = page.partition("<h2>Measures</h2>")[2].partition("</table>")[0]
    assert '<th scope="rowgroup" colspan="3">final accuracy</th>' in measures
    assert {row.count("<td") for row in re.findall("<tr>.*?</tr>", measures)} == {0, 2}


def test_a_table_that_does_not_fit_has_a_shade_where_it_goes_on(folder: Path) -> None:
    seeds = [made_summary(0, base=made_method(0.5), auxo=made_method(0.6))]
    page = write_comparison_report(folder, compare(seeds)).read_text(encoding="utf-8")
    assert re.search(r"\.scroll\{overflow-x:auto;[^}]*var\(--shade\)", page)
    assert page.count("--shade:#") == 2  # light and dark

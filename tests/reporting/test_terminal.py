"""The result on the terminal: the cohort tree, the comparison table and the numbers for scripts."""

import io

from rich.console import Console, RenderableType

from auxo.protocol.events import CohortScore, Evaluated, Event, Partitioned
from auxo.reporting.terminal import cohort_tree_text, comparison_table, headline

BASE = {"final_accuracy": 0.512, "variance": 130.2, "variance_beyond_binomial": 80.0, "worst_10": 0.31, "best_10": 0.8}
AUXO = {"final_accuracy": 0.912, "variance": 30.2, "variance_beyond_binomial": 3.0, "worst_10": 0.81, "best_10": 0.99}
SUMMARY: dict[str, object] = {
    "population": "clients[1].npz",
    "seed": 7,
    "status": "finished",
    "base": BASE,
    "auxo": AUXO,
    "oracle": None,
    "speedup": 2.34,
    "resource_speedup": None,
    "cohorts": 4,
    "ari": None,
    "oracle_gain_share": 0.95,
}


def rendered(renderable: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def evaluated(*cohorts: CohortScore) -> Evaluated:
    return Evaluated(9.0, 1.0, 10, 0, 1.0, 0.0, 0.9, 0.8, 1.0, 3.0, 2.0, cohorts, None, 0, 0.9, None, None)


def test_the_tree_shows_partitions_in_order_and_leaves_as_last_evaluated() -> None:
    events: list[Event] = [
        evaluated(CohortScore("0", 100, 0.5)),
        Partitioned(7200.0, "0", 10, ("0.0", "0.1"), (5, 5), 0.42),
        Partitioned(9000.0, "0.1", 15, ("0.1.0", "0.1.1"), (3, 2), 0.12),
        evaluated(CohortScore("0.0", 60, 0.9), CohortScore("0.1.0", 39, 0.95), CohortScore("0.1.1", 1, 0.85)),
    ]
    lines = [line.lstrip("│├└─ ") for line in rendered(cohort_tree_text(events)).splitlines()]
    assert lines == [
        "0  partitioned in round 10 (2.0 h), gain 0.42",
        "0.0  60 clients, accuracy 90.0 %",
        "0.1  partitioned in round 15 (2.5 h), gain 0.12",
        "0.1.0  39 clients, accuracy 95.0 %",
        "0.1.1  1 client, accuracy 85.0 %",
    ]


def test_the_tree_of_a_run_that_has_just_begun_is_its_root() -> None:
    assert rendered(cohort_tree_text([])).strip() == "0"


def test_the_table_has_a_row_for_each_method_that_ran_and_only_what_is_known() -> None:
    text = rendered(comparison_table(SUMMARY))
    assert "clients[1].npz, seed 7" in text
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line]
    assert rows == [
        ["base: one model for all", "51.2 %", "31.0 %", "80.0 %", "130.2"],
        ["Auxo: cohorts found", "91.2 %", "81.0 %", "99.0 %", "30.2"],
    ]
    assert "in time: 2.3 x" in text
    assert "in resources" not in text
    assert "ARI" not in text


def test_scripts_get_the_main_numbers_and_nothing_else() -> None:
    scores = ("final_accuracy", "variance", "worst_10", "best_10")
    assert headline(SUMMARY) == {
        "base": {key: BASE[key] for key in scores},
        "auxo": {key: AUXO[key] for key in scores},
        "speedup": 2.34,
        "cohorts": 4,
        "ari": None,
        "oracle_gain_share": 0.95,
    }


def test_a_method_that_did_not_run_is_none() -> None:
    assert headline({"base": BASE, "cohorts": None})["auxo"] is None


def test_the_table_has_perplexities_where_they_were_measured() -> None:
    text = rendered(comparison_table(SUMMARY | {"base": BASE | {"perplexity": 7.256}, "auxo": AUXO}))
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line]
    assert [row[-1] for row in rows] == ["7.26", "-"]
    assert "perplexity" in text
    assert "perplexity" not in rendered(comparison_table(SUMMARY))

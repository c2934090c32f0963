"""The result on the terminal: the cohort tree, the comparison table and the numbers for scripts."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from auxo.core.metric import VARIANCE_EXPLAINED, Metric
from auxo.experiments.summary import Between, MethodSummary
from auxo.protocol.events import CohortEnded, CohortScore, Evaluated, Event, Partitioned
from auxo.reporting.facts import MethodFacts
from auxo.reporting.terminal import cohort_tree_text, headline_figures, methods_on_terminal
from tests.experiments.made_summaries import brought, made_method, made_summary

BASE = made_method(0.512, variance=130.2, worst_10=0.31, best_10=0.8)
AUXO = made_method(0.912, variance=30.2, worst_10=0.81, best_10=0.99, cohorts=4, against_base=brought(2.34, None, 0.95))
SUMMARY = made_summary(7, population="clients[1].npz", base=BASE, auxo=AUXO)


def rendered(renderable: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def evaluated(*cohorts: CohortScore) -> Evaluated:
    return Evaluated(9.0, 1.0, 10, 0, 1.0, 0.0, 10, 0.9, 0.8, 1.0, 3.0, 2.0, cohorts, None, 0, 0.9, None, None, 0.0)


def tree_lines(*events: Event) -> list[str]:
    tree = cohort_tree_text(MethodFacts("auxo").after(*events))
    return [line.lstrip("│├└─ ").rstrip() for line in rendered(tree).splitlines()]


def test_the_tree_shows_partitions_in_order_and_leaves_as_last_evaluated() -> None:
    events: list[Event] = [
        evaluated(CohortScore("0", 100, 0.5)),
        Partitioned(7200.0, "0", 10, ("0.0", "0.1"), (5, 5), 0.42),
        Partitioned(9000.0, "0.1", 15, ("0.1.0", "0.1.1"), (3, 2), 0.12),
        evaluated(CohortScore("0.0", 60, 0.9), CohortScore("0.1.0", 39, 0.95), CohortScore("0.1.1", 1, 0.85)),
    ]
    assert tree_lines(*events) == [
        "0  partitioned in round 10 (2.0 h), gain 0.42",
        "0.0  60 clients, accuracy 90.0 %",
        "0.1  partitioned in round 15 (2.5 h), gain 0.12",
        "0.1.0  39 clients, accuracy 95.0 %",
        "0.1.1  1 client, accuracy 85.0 %",
    ]


def test_one_model_needs_no_tree() -> None:
    assert tree_lines() == ["one model"]
    told = tree_lines(CohortEnded(9.0, "0", 1), evaluated(CohortScore("0", 60, 0.9)))
    assert told == ["one model: 60 clients, accuracy 90.0 %"]


def test_leaves_that_share_the_root_s_rounds_hang_from_it() -> None:
    one, two = CohortScore("0.0", 60, 0.9), CohortScore("0.3", 1, 0.5)
    assert tree_lines(CohortEnded(5.0, "0", 1), evaluated(one, replace(two, cohort="0.1")), evaluated(one, two)) == [
        "0  several cohorts from the start",
        "0.0  60 clients, accuracy 90.0 %",
        "0.1  0 clients",
        "0.3  1 client, accuracy 50.0 %",
    ]


def test_cohorts_with_rounds_of_their_own_from_the_start_hang_from_a_root() -> None:
    assert tree_lines(CohortEnded(5.0, "0.1", 1), CohortEnded(5.0, "0.0", 1)) == [
        *("0  several cohorts from the start", "0.0", "0.1")
    ]


def test_a_partition_without_a_gain_shows_none() -> None:
    assert tree_lines(Partitioned(7200.0, "0", 10, ("0.0", "0.1"), (5, 5), None))[0] == (
        "0  partitioned in round 10 (2.0 h)"
    )


def test_a_method_that_begins_with_several_cohorts_shows_them_all() -> None:
    assert tree_lines(evaluated(CohortScore("a", 60, 0.9), CohortScore("b", 1, 0.5))) == [
        *("2 cohorts", "a  60 clients, accuracy 90.0 %", "b  1 client, accuracy 50.0 %")
    ]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line]


def test_the_table_has_a_row_for_each_method_that_ran_and_only_what_is_known() -> None:
    text = rendered(methods_on_terminal(SUMMARY))
    assert "clients[1].npz, seed 7" in text
    assert cells(text) == [
        ["base: one model for all", "51.2 %", "31.0 %", "80.0 %", "130.2"],
        ["Auxo: cohorts found", "91.2 %", "81.0 %", "99.0 %", "30.2"],
    ]
    assert "\ncohorts: 4" in text
    assert "in time: 2.3 x" in text
    assert "in resources: never (it did not get as" in text
    assert "ARI" not in text


def test_what_clients_have_tuned_stands_below() -> None:
    tuned = {name: replace(method, tuning_device_s=5400.0) for name, method in SUMMARY.methods.items()}
    assert "tuned" not in rendered(methods_on_terminal(SUMMARY))
    words = "clients have tuned their models: 1.5 device-hours besides those of training"
    assert words in rendered(methods_on_terminal(replace(SUMMARY, methods=tuned)))


def test_whose_scores_are_told_stands_below_where_some_attack() -> None:
    attacked = {name: replace(method, attackers=30, accuracy_of_all=0.5) for name, method in SUMMARY.methods.items()}
    assert "attack" not in rendered(methods_on_terminal(SUMMARY))
    text = rendered(methods_on_terminal(replace(SUMMARY, methods=attacked)))
    assert "30 clients attack: scores are those of the honest ones; with attackers base 50.0 %, Auxo 50.0 %" in text


def test_several_methods_are_shown_by_their_names_with_what_they_brought_in_columns() -> None:
    methods = {
        "late+1": replace(AUXO, cohorts=2, are_cohorts_in_use=True),
        "base": BASE,
        "auxo": AUXO,
        "oracle": replace(AUXO, cohorts=8),
    }
    text = rendered(methods_on_terminal(replace(SUMMARY, methods=methods)))
    rows = cells(text)
    assert [row[0] for row in rows[:4]] == [
        *("late+1", "base: one model for all", "Auxo: cohorts found", "oracle: true groups")
    ]
    assert rows[4:] == [["late+1", "2 in use", "2.3 x", "95.0 %"], ["Auxo", "4", "2.3 x", "95.0 %"]]
    assert "in resources" not in text  # nobody knows
    assert "cohorts:" not in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())


def test_what_evaluations_leave_open_of_a_speed_up_stands_beside_it() -> None:
    told = replace(AUXO, against_base=brought(2.34, 3.0, 0.95, Between(2.0, 3.5)))
    alone = rendered(methods_on_terminal(made_summary(base=BASE, auxo=told)))
    assert "\nspeed-up to the base's accuracy, in time: 2.3 x (2.0 to 3.5)" in alone
    several = rendered(methods_on_terminal(made_summary(base=BASE, auxo=told, late=told)))
    assert [row[2] for row in cells(several)[3:]] == ["2.3 x (2.0 to 3.5)"] * 2
    for text in (alone, several):
        assert "in brackets: what evaluations and a base that wavers leave open" in text


def test_the_only_contender_says_when_its_cohorts_are_those_in_use() -> None:
    text = rendered(methods_on_terminal(made_summary(base=BASE, ifca=replace(AUXO, are_cohorts_in_use=True))))
    assert "\ncohorts in use: 4" in text


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"lost": 12, "matched_accuracy": 0.876, "matched_ari": 0.912}, "12 (as matched: accuracy 87.6 %, ARI 0.91)"),
        ({"lost": 12, "matched_accuracy": 0.876}, "12 (as matched: accuracy 87.6 %)"),
        ({"lost": 0}, "0"),
    ],
)
def test_lost_clients_are_counted_with_what_they_would_have_as_matched(changes: dict[str, Any], line: str) -> None:
    lost = replace(AUXO, **changes)
    assert f"\nlost clients: {line}" in rendered(methods_on_terminal(made_summary(base=BASE, auxo=lost)))
    several = rendered(methods_on_terminal(made_summary(base=BASE, auxo=lost, late=AUXO)))
    assert f"\nlost clients of Auxo: {line}" in several
    assert "lost clients of late: 0" in several
    assert all(len(row.rstrip()) <= 80 for row in several.splitlines())


def test_nobody_is_lost_among_the_clients_of_one_model() -> None:
    assert "lost" not in rendered(methods_on_terminal(made_summary(base=BASE, auxo=replace(AUXO, cohorts=1))))


def test_a_method_that_has_not_finished_has_no_row() -> None:
    text = rendered(methods_on_terminal(made_summary(base=BASE, auxo=replace(AUXO, is_finished=False))))
    assert len(cells(text)) == 1
    assert "cohorts" not in text


def scores(method: MethodSummary) -> dict[str, float]:
    return {key: getattr(method, key) for key in ("final_accuracy", "variance", "worst_10", "best_10")}


FINDINGS = ("speedup", "cohorts", "ari", "oracle_gain_share", "lost", "matched_accuracy", "matched_ari")


def test_scripts_get_the_main_numbers_and_nothing_else() -> None:
    found = headline_figures(made_summary(base=BASE, auxo=AUXO, oracle=AUXO))
    assert found == {
        "status": "finished",
        "base": scores(BASE),
        "auxo": scores(AUXO),
        "speedup": 2.34,
        "cohorts": 4,
        "ari": None,
        "oracle_gain_share": 0.95,
        "lost": 0,
        "matched_accuracy": AUXO.matched_accuracy,
        "matched_ari": None,
    }
    assert list(found) == ["status", "base", "auxo", *FINDINGS]


def test_scripts_get_further_methods_under_their_names() -> None:
    own = made_method(
        0.7, cohorts=2, ari=0.5, lost=3, matched_accuracy=0.6, matched_ari=0.4, against_base=brought(1.5, None, 0.25)
    )
    found = headline_figures(replace(SUMMARY, methods={**SUMMARY.methods, "own-1": own}))
    told = {"speedup": 1.5, "cohorts": 2, "ari": 0.5, "oracle_gain_share": 0.25}
    assert found["own-1"] == {**scores(own), **told, "lost": 3, "matched_accuracy": 0.6, "matched_ari": 0.4}
    assert found["speedup"] == 2.34


def test_a_method_that_did_not_run_or_finish_is_none() -> None:
    nothing = dict.fromkeys(("auxo", *FINDINGS))
    assert headline_figures(made_summary(base=BASE)) == {"status": "finished", "base": scores(BASE), **nothing}
    assert headline_figures(made_summary(base=BASE, auxo=replace(AUXO, is_finished=False)))["auxo"] is None


def test_the_table_has_perplexities_where_they_were_measured() -> None:
    text = rendered(methods_on_terminal(made_summary(base=replace(BASE, perplexity=7.256), auxo=AUXO)))
    assert [row[-1] for row in cells(text)] == ["7.26", "-"]
    assert "perplexity" in text
    assert "perplexity" not in rendered(methods_on_terminal(SUMMARY))


def test_a_metric_is_shown_by_its_name_in_its_unit_and_as_it_was_measured() -> None:
    base = made_method(-0.654, worst_10=-1.2, best_10=-0.4, variance=358.8)
    auxo = made_method(-0.088, worst_10=-0.1, best_10=-0.04, variance=9.9, cohorts=2, against_base=brought(2.0))
    summary = replace(made_summary(base=base, auxo=auxo), metric=Metric("absolute_error", "", smaller_is_better=True))
    shown = rendered(methods_on_terminal(summary))
    assert [" ".join(line.split()) for line in shown.splitlines() if "found" in line] == [
        "│ Auxo: cohorts found │ 0.088 │ 0.1 │ 0.04 │ 0.00099 │"
    ]
    assert "speed-up to the base's absolute_error, in time: 2.0 x" in shown
    assert "accuracy" not in shown


def test_variance_explained_below_zero_is_explained() -> None:
    poor = made_method(0.1, worst_10=-1.5)
    summary = replace(made_summary(base=poor), metric=VARIANCE_EXPLAINED)
    assert "below 0 %: predictions are further off than the mean of everybody's numbers" in rendered(
        methods_on_terminal(summary)
    )
    assert "below 0" not in rendered(methods_on_terminal(made_summary(base=poor)))

"""Seeds in a table and in sentences, whatever the methods are called."""

import io
import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from auxo.core.metric import Metric
from auxo.experiments.comparison import Comparison, compare, interval
from auxo.experiments.summary import Between, Summary
from auxo.reporting.comparison_tables import comparison_over_seeds, findings, markdown_row, signed, verdicts
from tests.experiments.made_summaries import brought, made_method, made_summary


def summary(seed: int, base: float, auxo: float, **changes: Any) -> Summary:
    return made_summary(seed, base=made_method(base), auxo=made_method(auxo, **changes))


def shown(comparison: Comparison) -> list[list[str]]:
    """Return the cells of the table, row by row, and the lines below it as rows of one cell."""
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison_over_seeds(comparison))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines]


def text_of(rows: list[list[str]]) -> str:
    """Return all of it, with lines that were broken made whole."""
    return " ".join(cell for row in rows for cell in row)


@pytest.mark.parametrize(
    ("auxo", "words"),
    [([0.6, 0.6, 0.61], "better"), ([0.4, 0.41, 0.4], "worse"), ([0.51, 0.49, 0.5], "do not differ")],
)
def test_a_verdict_says_what_the_interval_says(auxo: list[float], words: str) -> None:
    (told,) = verdicts(compare([summary(seed, 0.5, accuracy) for seed, accuracy in enumerate(auxo)]))
    assert told.startswith("Auxo ")
    assert words in told


def test_intervals_come_with_what_they_leave_out() -> None:
    runs = [summary(seed, 0.5, 0.6 + 0.01 * seed) for seed in range(3)]
    shared = "intervals leave out chance in clients and test samples: all seeds share them"
    assert findings(compare(runs))[-2:] == [shared, "Auxo is better than the base, beyond chance in training"]
    assert shared in text_of(shown(compare(runs)))
    assert findings(compare(runs, are_clients_drawn=True))[-2:] == [
        "intervals are over seeds, each with clients and samples of its own",
        "Auxo is better than the base, beyond chance",
    ]
    assert not any("intervals" in line for line in findings(compare(runs[:2])))


def test_what_has_to_be_known_stands_with_the_figures_also_where_nothing_was_run_anew() -> None:
    told = compare([summary(seed, 0.5, 0.5, troubles=("no partition is possible: so it is",)) for seed in range(3)])
    assert text_of(shown(told)).count("Auxo: no partition is possible: so it is") == 1


def test_one_seed_gives_no_verdict() -> None:
    assert "one seed" in verdicts(compare([summary(0, 0.5, 0.9)]))[0]


def test_without_a_base_it_is_said_that_nothing_is_compared() -> None:
    runs = [made_summary(seed, auxo=made_method(0.5), mine=made_method(0.6)) for seed in range(2)]
    assert verdicts(compare(runs)) == ['no method is called "base", so there are no differences']
    assert all("difference (95 %)" not in row for row in shown(compare(runs)))


def test_a_refused_method_stands_beside_the_others_with_its_reason_below() -> None:
    runs = [replace(summary(seed, 0.5, 0.6), refused={"cfl": "needs all <of> them"}) for seed in range(2)]
    rows = shown(compare(runs))
    assert ["", "CFL", "refused", ""] in rows
    assert ["CFL was refused: it needs all <of> them"] in rows


def test_the_table_has_a_line_for_each_method_with_its_difference_and_fits_80_columns() -> None:
    runs = [
        Summary(
            "toy",
            seed,
            "finished",
            {
                "base": made_method(0.5),
                "auxo": made_method(0.6 + seed / 100, cohorts=4),
                "fedavg-2": made_method(0.45),
                "oracle": made_method(0.7),
            },
        )
        for seed in range(3)
    ]
    rows = shown(compare(runs))
    assert ["toy, 3 seeds"] in rows
    assert ["", "", "mean", "difference (95 %)"] in rows
    at = rows.index(["final accuracy", "base", "50.00 %", ""])
    assert rows[at + 1][:3] == ["", "Auxo", "61.00 %"]
    assert rows[at + 1][3].startswith("+11.00 ± ")
    assert rows[at + 2] == ["", "fedavg-2", "45.00 %", "\N{MINUS SIGN}5.00 ± 0.00"]
    assert rows[at + 3] == ["", "oracle", "70.00 %", "+20.00 ± 0.00"]
    assert ["Auxo", "never", "never", "4, 4, 4"] in rows
    assert ["fedavg-2", "never", "never", "1, 1, 1"] in rows
    told = findings(compare(runs))
    assert len(told) == 4
    assert "lost clients of Auxo, by seed: 0, 0, 0" in told
    assert all(line in text_of(rows) for line in told)
    assert ["never: a seed missed the base's best"] in rows
    assert "Auxo is better than the base, beyond chance in training" in told
    assert "fedavg-2 is worse than the base, beyond chance in training" in told
    assert not any(line.startswith("oracle") for line in told)


def test_one_contender_needs_no_name_before_its_findings() -> None:
    runs = [summary(seed, 0.5, 0.6, against_base=brought(2.0, 1.5, 0.9)) for seed in range(2)]
    assert findings(compare(runs))[:4] == [
        "speed-up to the base's best accuracy, in time: 2.00 x",
        "speed-up to the base's best accuracy, in participations: 1.50 x",
        "cohorts, by seed: 1, 1",
        "share of the oracle's gain, by seed: 90 %, 90 %",
    ]


def test_what_evaluations_leave_open_of_a_speed_up_stands_beside_it() -> None:
    told = brought(2.0, 1.5, 0.9, Between(1.25, None))
    alone = findings(compare([summary(seed, 0.5, 0.6, against_base=told) for seed in range(2)]))
    assert alone[0] == "speed-up to the base's best accuracy, in time: 2.00 x (1.2 or more)"
    assert "in brackets: what evaluations and a base that wavers leave open" in alone
    told = replace(told, oracle_gain_share=None)
    one = made_method(0.6, against_base=told)
    several = compare([made_summary(seed, base=made_method(0.5), auxo=one, late=one) for seed in range(3)])
    assert ["late", "2.00 x (1.2 or more)", "1.50 x (1.2 or more)", "1, 1, 1"] in [row[:4] for row in shown(several)]


def test_lost_clients_and_figures_as_matched_are_shown_where_there_are_lost_ones() -> None:
    placed = {"cohorts": 2, "ari": 0.9, "lost": 7, "matched_accuracy": 0.55, "matched_ari": 0.75}
    told = {"ARI": "0.90, 0.90", "lost clients": "7, 7", "ARI as matched": "0.75, 0.75"}
    alone = compare([summary(seed, 0.5, 0.6, **placed) for seed in range(2)])
    assert findings(alone)[3:6] == [f"{what}, by seed: {values}" for what, values in told.items()]
    rows = shown(alone)
    at = rows.index(["... as matched", "base", "50.00 %", ""])
    assert rows[at + 1] == ["", "Auxo", "55.00 %", "+5.00"]
    beside = compare([made_summary(seed, auxo=made_method(0.6, **placed), late=made_method(0.5)) for seed in (0, 1)])
    assert findings(beside)[:3] == [f"{what} of Auxo, by seed: {values}" for what, values in told.items()]
    assert not any("lost" in line for line in findings(beside)[3:])  # one cohort: nothing to get lost among


def test_without_lost_clients_nothing_is_said_twice() -> None:
    told = compare([summary(seed, 0.5, 0.6, cohorts=2, ari=0.9, matched_ari=0.9) for seed in range(2)])
    assert "ARI, by seed: 0.90, 0.90" in findings(told)
    assert "lost clients, by seed: 0, 0" in findings(told)
    assert not any("as matched" in cell for row in shown(told) for cell in row)


def test_a_speed_up_that_a_seed_never_had_is_never() -> None:
    told = findings(compare([summary(0, 0.5, 0.4), summary(1, 0.5, 0.6, against_base=brought(2.0))]))
    assert "in time: never in 1 of 2 seeds: it did not get as good as the base at its best" in told[0]


def test_a_speed_up_below_one_is_slower() -> None:
    told = findings(compare([summary(seed, 0.5, 0.6, against_base=brought(0.5, 0.5)) for seed in range(3)]))
    assert told[0].endswith("in time: 0.50 x (slower than the base)")


def test_two_seeds_have_no_interval() -> None:
    both = compare([summary(seed, 0.5, 0.6 + 0.01 * seed) for seed in range(2)])
    assert ["", "", "mean", "difference"] in shown(both)
    assert not any("±" in cell for row in shown(both) for cell in row)
    assert findings(both)[-1] == "two seeds say next to nothing about chance: run more (--seeds 3)"


def test_perplexity_is_the_main_figure_of_documents_where_it_was_measured() -> None:
    text = [
        made_summary(seed, base=made_method(0.5, perplexity=7.0 + seed), auxo=made_method(0.5, perplexity=6.5 + seed))
        for seed in range(3)
    ]
    row = markdown_row(compare(text), "auxo")
    assert row[:4] == ("8.000", "7.500", "\N{MINUS SIGN}0.500 ± 0.000", "-")
    assert markdown_row(compare([summary(0, 0.5, 0.6)]), "auxo")[:3] == ("50.00 %", "60.00 %", "+10.00")


def test_documents_need_the_base_and_the_method() -> None:
    with pytest.raises(ValueError, match="expected one that was run beside the base, got 'auxo'"):
        markdown_row(compare([made_summary(0, auxo=made_method(0.5))]), "auxo")


def test_signs_are_written_out() -> None:
    assert signed(interval([math.pi]), 2) == "+3.14"
    assert signed(interval([-1.0, -1.0, -1.0]), 1) == "\N{MINUS SIGN}1.0 ± 0.0"


def test_cohorts_counted_by_use_are_called_so() -> None:
    runs = [summary(seed, 0.5, 0.6, cohorts=2, are_cohorts_in_use=True) for seed in range(2)]
    assert "cohorts in use, by seed: 2, 2" in findings(compare(runs))


def test_an_error_that_falls_is_better_and_shown_as_it_was_measured() -> None:
    metric = Metric("absolute_error", "EUR", smaller_is_better=True)
    runs = [replace(summary(seed, -0.6, -0.1 - seed / 100), metric=metric) for seed in range(3)]
    assert verdicts(compare(runs)) == ["Auxo is better than the base, beyond chance in training"]
    rows = shown(compare(runs))
    assert ["final absolute_error", "base", "0.6000 EUR", ""] in rows
    assert ["", "Auxo", "0.1100 EUR", "\N{MINUS SIGN}0.4900 ± 0.0248"] in rows
    assert not any("beyond small test sets" in cell for row in rows for cell in row)

"""The report's tables: methods side by side, and rounds added up."""

from dataclasses import replace

from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Summary
from auxo.protocol.events import EmptyRound, Event, UpdateRejected
from auxo.reporting.facts import RunFacts, gather_facts
from auxo.reporting.number_format import duration
from auxo.reporting.tables import comparison_table, incidents_table, rounds_table
from tests.experiments.made_summaries import made_method
from tests.reporting.made_runs import AUXO, AUXO_END, BASE, HOUR, finished, record, several, words


def seen(facts: RunFacts) -> str:
    return words(comparison_table(facts))


def test_comparison_shows_every_number_of_the_summary(run: RunDirectory) -> None:
    table = seen(gather_facts(finished(run)))
    assert "Final mean accuracy 62.0 % 93.0 %" in table
    assert "Worst 10 % of clients 32.0 % 63.0 %" in table
    assert "Best 10 % of clients 67.0 % 98.0 %" in table
    assert "Variance across clients, %² 310 310" in table
    assert "beyond what small test sets explain 210 210" in table
    assert "Device-hours used 10 10" in table
    assert "Device-hours wasted 2 (17 %) 2 (17 %)" in table
    assert "Cohorts 1 2" in table
    assert "Agreement with the true groups (ARI) \N{EN DASH} 0.91" in table
    assert "oracle" not in table


def test_figures_as_matched_are_shown_where_clients_are_lost(run: RunDirectory) -> None:
    facts = gather_facts(finished(run))
    absent = "\N{EN DASH}"
    assert f"Lost clients: they compare models {absent} 0" in seen(facts)
    assert "as matched" not in seen(facts)
    run.write_summary(
        Summary(
            "toy",
            0,
            "finished",
            {"base": made_method(0.62), "auxo": replace(AUXO_END, lost=1234, matched_accuracy=0.87, matched_ari=0.8)},
        )
    )
    table = seen(gather_facts(run))
    assert f"Lost clients: they compare models {absent} 1,234" in table
    assert "as matched: the lost where they are sent 62.0 % 87.0 %" in table
    assert f"agreement (ARI) {absent} 0.80" in table


def test_tuning_has_a_row_of_its_own_where_clients_have_tuned(run: RunDirectory) -> None:
    assert "tuning" not in seen(gather_facts(finished(run)))
    methods = {"base": made_method(0.62, tuning_device_s=7200.0), "auxo": replace(AUXO_END, tuning_device_s=7200.0)}
    run.write_summary(Summary("toy", 0, "finished", methods))
    assert "Device-hours of tuning, besides 2 2" in seen(gather_facts(run))


def test_scores_are_said_to_be_those_of_honest_clients_where_others_attack(run: RunDirectory) -> None:
    assert "honest" not in seen(gather_facts(finished(run)))
    attacked = replace(AUXO_END, attackers=30, accuracy_of_all=0.5)
    run.write_summary(Summary("toy", 0, "finished", {"base": made_method(0.62, attackers=30), "auxo": attacked}))
    table = seen(gather_facts(run))
    assert "Final mean accuracy of honest clients 62.0 %" in table
    assert "with attackers, too" in table
    assert "Clients that attack 30 30" in table


def test_times_are_to_the_base_s_best_accuracy(run: RunDirectory) -> None:
    # Auxo climbs from 0.40 to 0.93 between hours 1 and 4, so it passes 0.62 at 1 + 3 * 22 / 53 hours.
    reached = words(duration((1 + 3 * 22 / 53) * HOUR))
    text = seen(gather_facts(finished(run)))
    assert f"best accuracy 8 h {reached} " in text
    assert "between evaluations at 60 min and 8 h 60 min and 4 h " in text


def test_method_that_never_gets_there_is_said_not_to(run: RunDirectory) -> None:
    record(run, base=BASE, auxo=AUXO[:2])
    assert "8 h not yet" in seen(gather_facts(run))
    record(run, oracle=AUXO)  # so Auxo has come to its end
    assert "8 h not reached" in seen(gather_facts(run))


def test_rounds_are_added_up_for_each_cohort(run: RunDirectory) -> None:
    facts = gather_facts(finished(run))
    table = words(rounds_table(facts))
    assert "Auxo 0 2 200 24 10 2 6 0 1 15 min" in table
    assert "0.1 1 100 12 5 1 3 0 0 15 min" in table
    assert incidents_table(facts) is None


def test_rejections_and_empty_rounds_are_counted_by_reason(run: RunDirectory) -> None:
    rejections = tuple(UpdateRejected(HOUR, "0", 1, client, "not finite") for client in ("a", "b", "a"))
    trouble: tuple[Event, ...] = (*rejections, EmptyRound(HOUR, "0", 2, "nobody on line"))
    table = incidents_table(gather_facts(record(finished(run), auxo=trouble)))
    assert table is not None
    assert "Auxo update rejected (2 clients) not finite 3" in words(table)
    assert "Auxo empty round nobody on line 1" in words(table)


def test_every_method_has_a_column_in_the_order_they_ran(run: RunDirectory) -> None:
    facts = gather_facts(several(run))
    table = seen(facts)
    assert table.split("Final")[0].split() == ["base", "Auxo", "fedavg-2", "grouped+", "oracle"]
    assert "Final mean accuracy 62.0 % 93.0 % 55.0 % 81.0 % 94.0 %" in table
    assert "Cohorts 1 2 1 3 4" in table
    absent = "\N{EN DASH}"
    assert f"gain {absent} {absent} {absent} 60 % {absent}" in table
    assert '<th scope="col" class="m1">grouped+</th>' in comparison_table(facts)
    assert " grouped+ 0 2 200" in words(rounds_table(facts))

"""What the report knows of a run, finished or not, and of any methods."""

import pytest

from auxo.experiments.run_directory import RunDirectory
from auxo.protocol.events import Evaluated
from auxo.reporting.facts import RunFacts, gather_facts
from tests.reporting.made_runs import AUXO, AUXO_END, BASE, finished, record, several


def test_speedups_of_an_unfinished_run_come_from_its_evaluations(run: RunDirectory) -> None:
    facts = gather_facts(record(run, base=BASE, auxo=AUXO))
    assert facts.methods["auxo"].brought.speedup == pytest.approx(8 / (1 + 3 * 22 / 53))
    # The 18 participations that were wasted were spent, too.
    assert facts.methods["auxo"].brought.resource_speedup == pytest.approx(218 / (118 + 300 * 22 / 53))


def test_events_folded_one_by_one_tell_at_any_time_what_reading_all_of_them_tells(run: RunDirectory) -> None:
    facts = RunFacts("run", run.config_text())
    told = {"base": BASE, "auxo": AUXO, "oracle": BASE[:2]}
    for method, events in told.items():
        for event in events:
            facts = facts.after(method, event)
            assert facts == gather_facts(record(run, **{method: (event,)}))
    assert facts.methods["auxo"].brought.speedup is not None
    assert [len(one.evaluations) for one in facts.methods.values()] == [
        sum(isinstance(event, Evaluated) for event in events) for events in told.values()
    ]


def test_what_the_summary_says_counts_where_there_is_one(run: RunDirectory) -> None:
    facts = gather_facts(finished(run))
    assert (facts.name, facts.seed, facts.is_finished) == ("rotated digits", 7, True)
    assert facts.methods["auxo"].end == AUXO_END
    assert facts.methods["auxo"].brought.speedup == 3.4


def test_a_run_without_a_summary_has_ends_all_the_same(run: RunDirectory) -> None:
    facts = gather_facts(record(run, base=BASE, auxo=AUXO[:1]))
    assert (facts.name, facts.seed, facts.is_finished) == ("run", None, False)
    base = facts.methods["base"].end
    assert base is not None
    assert (base.final_accuracy, base.is_finished) == (0.62, True)
    assert facts.methods["auxo"].end is None
    assert facts.methods["auxo"].brought.speedup is None


def test_methods_are_in_the_order_they_ran_and_contenders_without_base_and_oracle(run: RunDirectory) -> None:
    facts = gather_facts(several(run))
    assert list(facts.methods) == ["base", "auxo", "fedavg-2", "grouped+", "oracle"]
    assert [one.name for one in facts.contenders] == ["Auxo", "fedavg-2", "grouped+"]
    assert facts.base is facts.methods["base"]
    assert facts.oracle is facts.methods["oracle"]
    assert facts.target == 0.62


def test_the_report_is_about_auxo_or_else_the_first_that_was_evaluated(run: RunDirectory) -> None:
    assert gather_facts(run).featured is None
    record(run, **{"base": BASE, "grouped+": AUXO, "fedavg-2": BASE[:1]})
    featured = gather_facts(run).featured
    assert featured is not None
    assert featured.method == "grouped+"
    record(run, auxo=AUXO)
    featured = gather_facts(run).featured
    assert featured is not None
    assert featured.method == "auxo"

"""The report's section on what distinguishes cohorts."""

import re

from auxo.experiments.cohort_profiles import CohortProfile, CohortProfiles, write_profiles
from auxo.experiments.run_directory import RunDirectory
from auxo.reporting.facts import gather_facts
from auxo.reporting.report import write_report
from tests.reporting.made_runs import finished, words


def profile(cohort: str, red: float, width: float, age_of_red: float, samples: int = 400) -> CohortProfile:
    pairs = ((0.0, 0.0), (age_of_red, 0.0))
    names = tuple(f"{cohort}-{number}" for number in range(3))
    return CohortProfile(cohort, 3, samples, names[:2], names, (1 - red, red), (0.0, width), pairs)


def told(run: RunDirectory, *cohorts: CohortProfile) -> str:
    everybody = profile("", 0.5, 0.0, 0.0)
    made = CohortProfiles("classification", ("blue", "red"), ("age", "<width>"), everybody, cohorts)
    write_profiles(finished(run), "auxo", made)
    return write_report(run, gather_facts(run)).read_text(encoding="utf-8")


def test_what_cohorts_differ_in_is_said_in_words_then_drawn(run: RunDirectory) -> None:
    html = told(run, profile("0.0", 0.4, -0.6, 0.9), profile("0.1", 0.6, 0.6, -0.7))
    text = words(html)
    assert "They differ in classes (most: blue, from 40 % to 60 %)" in text
    assert "in inputs (most: &lt;width&gt;, from \N{MINUS SIGN}0.60 to +0.60)" in text
    assert "in how classes go with inputs (most: age where red, from \N{MINUS SIGN}0.70 to +0.90)" in text
    assert "0.0 3 clients; nearest to its centre: 0.0-0, 0.0-1." in text
    assert "Inputs: &lt;width&gt; \N{MINUS SIGN}0.60 (everybody +0.00)." in text
    assert "How classes go with inputs: age where red +0.90 (everybody +0.00)." in text
    assert "Who is in which cohort 0.0: 0.0-0, 0.0-1, 0.0-2 0.1: 0.1-0" in text
    assert text.index("They differ in") < text.index("Classes by cohort: share of its training samples.")
    section = html.partition("What distinguishes the cohorts")[2].partition("</section>")[0]
    assert len(re.findall("<svg", section)) == 2 * 3  # each laid out wide and narrow


def test_cohorts_that_are_alike_in_all_that_is_counted_say_so(run: RunDirectory) -> None:
    html = told(run, profile("0.0", 0.5, 0.01, 0.0), profile("0.1", 0.51, -0.01, 0.0))
    assert "cohorts are alike, as far as it is looked at here" in words(html)


def test_inputs_of_a_class_that_hardly_anybody_has_say_nothing(run: RunDirectory) -> None:
    html = told(run, profile("0.0", 0.5, 0.6, 5.0, samples=30), profile("0.1", 0.5, -0.6, 0.0))
    assert "age where red" not in words(html)


def test_a_run_without_profiles_has_no_such_section(run: RunDirectory) -> None:
    assert "What distinguishes" not in write_report(run, gather_facts(finished(run))).read_text(encoding="utf-8")

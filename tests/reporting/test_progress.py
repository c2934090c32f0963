"""Progress: what events add up to, bars on a terminal, plain lines anywhere else."""

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from auxo.experiments.config import Config
from auxo.protocol.events import (
    CohortEnded,
    CohortScore,
    EmptyRound,
    Evaluated,
    Event,
    Partitioned,
    RoundClosed,
    StoppedLooking,
)
from auxo.reporting.progress import Budget, MethodProgress, news_text, show_progress

BUDGET = Budget(rounds=20, participants=10)
DAY_S = 86_400.0


def closed(cohort: str, round: int, participants: int) -> RoundClosed:
    return RoundClosed(
        time_s=round * DAY_S,
        cohort=cohort,
        round=round,
        participants=participants,
        late=0,
        failed=0,
        rejected=0,
        duration_s=60.0,
        known=0,
        labelled=0,
        judged=0,
        gain=None,
        gain_needed=0.03,
        heterogeneity=0.5,
        children=1,
        restarted=False,
        misfits=0,
    )


def evaluated(round: int, accuracy: float) -> Evaluated:
    return Evaluated(
        time_s=round * DAY_S,
        round=round,
        participations=10 * round,
        wasted_participations=0,
        device_s=1.0,
        wasted_device_s=0.0,
        downloads=0,
        accuracy=accuracy,
        worst_10=0.1,
        best_10=0.9,
        variance=30.0,
        variance_beyond_binomial=10.0,
        cohorts=(CohortScore("0", 100, accuracy),),
        ari=None,
        lost=0,
        matched_accuracy=accuracy,
        matched_ari=None,
        perplexity=None,
        tuning_device_s=0.0,
    )


PARTITION = Partitioned(10 * DAY_S, "0", 10, ("0.0", "0.1"), (5, 5), 0.42)
BEFORE: list[Event] = [*(closed("0", round, 10) for round in range(1, 11)), evaluated(10, 0.5)]
AFTER: list[Event] = [closed(cohort, round, 5) for round in range(11, 21) for cohort in ("0.0", "0.1")]
RUN: list[Event] = [*BEFORE, PARTITION, *AFTER, evaluated(20, 0.9)]


def after(events: list[Event]) -> MethodProgress:
    progress = MethodProgress()
    for event in events:
        progress = progress.after(event)
    return progress


def shown(events: list[Event], console: Console) -> str:
    with show_progress(BUDGET, console) as on_event:
        for event in events:
            on_event("auxo", event)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def plain(events: list[Event]) -> str:
    return shown(events, Console(file=io.StringIO()))


def test_rounds_done_counts_participations_of_all_cohorts() -> None:
    assert after(BEFORE).rounds_done(BUDGET) == 10
    assert after([*BEFORE, PARTITION, *AFTER[:3]]).rounds_done(BUDGET) == 11.5


def test_a_partition_replaces_a_cohort_by_its_children() -> None:
    assert after(BEFORE).seen.leaves == {"0"}
    assert after([*BEFORE, PARTITION]).seen.leaves == {"0.0", "0.1"}


def test_a_run_is_done_once_every_cohort_has_ended_however_few_took_part() -> None:
    events: list[Event] = [closed("0", 1, 1), PARTITION, CohortEnded(5.0, "0.0", 20)]
    assert after(events).rounds_done(BUDGET) == pytest.approx(0.1)
    assert after([*events, CohortEnded(6.0, "0.1", 20)]).rounds_done(BUDGET) == 20


def test_the_last_evaluation_and_the_latest_time_are_kept() -> None:
    progress = after([evaluated(2, 0.4), evaluated(3, 0.6), EmptyRound(2 * DAY_S, "0", 4, "nobody on line")])
    assert progress.evaluation is not None
    assert (progress.evaluation.accuracy, progress.time_s) == (0.6, 3 * DAY_S)


@given(st.lists(st.integers(0, 500)))
def test_progress_never_goes_back_or_past_the_end(participants: list[int]) -> None:
    events: list[Event] = [closed("0", round, count) for round, count in enumerate(participants, start=1)]
    done = [after(events[:length]).rounds_done(BUDGET) for length in range(len(events) + 1)]
    assert done == sorted(done)
    assert done[-1] <= BUDGET.rounds


def test_plain_progress_has_no_control_characters() -> None:
    text = plain(RUN)
    assert text.endswith("\n")
    assert all(character.isprintable() or character == "\n" for character in text)


def test_plain_progress_is_a_line_for_each_tenth_and_each_partition() -> None:
    lines = plain(RUN).splitlines()
    assert len(lines) == 11
    assert lines[0] == "auxo       2/20 rounds  1 cohort   accuracy      -  sim 2.0 days"
    assert lines[5] == "auxo, round 10: cohort 0 -> 0.0 0.1, gain 0.42"
    assert lines[-1] == "auxo      20/20 rounds  2 cohorts  accuracy 90.0 %  sim 20.0 days"


def test_a_plain_line_tells_the_evaluation_of_its_own_round() -> None:
    lines = plain(RUN).splitlines()

    assert lines[4] == "auxo      10/20 rounds  1 cohort   accuracy 50.0 %  sim 10.0 days"
    assert lines[6].startswith("auxo      12/20 rounds  2 cohorts  accuracy 50.0 %")


def test_a_cohort_that_stops_looking_is_told() -> None:
    lines = plain([*BEFORE, StoppedLooking(10 * DAY_S, "0", 10)]).splitlines()

    assert lines[-1] == "auxo, round 10: cohort 0 has found no groups worth a partition, and rests"


def test_a_build_log_gets_plain_lines_even_if_it_claims_to_be_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert shown(RUN, Console(file=io.StringIO(), force_terminal=True, force_interactive=True)) == plain(RUN)


def test_a_terminal_gets_a_bar_that_fits_80_columns_and_partitions_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    console = Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=80, color_system=None)
    text = shown(RUN, console)
    assert "\x1b[" in text
    assert f"auxo, {news_text(PARTITION)}" in text
    last_line = text.splitlines()[-2].split("\x1b[2K")[-1]
    assert "20/20 rounds  2 cohorts  accuracy 90.0 %  sim 20.0 days 0:00:0" in last_line
    assert "\N{HORIZONTAL ELLIPSIS}" not in last_line


def test_columns_stand_below_each_other_however_long_the_names_of_methods_are() -> None:
    console = Console(file=io.StringIO())
    with show_progress(replace(BUDGET, name_width=14), console) as on_event:
        for method in ("base", "longest-name 2"):
            for event in BEFORE:
                on_event(method, event)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert {line.index("/20 rounds") for line in lines} == {18}
    assert {line.split("  ")[0] for line in lines} == {"base", "longest-name 2"}


def test_the_budget_is_the_configurations() -> None:
    config = Config()
    assert Budget.of(config) == Budget(config.training.rounds, config.training.participants)
    named = config.model_copy(update={"methods": ("base", "longest-name")})
    assert Budget.of(named).name_width == len("longest-name 2")
    with pytest.raises(ValueError, match="participants: expected at least 1, got 0"):
        Budget(1, 0)


def test_leaves_that_share_the_root_s_rounds_are_counted_and_end_with_it() -> None:
    used = tuple(CohortScore(cohort, 50, 0.5) for cohort in ("0.0", "0.2"))
    events: list[Event] = [closed("0", 1, 1), replace(evaluated(1, 0.5), cohorts=used)]
    assert after(events).seen.leaves == {"0.0", "0.2"}
    assert after(events).rounds_done(BUDGET) == pytest.approx(0.1)
    assert after([*events, CohortEnded(5.0, "0", 20)]).rounds_done(BUDGET) == 20


def test_a_partition_without_a_gain_is_told_without_one() -> None:
    assert news_text(replace(PARTITION, gain=None)) == "round 10: cohort 0 -> 0.0 0.1"
    assert news_text(replace(PARTITION, gain=0.0)) == "round 10: cohort 0 -> 0.0 0.1, gain 0.00"

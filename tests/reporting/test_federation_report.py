"""The page of a federation on Flower: what its events tell, and nothing that they do not."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auxo.cli import app
from auxo.experiments.run_directory import is_federation
from auxo.files.errors import FileError
from auxo.protocol.events import (
    CohortEnded,
    CohortMembers,
    EmptyRound,
    Event,
    Measured,
    Partitioned,
    RoundClosed,
    StoppedLooking,
    UpdateRejected,
    to_json,
)
from auxo.reporting.facts import MethodFacts
from auxo.reporting.federation_report import federation_headline, write_federation_report


def closed(cohort: str, number: int, used: int = 6) -> RoundClosed:
    return RoundClosed(10.0 * number, cohort, number, used, 0, 0, 0, 9.0, used, used, 0, None, 0.07, 0.9, 1, False, 0)


PARTED: list[Event] = [
    closed("0", 1),
    Measured(10.0, "0", 1, "training", ("train_loss",), (2.5,)),
    UpdateRejected(20.0, "0", 2, "7 <script>", "NON_FINITE"),
    closed("0", 2, used=5),
    Measured(20.0, "0", 2, "evaluation", ("eval_loss",), (2.25,)),
    Partitioned(20.0, "0", 2, ("0.0", "0.1"), (3, 3), 0.3),
    closed("0.0", 3, used=3),
    Measured(30.0, "0.0", 3, "evaluation", ("eval_loss",), (0.125,)),
    closed("0.1", 3, used=2),
    Measured(31.0, "0.1", 3, "evaluation", ("eval_loss",), (0.375,)),
    EmptyRound(40.0, "0.1", 4, "no usable update"),
    CohortEnded(50.0, "0.0", 3),
]


def written(folder: Path, events: list[Event], tail: str = "") -> str:
    (folder / "events.jsonl").write_text("".join(f"{to_json(event)}\n" for event in events) + tail)
    return write_federation_report(folder).read_text(encoding="utf-8")


def test_the_page_has_cohorts_metrics_participants_and_rejections(tmp_path: Path) -> None:
    html = written(tmp_path, PARTED)
    assert "2 cohorts found, after 3 rounds." in html
    for words in ("eval_loss", "train_loss", "Cohort tree", "Participants", "NON_FINITE", "no usable update", "0.375"):
        assert words in html
    assert "<script" not in html
    assert "http://" not in html.replace("http://www.w3.org", "")


def test_leaves_of_the_tree_tell_their_nodes_and_the_loss_that_the_table_has(tmp_path: Path) -> None:
    html = written(tmp_path, PARTED)
    assert "not evaluated" not in html
    assert "3 nodes \N{MIDDLE DOT} eval_loss 0.125" in html
    assert "2 nodes \N{MIDDLE DOT} eval_loss 0.375" in html


def test_held_out_metrics_come_before_those_of_training_in_the_tree(tmp_path: Path) -> None:
    later = Measured(32.0, "0.1", 4, "training", ("train_loss",), (0.0625,))
    assert "2 nodes \N{MIDDLE DOT} eval_loss 0.375" in written(tmp_path, [*PARTED, later])


def test_a_cohort_without_metrics_or_without_a_round_is_told_by_what_is_known(tmp_path: Path) -> None:
    silent: list[Event] = [event for event in PARTED[:7] if not isinstance(event, Measured)]
    picture = written(tmp_path, silent)
    assert "0.0: 3 nodes; 0.1: no round yet" in picture
    assert "not evaluated" not in picture


def test_a_federation_without_a_partition_says_so(tmp_path: Path) -> None:
    html = written(tmp_path, PARTED[:2])
    assert "One model for all nodes, after 1 round: no partition was made." in html


def test_the_page_says_which_nodes_are_where_as_they_were_told_last(tmp_path: Path) -> None:
    told = [CohortMembers(20.0, "0.1", 2, ("7", "8")), CohortMembers(50.0, "0.1", 3, ("8", "<b>"))]
    html = written(tmp_path, [*PARTED, CohortMembers(10.0, "0", 1, ("6",)), *told])
    assert "2 nodes after round 3: 8, &lt;b&gt;" in html
    assert "7, 8" not in html
    many = tuple(map(str, range(1000, 3000)))
    assert "1099, and 1,900 more" in written(tmp_path, [*PARTED, CohortMembers(50.0, "0.1", 3, many)])
    assert "<h2>Nodes</h2>" not in written(tmp_path, PARTED)


def test_a_federation_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    html = written(tmp_path, [])
    assert "No round has closed yet." in html
    assert federation_headline(MethodFacts("auxo")) == "No round has closed yet."


def test_half_an_event_at_the_end_is_left_out_and_told(tmp_path: Path) -> None:
    assert "half written" in written(tmp_path, PARTED, tail='{"type": "RoundCl')


def test_damaged_events_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"events\.jsonl"):
        written(tmp_path, PARTED, tail="nonsense\n")


def test_the_command_knows_a_federation_by_its_files(tmp_path: Path) -> None:
    assert not is_federation(tmp_path)
    written(tmp_path, PARTED)
    (tmp_path / "report.html").unlink()
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "report.html").is_file()


def test_the_page_says_that_nobody_judged_and_who_is_refused_again_and_again(tmp_path: Path) -> None:
    on_trial = [replace(closed("0", number), gain=0.0, gain_needed=0.0) for number in range(1, 10)]
    refused = [UpdateRejected(20.0, "0", number, "7", "NON_FINITE") for number in range(1, 7)]
    html = written(tmp_path, [*on_trial, *refused, StoppedLooking(99.0, "0", 9)])
    assert "Nobody judged a partition on trial, so that nobody knows what it would bring: no client says how" in html
    assert "6 updates of 1 clients were refused, again and again those of 7 (6 times)" in html
    assert "worth a partition" not in html

import json
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.types import IntArray
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.summary import AgainstBase, Summary
from auxo.files.errors import FileError
from auxo.protocol.events import CohortEnded, EmptyRound, Event, Partitioned, to_json
from tests.experiments.made_summaries import made_method

EVENTS: tuple[Event, ...] = (
    EmptyRound(1.0, "0", 1, "nobody on line"),
    Partitioned(2.0, "0", 2, ("0.0", "0.1"), (50, 50), 0.03),
    CohortEnded(3.0, "0.0", 3),
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", "seed = 1\n")


def record(run: RunDirectory, *events: Event) -> Path:
    run.replace_events("auxo", events)
    return run.events_file("auxo")


def test_created_run_opens_with_its_config(run: RunDirectory) -> None:
    assert RunDirectory.open(run.path).config_text() == "seed = 1\n"


def test_run_may_start_in_an_empty_directory(tmp_path: Path) -> None:
    assert RunDirectory.create(tmp_path, "").methods() == ()


def test_run_is_not_started_over_what_is_already_there(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"empty directory.*thesis\.tex.*choose another"):
        RunDirectory.create(tmp_path, "seed = 1\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_run_is_not_started_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(FileExistsError, match="found a file"):
        RunDirectory.create(tmp_path / "run", "")


def test_opening_says_that_the_directory_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such directory"):
        RunDirectory.open(tmp_path / "nowhere")


def test_opening_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"config\.toml is missing"):
        RunDirectory.open(tmp_path)


def test_events_come_back_in_order(run: RunDirectory) -> None:
    record(run, *EVENTS)
    recorded = run.events("auxo")
    assert recorded.events == EVENTS
    assert not recorded.is_truncated


@settings(max_examples=20)
@given(cut=st.integers(1, len(to_json(EVENTS[-1]))))
def test_half_written_last_line_is_left_out_and_said_so(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = RunDirectory.create(tmp_path_factory.mktemp("runs") / "run", "")
    path = record(run, *EVENTS)
    path.write_bytes(path.read_bytes()[: -1 - cut])
    recorded = run.events("auxo")
    assert recorded.events == EVENTS[:-1]
    assert recorded.is_truncated == (cut < len(to_json(EVENTS[-1])))


@pytest.mark.parametrize(
    "damage", ["{", '{"type": "Evaluated"}', '{"type": "Evaluated", "cohorts": [{"x": 1}]}', "[]", ""]
)
def test_damage_before_the_last_line_is_an_error_with_its_place(run: RunDirectory, damage: str) -> None:
    path = record(run, EVENTS[0])
    path.write_text(f"{to_json(EVENTS[0])}\n{damage}\n{to_json(EVENTS[1])}\n")
    with pytest.raises(FileError, match=r"auxo/events\.jsonl, line 2: expected one event as JSON: .*; .*run the exp"):
        run.events("auxo")


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_value_of_another_type_is_an_error_with_line_and_field_even_in_the_last_line(
    run: RunDirectory, end: str
) -> None:
    path = record(run, EVENTS[0])
    wrong = to_json(EVENTS[0]).replace('"time_s": 1.0', '"time_s": "1.0"')
    path.write_text(f"{to_json(EVENTS[0])}\n{wrong}{end}")
    with pytest.raises(FileError, match=r"line 2: .*event EmptyRound: time_s: expected a number, got '1\.0'; "):
        run.events("auxo")


def test_method_that_has_not_begun_has_no_events(run: RunDirectory) -> None:
    assert run.events("oracle").events == ()


def test_methods_are_those_that_have_begun_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", 'methods = ["late+1", "base", "fedavg-2", "auxo"]\n')
    for method in ("base", "another", "fedavg-2", "a.b", "late+1"):
        run.replace_events(method, [])
    (run.path / "notes").mkdir()
    assert run.methods() == ("late+1", "base", "fedavg-2", "a.b", "another")


def test_a_damaged_configuration_is_an_error_with_its_place(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", "methods = [")
    with pytest.raises(FileError, match=r"config\.toml: configuration: expected TOML, got none"):
        run.methods()


@pytest.mark.parametrize("name", ["../elsewhere", "", ".hidden", "a/b", "a b", "-x", "a\n", "summary.json"])
def test_a_name_that_is_not_safe_as_a_folder_is_refused(run: RunDirectory, name: str) -> None:
    with pytest.raises(ValueError, match="method: expected a name of letters, digits"):
        run.replace_events(name, [])
    with pytest.raises(ValueError, match="method: expected a name of letters, digits"):
        run.events(name)
    assert [entry.name for entry in run.path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("group", [None, np.array([0, 1])])
@pytest.mark.parametrize("client", [None, np.array([7, 99])])
def test_client_scores_come_back(run: RunDirectory, group: IntArray | None, client: IntArray | None) -> None:
    scores = ClientScores(np.array([0.5, 1.0]), np.array([4, 30]), np.array(["0.1", "0.10.2"]), group, client)
    run.write_clients("auxo", scores)
    read = run.read_clients("auxo")
    assert read is not None
    np.testing.assert_array_equal(read.accuracy, scores.accuracy)
    np.testing.assert_array_equal(read.test_samples, scores.test_samples)
    assert read.cohort.tolist() == ["0.1", "0.10.2"]
    for column, written in ((read.group, group), (read.client, client)):
        assert (column is None) == (written is None)
        np.testing.assert_array_equal(column, written)


def test_client_scores_are_absent_before_they_are_written(run: RunDirectory) -> None:
    assert run.read_clients("base") is None


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cohort: expected 2 entries.*got 1"):
        ClientScores(np.zeros(2), np.ones(2, dtype=np.int64), np.array(["0"]))


def test_pickled_client_scores_are_never_loaded(run: RunDirectory) -> None:
    run.write_clients("auxo", ClientScores(np.zeros(1), np.ones(1, dtype=np.int64), np.array(["0"])))
    path = run.path / "auxo" / "clients.npz"
    np.savez(path, accuracy=np.zeros(1), test_samples=np.ones(1), cohort=np.array(["0"], dtype=object))
    with pytest.raises(FileError, match=r"clients\.npz"):
        run.read_clients("auxo")


@pytest.mark.parametrize("size", [0, 10, 300])
def test_damaged_client_scores_are_an_error_with_their_place(run: RunDirectory, size: int) -> None:
    run.write_clients("auxo", ClientScores(np.zeros(9), np.ones(9, dtype=np.int64), np.array(["0"] * 9)))
    path = run.path / "auxo" / "clients.npz"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(FileError, match=r"clients\.npz: columns: expected accuracy, test_samples, cohort"):
        run.read_clients("auxo")


def test_client_scores_with_a_flipped_byte_are_an_error(run: RunDirectory) -> None:
    run.write_clients("auxo", ClientScores(np.linspace(0, 1, 99), np.ones(99, dtype=np.int64), np.array(["0"] * 99)))
    path = run.path / "auxo" / "clients.npz"
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF  # in the first column's compressed bytes
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"clients\.npz: columns: expected accuracy, test_samples, cohort"):
        run.read_clients("auxo")


def summary(accuracy: float = 0.5) -> Summary:
    brought = AgainstBase(2.0, None, 1.0)
    methods = {"late": made_method(accuracy, against_base=brought), "base": made_method(0.25, perplexity=3.0)}
    return Summary("digits", 1, "finished", methods)


def test_summary_comes_back_with_its_types_and_its_order(run: RunDirectory) -> None:
    assert run.read_summary() is None
    run.write_summary(summary())
    read = run.read_summary()
    assert read == summary()
    assert read is not None
    assert list(read.methods) == ["late", "base"]


def test_summary_that_cannot_be_written_leaves_the_old_one(run: RunDirectory) -> None:
    run.write_summary(summary())
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write_summary(summary(float("nan")))
    assert run.read_summary() == summary()


@pytest.mark.parametrize("text", ["{", json.dumps([1]), "", "null"])
def test_damaged_summary_is_an_error_with_its_place(run: RunDirectory, text: str) -> None:
    (run.path / "summary.json").write_text(text)
    with pytest.raises(FileError, match=r"summary\.json: expected the summary of a run as JSON: .*; .*run the exp"):
        run.read_summary()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"seed": 1', '"seed": "1"', "seed: expected a whole number, got '1'"),
        ('"seed": 1', '"sead": 1', "seed: expected a value, got none"),
        ('"status": "finished"', '"status": "done"', "status: expected 'finished', 'interrupted' or 'failed'"),
        ('"final_accuracy": 0.5', '"final_accuracy": "0.5"', r"methods\.late\.final_accuracy: expected a number"),
        ('"cohorts": 1', '"cohorts": 1.5', r"methods\.late\.cohorts: expected a whole number, got 1\.5"),
        ('"speedup": 2.0', '"speedup": true', r"methods\.late\.against_base\.speedup: expected a number, got True"),
    ],
)
def test_a_wrong_value_in_a_summary_is_an_error_that_names_its_field(
    run: RunDirectory, before: str, after: str, message: str
) -> None:
    run.write_summary(summary())
    path = run.path / "summary.json"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(FileError, match=message):
        run.read_summary()


def test_nothing_half_written_is_left_behind(run: RunDirectory) -> None:
    run.write_summary(summary())
    run.write_clients("base", ClientScores(np.zeros(1), np.ones(1, dtype=np.int64), np.array(["0"])))
    run.write_report("<p>")
    names = {path.name for path in run.path.rglob("*") if path.is_file()}
    assert names == {"config.toml", "summary.json", "clients.npz", "report.html"}


def test_replaced_events_are_all_that_is_left(run: RunDirectory) -> None:
    first, second = EmptyRound(1.0, "0", 1, "nobody on line"), EmptyRound(2.0, "0", 1, "no usable update")
    run.replace_events("oracle", [first, first])
    run.replace_events("oracle", [second])
    assert run.events("oracle").events == (second,)


def test_a_run_that_never_began_can_be_taken_back(run: RunDirectory) -> None:
    run.discard()
    assert not run.path.exists()


def test_what_a_killed_process_was_writing_does_not_keep_a_run_that_never_began(run: RunDirectory) -> None:
    (run.path / ".auxo-1234").write_bytes(b"half a summ")
    run.discard()
    assert not run.path.exists()


def test_a_run_that_has_begun_is_never_discarded(run: RunDirectory) -> None:
    run.replace_events("base", [EmptyRound(1.0, "0", 1, "nobody on line")])
    run.discard()
    assert len(RunDirectory.open(run.path).events("base").events) == 1


def test_of_several_that_create_a_run_at_the_same_time_one_does(tmp_path: Path) -> None:
    for attempt in range(20):
        path, ready = tmp_path / f"run-{attempt}", Barrier(4)
        made: list[str] = []

        def create(text: str, path: Path = path, ready: Barrier = ready, made: list[str] = made) -> None:
            ready.wait()
            try:
                made.append(RunDirectory.create(path, text).config_text())
            except FileExistsError:
                return

        threads = [Thread(target=create, args=(f"seed = {number}\n",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [(path / "config.toml").read_text()]
        assert [entry.name for entry in path.iterdir()] == ["config.toml"]


def test_a_directory_with_what_one_who_was_killed_has_left_can_be_used(tmp_path: Path) -> None:
    (tmp_path / ".auxo-0123.part").touch()
    (tmp_path / ".auxo-lock").touch()
    assert RunDirectory.create(tmp_path, "seed = 1\n").config_text() == "seed = 1\n"

"""The recorder: what goes on in a directory goes on after a crash, at its pace, and with a disk that is full."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from auxo.files.checkpoint_pace import CheckpointInterval, parse_interval
from auxo.files.checkpoint_store import Kept, Unusable
from auxo.files.directory_lock import DirectoryInUse
from auxo.protocol.event_log import Mark, read_events
from auxo.protocol.events import CohortEnded
from auxo.runtime.recorder import Parts, Recorder
from tests.files.test_checkpoint_store import FullDisk

EVENTS = tuple(CohortEnded(float(number), "0", number) for number in range(9))
EVERY_ROUND = CheckpointInterval(rounds=1)


def told(problem: str) -> None:
    raise AssertionError(problem)


def parts(number: int, mark: Mark) -> Parts:
    return Parts({"number": number, "size": mark.size, "sha256": mark.sha256}, "", {"state": np.array([number])})


def read(kept: Kept) -> tuple[int, Mark]:
    about = dict(kept.about)
    return int(kept.arrays["state"][0]), Mark(int(str(about["size"])), str(about["sha256"]))


def count(directory: Path, until: int) -> int:
    """Go on with a record that counts its events, with a checkpoint after every third; return where it began."""
    with Recorder(directory, CheckpointInterval(rounds=3), told) as recorder:
        begin, mark = recorder.find(read) or (0, Mark())
        recorder.open_log(directory / "events.jsonl", mark)
        for number in range(begin, until):
            recorder.event(EVENTS[number])
            recorder.on_round()
            if recorder.is_due:
                recorder.commit(lambda marks, done=number + 1: parts(done, marks[-1]))  # type: ignore[misc]
    return begin


@pytest.mark.parametrize("stop", [1, 3, 5, 8])
def test_what_came_after_the_last_checkpoint_is_done_again(tmp_path: Path, stop: int) -> None:
    assert count(tmp_path, stop) == 0
    assert count(tmp_path, len(EVENTS)) == stop // 3 * 3
    assert read_events(tmp_path / "events.jsonl").events == EVENTS


@pytest.mark.fault(9)
def test_a_record_that_cannot_be_read_is_put_aside_and_the_one_before_is_taken(tmp_path: Path) -> None:
    count(tmp_path, 6)
    problems: list[str] = []

    def refuse(kept: Kept) -> int:
        if kept.about["number"] == 6:
            raise Unusable("it is six")
        return read(kept)[0]

    assert Recorder(tmp_path, EVERY_ROUND, problems.append).find(refuse) == 3
    assert "put aside" in problems[0]


def test_a_directory_is_for_one_process_at_a_time_and_leftovers_go(tmp_path: Path) -> None:
    (tmp_path / "auxo").mkdir()
    (tmp_path / "auxo" / ".auxo-1f.part").write_text("half")
    (tmp_path / "auxo" / "mine.part").write_text("whole")
    with Recorder(tmp_path, EVERY_ROUND, told), pytest.raises(DirectoryInUse, match=str(os.getpid())):
        Recorder(tmp_path, EVERY_ROUND, told).__enter__()
    assert [path.name for path in (tmp_path / "auxo").iterdir()] == ["mine.part"]


def test_one_is_due_after_so_much_work_or_so_many_rounds_or_never(tmp_path: Path) -> None:
    ticks: Iterator[float] = iter([0.0, 29.0, 31.0])
    by_time = Recorder(tmp_path, parse_interval("30s"), told, clock=lambda: next(ticks))
    assert [by_time.is_due for _ in range(2)] == [False, True]
    by_rounds, never = Recorder(tmp_path, parse_interval("2r"), told), Recorder(tmp_path, parse_interval("never"), told)
    found = []
    for _ in range(3):
        by_rounds.on_round()
        never.on_round()
        found.append((by_rounds.is_due, never.is_due))
        if by_rounds.is_due:
            by_rounds.commit(lambda marks: parts(1, Mark()))
    assert found == [(False, False), (True, False), (False, False)]


@pytest.mark.fault(8)
def test_a_full_disk_stops_nothing_and_is_told_once_until_there_is_room(tmp_path: Path) -> None:
    problems: list[str] = []
    disk = FullDisk()
    recorder = Recorder(tmp_path, EVERY_ROUND, problems.append, disk=disk)
    assert recorder.commit(lambda marks: parts(1, Mark()))
    for _ in range(2):
        disk.at = disk.steps + 1
        recorder.on_round()
        assert not recorder.commit(lambda marks: parts(2, Mark()))
        assert recorder.has_unsaved
    assert [words.partition(" (")[0] for words in problems] == ["a checkpoint could not be written"]
    assert Recorder(tmp_path, EVERY_ROUND, told).find(read) == (1, Mark())
    disk.at = -1
    assert recorder.commit(lambda marks: parts(3, Mark()))
    assert not recorder.has_unsaved
    disk.at = disk.steps + 1
    assert not recorder.commit(lambda marks: parts(4, Mark()))
    assert len(problems) == 2


def test_of_several_files_of_events_each_has_its_mark_and_the_last_is_written_to(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, EVERY_ROUND, told)
    for name in ("first", "second"):
        recorder.open_log(tmp_path / name, Mark())
        recorder.event(EVENTS[0])
    recorder.event(EVENTS[1])
    one, two = recorder.sync()
    recorder.close_logs()
    assert (one.size, two.size) == tuple((tmp_path / name).stat().st_size for name in ("first", "second"))
    assert 2 * one.size == two.size

"""Events on their way to the disk: cut back to a mark, and whole lines only."""

import resource
from pathlib import Path

import pytest

from auxo.protocol.event_log import EventLog, Mark, events_before, mark_of
from auxo.protocol.events import CohortEnded

EVENTS = tuple(CohortEnded(float(number), "0", number) for number in range(6))


def written(path: Path, begin: Mark, *events: CohortEnded) -> list[Mark]:
    log, marks = EventLog(path, begin), []
    for event in events:
        log.write(event)
        marks.append(log.synced())
    log.close()
    return marks


def test_what_came_after_a_mark_is_cut_off_and_written_again_to_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "auxo" / "events.jsonl"
    marks = written(path, Mark(), *EVENTS)
    whole = path.read_bytes()
    assert marks[-1] == mark_of(path)
    for done, mark in enumerate(marks, start=1):
        assert events_before(path, mark) == EVENTS[:done]
        assert written(path, mark, *EVENTS[done:]) == marks[done:]
        assert path.read_bytes() == whole


def test_without_a_mark_the_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("something else")
    written(path, Mark(), EVENTS[0])
    assert events_before(path, mark_of(path)) == EVENTS[:1]


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 500])
def test_a_file_that_is_not_what_it_was_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.jsonl"
    mark = written(path, Mark(), *EVENTS)[3]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"events\.jsonl: expected the \d+ bytes of events that were written"):
        events_before(path, mark)
    with pytest.raises(ValueError, match=r"events\.jsonl: expected the \d+ bytes of events that were written"):
        EventLog(path, mark)
    assert path.read_bytes() == content


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, Mark())
    log.write(EVENTS[0])
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))  # room for the beginning of a line
    try:
        with pytest.raises(OSError, match="File too large") as error:
            log.write(EVENTS[1])
        assert path.read_bytes() == whole
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.write(EVENTS[2])  # there is room again
    mark = log.synced()
    log.close()
    assert error.value.filename == str(path)
    assert mark == mark_of(path)
    assert events_before(path, mark) == (EVENTS[0], EVENTS[2])

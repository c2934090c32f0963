"""The trace file: what is written is read, what cannot be is refused by name, and nothing is left half-written."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.files.errors import FileError
from auxo.traces.trace import Sessions, Speeds, Trace
from auxo.traces.trace_file import read_trace, write_trace

pa = pytest.importorskip("pyarrow")

SESSIONS = Sessions(
    ("one", "two", "three"),
    np.array([100, 86_400, 50]),
    np.array([0, 2, 2, 3]),
    np.array([0, 10, 5]),
    np.array([4, 100, 6]),
)
SPEEDS = Speeds(("two", "four"), np.array([0.1, 0.2]), np.array([6e6, 3e6]), np.array([3e6, 1e6]))


def assert_same(left: Trace, right: Trace) -> None:
    for mine, theirs in ((left.sessions, right.sessions), (left.speeds, right.speeds)):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert mine.devices == theirs.devices
            for name in vars(mine):
                if name != "devices":
                    np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


@pytest.mark.parametrize("trace", [Trace(SESSIONS), Trace(speeds=SPEEDS), Trace(SESSIONS, SPEEDS)])
def test_what_is_written_is_read(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_trace(trace, path)
    assert_same(read_trace(path), trace)
    assert [file.name for file in tmp_path.iterdir()] == ["a.arrow"]


def test_a_row_is_a_device_with_nulls_where_nothing_is_known(tmp_path: Path) -> None:
    write_trace(Trace(SESSIONS, SPEEDS), tmp_path / "a.arrow")
    table = pa.ipc.open_file(tmp_path / "a.arrow").read_all()
    rows = {row["device"]: row for row in table.to_pylist()}
    assert list(rows) == ["one", "two", "three", "four"]
    assert rows["two"] == {
        "device": "two",
        "span_s": 86_400,
        "online_start_s": [],
        "online_end_s": [],
        "compute_s_per_sample": 0.1,
        "download_bps": 6e6,
        "upload_bps": 3e6,
    }
    assert rows["one"]["online_end_s"] == [4, 100]
    assert rows["one"]["download_bps"] is None
    assert rows["four"]["online_start_s"] is None


@given(st.lists(st.lists(st.integers(1, 40), max_size=6), min_size=1, max_size=6))
@settings(deadline=None, max_examples=20)
def test_any_sessions_come_back(tmp_path_factory: pytest.TempPathFactory, gaps: list[list[int]]) -> None:
    bounds = [np.cumsum(some[: len(some) // 2 * 2]) for some in gaps]
    sessions = Sessions(
        tuple(str(row) for row in range(len(gaps))),
        np.full(len(gaps), 1000),
        np.concatenate([[0], np.cumsum([len(some) // 2 for some in bounds])]).astype(np.int64),
        np.concatenate([some[::2] for some in bounds]).astype(np.int64),
        np.concatenate([some[1::2] for some in bounds]).astype(np.int64),
    )
    path = tmp_path_factory.mktemp("traces") / "a.arrow"
    write_trace(Trace(sessions), path)
    assert_same(read_trace(path), Trace(sessions))


def table(rows: list[dict[str, object]], metadata: dict[str, str] | None = None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        whole = pa.Table.from_pylist(rows).replace_schema_metadata(metadata or {"auxo.traces": "1"})
        with pa.ipc.new_file(str(path), whole.schema) as writer:
            writer.write_table(whole)

    return write


def phone(**values: object) -> dict[str, object]:
    return {"device": "a", "span_s": 100, "online_start_s": [1, 20], "online_end_s": [5, 30], **values}


def fast(**values: object) -> dict[str, object]:
    return {"device": "a", "compute_s_per_sample": 0.1, "download_bps": 1e6, "upload_bps": 1e6, **values}


OTHER = phone(device="b")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([OTHER, phone(online_start_s=[-1, 20])], "row 1, device 'a', online_start_s[0]: expected a time >= 0, got -1"),
        ([OTHER, phone(online_end_s=[5, 19])], "row 1, device 'a', online_end_s[1]: expected an end after its start"),
        ([OTHER, phone(online_end_s=[1, 30])], "row 1, device 'a', online_end_s[0]: expected an end after its start"),
        ([phone(online_start_s=[20, 1], online_end_s=[30, 5])], "online_start_s[1]: expected intervals in the order"),
        ([phone(online_start_s=[1, 4])], "online_start_s[1]: expected a start not before the last end, got 4"),
        ([phone(online_end_s=[5, 101])], "online_end_s[1]: expected an end within span_s, got 101"),
        ([phone(span_s=0)], "row 0, device 'a', span_s: expected 1 to 2147483647 seconds, got 0"),
        ([phone(online_end_s=[5])], "row 0, device 'a', online_end_s: expected 2 values, as in online_start_s, got 1"),
        ([phone(online_start_s=[1, None])], "row 0, online_start_s: expected times without gaps"),
        ([phone(online_start_s=[1.5, 20.0])], "online_start_s: expected whole seconds (int64), got double"),
        ([phone(online_start_s=3)], "online_start_s: expected a list of whole seconds"),
        ([OTHER, phone(span_s=None)], "row 1, span_s: expected values in all of span_s"),
        ([phone(), phone()], "row 1, device: expected each device once, got 'a' again"),
        ([phone(device=None)], "row 0, device: expected a name, got nothing"),
        ([fast(), fast(device="b", upload_bps=0.0)], "row 1, device 'b', upload_bps: expected a positive number"),
        ([fast(download_bps=float("nan"))], "row 0, device 'a', download_bps: expected a positive number, got nan"),
        ([fast(compute_s_per_sample=float("inf"))], "compute_s_per_sample: expected a positive number, got inf"),
        ([fast(compute_s_per_sample="fast")], "compute_s_per_sample: expected numbers (float64), got string"),
        ([{"device": "a", "span_s": 3}], "columns online_start_s, online_end_s: expected device with"),
        ([{"device": "a"}], "columns span_s, online_start_s, online_end_s, compute_s_per_sample"),
        ([{"name": "a", "span_s": 3, "online_start_s": [1], "online_end_s": [2]}], "columns device: expected"),
    ],
)
def test_values_that_cannot_be_are_named_with_row_and_device(
    rows: list[dict[str, object]], message: str, tmp_path: Path
) -> None:
    table(rows)(tmp_path / "a.arrow")
    with pytest.raises(FileError) as error:
        read_trace(tmp_path / "a.arrow")
    assert str(error.value).startswith(f"{tmp_path / 'a.arrow'}: ")
    assert message in str(error.value)
    assert "; " in str(error.value)  # the remedy


def test_a_wrong_row_is_counted_in_the_file_and_not_among_those_with_values(tmp_path: Path) -> None:
    without: dict[str, object] = {"device": "a", "span_s": None, "online_start_s": None, "online_end_s": None}
    table([OTHER, without, phone(device="c", span_s=20)])(tmp_path / "a.arrow")
    with pytest.raises(FileError, match="row 2, device 'c'"):
        read_trace(tmp_path / "a.arrow")


def test_a_file_without_rows_or_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    empty = pa.schema([("device", pa.string()), *((name, pa.float64()) for name in list(fast())[1:])])
    with pa.ipc.new_file(str(path), empty.with_metadata({"auxo.traces": "1"})):
        pass
    with pytest.raises(FileError, match="rows: expected at least one device, got none"):
        read_trace(path)
    table([fast()], {"auxo.traces": "2"})(path)
    with pytest.raises(FileError, match="expected version 1 in its metadata, got version '2'"):
        read_trace(path)
    table([fast()], {"other": "1"})(path)
    with pytest.raises(FileError, match="got an Arrow file of another kind"):
        read_trace(path)


def test_a_file_of_several_batches_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    parts = [pa.Table.from_pylist([row]).replace_schema_metadata({"auxo.traces": "1"}) for row in (OTHER, phone())]
    with pa.ipc.new_file(str(path), parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    sessions = read_trace(path).sessions
    assert sessions is not None
    assert sessions.devices == ("b", "a")
    assert sessions.offsets.tolist() == [0, 2, 4]


def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_trace(Trace(SESSIONS, SPEEDS), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"a\.arrow: "):
            read_trace(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"absent\.arrow: file: expected a trace file, got no such file"):
        read_trace(tmp_path / "absent.arrow")


def test_a_trace_that_cannot_be_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(b"before")
    wrong = Speeds(("a",), np.array([0.0]), np.array([1.0]), np.array([1.0]))
    with pytest.raises(FileError, match="compute_s_per_sample: expected a positive number, got 0"):
        write_trace(Trace(speeds=wrong), path)
    with pytest.raises(FileError, match="at least one device"):
        write_trace(Trace(), path)
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["a.arrow"]


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="folder: expected one that exists"):
        write_trace(Trace(SESSIONS), tmp_path / "absent" / "a.arrow")
    with pytest.raises(FileError, match="got a folder"):
        write_trace(Trace(SESSIONS), tmp_path)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"pip install 'auxo\[data\]'"):
        read_trace(tmp_path / "a.arrow")

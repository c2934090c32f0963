"""Sessions of phones: laid out by the time of day, and refused when the arrays do not fit each other."""

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.files.errors import FileError
from auxo.simulation.availability import DAY_S
from auxo.traces.figures import session_figures
from auxo.traces.flash import from_midnight, read_flash
from auxo.traces.trace import Sessions, check_traced

ARRAYS = {
    "device": np.array([7, 9], dtype=np.int32),
    "offset": np.array([0, 2, 3], dtype=np.int32),
    "active": np.array([0, 50_000, 100], dtype=np.int32),
    "inactive": np.array([10, 60_000, 200], dtype=np.int32),
    "trace_start": np.array([3 * DAY_S + 40_000, 5 * DAY_S], dtype=np.int32),
    "span": np.array([DAY_S, 2 * DAY_S], dtype=np.int32),
}


def test_second_0_is_midnight_and_a_session_over_the_end_is_cut(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=False, **ARRAYS)
    sessions = read_flash(tmp_path / "a.npz")
    assert sessions.devices == ("7", "9")
    assert sessions.span_s.tolist() == [DAY_S, 2 * DAY_S]
    assert sessions.offsets.tolist() == [0, 2, 3]
    # The first phone's second 0 was at 40,000 seconds of its day, so its second session begins after midnight.
    assert sessions.start_s.tolist() == [3_600, 40_000, 100]
    assert sessions.end_s.tolist() == [13_600, 40_010, 200]
    over = read_flash_with(tmp_path, inactive=np.array([10, 80_000, 200]), active=np.array([0, 40_000, 100]))
    assert over.start_s.tolist() == [0, 40_000, 80_000, 100]
    assert over.end_s.tolist() == [33_600, 40_010, DAY_S, 200]


def read_flash_with(folder: Path, **arrays: np.ndarray) -> Sessions:
    np.savez(folder / "b.npz", allow_pickle=False, **{**ARRAYS, **arrays})
    return read_flash(folder / "b.npz")


@settings(deadline=None, max_examples=200)
@given(changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=5))
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "a.npz"
    np.savez(path, allow_pickle=False, **ARRAYS)
    content = bytearray(path.read_bytes())
    for place, byte in changes:
        content[place % len(content)] = byte
    path.write_bytes(bytes(content))
    with contextlib.suppress(FileError):  # and no other error
        read_flash(path)


@given(st.lists(st.integers(1, 30), max_size=10), st.integers(0, 3 * DAY_S), st.integers(0, 100))
@settings(deadline=None, max_examples=60)
def test_the_same_seconds_are_on_line_at_another_time_of_day(gaps: list[int], starts_at_s: int, rest: int) -> None:
    bounds = np.cumsum([0, *gaps[: len(gaps) // 2 * 2]])[1:].astype(np.int64)
    span = int(bounds[-1] if len(bounds) else 1) + rest
    sessions = Sessions(
        ("a",), np.array([span]), np.array([0, len(bounds) // 2]), bounds[::2].copy(), bounds[1::2].copy()
    )
    moved = from_midnight(sessions, np.array([starts_at_s]))
    check_traced("a.npz", moved)

    def seconds(of: Sessions, shift_s: int) -> set[int]:
        pairs = zip(of.start_s.tolist(), of.end_s.tolist(), strict=True)
        return {(second + shift_s) % span for start, end in pairs for second in range(start, end)}

    assert seconds(moved, 0) == seconds(sessions, starts_at_s % DAY_S)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"span": np.array([DAY_S])}, "span: expected 2 values, to fit the other arrays, got 1"),
        ({"inactive": np.array([1])}, "inactive: expected 3 values"),
        ({"offset": np.array([0, 4, 3])}, "offset: expected values that ascend from 0 to 3"),
        ({"offset": np.array([0, 2, 2])}, "offset: expected values that ascend from 0 to 3"),
        ({"span": np.array([1.0, 2.0])}, "span: expected a row of whole numbers, got float64 of shape (2,)"),
        ({"active": np.array([-1, 50_000, 100])}, "row 0, device '7', online_start_s[0]: expected a time >= 0"),
        ({"inactive": np.array([10, 60_000, 3 * DAY_S])}, "row 1, device '9', online_end_s[0]: expected an end within"),
    ],
)
def test_arrays_that_do_not_fit_are_named(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        read_flash_with(tmp_path, **arrays)
    assert message in str(error.value)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(FileError, match="got no such file"):
        read_flash(path)
    np.savez(path, device=ARRAYS["device"])
    with pytest.raises(FileError, match="offset, active, inactive, trace_start, span: expected the arrays"):
        read_flash(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(FileError, match="one that cannot be read"):
        read_flash(path)
    path.write_bytes(b"text")
    with pytest.raises(FileError, match="one that cannot be read"):
        read_flash(path)
    np.save(tmp_path / "a.npy", ARRAYS["device"])
    with pytest.raises(FileError, match="got a single array"):
        read_flash(tmp_path / "a.npy")


@pytest.mark.skipif("AUXO_DATA" not in os.environ, reason="AUXO_DATA does not name a folder with data")
def test_real_phones_are_on_line_at_night() -> None:
    path = Path(os.environ["AUXO_DATA"]) / "flash_availability_1000.npz"
    if not path.exists():
        pytest.skip(f"no {path.name} in AUXO_DATA")
    figures = session_figures(read_flash(path))
    assert figures.devices == 710
    assert figures.share_online == pytest.approx(0.095, abs=0.001)
    assert figures.peak_hour in (2, 3, 4)
    assert figures.peak_to_trough is not None
    assert figures.peak_to_trough > 2

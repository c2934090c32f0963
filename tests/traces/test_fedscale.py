"""FedScale's files become sessions and speeds in our units; what is wrong is named, or left out on request."""

import pickle  # noqa: TID251 - to write what is then read without it
from pathlib import Path

import numpy as np
import pytest

from auxo.files.errors import FileError
from auxo.traces.fedscale import read_fedscale_availability, read_fedscale_capacity


def dumped(path: Path, value: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol))
    return path


def behaviour(**values: object) -> dict[str, object]:
    return {"duration": 100, "active": [0, 50], "inactive": [10, 60], "finish_time": 80, "model": "CPH1801", **values}


def doubled(times: int) -> list[object]:
    """Return a list that is small in a file, and has no end when it is written out."""
    value: list[object] = [1]
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_capacity_is_three_forward_passes_and_one_bandwidth_both_ways(protocol: int, tmp_path: Path) -> None:
    entries = {1: {"computation": 50.0, "communication": 6100.0}, 2: {"computation": 20, "communication": 300}}
    speeds, error = read_fedscale_capacity(dumped(tmp_path / "a", entries, protocol))
    assert error is None
    assert speeds.devices == ("1", "2")
    np.testing.assert_allclose(speeds.compute_s_per_sample, [0.15, 0.06])
    np.testing.assert_allclose(speeds.download_bps, [6.1e6, 3e5])
    np.testing.assert_allclose(speeds.upload_bps, speeds.download_bps)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_availability_is_intervals_within_the_time_after_which_it_repeats(protocol: int, tmp_path: Path) -> None:
    entries = {
        0: behaviour(),
        1: behaviour(active=[], inactive=[]),
        2: behaviour(active=[1.4, 7, 20.2], inactive=[2.6, 7, 20.4], finish_time=90.0),
    }
    sessions, error = read_fedscale_availability(dumped(tmp_path / "a", entries, protocol))
    assert error is None
    assert sessions.devices == ("0", "1", "2")
    assert sessions.span_s.tolist() == [80, 80, 90]
    assert sessions.offsets.tolist() == [0, 2, 2, 3]  # an interval of no second is none
    assert list(zip(sessions.start_s.tolist(), sessions.end_s.tolist(), strict=True)) == [(0, 10), (50, 60), (1, 3)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("fast", "row 1, device '7': expected a dict, got a str"),
        ({"computation": 5}, "row 1, device '7': expected the key 'communication', got 'computation'"),
        ({"computation": "5", "communication": 5}, "row 1, device '7', computation: expected a number, got '5'"),
        ({"computation": True, "communication": 5}, "computation: expected a number, got True"),
        ({"computation": 0, "communication": 5}, "compute_s_per_sample: expected a positive number, got 0.0"),
        ({"computation": 5, "communication": -1}, "download_bps: expected a positive number, got -1000.0"),
        ({"computation": float("nan"), "communication": 5}, "computation: expected a number, got nan"),
        ({"computation": 1 << 99_999, "communication": 5}, "expected a number, got a number of 100000 bits"),
        ({"computation": doubled(60), "communication": 5}, "computation: expected a number, got a list"),
    ],
)
def test_a_wrong_capacity_is_named_or_left_out(entry: object, message: str, tmp_path: Path) -> None:
    good = {"computation": 50.0, "communication": 6100.0}
    path = dumped(tmp_path / "capacity", {5: good, 7: entry, 8: good})
    with pytest.raises(FileError) as error:
        read_fedscale_capacity(path)
    assert message in str(error.value)
    assert "row 1, device '7'" in str(error.value)
    speeds, told = read_fedscale_capacity(path, skip_bad=True)
    assert speeds.devices == ("5", "8")
    assert str(told) == str(error.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "expected a dict, got a list"),
        (behaviour(active=3), "active: expected a list of seconds, got a int"),
        (behaviour(active=["a", 1]), "active: expected a list of seconds, got other values in it"),
        (behaviour(active=[[1], [2, 3]]), "active: expected a list of seconds, got other values in it"),
        (behaviour(active=[1, float("inf")]), "active: expected a list of seconds, got other values in it"),
        (behaviour(active=doubled(60)), "active: expected a list of seconds, got other values in it"),
        (behaviour(active=[1, 1 << 99_999]), "active: expected a list of seconds, got other values in it"),
        (behaviour(active=[1]), "inactive: expected 1 times, as in active, got 2"),
        (behaviour(active=[20, 50]), "online_end_s[0]: expected an end after its start, got 10"),
        (behaviour(active=[0, 5]), "online_start_s[1]: expected a start not before the last end, got 5"),
        (behaviour(active=[-3, 50]), "online_start_s[0]: expected a time >= 0, got -3"),
        (behaviour(finish_time=55), "online_end_s[1]: expected an end within span_s, got 60"),
        (behaviour(finish_time=None), "finish_time: expected a number, got None"),
        ({"active": [], "inactive": []}, "expected the key 'finish_time'"),
    ],
)
def test_a_wrong_availability_is_named_or_left_out(entry: object, message: str, tmp_path: Path) -> None:
    path = dumped(tmp_path / "availability", {5: behaviour(), 7: entry, 8: behaviour()})
    with pytest.raises(FileError) as error:
        read_fedscale_availability(path)
    assert message in str(error.value)
    assert "row 1, device '7'" in str(error.value)
    sessions, told = read_fedscale_availability(path, skip_bad=True)
    assert sessions.devices == ("5", "8")
    assert sessions.offsets.tolist() == [0, 2, 4]
    assert sessions.start_s.tolist() == [0, 50, 0, 50]
    assert message in str(told)


@pytest.mark.parametrize("value", [[], {}, 3, None, "text"])
def test_a_file_that_is_no_dict_of_devices_is_refused(value: object, tmp_path: Path) -> None:
    path = dumped(tmp_path / "a", value)
    with pytest.raises(FileError, match="expected a dict with an entry for each device"):
        read_fedscale_capacity(path)
    with pytest.raises(FileError, match="expected a dict with an entry for each device"):
        read_fedscale_availability(path, skip_bad=True)


def test_a_file_without_any_usable_device_is_refused_in_any_case(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="row 0, device '1'"):
        read_fedscale_capacity(dumped(tmp_path / "a", {1: {}}), skip_bad=True)
    with pytest.raises(FileError, match="row 0, device '1'"):
        read_fedscale_availability(dumped(tmp_path / "a", {1: {}}), skip_bad=True)


def test_a_small_file_cannot_stand_for_any_number_of_intervals(tmp_path: Path) -> None:
    starts, ends = list(range(0, 4000, 2)), list(range(1, 4001, 2))
    entries = {device: behaviour(active=starts, inactive=ends, finish_time=5000) for device in range(2000)}
    with pytest.raises(FileError, match="expected lists of its own, got one list for very many devices"):
        read_fedscale_availability(dumped(tmp_path / "a", entries))

"""Tables of phones: zeros are left out, bandwidth is drawn, and tables of another kind are refused."""

import os
from pathlib import Path

import numpy as np
import pytest

from auxo.files.errors import FileError
from auxo.traces.capacity import read_capacity

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def table(path: Path, **columns: list[object]) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


def test_a_device_for_each_row_that_was_measured(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", model=["x", "y", "x", "z", "w"], resnet_ms=[100.0, 0.0, 300.0, None, 50.0])
    speeds = read_capacity(path)
    assert speeds.devices == ("x", "x (2)", "w")
    np.testing.assert_allclose(speeds.compute_s_per_sample, [0.1, 0.3, 0.05])
    assert len(set(speeds.download_bps.tolist())) == 3
    np.testing.assert_allclose(speeds.upload_bps, 0.5 * speeds.download_bps)
    assert read_capacity(path, seed=1).download_bps.tolist() != speeds.download_bps.tolist()


def test_bandwidths_can_come_from_a_table_of_measurements_on_wifi(tmp_path: Path) -> None:
    latency = table(tmp_path / "a.parquet", model=list("abcdefgh"), resnet_ms=[100.0] * 8)
    bandwidth = table(
        tmp_path / "b.parquet", network=["WIFI", "Wifi", "MOBILE", "Wifi"], down_kbps_mean=[40e3, 30e3, 5e3, 0.0]
    )
    speeds = read_capacity(latency, bandwidth)
    assert set(speeds.download_bps.tolist()) == {40e6, 30e6}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"model": ["a"]}, "resnet_ms: expected the columns model and resnet_ms, got model"),
        ({"model": ["a"], "resnet_ms": ["1"]}, "resnet_ms: expected numbers, got string"),
        ({"model": ["a"], "resnet_ms": [0.0]}, "resnet_ms: expected at least one time that is not zero"),
        ({"model": ["a", "b"], "resnet_ms": [0.0, -1.0]}, "row 1, device 'b', compute_s_per_sample: expected a posi"),
    ],
)
def test_a_table_of_another_kind_is_refused(columns: dict[str, list[object]], message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        read_capacity(table(tmp_path / "a.parquet", **columns))
    assert message in str(error.value)


def test_missing_and_damaged_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="got no such file"):
        read_capacity(tmp_path / "absent.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(FileError, match="one that cannot be read"):
        read_capacity(tmp_path / "a.parquet")
    good = table(tmp_path / "b.parquet", model=["a"], resnet_ms=[1.0])
    mobile = table(tmp_path / "c.parquet", network=["MOBILE"], down_kbps_mean=[1.0])
    with pytest.raises(FileError, match="expected at least one row on WiFi"):
        read_capacity(good, mobile)


@pytest.mark.skipif("AUXO_DATA" not in os.environ, reason="AUXO_DATA does not name a folder with data")
def test_published_training_times_have_the_median_of_the_generator() -> None:
    path = Path(os.environ["AUXO_DATA"]) / "capacity_training_latency.parquet"
    if not path.exists():
        pytest.skip(f"no {path.name} in AUXO_DATA")
    speeds = read_capacity(path)
    assert np.median(speeds.compute_s_per_sample) == pytest.approx(0.166, rel=0.05)
    selected = read_capacity(path, path.with_name("capacity_mobiperf.parquet"))
    assert np.median(selected.download_bps) > 4 * np.median(speeds.download_bps)

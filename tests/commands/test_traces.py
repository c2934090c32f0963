"""The commands `auxo traces`: what they write and print, and one message for bad input."""

import pickle  # noqa: TID251 - to write what is then read without it
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from auxo.cli import app
from auxo.traces.trace_file import read_trace

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def traces(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["traces", *(str(argument) for argument in arguments)], env={"COLUMNS": "140"})


@pytest.fixture
def fedscale(tmp_path: Path) -> tuple[Path, Path]:
    capacity, availability = tmp_path / "capacity.pkl", tmp_path / "availability.pkl"
    capacity.write_bytes(pickle.dumps({row: {"computation": 50.0, "communication": 6000.0} for row in range(1, 5)}))
    entry = {"duration": 9, "active": [0], "inactive": [3600], "finish_time": 86_400, "model": "x"}
    availability.write_bytes(pickle.dumps({0: entry, 1: entry}))
    return capacity, availability


def test_fedscales_files_become_one_trace(fedscale: tuple[Path, Path], tmp_path: Path) -> None:
    result = traces("convert", "fedscale", *fedscale, tmp_path / "a.arrow")
    assert result.exit_code == 0
    assert "2 devices with sessions, 4 devices with speeds" in result.output
    trace = read_trace(tmp_path / "a.arrow")
    assert trace.sessions is not None
    assert trace.sessions.devices == ("0", "1")
    assert trace.speeds is not None
    assert trace.speeds.devices == ("1", "2", "3", "4")


def test_bad_devices_stop_the_conversion_or_are_left_out_aloud(fedscale: tuple[Path, Path], tmp_path: Path) -> None:
    capacity, availability = fedscale
    capacity.write_bytes(
        pickle.dumps({1: {"computation": 0, "communication": 1}, 2: {"computation": 1, "communication": 1}})
    )
    out = tmp_path / "a.arrow"
    refused = traces("convert", "fedscale", capacity, availability, out)
    assert refused.exit_code == 2
    assert "row 0, device '1'" in refused.stderr
    assert not out.exists()
    result = traces("convert", "fedscale", capacity, availability, out, "--skip-bad")
    assert "left out devices that cannot be used; the first: " in result.stderr
    assert "1 devices with speeds" in result.stdout


def test_phones_and_tables_become_traces(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "phones.npz",
        device=np.array([3]),
        offset=np.array([0, 1]),
        active=np.array([5]),
        inactive=np.array([9]),
        trace_start=np.array([100]),
        span=np.array([86_400]),
    )
    assert traces("convert", "flash", tmp_path / "phones.npz", tmp_path / "a.arrow").exit_code == 0
    sessions = read_trace(tmp_path / "a.arrow").sessions
    assert sessions is not None
    assert sessions.start_s.tolist() == [105]
    parquet.write_table(pa.table({"model": ["x"], "resnet_ms": [100.0]}), tmp_path / "table.parquet")
    assert traces("convert", "capacity", tmp_path / "table.parquet", tmp_path / "b.arrow").exit_code == 0
    speeds = read_trace(tmp_path / "b.arrow").speeds
    assert speeds is not None
    assert speeds.compute_s_per_sample.tolist() == [0.1]


def test_traces_are_described_side_by_side_in_words_bars_and_a_page(tmp_path: Path) -> None:
    for name, share in (("few", 0.05), ("many", 0.5)):
        out = tmp_path / f"{name}.arrow"
        assert traces("synthetic", out, "--clients", 200, "--seed", 3, "--share", share, "--days", 2).exit_code == 0
    page = tmp_path / "page.html"
    result = traces("describe", tmp_path / "few.arrow", tmp_path / "many.arrow", "--html", page)
    assert result.exit_code == 0
    for words in ("few", "many", "mean share on line", "ms to train a sample, 50 %", "download under 3 Mbit/s"):
        assert words in result.output
    assert "on line by hour of the day" in result.output
    assert "\N{FULL BLOCK}" in result.output
    assert f"wrote {page}" in result.output
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 6  # three charts, each for a page and for a phone
    assert "On line by hour of the day" in html
    assert "many" in html


def test_what_a_trace_lacks_is_left_out(fedscale: tuple[Path, Path], tmp_path: Path) -> None:
    traces("convert", "fedscale", *fedscale, tmp_path / "both.arrow")
    parquet.write_table(pa.table({"model": ["x"], "resnet_ms": [100.0]}), tmp_path / "table.parquet")
    traces("convert", "capacity", tmp_path / "table.parquet", tmp_path / "speeds.arrow")
    alone = traces("describe", tmp_path / "speeds.arrow").output
    assert "devices with speeds" in alone
    assert "mean share on line" not in alone
    assert "\N{EN DASH}" in traces("describe", tmp_path / "speeds.arrow", tmp_path / "both.arrow").output


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        traces("synthetic", tmp_path / folder / "a.arrow", "--clients", 5, "--days", 1)
    page = tmp_path / "page.html"
    assert traces("describe", tmp_path / "x/a.arrow", tmp_path / "y/a.arrow", "--html", page).exit_code == 0
    assert str(tmp_path / "y" / "a.arrow") in page.read_text(encoding="utf-8")


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        traces("synthetic", tmp_path / name, "--clients", 20, "--seed", 7, "--days", 1)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("share", ["0", "1.5", "-1", "nan"])
def test_a_share_that_is_none_is_refused(share: str, tmp_path: Path) -> None:
    result = traces("synthetic", tmp_path / "a.arrow", "--share", share)
    assert result.exit_code == 2
    assert "expected a share above 0 and at most 1" in result.output
    assert not (tmp_path / "a.arrow").exists()


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(b"text")
    refused = traces("describe", tmp_path / "a.arrow")
    assert refused.exit_code == 2
    assert "a.arrow: file: expected a trace file" in refused.stderr
    traces("synthetic", tmp_path / "b.arrow", "--clients", 5, "--days", 1)
    refused = traces("describe", tmp_path / "b.arrow", "--html", tmp_path / "absent" / "page.html")
    assert refused.exit_code == 2
    assert "page.html: folder: expected one that exists" in refused.stderr


@pytest.mark.parametrize(
    "command",
    [(), ("convert",), ("convert", "fedscale"), ("convert", "flash"), ("convert", "capacity"), ("synthetic",)],
)
def test_help_shows_an_example(command: tuple[str, ...]) -> None:
    result = traces(*command, "--help")
    assert result.exit_code == 0
    assert f"auxo traces {' '.join(command)}".strip() in result.output

from pathlib import Path

import pytest

from auxo.experiments.config_file import parse_config
from auxo.experiments.data_folder import data_folder, devices_with_files

TRACE = ("devices.availability=trace", "devices.availability_file=phones.npz")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a trace; another one is where the work is done."""
    monkeypatch.delenv("AUXO_DATA", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    made = tmp_path / "data"
    made.mkdir()
    (made / "phones.npz").touch()
    return made


def test_trace_may_lie_in_the_folder_that_data_names(folder: Path) -> None:
    config = parse_config("", [*TRACE, f"population.data={folder}"])

    assert data_folder(config.population) == folder
    assert devices_with_files(config).sessions_file == folder / "phones.npz"


def test_trace_may_lie_in_the_folder_that_the_environment_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUXO_DATA", str(folder))

    assert devices_with_files(parse_config("", TRACE)).sessions_file == folder / "phones.npz"


def test_file_at_hand_comes_first_and_one_that_is_nowhere_keeps_its_name(folder: Path) -> None:
    config = parse_config("", [*TRACE, f"population.data={folder}"])
    Path("phones.npz").touch()
    assert devices_with_files(config).sessions_file == Path("phones.npz")

    Path("phones.npz").unlink()
    (folder / "phones.npz").unlink()
    assert devices_with_files(config).sessions_file == Path("phones.npz")

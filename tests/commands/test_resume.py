"""`auxo resume`: runs that were ended by signals at random moments, and what the command says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auxo.cli import app
from auxo.experiments.config_file import parse_config, to_toml
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment
from auxo.files.directory_lock import locked_directory
from auxo.protocol.events import Event
from tests.experiments.test_runner import SMALL

SCRIPT = Path(__file__).with_name("stopped_runs.py")
STUDY = 'methods = ["base", "auxo"]' + SMALL.replace("[run]", '[run]\nworkers = 2\ncheckpoint_every = "2r"')


def stopped_and_resumed(tmp_path: Path, signals: str, *options: str) -> dict[str, Any]:
    config = tmp_path / "study.toml"
    config.write_text(STUDY)
    command = [sys.executable, str(SCRIPT), str(config), str(tmp_path / "runs"), "--signals", signals, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check(told: dict[str, Any]) -> None:
    assert told["differ"] == [], told
    assert {"summary.json", "auxo/events.jsonl"} <= set(told["files"])
    assert told["orphans"] == 0
    assert told["code"] == 0


@pytest.mark.fault(3, 5)
@pytest.mark.slow
def test_killed_at_ten_random_moments_with_two_workers_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    told = stopped_and_resumed(tmp_path, ",".join(["SIGKILL"] * 10))
    check(told)
    assert sum("goes on after" in line for line in told["goes_on"]) > 0


@pytest.mark.fault(33)
@pytest.mark.slow
def test_ended_by_other_signals_it_ends_with_the_same_bytes_and_leaves_nothing_on_the_way(tmp_path: Path) -> None:
    told = stopped_and_resumed(tmp_path, "SIGINT,SIGTERM,SIGHUP,SIGINT", "--seed", "1")
    check(told)
    for stop in told["stops"]:
        assert stop["left"] == []


@pytest.mark.fault(3, 5, where="ray")
@pytest.mark.slow
def test_killed_on_ray_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    check(stopped_and_resumed(tmp_path, "SIGKILL", "--ray", "--seed", "2"))


class Stopped(BaseException):
    """The process is gone."""


def settings(*more: str) -> tuple[str, ...]:
    return ('methods=["base"]', "training.rounds=6", "run.checkpoint_every=2r", *more)


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    config = parse_config(SMALL, settings())
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    count = 0

    def stop(label: str, event: Event) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise Stopped

    with pytest.raises(Stopped):
        run_experiment(config, directory, stop)
    return directory


def resume(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["resume", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_it_says_where_it_goes_on_and_shows_the_result(stopped: RunDirectory, tmp_path: Path) -> None:
    code, out, err = resume(str(stopped.path), "--json", str(tmp_path / "told.json"))
    assert code == 0, err
    assert f"{stopped.path} goes on after round 2 of base" in err
    assert "one model for all" in out
    assert (stopped.path / "report.html").is_file()
    assert json.loads((tmp_path / "told.json").read_text())


@pytest.mark.fault(38)
def test_a_finished_run_says_so_and_stays_as_it_is(stopped: RunDirectory) -> None:
    resume(str(stopped.path))
    before = (stopped.path / "summary.json").stat().st_mtime_ns
    there = sorted(stopped.path.iterdir())
    (stopped.path / "checkpoints").mkdir()  # it was killed as it removed them
    (stopped.path / "checkpoints" / "manifest-1.json").touch()
    (stopped.path / ".auxo-lock").touch()
    for folder in (stopped.path, stopped.path / "base"):
        (folder / ".auxo-0123456789abcdef.part").touch()  # as it wrote a file
    of_base = len(list((stopped.path / "base").iterdir()))
    code, out, _ = resume(str(stopped.path))
    assert code == 0
    assert sorted(stopped.path.iterdir()) == there
    assert len(list((stopped.path / "base").iterdir())) == of_base - 1
    assert "the run has finished, and there is nothing to resume" in out
    assert (stopped.path / "summary.json").stat().st_mtime_ns == before


@pytest.mark.fault(6)
def test_a_run_that_is_running_is_refused(stopped: RunDirectory) -> None:
    with locked_directory(stopped.path):
        code, _, err = resume(str(stopped.path))
    assert code == 2
    assert "is running there; wait for it or stop it" in " ".join(err.split())


@pytest.mark.fault(35)
def test_another_configuration_is_refused_and_nothing_is_lost(stopped: RunDirectory) -> None:
    path = stopped.path / "config.toml"
    path.write_text(path.read_text().replace("rounds = 6", "rounds = 7", 1))
    code, _, err = resume(str(stopped.path))
    assert code == 2
    assert "another configuration (training.rounds: 6, now 7)" in " ".join(err.split())
    assert list(stopped.checkpoints.glob("manifest-*.json"))


def test_it_may_go_on_with_other_workers(stopped: RunDirectory) -> None:
    code, _, err = resume(str(stopped.path), "--workers", "2")
    assert code == 0, err


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    code, _, err = resume(str(tmp_path))
    assert code == 2
    assert "not a run directory" in err

"""Runs in processes of their own: what is stopped leaves no process and no lock, and goes on later."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from auxo.experiments.run_directory import RunDirectory
from auxo.files.directory_lock import locked_directory
from tests.commands.test_compare import STUDY

_PATIENCE_S = 120.0


@pytest.mark.slow
def test_a_comparison_that_is_stopped_ends_its_runs_and_each_keeps_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("rounds = 3", "rounds = 100000"), encoding="utf-8")
    study, out = str(tmp_path / "study.toml"), str(tmp_path / "out")
    command = [sys.executable, "-m", "auxo", "compare", study, "--seeds", "2", "--jobs", "2", "--out", out]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as comparison:  # noqa: S603 - our own
        seeds = [tmp_path / "out" / f"seed-{seed}" for seed in range(2)]
        wait_for([seed / "base" / "events.jsonl" for seed in seeds], comparison)
        assert running(seeds[0])
        comparison.send_signal(signal.SIGTERM)
        _, said = comparison.communicate(timeout=_PATIENCE_S)
        assert comparison.returncode == 128 + signal.SIGTERM
    assert f"ended by SIGTERM; what is done is in {out}; to go on, give the same command again" in said
    for seed in seeds:
        summary = RunDirectory.open(seed).read_summary()
        assert summary is not None
        assert summary.status == "interrupted"
        with locked_directory(seed):
            pass
    assert not running(seeds[0])


@pytest.mark.slow
def test_runs_of_a_comparison_that_is_killed_end_by_themselves_and_keep_what_they_have(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("rounds = 3", "rounds = 100000"), encoding="utf-8")
    study, out = str(tmp_path / "study.toml"), str(tmp_path / "out")
    command = [sys.executable, "-m", "auxo", "compare", study, "--seeds", "2", "--jobs", "2", "--out", out]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True) as comparison:  # noqa: S603 - our own
        seeds = [tmp_path / "out" / f"seed-{seed}" for seed in range(2)]
        wait_for([seed / "base" / "events.jsonl" for seed in seeds], comparison)
        children = [os.pidfd_open(int(one.parent.name)) for seed in seeds for one in running(seed)]
        comparison.kill()
    try:
        assert len(children) == 2
        for child in children:
            assert select.select([child], [], [], _PATIENCE_S)[0], "it did not end"
    finally:
        for child in children:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)
    summaries = [RunDirectory.open(seed).read_summary() for seed in seeds]
    assert [one and one.status for one in summaries] == ["interrupted", "interrupted"]


def test_a_process_ends_as_by_sigterm_when_nobody_holds_its_standard_input_any_more() -> None:
    program = (
        "import signal, sys\n"
        "from auxo.commands.child_runs import end_with_parent\n"
        "end_with_parent()\n"
        "print(repr(sys.stdin.read()), flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # noqa: S603
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"''\n"  # its own code finds nothing there
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(_PATIENCE_S) == -signal.SIGTERM


def wait_for(files: list[Path], process: "subprocess.Popen[str]") -> None:
    """Wait until there are all of them, as long as the process runs."""
    while not all(file.is_file() and file.stat().st_size for file in files):
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"ended too soon, with code {process.returncode}")


def running(directory: Path) -> list[Path]:
    """Return the processes that were told to run in a directory."""
    return [one for one in Path("/proc").glob("[0-9]*/cmdline") if str(directory).encode() in read(one)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""

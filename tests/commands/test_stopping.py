"""Signals that end a command: what they turn into, and what is left behind."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from auxo.commands.stopping import Stopped, exit_code, stopped_by_signals

SMALL = ("--set", "population.clients=40", "--set", "training.participants=10")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_exit_code_and_the_handlers_are_put_back(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    signal.signal(number, signal.SIG_DFL)  # under nohup it is ignored, and stays so
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, stopped_by_signals():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert capsys.readouterr().err == f"auxo: ended by {number.name}\n"
    assert signal.getsignal(number) is before


def test_what_handles_ctrl_c_handles_a_signal() -> None:
    with pytest.raises(KeyboardInterrupt) as stop:
        raise Stopped(signal.SIGTERM)
    assert exit_code(stop.value) == 143


def test_a_forked_process_ends_by_a_signal_as_it_would_have_without(capfd: pytest.CaptureFixture[str]) -> None:
    program = (
        "import os, signal\n"
        "from auxo.commands.stopping import stopped_by_signals\n"
        "with stopped_by_signals():\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        signal.pause()\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert (found.stdout, found.stderr) == ("-15\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["typer", "auxo.commands.run", "pydantic", "numpy", "auxo.experiments.runner"])
def test_a_signal_while_modules_are_imported_shows_no_traceback_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, module: str
) -> None:
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from auxo.cli import main\n"
        f"sys.argv = ['auxo', 'run', *{SMALL!r}]\n"
        "main()\n"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert "Traceback" not in found.stderr
    # Until there are commands, SIGTERM ends the process by itself.
    assert found.returncode == (-number if (module, number) == ("typer", signal.SIGTERM) else 128 + number)
    assert list(tmp_path.iterdir()) == []


def test_a_command_whose_output_nobody_reads_ends_quietly(tmp_path: Path) -> None:
    program = f"{sys.executable} -m auxo config show --explain | head -1; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["/bin/bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert found.stderr == ""
    assert found.returncode in {0, 1}


def test_a_run_whose_output_nobody_reads_has_its_report(tmp_path: Path) -> None:
    settings = " ".join([*SMALL, "--set", "training.rounds=2", "--set", "'methods=[\"base\"]'"])
    program = f"{sys.executable} -m auxo run {settings} --out there | true"
    found = subprocess.run(["/bin/bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert "Traceback" not in found.stderr
    assert (tmp_path / "there" / "report.html").is_file()


def test_a_run_goes_on_when_nobody_reads_how_it_goes(tmp_path: Path) -> None:
    settings = " ".join([*SMALL, "--set", "training.rounds=6", "--set", "'methods=[\"base\"]'"])
    program = f"{sys.executable} -m auxo run {settings} --out there 2>&1 | head -1"
    found = subprocess.run(["/bin/bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert "Traceback" not in found.stdout + found.stderr
    assert (tmp_path / "there" / "report.html").is_file()
    assert json.loads((tmp_path / "there" / "summary.json").read_text(encoding="utf-8"))["status"] == "finished"


@pytest.mark.fault(8)
def test_a_run_without_room_on_the_disk_names_the_file_says_how_to_go_on_and_leaves_nothing_half(
    tmp_path: Path,
) -> None:
    # A limit on the size of files, as a disk that fills up: the coordinator's state is the first that has no room.
    settings = " ".join([*SMALL, "--set", "training.rounds=2", "--set", "'methods=[\"base\"]'"])
    program = f"ulimit -f 8; exec {sys.executable} -m auxo run {settings} --out there"
    found = subprocess.run(["/bin/bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert found.returncode == 2
    assert "there/base/coordinator.safetensors: File too large" in found.stderr
    assert "go on with: auxo resume there" in found.stderr
    assert "Traceback" not in found.stderr
    assert list(tmp_path.rglob(".auxo-*")) == []
    again = [sys.executable, "-m", "auxo", "resume", "there"]
    done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr

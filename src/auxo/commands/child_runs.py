"""Runs in processes of their own, several at a time: each is `auxo resume` on a directory that has been made ready."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from auxo.commands.command_group import BAD_INPUT, FAILED
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Summary

_CHILD = "from auxo.commands.child_runs import end_with_parent; end_with_parent(); from auxo.cli import main; main()"
_PATIENCE_S = 60.0  # for a run to write down where it stands, once it was asked to end; our choice


def end_with_parent() -> None:
    """Have this process stop, as SIGTERM does, as soon as whoever holds the other end of its standard input is gone.

    One that was killed has no time to end its children.
    """
    held = os.dup(sys.stdin.fileno())
    with Path(os.devnull).open() as nothing:  # for code of the user's own that reads
        os.dup2(nothing.fileno(), sys.stdin.fileno())

    def wait() -> None:
        os.read(held, 1)  # nothing is ever written, so it returns at the end of the parent
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True).start()


class ChildRuns:
    """Runs experiments in child processes, and ends those that are under way when the block ends.

    A child also ends by itself, and keeps what it has done, when this process is killed. It is called from several
    threads, one for each run at a time. What the children say goes into a file; the bar, or a line for each on what is
    no terminal, says how many are done.
    """

    def __init__(self, messages: Console, total: int, within: Path) -> None:
        """Prepare for so many runs, in directories of the folder ``within``."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._messages, self._within = messages, within
        self._progress = Progress(*columns, console=messages, disable=not messages.is_terminal)
        self._bar = self._progress.add_task("runs", total=total)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._told: set[tuple[str, str]] = set()  # troubles, which seeds often share
        self._change, self._is_over = Condition(), False

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask what is still running to end, as SIGTERM does: it keeps what it has done."""
        with self._change:
            self._is_over = True
            for process in self._running.values():
                process.terminate()
            if not self._change.wait_for(lambda: not self._running, _PATIENCE_S):
                for process in self._running.values():
                    process.kill()
                self._change.wait_for(lambda: not self._running)
        self._progress.stop()

    def __call__(self, config: Config, directory: RunDirectory) -> Summary:
        """Bring a run to its end.

        Raises:
            ConfigError: the run cannot be carried out; what it said.
            typer.Exit: it ended otherwise without a result; what it said has been told.
        """
        name, started = str(directory.path.relative_to(self._within)), time.monotonic()
        with tempfile.TemporaryFile() as said:
            try:
                with self._begun(name, directory, said.fileno()) as process:
                    code = process.wait()
                summary = directory.read_summary()
                if code and not directory.methods():
                    directory.discard()
            finally:
                with self._change:
                    self._running.pop(name, None)
                    self._change.notify_all()
            said.seek(0)
            words = said.read().decode(errors="replace").strip()
        if code == BAD_INPUT:
            raise ConfigError(words.rpartition("auxo: ")[2] or f"{name}: the run could not be carried out")
        if code not in (0, FAILED) or summary is None or summary.status == "interrupted":
            if not self._is_over:
                said_last = f"{name}: the run ended with code {code}: {words}"
                self._messages.print(said_last, highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(FAILED)
        self._tell(name, summary, time.monotonic() - started)
        return summary

    def _begun(self, name: str, directory: RunDirectory, said: int) -> "subprocess.Popen[bytes]":
        """Return the run's process, which has just started."""
        command = [sys.executable, "-c", _CHILD, "resume", str(directory.path)]
        with self._change:
            if self._is_over:
                directory.discard()
                raise typer.Exit(FAILED)
            # In a session of its own: Ctrl-C is for this process, which then asks the others to end.
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running[name] = process
        self._describe()
        return process

    def _tell(self, name: str, summary: Summary, took_s: float) -> None:
        self._progress.advance(self._bar)
        self._describe()
        if not self._messages.is_terminal:
            self._messages.print(f"{name}: {summary.status} ({took_s:.0f} s)", highlight=False, markup=False)
        for method, one in summary.methods.items():
            for trouble in one.troubles:
                self._messages.print(
                    f"note: {name}, {method}: {trouble}", highlight=False, markup=False, soft_wrap=True
                )

    def _describe(self) -> None:
        names = ", ".join(list(self._running)) or "runs"
        self._progress.update(self._bar, description=escape(names))

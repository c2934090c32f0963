"""Runs in processes of their own, several at a time: each is `auxo resume` on a directory that has been made ready."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Condition
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from auxo.commands.command_group import BAD_INPUT, FAILED
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Summary

_PATIENCE_S = 60.0  # for a run to write down where it stands, once it was asked to end; our choice


class ChildRuns:
    """Runs experiments in child processes, and ends those that are under way when the block ends.

    It is called from several threads, one for each run at a time. What the children say goes into a file; the bar, or a
    line for each on what is no terminal, says how many are done.
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
            RuntimeError: it ended otherwise without a result.
        """
        name, started = str(directory.path.relative_to(self._within)), time.monotonic()
        with tempfile.TemporaryFile() as said:
            try:
                code = self._begun(name, directory, said.fileno()).wait()
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
        if code not in (0, FAILED) or summary is None:
            raise RuntimeError(f"{name}: the run ended with code {code}:\n{words}")
        self._tell(name, summary, time.monotonic() - started)
        return summary

    def _begun(self, name: str, directory: RunDirectory, said: int) -> "subprocess.Popen[bytes]":
        """Return the run's process, which has just started."""
        command = [sys.executable, "-m", "auxo", "resume", str(directory.path)]
        with self._change:
            if self._is_over:
                directory.discard()
                raise RuntimeError(f"{name}: not begun, because others were stopped")
            # In a session of its own: Ctrl-C is for this process, which then asks the others to end.
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
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

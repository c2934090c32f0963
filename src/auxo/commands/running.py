"""Running an experiment from the command line: progress, Ctrl-C, the result on the terminal and as JSON, the report."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

import typer
from rich.console import Console

from auxo.commands.command_group import FAILED
from auxo.commands.stopping import exit_code, words_for_stop
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, own_code, to_toml
from auxo.experiments.parts import METHODS
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Summary
from auxo.files.atomic_write import write_whole
from auxo.files.directory_lock import DirectoryInUse
from auxo.protocol.events import Event, OnEvent
from auxo.registry.own_errors import place_in
from auxo.registry.registry import short_name
from auxo.reporting.facts import RunFacts, gather_facts
from auxo.reporting.message_console import MessageConsole
from auxo.reporting.progress import Budget, show_progress
from auxo.reporting.report import write_report
from auxo.reporting.terminal import cohort_tree_text, headline_figures, methods_on_terminal
from auxo.runtime.failures import TrainingFailed


def execute(config: Config, out: Path | None, json_file: Path | None) -> None:
    """Run an experiment, show and report it."""
    check_json(json_file)
    messages = MessageConsole()
    tell_unused([config], messages)
    path = out or _free_directory(config)
    with no_empty_folders(path):
        directory = RunDirectory.create(path, to_toml(config))
        summary = run_into(directory, config, messages)
    tell_outcome(summary, directory, config, json_file)


def tell_outcome(summary: Summary, directory: RunDirectory, config: Config, json_file: Path | None) -> None:
    """Write the report of what a run has come to, show it, and write it as JSON."""
    facts = gather_facts(directory)
    report = write_report(directory, facts)  # first of all: what follows can fail, by a full disk or a closed pipe
    if json_file is not None:
        write_whole(json_file, (json.dumps(headline_figures(summary), indent=2, allow_nan=False) + "\n").encode())
    _show_result(summary, facts)
    for method in map(short_name, config.methods):
        if method in summary.refused:
            typer.echo(f"{method}: left out: {summary.refused[method]}")
        elif method not in summary.methods:
            typer.echo(f"{method}: left out, because these clients have no known groups to tell apart")
    typer.echo(f"report: {report}")
    end_if_failed(summary)


@contextmanager
def no_empty_folders(path: Path) -> Iterator[None]:
    """Take back the folders that are made for ``path`` in the block if it fails and leaves them empty."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    try:
        yield
    except BaseException:
        for folder in missing:  # the innermost first
            with suppress(OSError):  # it is not empty, or was never made
                folder.rmdir()
        raise


def end_if_failed(summary: Summary) -> None:
    """End the command with an exit code of its own after a run that has failed."""
    if summary.status == "failed":
        failed = ", ".join(name for name, method in summary.methods.items() if not method.is_finished)
        typer.echo(
            f"auxo: the run of seed {summary.seed} failed: {failed} did not train the rounds asked for", err=True
        )
        raise typer.Exit(FAILED)


def check_json(json_file: Path | None) -> None:
    """Refuse a place for --json where nothing can be written, before hours of training."""
    if json_file is None:
        return
    if json_file.is_dir() or not json_file.parent.is_dir():
        raise ConfigError(f"--json {json_file}: expected a file in an existing directory; the run was not started")
    # A file is replaced by a new one of its folder; what is no file, such as /dev/stdout, is written to.
    written_to = json_file if json_file.exists() and not json_file.is_file() else json_file.resolve().parent
    if not os.access(written_to, os.W_OK):
        raise ConfigError(
            f"--json {json_file}: expected a place that can be written to, got {written_to}, which you may not change; "
            "choose another; the run was not started"
        )


def tell_unused(configs: Sequence[Config], messages: Console) -> None:
    """Say which sections none has a use for: a file may hold them for other runs, but they may also be a mistake."""
    unused = [config.unused_sections() for config in configs]
    for section, kind in unused[0].items():
        if not all(section in one for one in unused):
            continue
        value = f'"{section}"' if kind is not METHODS else f'[..., "{section}"]'
        _print_note(f"[{section}] is set, but not in use; {kind.set_by} = {value} would use it", messages)


def run_into(
    directory: RunDirectory,
    config: Config,
    messages: Console,
    is_resumed: bool = False,
    to_go_on: str | None = None,
) -> Summary:
    """Run an experiment, or go on with it, and show how it goes; the one place that handles Ctrl-C.

    ``to_go_on`` says how; None: by `auxo resume`.
    """
    try:
        # The runner brings the learning libraries, which take seconds to import; `auxo --help` should not wait.
        from auxo.experiments.runner import run_experiment  # noqa: PLC0415

        with show_progress(Budget.of(config), messages) as show:
            on_event = _announcing(show, messages, f"writing to {directory.path}")
            return run_experiment(config, directory, on_event, lambda note: _print_note(note, messages))
    except DirectoryInUse:  # which is not ours to touch
        raise
    except ConfigError:  # found only with the data at hand
        if not is_resumed:
            directory.discard()
        raise
    except KeyboardInterrupt as stop:
        typer.echo(f"auxo: {words_for_stop(stop)}; {_what_is_left(directory, is_resumed, to_go_on)}", err=True)
        raise typer.Exit(exit_code(stop)) from None
    except Exception as error:
        if not directory.methods() and not is_resumed:
            directory.discard()
        place = place_in(error, own_code(config))
        _tell_failure(error, place, directory, config, to_go_on)
        if place is None:
            raise
        raise typer.Exit(FAILED) from None


def _what_is_left(directory: RunDirectory, is_resumed: bool, to_go_on: str | None) -> str:
    """Write the report of an unfinished run and say where it is, or remove a run that has not begun."""
    if directory.methods() or is_resumed:
        done = f"the report of what was done so far: {write_report(directory, gather_facts(directory))}"
        return f"{done}; {to_go_on or f'to go on: auxo resume {directory.path}'}"
    directory.discard()
    return "; ".join(filter(None, ("nothing of it had been done yet, and nothing is left", to_go_on)))


def _tell_failure(
    error: Exception, place: str | None, directory: RunDirectory, config: Config, to_go_on: str | None
) -> None:
    """Say in which method a run failed and what there is of it; and all of it where the code is not ours."""
    if place is not None:
        typer.echo(f"auxo: code of your own raised {_told(error)} at {place}", err=True)
    if not directory.path.is_dir() or not directory.methods():
        return
    if isinstance(error, OSError) and place is None:  # a full disk, most often
        typer.echo(
            f"auxo: the run could not go on; what was done so far is in {directory.path}; once the cause below is "
            f"mended, {to_go_on or f'go on with: auxo resume {directory.path}'}",
            err=True,
        )
        return
    summary = directory.read_summary()
    if summary is None:
        return
    begun = set(directory.methods()) - set(summary.finished)
    for method in config.methods:
        name = short_name(method)
        if name in begun:
            path = METHODS.path_of(method)
            typer.echo(
                f"auxo: {name} ({path}) failed{'' if place else f' with {_told(error)}'}; what was done so far is in "
                f"{directory.path}, see it with: auxo report {directory.path}",
                err=True,
            )


def _told(error: Exception) -> str:
    """Return an error's kind and its own words, the first line of them."""
    words = str(error).strip().partition("\n")[0]
    kind = "" if isinstance(error, TrainingFailed) else type(error).__name__
    return ": ".join(filter(None, (kind, words)))


def _print_note(note: str, messages: Console) -> None:
    messages.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)


def _announcing(show: OnEvent, messages: Console, words: str) -> OnEvent:
    """Return ``show`` with a line before the first event: a run that cannot begin should not claim that it does."""
    is_announced = False

    def on_event(method: str, event: Event) -> None:
        nonlocal is_announced
        if not is_announced:
            messages.print(words, highlight=False, markup=False, soft_wrap=True)
            is_announced = True
        try:
            show(method, event)
        except BrokenPipeError:
            messages.on_broken_pipe()

    return on_event


def _show_result(summary: Summary, facts: RunFacts) -> None:
    console = Console()
    for run in facts.contenders:
        heading = f"\n{run.name}" if len(facts.contenders) > 1 else ""
        console.print(heading, cohort_tree_text(run), sep="\n", highlight=False, markup=False)
    if summary.finished:
        console.print("", methods_on_terminal(summary), sep="\n")


def _free_directory(config: Config) -> Path:
    """Return runs/NAME-SEED, or the first of runs/NAME-SEED-2, -3 ... that is not taken."""
    first = Path("runs") / f"{config.name}-{config.seed}"
    candidates = chain([first], (first.with_name(f"{first.name}-{number}") for number in count(2)))
    return next(path for path in candidates if not path.exists())

"""Runs the same experiments with several seeds in one folder; what is done there already is not done again."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from auxo.experiments.comparison import Comparison, compare
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.grid import Cell, GridAxis
from auxo.experiments.grid_comparison import GridComparison, compare_grid
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.sameness import InputFiles, changed_inputs, changed_settings, input_files, settings_text
from auxo.experiments.summary import Summary
from auxo.files.atomic_write import write_whole
from auxo.files.directory_lock import locked_directory
from auxo.files.errors import FileError
from auxo.files.typed_json import json_reader
from auxo.registry.registry import short_name

T = TypeVar("T", Comparison, GridComparison)

_INPUTS = "inputs.json"
_COMPARISON = "comparison.json"

RunSeed = Callable[[Config, RunDirectory], Summary]
"""Runs one configuration into a directory and returns its summary."""


@dataclass(frozen=True)
class _Task:
    """One run that is to come to its end."""

    config: Config
    path: Path


@dataclass(frozen=True)
class _Begun:
    """A run that is there."""

    config: Config  # what was asked for, and the methods that it has besides
    directory: RunDirectory


def run_seeds(config: Config, seeds: int, folder: Path, run: RunSeed, jobs: int = 1) -> Comparison:
    """Run the configuration with ``seeds`` seeds from its own on, each into a directory of ``folder``.

    A seed that has finished there with the same configuration is taken as it is, one that was interrupted goes on where
    it stopped, and one that lacks a method gets it; methods that are there and not asked for stay, and are not
    compared. ``run`` is called from as many threads as there are ``jobs``.

    Raises:
        DirectoryInUse: another comparison is running in that folder.
        ConfigError: the folder holds other things, or runs of another configuration, or of other data or another model,
            or there is nothing to compare.
    """
    names = tuple(map(short_name, config.methods))

    def compared(found: Mapping[Path, Sequence[Summary]]) -> Comparison:
        summaries = [one.only(names) for one in found[folder]]
        return compare(summaries, are_clients_drawn=config.population.is_drawn)

    return _run_all({folder: config}, seeds, folder, run, jobs, compared)


def run_grid(
    axes: Sequence[GridAxis], cells: Sequence[Cell], seeds: int, folder: Path, run: RunSeed, jobs: int = 1
) -> GridComparison:
    """Run every cell of a grid as `run_seeds` does, each in a folder of its own, and return what they say together.

    A method that fails does not end it.
    """

    def compared(found: Mapping[Path, Sequence[Summary]]) -> GridComparison:
        return compare_grid(axes, cells, {where.name: summaries for where, summaries in found.items()})

    return _run_all({folder / cell.name: cell.config for cell in cells}, seeds, folder, run, jobs, compared)


def _run_all(
    configs: Mapping[Path, Config],
    seeds: int,
    folder: Path,
    run: RunSeed,
    jobs: int,
    compared: Callable[[Mapping[Path, Sequence[Summary]]], T],
) -> T:
    """Run configurations, each into its folder, and return what their summaries say together; ``folder`` is of all."""
    for config in configs.values():
        if len(config.methods) < 2:
            raise ConfigError(
                f"methods: expected at least two to compare, got only {config.methods[0]}; add another one"
            )
    tasks = [task for where, config in configs.items() for task in _tasks(config, seeds, where)]
    done: dict[int, Summary] = {}
    found: dict[Path, list[Summary]] = {}
    with _held(folder, configs) as inputs:
        for place, summary in _finished(tasks, run, jobs):
            done[place], found = summary, {}
            for one in sorted(done):
                found.setdefault(tasks[one].path.parent, []).append(done[one])
            where = tasks[place].path.parent
            write_whole(where / _INPUTS, (json.dumps(inputs[where], indent=2) + "\n").encode())
            text = json.dumps(asdict(compared(found)), indent=2, ensure_ascii=False)
            write_whole(folder / _COMPARISON, f"{text}\n".encode())
    return compared(found)


def missing_runs(cells: Sequence[Cell], seeds: int, folder: Path) -> int:
    """Return how many runs of a grid have not come to their end; a cell without a name has its runs in ``folder``."""
    tasks = [task for cell in cells for task in _tasks(cell.config, seeds, folder / cell.name)]
    return sum(_of_task(task)[1] is None for task in tasks)


def _tasks(config: Config, seeds: int, folder: Path) -> list[_Task]:
    return [
        _Task(config.model_copy(update={"seed": seed}), folder / f"seed-{seed}")
        for seed in range(config.seed, config.seed + seeds)
    ]


@contextmanager
def _held(folder: Path, configs: Mapping[Path, Config]) -> Iterator[Mapping[Path, InputFiles]]:
    """Hold a folder for as long as runs go into it, and yield what they depend on; both are by the folder of seeds."""
    inputs = {where: input_files(config) for where, config in configs.items()}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked_directory(folder):
            yield {where: _with_earlier(found, where) for where, found in inputs.items()}
    finally:
        for where in (*configs, folder):
            with suppress(OSError):  # unless something is in it, or it was never made
                where.rmdir()


def _finished(tasks: Sequence[_Task], run: RunSeed, jobs: int) -> Iterator[tuple[int, Summary]]:
    """Yield each task's place and its summary: those that are done first, and others as they come to their end."""
    open_tasks = {}
    for place, task in enumerate(tasks):
        begun, summary = _of_task(task)
        if summary is not None:
            yield place, summary
        else:
            open_tasks[place] = begun
    if jobs == 1:
        for place, begun in open_tasks.items():
            yield place, run(*_ready(tasks[place], begun))
        return
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {
            pool.submit(lambda at, there: run(*_ready(tasks[at], there)), place, begun): place
            for place, begun in open_tasks.items()
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # whoever runs them ends those that are under way


def _ready(task: _Task, begun: _Begun | None) -> tuple[Config, RunDirectory]:
    """Return a run's configuration, and the directory that it goes into."""
    if begun is None:
        return task.config, RunDirectory.create(task.path, to_toml(task.config))
    summary = begun.directory.read_summary()
    if summary is not None and summary.status == "finished":  # and methods are added to it
        begun.directory.replace_config(to_toml(begun.config))
        begun.directory.write_summary(replace(summary, status="interrupted"))
    return begun.config, begun.directory


def _of_task(task: _Task) -> tuple[_Begun | None, Summary | None]:
    """Return a run that has begun, and the summary of one that has ended with all the methods asked for."""
    if not RunDirectory.is_at(task.path):
        return None, None
    directory = RunDirectory.open(task.path)
    earlier = parse_config(directory.config_text(), source=str(task.path))
    summary = directory.read_summary()
    is_finished = summary is not None and summary.status == "finished"
    extended = _extended(earlier, task.config)
    is_more = extended.methods != earlier.methods
    if is_more and not is_finished:
        names = ",".join(earlier.methods)
        raise ConfigError(
            f"{task.path}: its run of {names} has not finished, and methods are added to runs that have; "
            f"finish it first (--methods {names}), or choose another folder with --out"
        )
    config = _extended(task.config, earlier).model_copy(update={"methods": extended.methods})
    changed = changed_settings(settings_text(extended), settings_text(config))
    if changed:
        what = f"holds a run of another configuration ({', '.join(changed)})"
        raise ConfigError(f"{task.path}: {what}; choose another folder with --out")
    return _Begun(config, directory), None if is_more or not is_finished else summary


def _extended(config: Config, by: Config) -> Config:
    """Return a configuration with the methods of another after its own, and the sections of those that it lacked."""
    lacked = tuple(method for method in by.methods if method not in config.methods)
    sections = {name: by.parts[name] for name in map(short_name, lacked) if name in by.parts}
    return config.model_copy(update={"methods": config.methods + lacked, "parts": {**config.parts, **sections}})


def _with_earlier(inputs: InputFiles, folder: Path) -> InputFiles:
    """Return these files and those of the runs that are there.

    Others than those are refused: old results would be told as new ones. Code of one's own that is new, or not asked
    for any more, is that of another method; settings tell.
    """
    noted = folder / _INPUTS
    if not noted.exists():
        return inputs
    try:
        before = json_reader(InputFiles)(noted.read_bytes())
    except ValueError as error:
        raise FileError(f"{noted}: expected the state of files by their names: {error}; remove {folder}") from error
    shared = before.keys() & inputs.keys()
    changed = [name for name in changed_inputs(before, inputs) if name in shared or not name.endswith(".py")]
    if changed:
        raise ConfigError(
            f"{folder}: its runs were made with other content of {', '.join(changed)}; "
            "choose another folder with --out, or remove this one"
        )
    return {**before, **inputs}

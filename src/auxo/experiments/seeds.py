"""Runs the same experiment with several seeds in one folder; seeds that are done already are not run again."""

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from auxo.experiments.comparison import Comparison, compare
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, own_code, parse_config, to_toml
from auxo.experiments.data_folder import data_folder, devices_with_files
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Summary
from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError
from auxo.files.typed_json import json_reader

_INPUTS = "inputs.json"
_LARGEST_READ = 64 * 2**20  # bytes of a file whose content is compared; of a larger one its size and time; our choice

RunSeed = Callable[[Config, RunDirectory], Summary]
"""Runs one configuration into a directory and returns its summary."""

Inputs = dict[str, list[int | str]]
"""What is different of a file when its content is, by the file's name."""


def run_seeds(config: Config, seeds: int, folder: Path, run: RunSeed) -> Comparison:
    """Run the configuration with ``seeds`` seeds from its own on, each into a directory of ``folder``.

    A seed that has finished there with the same configuration is taken as it is; one that was interrupted is run again.

    Raises:
        ConfigError: the folder holds other things, or runs of another configuration, or of other data or another model,
            or there is nothing to compare.
    """
    if len(config.methods) < 2:
        raise ConfigError(f"methods: expected at least two to compare, got only {config.methods[0]}; add another one")
    inputs = _inputs(config)
    _check_inputs(inputs, folder)
    summaries = []
    for seed in range(config.seed, config.seed + seeds):
        of_seed = config.model_copy(update={"seed": seed})
        path = folder / f"seed-{seed}"
        summary = _finished(path, of_seed)
        if summary is None:
            summary = run(of_seed, RunDirectory.create(path, to_toml(of_seed)))
        summaries.append(summary)
        write_whole(folder / _INPUTS, (json.dumps(inputs, indent=2) + "\n").encode())
        _write(folder / "comparison.json", compare(summaries))
    return compare(summaries)


def _inputs(config: Config) -> Inputs:
    """Return the files that runs depend on, each with what changes when it does."""
    devices = devices_with_files(config)
    files = [config.population.file, devices.file, devices.availability_file]
    files += own_code(config)
    found = {str(path): _state(path) for path in files if path is not None and path.exists()}
    if config.population.dataset is not None:
        data = data_folder(config.population)
        found[config.population.dataset] = [] if data is None else [str(data.resolve())]
    return found


def _check_inputs(inputs: Inputs, folder: Path) -> None:
    """Refuse to go on with other files than those of the runs that are there: old results would be told as new ones."""
    noted = folder / _INPUTS
    if not noted.exists():
        return
    try:
        before = json_reader(Inputs)(noted.read_bytes())
    except ValueError as error:
        raise FileError(f"{noted}: expected the state of files by their names: {error}; remove {folder}") from error
    changed = sorted({name for name in {*before, *inputs} if before.get(name) != inputs.get(name)})
    if changed:
        raise ConfigError(
            f"{folder}: its runs were made with other content of {', '.join(changed)}; "
            "choose another folder with --out, or remove this one"
        )


def _state(path: Path) -> list[int | str]:
    about = path.stat()
    if about.st_size <= _LARGEST_READ:
        return [hashlib.sha256(path.read_bytes()).hexdigest()]
    return [about.st_size, about.st_mtime_ns]


def _finished(path: Path, config: Config) -> Summary | None:
    """Return the summary of a run that came to its end; an unfinished one is removed to make room."""
    if not path.exists():
        return None
    directory = RunDirectory.open(path)
    before = _without_place(parse_config(directory.config_text(), source=str(path)))
    changed = _differences(_settings(before), _settings(_without_place(config)))
    if changed:
        raise ConfigError(
            f"{path}: holds a run of another configuration ({', '.join(changed)}); choose another folder with --out"
        )
    summary = directory.read_summary()
    if summary is not None and summary.status == "finished":
        return summary
    shutil.rmtree(path)
    return None


def _settings(config: Config) -> dict[str, object]:
    """Return every setting, those of methods and other parts included."""
    return tomllib.loads(to_toml(config))


def _without_place(config: Config) -> Config:
    """Return all that results follow from: where participants train is not part of it."""
    anywhere = {"engine": "local", "ray_address": None, "workers": None}
    return config.model_copy(update={"run": config.run.model_copy(update=anywhere)})


def _differences(before: dict[str, object], now: dict[str, object], within: str = "") -> list[str]:
    """Return each setting that is not the same, such as "training.rounds: 5, now 7"."""
    found = []
    for name in {**before, **now}:
        old, value = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            found += _differences(old, value, f"{within}{name}.")
        elif old != value:
            found.append(f"{within}{name}: {old}, now {value}")
    return found


def _write(path: Path, comparison: Comparison) -> None:
    write_whole(path, (json.dumps(asdict(comparison), indent=2, ensure_ascii=False) + "\n").encode())

"""Runs the same experiment with several seeds in one folder; what is done there already is not done again."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from auxo.experiments.comparison import Comparison, compare
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.sameness import Inputs, changed_inputs, changed_settings, inputs_of, settings_text
from auxo.experiments.summary import Summary
from auxo.files.atomic_write import write_whole
from auxo.files.directory_lock import locked_directory
from auxo.files.errors import FileError
from auxo.files.typed_json import json_reader

_INPUTS = "inputs.json"

RunSeed = Callable[[Config, RunDirectory], Summary]
"""Runs one configuration into a directory and returns its summary."""


def run_seeds(config: Config, seeds: int, folder: Path, run: RunSeed) -> Comparison:
    """Run the configuration with ``seeds`` seeds from its own on, each into a directory of ``folder``.

    A seed that has finished there with the same configuration is taken as it is; one that was interrupted goes on where
    it stopped.

    Raises:
        DirectoryInUse: another comparison is running in that folder.
        ConfigError: the folder holds other things, or runs of another configuration, or of other data or another model,
            or there is nothing to compare.
    """
    if len(config.methods) < 2:
        raise ConfigError(f"methods: expected at least two to compare, got only {config.methods[0]}; add another one")
    inputs = inputs_of(config)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked_directory(folder):
            _check_inputs(inputs, folder)
            summaries = []
            for seed in range(config.seed, config.seed + seeds):
                summaries.append(_of_seed(config.model_copy(update={"seed": seed}), folder / f"seed-{seed}", run))
                write_whole(folder / _INPUTS, (json.dumps(inputs, indent=2) + "\n").encode())
                _write(folder / "comparison.json", compare(summaries))
    finally:
        with suppress(OSError):  # unless something is in it
            folder.rmdir()
    return compare(summaries)


def _of_seed(config: Config, path: Path, run: RunSeed) -> Summary:
    """Return the summary of a run that came to its end, or bring it there."""
    if not RunDirectory.is_at(path):
        return run(config, RunDirectory.create(path, to_toml(config)))
    directory = RunDirectory.open(path)
    before = settings_text(parse_config(directory.config_text(), source=str(path)))
    changed = changed_settings(before, settings_text(config))
    if changed:
        raise ConfigError(
            f"{path}: holds a run of another configuration ({', '.join(changed)}); choose another folder with --out"
        )
    summary = directory.read_summary()
    return summary if summary is not None and summary.status == "finished" else run(config, directory)


def _check_inputs(inputs: Inputs, folder: Path) -> None:
    """Refuse to go on with other files than those of the runs that are there: old results would be told as new ones."""
    noted = folder / _INPUTS
    if not noted.exists():
        return
    try:
        before = json_reader(Inputs)(noted.read_bytes())
    except ValueError as error:
        raise FileError(f"{noted}: expected the state of files by their names: {error}; remove {folder}") from error
    changed = changed_inputs(before, inputs)
    if changed:
        raise ConfigError(
            f"{folder}: its runs were made with other content of {', '.join(changed)}; "
            "choose another folder with --out, or remove this one"
        )


def _write(path: Path, comparison: Comparison) -> None:
    write_whole(path, (json.dumps(asdict(comparison), indent=2, ensure_ascii=False) + "\n").encode())

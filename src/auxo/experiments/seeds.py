"""Runs the same experiment with several seeds in one folder; seeds that are done already are not run again."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from auxo.experiments.comparison import Comparison, compare
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, to_toml
from auxo.experiments.run_directory import RunDirectory

RunSeed = Callable[[Config, RunDirectory], dict[str, object]]
"""Runs one configuration into a directory and returns its summary."""


def run_seeds(config: Config, seeds: int, folder: Path, run: RunSeed) -> Comparison:
    """Run the configuration with ``seeds`` seeds from its own on, each into a directory of ``folder``.

    A seed that has finished there with the same configuration is taken as it is; one that was interrupted is run again.

    Raises:
        ConfigError: the folder holds other things, or runs of another configuration, or there is nothing to compare.
    """
    missing = [method for method in ("base", "auxo") if method not in config.methods]
    if missing:
        raise ConfigError(f"methods: expected base and auxo to compare, {missing[0]} is missing; add it")
    summaries = []
    for seed in range(config.seed, config.seed + seeds):
        of_seed = config.model_copy(update={"seed": seed})
        path = folder / f"seed-{seed}"
        summary = _finished(path, of_seed)
        if summary is None:
            summary = run(of_seed, RunDirectory.create(path, to_toml(of_seed)))
        summaries.append(summary)
        _write(folder / "comparison.json", compare(summaries))
    return compare(summaries)


def _finished(path: Path, config: Config) -> dict[str, object] | None:
    """Return the summary of a run that came to its end; an unfinished one is removed to make room."""
    if not path.exists():
        return None
    directory = RunDirectory.open(path)
    if directory.config_text() != to_toml(config):
        raise ConfigError(f"{path}: holds a run of another configuration; choose another folder with --out")
    summary = directory.read_summary()
    if summary is not None and summary.get("status") == "finished":
        return summary
    shutil.rmtree(path)
    return None


def _write(path: Path, comparison: Comparison) -> None:
    partial = path.with_name(path.name + ".tmp")
    partial.write_text(json.dumps(asdict(comparison), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)

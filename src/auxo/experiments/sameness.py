"""What results follow from: settings, files and versions; and how those of two runs differ."""

import hashlib
import importlib.metadata
import platform
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from auxo.experiments.config import Config, RunConfig
from auxo.experiments.config_file import own_code, to_toml

_LARGEST_READ = 64 * 2**20  # bytes of a file whose content is compared; of a larger one its size and time; our choice
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")  # whose sums are in every result
_ANYWHERE = ("engine", "ray_address", "workers", "checkpoint_every")  # of the section run; without effect on results

_OF_COHORTS = ("*/tree.json", "*/clients.csv", "*/models/*.safetensors")  # that another run starts from

InputFiles = dict[str, list[int | str]]
"""What is different of a file when its content is, by the file's name."""


def input_files(config: Config) -> InputFiles:
    """Return the files that runs depend on, each with what changes when it does."""
    files = [config.population.file, config.devices.file, config.devices.availability_file]
    files += own_code(config)
    if config.training.cohorts is not None:
        files += [path for name in _OF_COHORTS for path in sorted(config.training.cohorts.glob(name))]
    return {str(path): _state(path) for path in files if path is not None and path.exists()}


def changed_inputs(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the names of files that are not the same, or not on both sides."""
    return sorted({name for name in {*before, *now} if before.get(name) != now.get(name)})


def settings_text(config: Config) -> str:
    """Return every setting that results follow from, those of parts included, as TOML; where it runs is not in it."""
    usual = {name: RunConfig.model_fields[name].default for name in _ANYWHERE}
    return to_toml(config.model_copy(update={"run": config.run.model_copy(update=usual)}))


def changed_settings(before: str, now: str) -> list[str]:
    """Return each setting that is not the same, such as "training.rounds: 5, now 7"."""
    return [] if before == now else _differences(tomllib.loads(before), tomllib.loads(now))


@cache
def versions() -> dict[str, str]:
    """Return what runs here, as far as bits of results depend on it; libraries that are not installed are left out."""
    release = version_of("auxo") or "not installed"
    found = {
        "auxo": f"{release} with code {_code()}",  # the release alone says little of a working copy
        "python": platform.python_version(),
        "processor": platform.machine(),
    }
    return found | {name: version for name in _LIBRARIES if (version := version_of(name)) is not None}


def changed_versions(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return each version that is not the same, such as "numpy: 2.0.1, now 2.1.0"."""
    return _differences(before, now)


def version_of(name: str) -> str | None:
    """Return the version of a package; None: it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _code() -> str:
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _state(path: Path) -> list[int | str]:
    about = path.stat()
    if about.st_size <= _LARGEST_READ:
        return [hashlib.sha256(path.read_bytes()).hexdigest()]
    return [about.st_size, about.st_mtime_ns]


def _differences(before: Mapping[str, object], now: Mapping[str, object], within: str = "") -> list[str]:
    found = []
    for name in {**before, **now}:
        old, value = before.get(name, "none"), now.get(name, "none")
        if isinstance(old, dict) and isinstance(value, dict):
            found += _differences(old, value, f"{within}{name}.")
        elif old != value:
            found.append(f"{within}{name}: {old}, now {value}")
    return found

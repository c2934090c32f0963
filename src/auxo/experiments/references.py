"""Configurations that come with Auxo, one for each data set with natural clients, tuned for the base algorithm."""

from importlib import resources
from pathlib import Path

_PACKAGE = "auxo.experiments.reference"


def reference_names() -> tuple[str, ...]:
    """Return the names of all of them."""
    found = (Path(entry.name) for entry in resources.files(_PACKAGE).iterdir())
    return tuple(sorted(path.stem for path in found if path.suffix == ".toml"))


def reference_text(name: str) -> str:
    """Return one of them as TOML text."""
    return resources.files(_PACKAGE).joinpath(f"{name}.toml").read_text(encoding="utf-8")

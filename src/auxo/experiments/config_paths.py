"""Paths in a configuration: relative to the file they stand in, and absolute once it has been read."""

import re
from collections.abc import Mapping
from pathlib import Path

_FILES = (
    ("population", "file"),
    ("devices", "file"),
    ("devices", "availability_file"),
    *(("service", key) for key in ("model", "directory", "certificate", "key", "client_ca")),
)
_CODE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_][A-Za-z0-9_.]*)")


def with_absolute_paths(raw: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return the settings with their paths, taken to be relative to ``folder``, made absolute.

    Files of code (file.py:Name) are found in all settings, wherever a part or a model is named.
    """
    found = {key: _with_code(value, folder) for key, value in raw.items()}
    for section, key in _FILES:
        table = found.get(section)
        if not isinstance(table, dict) or not isinstance(table.get(key), str) or not table[key]:
            continue  # what is no path is told when it is checked
        found[section] = {**table, key: str(_absolute(folder, table[key]))}
    return found


def _with_code(value: object, folder: Path) -> object:
    if isinstance(value, dict):
        return {key: _with_code(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_code(inner, folder) for inner in value]
    match = _CODE.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else f"{_absolute(folder, match['file'])}:{match['name']}"


def _absolute(folder: Path, path: str) -> Path:
    return Path(path) if Path(path).is_absolute() else (folder / path).resolve()

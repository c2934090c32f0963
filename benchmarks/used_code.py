"""The code that a run follows from: what every run needs, and what its own parts need; not that of other methods."""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import auxo
from auxo.experiments.parts import KINDS

ROOT = Path(auxo.__file__).parent
ALWAYS = ("auxo.experiments.runner", "auxo.experiments.populations", "auxo.experiments.refusals")
"""Where every run begins. Parts are named there as text, so none is among what these import."""


def code_of(parts: Sequence[str]) -> str:
    """Return a digest of all modules of Auxo that a run with these parts needs; it changes when one of them does."""
    named = {entry.name: entry.path.partition(":")[0] for kind in KINDS.values() for entry in kind.entries}
    digest = hashlib.sha256()
    for module in used_modules((*ALWAYS, *(named[part] for part in parts))):
        digest.update(f"{module}\n".encode())
        digest.update(_source(module))
    return digest.hexdigest()[:16]


def used_modules(begin: Sequence[str]) -> tuple[str, ...]:
    """Return these modules of Auxo and all that they import, and those import, in the order of their names."""
    found: set[str] = set()
    left = list(begin)
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            left += _imports(module)
    return tuple(sorted(found))


@cache
def _imports(module: str) -> tuple[str, ...]:
    names = {name for name in _imported(_source(module)) if name.startswith("auxo.")}
    return tuple(name if _is_module(name) else name.rpartition(".")[0] for name in sorted(names))


def _imported(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case _:
                pass


def _is_module(name: str) -> bool:
    return _path(name).is_file() or _path(name).with_suffix("").is_dir()


def _path(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")


@cache
def _source(module: str) -> bytes:
    found = find_spec(module)
    if found is None or found.origin is None:
        raise ValueError(f"module: expected one of Auxo, got {module}")
    return Path(found.origin).read_bytes()

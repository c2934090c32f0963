import ast
import importlib.metadata
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import auxo

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
]

SHARED = {
    "CONTRACT",  # of each contract suite
    *("is_a_value", "leaves_arguments_alone", "nothing_comes_of_nothing"),  # promises that several suites have
    *("repeats_itself", "state_goes_through_the_codec"),
    "EXAMPLES",  # of each command
    *("compare", "convert", "describe", "run"),  # commands, which are called as they are typed
    *("Found", "connect"),  # what was looked for; and to reach what is elsewhere
    *("Patience", "Pulse"),  # of whoever waits for another; and its sign of life
    *("build_stacked", "find_stackings"),  # the entrance to the kernels, which are imported only when they are needed
}
"""Public names that several modules define, since they mean the same there."""


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_installed_version_is_the_declared_one() -> None:
    assert importlib.metadata.version("auxo") == PROJECT["version"]


def test_changelog_has_a_section_for_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(PROJECT['version'])}\]", changelog, re.MULTILINE)


def test_package_ships_its_types() -> None:
    (package,) = auxo.__path__
    assert (Path(package) / "py.typed").is_file()
    assert "py.typed" in PYPROJECT["tool"]["setuptools"]["package-data"]["auxo"]


@pytest.mark.parametrize("line", REQUIREMENTS)
def test_constraints_pin_each_requirement_to_a_version_it_allows(line: str) -> None:
    requirement = Requirement(line)
    assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def public_names(source: str) -> Iterator[str]:
    """Yield the classes, functions and constants that a module defines for others; type variables are for none."""
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec"))):
                names = []
            case ast.Assign(targets=targets):
                names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from {name for name in names if not name.startswith("_")}


def test_a_public_name_means_one_thing() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    defined = Counter(name for source in sources for name in set(public_names(source)))

    assert {name for name, modules in defined.items() if modules > 1} == SHARED


def test_names_of_every_kind_are_found() -> None:
    source = """
T = TypeVar("T")
ONE, (TWO, _three) = 1, (2, 3)
four: int = 4
class Five:
    six = 6
def seven(): ...
async def eight(): ...
def _nine(): ...
"""
    assert sorted(public_names(source)) == ["Five", "ONE", "TWO", "eight", "four", "seven"]

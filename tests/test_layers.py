"""The layers of the project and its modules' imports: those in functions, for types alone and by name included.

import-linter says which room may import from which; cycles of modules within a room it lets pass.
"""

import ast
import re
import tomllib
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
LAYERED = [
    (container, tuple(contract["layers"]))
    for contract in CONTRACTS
    if contract["type"] == "layers"
    for container in contract["containers"]
]

Graph = Mapping[str, Collection[str]]
"""The modules that each module imports."""


def imported(source: str) -> Iterator[str]:
    """Yield the dotted name of whatever a source imports, of modules and of what is in them."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.ImportFrom():
                raise ValueError(f"line {node.lineno}: expected an absolute import, got a relative one")
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.]+:[\w.]+", text):  # such as "package.module:Name"
                yield text.partition(":")[0]


def graph_of(folder: Path) -> Graph:
    """Return the imports among the modules below a folder."""
    sources = {_module(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        # What is no module is something in one.
        targets = {name if name in sources else name.rpartition(".")[0] for name in imported(source)}
        graph[module] = targets & sources.keys() - {module}
    return graph


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shortest_cycle(graph: Graph) -> str | None:
    """Return a cycle as the path around it; None if there is none."""
    ways = sorted((_way_back(graph, module) for module in sorted(graph)), key=len)
    return next((" -> ".join(way) for way in ways if way), None)


def _way_back(graph: Graph, start: str) -> list[str]:
    """Return the shortest way from a module to itself; empty if there is none."""
    ways = deque([[start]])
    seen: set[str] = set()
    while ways:
        way = ways.popleft()
        for target in sorted(graph[way[-1]]):
            if target == start:
                return [*way, start]
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return []


def against_layers(graph: Graph, container: str, layers: Collection[str]) -> list[str]:
    """Return the imports within a package that do not go downwards; rooms of one layer do not know each other."""
    height = {room: -number for number, layer in enumerate(layers) for room in layer.split(" | ")}

    def room_of(module: str) -> str | None:
        return module.removeprefix(f"{container}.").partition(".")[0] if module.startswith(f"{container}.") else None

    pairs = [
        (module, room, target, other)
        for module in sorted(graph)
        for target in sorted(graph[module])
        if (room := room_of(module)) and (other := room_of(target)) and room != other
    ]
    return [f"{module} -> {target}" for module, room, target, other in pairs if height[room] <= height[other]]


@pytest.fixture(scope="module")
def auxo() -> Graph:
    return graph_of(ROOT / "src")


def test_the_project_has_layers() -> None:
    assert "auxo" in [container for container, _ in LAYERED]


@pytest.mark.parametrize(("container", "layers"), LAYERED)
def test_every_room_has_its_layer(auxo: Graph, container: str, layers: tuple[str, ...]) -> None:
    rooms = {module.split(".")[container.count(".") + 1] for module in auxo if module.startswith(f"{container}.")}
    assert sorted(rooms) == sorted(room for layer in layers for room in layer.split(" | "))


@pytest.mark.parametrize(("container", "layers"), LAYERED)
def test_imports_go_down_the_layers(auxo: Graph, container: str, layers: tuple[str, ...]) -> None:
    assert against_layers(auxo, container, layers) == []


def test_no_module_needs_itself_by_way_of_others(auxo: Graph) -> None:
    cycle = shortest_cycle(auxo)
    assert cycle is None, f"a cycle of imports: {cycle}"


@pytest.mark.parametrize("folder", ["src", "benchmarks", "examples"])
def test_nothing_but_tests_imports_tests(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        names = imported(path.read_text(encoding="utf-8"))
        assert not [name for name in names if name.split(".")[0] == "tests"], path


def write_modules(folder: Path, **sources: str) -> None:
    (folder / "toy").mkdir()
    for name, source in {"__init__": "", **sources}.items():
        (folder / "toy" / f"{name}.py").write_text(dedent(source), encoding="utf-8")


LAZY = """
    def later():
        from toy.a import something
"""
FOR_TYPES = """
    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from toy import a
"""
WHOLE = """
    import toy.a as another
"""
BY_NAME = """
    KNOWN = {"a": "toy.a:Something"}
"""


@pytest.mark.parametrize("closing", [LAZY, FOR_TYPES, WHOLE, BY_NAME])
def test_a_cycle_is_found_however_it_is_closed(tmp_path: Path, closing: str) -> None:
    write_modules(tmp_path, a="from toy.b import x", b="from toy import c", c=closing, d="import toy.a")

    assert shortest_cycle(graph_of(tmp_path)) == "toy.a -> toy.b -> toy.c -> toy.a"


def test_a_package_that_its_own_module_imports_is_a_cycle(tmp_path: Path) -> None:
    write_modules(tmp_path, __init__="from toy.a import x", a="from toy import x")

    assert shortest_cycle(graph_of(tmp_path)) == "toy -> toy.a -> toy"


def test_modules_that_meet_below_are_no_cycle(tmp_path: Path) -> None:
    write_modules(tmp_path, a="from toy.b import x\nfrom toy.c import y", b="from toy.c import y", c="import numpy")

    assert shortest_cycle(graph_of(tmp_path)) is None


def test_the_shortest_of_several_cycles_is_told() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"]}

    assert shortest_cycle(graph) == "d -> e -> d"


def test_relative_imports_are_refused_rather_than_missed(tmp_path: Path) -> None:
    write_modules(tmp_path, a="from . import b", b="")

    with pytest.raises(ValueError, match="line 1: expected an absolute import"):
        graph_of(tmp_path)


def test_imports_upwards_and_sideways_are_against_the_layers() -> None:
    graph = {
        "toy": ["toy.low.x"],
        "toy.high": ["toy.left.x", "toy.low.x"],
        "toy.left.x": ["toy.left.y", "toy.low.x", "toy.right"],
        "toy.low.x": ["toy.high"],
    }

    assert against_layers(graph, "toy", ["high", "left | right", "low"]) == [
        "toy.left.x -> toy.right",
        "toy.low.x -> toy.high",
    ]

"""The table of rooms in architecture.md, from the layers in pyproject.toml and what each room says of itself.

    python docs/rooms.py

replaces what stands between `<!-- rooms -->` and `<!-- end -->`; a test holds that this changes nothing.
"""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
_BLOCK = re.compile(r"(<!-- rooms -->\n).*?(<!-- end -->)", re.DOTALL)
_BY_NAME = re.compile(r"auxo\.[\w.]+:[\w.]+")  # a part that is imported when it is asked for
_PACKAGE = ROOT / "src" / "auxo"


def filled(text: str) -> str:
    """Return the document with the table as it has to be."""
    return _BLOCK.sub(lambda block: f"{block[1]}{table()}\n{block[2]}", text)


def table() -> str:
    """Return a row for each room, from the bottom up: what is in it, and which rooms it imports from."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers" and one["containers"] == ["auxo"])
    rooms = [room for layer in reversed(layers) for room in layer.split(" | ") if not room.startswith("_")]
    rows = [f"| `{room}` | {_about(room)} | {', '.join(_imports(room, rooms)) or '-'} |" for room in rooms]
    return "\n".join(("| room | what is in it | imports from |", "|---|---|---|", *rows))


def _about(room: str) -> str:
    """Return what a room says of itself and of what is in it, as one line of Markdown."""
    said = ast.get_docstring(ast.parse(_sources(room)[0].read_text(encoding="utf-8"))) or ""
    first, *more = said.split("\n\n")
    contents = [one for one in more if one.startswith("In it: ")]
    return " ".join(" ".join((first, *contents)).split()).replace("``", "`")


def _imports(room: str, rooms: list[str]) -> list[str]:
    """Return the rooms that another one imports from, in their order."""
    found = {
        name.split(".")[1]
        for source in _sources(room)
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        for name in _named(node)
        if name.startswith("auxo.")
    }
    return [one for one in rooms if one in found - {room}]


def _named(node: ast.AST) -> list[str]:
    """Return the modules that a piece of source names."""
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [node.module] if node.module != "auxo" else [f"auxo.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _BY_NAME.fullmatch(node.value):
        return [node.value.partition(":")[0]]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _sources(room: str) -> list[Path]:
    """Return a room's files, the one that speaks for it first."""
    folder = _PACKAGE / room
    return (
        sorted(folder.rglob("*.py"), key=lambda path: (len(path.parts), path))
        if folder.is_dir()
        else [folder.with_suffix(".py")]
    )


if __name__ == "__main__":
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")

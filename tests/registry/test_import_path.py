"""Import paths: modules and files, what is wrong with them, and where a file's classes are known."""

import sys
from pathlib import Path

import pytest

from auxo.core.aggregators import FedAvg
from auxo.core.settings import field_types
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.registry.import_path import code_file, is_import_path, load_callable, made_absolute

POSTPONED = """
from __future__ import annotations

from dataclasses import dataclass

from auxo.core.types import IntArray


@dataclass(frozen=True)
class Inner:
    count: int = 3


@dataclass(frozen=True)
class Table:
    inner: Inner = Inner()
    clients: IntArray | None = None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_module_of_a_package_is_imported() -> None:
    assert load_callable("auxo.core.aggregators.fedavg:FedAvg") is FedAvg
    assert load_callable("auxo.core.aggregators.fedavg:FedAvg.step") is FedAvg.step


def test_a_file_is_run_once_and_does_not_become_a_module(folder: Path) -> None:
    (folder / "json.py").write_text("class Mine: ...\n")
    before = set(sys.modules)
    mine = load_callable("json.py:Mine")
    assert load_callable("json.py:Mine") is mine
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("class Mine: ...", "Mein", 'did you mean "Mine"?'),
        ("class Mine: ...", "Qqqqqq", "it defines Mine"),
        ("", "Mine", "it defines nothing"),
        ("Mine = 3", "Mine", "expected a class or a function, got int; name what makes one"),
        ("1 / 0", "Mine", "wrong.py, line 1, in <module>: `1 / 0` while it was run; mend it"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(folder: Path, text: str, name: str, message: str) -> None:
    path = folder / "wrong.py"
    path.write_text(f"{text}\n")
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is below
        load_callable(f"{path}:{name}")
    assert message in str(error.value)


def test_a_file_that_is_not_there_is_told_with_where_it_was_looked_for(folder: Path) -> None:
    with pytest.raises(
        ValueError, match=rf"absent\.py: no such file; give its path from the working directory, {folder}"
    ):
        load_callable("absent.py:Mine")


def test_a_module_that_a_file_needs_is_told_as_it_is(folder: Path) -> None:
    (folder / "needy.py").write_text("import no_such_module_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        load_callable("needy.py:Mine")


def test_a_path_can_be_made_to_mean_the_same_everywhere(folder: Path) -> None:
    assert made_absolute("mine.py:Mine") == f"{folder.resolve()}/mine.py:Mine"
    assert made_absolute("package.module:Mine") == "package.module:Mine"
    assert [is_import_path(name) for name in ("a:b", "a", ":b", "a:")] == [True, False, False, False]


def test_annotations_of_a_file_mean_something_although_they_are_postponed(folder: Path) -> None:
    (folder / "postponed.py").write_text(POSTPONED)
    table = load_callable("postponed.py:Table")
    assert isinstance(table, type)
    assert field_types(table)["inner"] is load_callable("postponed.py:Inner")
    assert from_bytes(table, to_bytes(table())) == table()


def test_the_file_of_an_import_path_is_found_without_running_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "wrong_package").mkdir()
    for file in ("__init__.py", "net.py"):
        (folder / "wrong_package" / file).write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(folder))
    assert code_file("wrong_package.net:Net") == folder / "wrong_package" / "net.py"
    assert code_file("wrong_package:Net") == folder / "wrong_package" / "__init__.py"
    assert code_file("absent.py:Net") == Path("absent.py")
    nowhere = ("wrong_package.absent:Net", "wrong_package.net.deeper:Net", "no_such_package:Net", "sys:Net")
    assert [code_file(path) for path in nowhere] == [None] * 4
    assert "wrong_package" not in sys.modules

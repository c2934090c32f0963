"""JSON into dataclasses: what fits comes back, what does not is named by its field."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

import pytest

from auxo.files.typed_json import json_reader


@dataclass(frozen=True)
class Part:
    size: int
    share: float


@dataclass(frozen=True)
class Whole:
    name: str
    state: Literal["new", "old"]
    is_known: bool
    most: float | None
    parts: tuple[Part, ...]
    by_name: dict[str, Part]


WHOLE = Whole("a", "new", True, None, (Part(1, 0.5), Part(2, 1e-300)), {"b": Part(3, 1.0), "a": Part(4, 0.1)})
read = json_reader(Whole)


def text(**changes: object) -> str:
    return json.dumps(asdict(WHOLE) | changes)


@pytest.mark.parametrize("written", [text(), text().encode()])
def test_what_was_written_comes_back(written: str | bytes) -> None:
    found = read(written)
    assert found == WHOLE
    assert list(found.by_name) == ["b", "a"]


def test_a_whole_number_may_stand_for_a_float_and_nothing_else_is_converted() -> None:
    assert read(text(most=3)).most == 3.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 5}, "name: expected text, got 5"),
        ({"most": "5"}, "most: expected a number, got '5'"),
        ({"most": True}, "most: expected a number, got True"),
        ({"most": float("nan")}, "most: expected a finite number, got nan"),
        ({"is_known": 1}, "is_known: expected true or false, got 1"),
        ({"state": "odd"}, "state: expected 'new' or 'old', got 'odd'"),
        ({"parts": 1}, "parts: expected a list, got 1"),
        ({"parts": [{"size": 1.5, "share": 1}]}, r"parts\.0\.size: expected a whole number, got 1\.5"),
        ({"parts": [{"size": 1}]}, r"parts\.0\.share: expected a value, got none"),
        ({"by_name": {"x": {"size": True, "share": 1}}}, r"by_name\.x\.size: expected a whole number, got True"),
        ({"by_name": {"x": {"size": 1, "share": 1, "z": 2}}}, r"by_name\.x\.z: expected no such field, got 2"),
        ({"surprise": None}, "surprise: expected no such field, got None"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        read(text(**changes))


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ValueError, match=r"^name: expected a value, got none$"):
        read("{}")


@pytest.mark.parametrize("written", ["5", "[]", "null"])
def test_another_kind_of_json_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"^expected an object, got"):
        read(written)


@pytest.mark.parametrize("written", ["", "{", '{"name": "a",', text() + "," + text()])
def test_text_that_is_no_json_is_told_with_its_place(written: str) -> None:
    with pytest.raises(json.JSONDecodeError, match="line 1 column"):
        read(written)


@pytest.mark.fault(22)
@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 100_000])
def test_what_is_nested_without_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected JSON a few levels deep"):
        json_reader(dict[str, int])(text)

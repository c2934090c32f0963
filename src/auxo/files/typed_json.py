"""JSON read into frozen dataclasses: every value of its declared type, every key a known one, and none missing."""

import json
from collections.abc import Callable
from types import GenericAlias
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

T = TypeVar("T")

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_EXPECTED = {  # in the words of our other messages, by pydantic's names of errors
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "missing": "a value",
    "string_type": "text",
    "tuple_type": "a list",
    "unexpected_keyword_argument": "no such field",
}


def json_reader(kind: type[T]) -> Callable[[str | bytes], T]:
    """Return the function that reads JSON text as one ``kind``, a dataclass or a container of them.

    A whole number may stand for a float; nothing else is converted. The function raises ValueError for text that is no
    JSON, and for a value that does not fit, with the path of its field.

    >>> from dataclasses import make_dataclass
    >>> json_reader(make_dataclass("Score", {"accuracy": float}.items()))('{"accuracy": "high"}')
    Traceback (most recent call last):
    ValueError: accuracy: expected a number, got 'high'
    """
    # A dataclass alone has no place for settings, but those of what it stands in hold for it and all within it.
    one: Any = GenericAlias(tuple, (kind,))  # tuple[kind], which type checkers take for a type only if it is spelled
    alone: TypeAdapter[tuple[T]] = TypeAdapter(one, config=_STRICT)

    def read(text: str | bytes) -> T:
        plain = text.decode() if isinstance(text, bytes) else text
        try:
            (value,) = alone.validate_json(f"[{plain}]")
        except ValidationError as error:
            try:
                json.loads(plain)  # what is no JSON is told with its place
            except RecursionError:
                raise ValueError("expected JSON a few levels deep, got far more") from None
            raise ValueError(_problem(error.errors(include_url=False)[0])) from None
        return value

    return read


def _problem(detail: ErrorDetails) -> str:
    place = ".".join(map(str, detail["loc"][1:]))
    expected = _EXPECTED.get(detail["type"], detail["msg"].removeprefix("Input should be "))
    got = "none" if detail["type"] == "missing" else f"{detail['input']!r:.80}"
    return f"{place}: expected {expected}, got {got}" if place else f"expected {expected}, got {got}"

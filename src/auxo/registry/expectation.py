"""What a setting takes and holds, in words and in TOML, for the person who sets it."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from datetime import date, time
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", Path: "a path"}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}  # as pydantic names them


def toml_key(key: str) -> str:
    """Return a key as TOML spells it.

    >>> toml_key("rounds"), toml_key("a b")
    ('rounds', '"a b"')
    """
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def unspellable(value: object) -> str | None:
    """Return what TOML has no word for in a value, itself or something within it; None if it has."""
    match value:
        case str() | Path():
            # A surrogate, as of a file name in another encoding, cannot be written.
            return repr(str(value)) if any("\ud800" <= letter <= "\udfff" for letter in str(value)) else None
        case float():
            return None if isfinite(value) else str(value)
        case bool() | int() | date() | time():
            return None
        case list() | tuple() | dict():
            items = (*value, *value.values()) if isinstance(value, dict) else value
            return next((found for item in items if (found := unspellable(item)) is not None), None)
        case type():
            return f"the class {value.__name__}"
    return "None" if value is None else f"a {type(value).__name__}"


def toml_value(value: object) -> str:
    """Return a value as TOML spells it; paths are strings."""
    if isinstance(value, str | Path):
        # JSON's escapes are TOML's, except that TOML also forbids a bare DEL.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml_key(str(key))} = {toml_value(item)}' for key, item in value.items())}}}"
    return str(value)


def expectation(annotation: object, metadata: Sequence[object] = ()) -> str:
    """Return in words which values a type takes: "a whole number (at least 1)"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        rules = [rule for extra in arguments[1:] for rule in getattr(extra, "metadata", (extra,))]
        return expectation(arguments[0], [*rules, *metadata])
    if origin is Literal:
        return _either([toml_value(choice) for choice in arguments])
    if origin in (Union, UnionType):
        return _either([expectation(option, metadata) for option in arguments if option is not NoneType])
    if origin in (dict, list) or (origin is tuple and arguments[-1] is Ellipsis):
        some = "one or more values" if any(hasattr(rule, "min_length") for rule in metadata) else "values"
        kind, item = ("table", arguments[1]) if origin is dict else ("list", arguments[0])
        return f"a {kind} of {some}, each {expectation(item)}"
    if origin is tuple:
        return f"a list [{', '.join(expectation(item) for item in arguments)}]"
    name = str(annotation)
    if isinstance(annotation, type):
        name = _TYPE_NAMES.get(annotation, f"a value of type {annotation.__name__}")
    bounds = ", ".join(
        f"{words} {getattr(rule, bound)}"
        for rule in metadata
        for bound, words in _BOUNDS.items()
        if getattr(rule, bound, None) is not None
    )
    return f"{name} ({bounds})" if bounds else name


def _either(options: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))


def nearest_choice(value: object, annotation: object) -> str:
    """Return a hint at the choice that was probably meant; nothing where there is none."""
    choices = [str(choice) for choice in get_args(annotation)] if get_origin(annotation) is Literal else []
    near = nearest(value, choices) if isinstance(value, str) else None
    return f'; did you mean "{near}"?' if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, whatever its letters' case; None: there is none.

    >>> nearest("FedProx", ["sgd", "fedprox"]), nearest("qqqq", ["sgd"])
    ('fedprox', None)
    """
    by_letters = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_letters, n=1)
    return by_letters[near[0]] if near else None

"""Configurations as TOML: reading with overrides, errors that name the key and the way out, and writing."""

import difflib
import json
import textwrap
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from auxo.experiments.config import Config, Section
from auxo.experiments.references import reference_names, reference_text

_COMMENT_WIDTH = 100
_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", Path: "a path"}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}  # as pydantic names them


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is meant for the person who wrote it."""


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply ``overrides`` of the form ``section.key=value``, the last one last.

    Args:
        path: None stands for an empty file, so for the defaults; what is no file may be the name of a reference.
        overrides: each value is read as TOML, or taken as a plain string where it is not TOML.

    Raises:
        ConfigError: the file cannot be read, or a key or a value is not what `Config` expects.
    """
    if path is None:
        return parse_config("", overrides)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if str(path) in reference_names():
            return parse_config(reference_text(str(path)), overrides, source=f"reference {path}")
        known = ", ".join(reference_names())
        raise ConfigError(
            f"{path}: no such file; `auxo config init {path}` writes one to start from. "
            f"Configurations that come with Auxo: {known}"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: expected a TOML file, got a directory; name the file in it") from None
    except UnicodeDecodeError as error:
        hint = f"; a population goes in by `auxo run --population {path}`" if path.suffix == ".npz" else ""
        raise ConfigError(f"{path}: expected UTF-8 text, got {error.reason} at byte {error.start}{hint}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_config(text, overrides, source=str(path))


def parse_config(text: str, overrides: Sequence[str] = (), source: str = "configuration") -> Config:
    """Do what `load_config` does for TOML text; ``source`` names it in messages."""
    try:
        raw: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from None
    overridden = {_apply(raw, override) for override in overrides}
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        problems = list(dict.fromkeys(_problem(detail, raw) for detail in error.errors()))
        origins = ["--set" if _is_within(problem.split(":")[0], overridden) else source for problem in problems]
        lines = (f"{origin}: {problem}" for origin, problem in zip(origins, problems, strict=True))
        raise ConfigError("\n".join(lines)) from None


def to_toml(config: Config, explain: bool = False) -> str:
    """Return the complete configuration as TOML; what is not set is left out.

    Args:
        config: what to write.
        explain: add what each key means and which values it takes, as comments.
    """
    fields = Config.model_fields
    sections = {name for name, field in fields.items() if _section(field) is not None}
    lines = [line for name in fields if name not in sections for line in _entry(config, name, explain)]
    for name in fields:
        section = getattr(config, name)
        if not isinstance(section, Section):
            continue
        lines += ["", *(_comment(fields[name].description or "") if explain else ()), f"[{name}]"]
        lines += [line for key in type(section).model_fields for line in _entry(section, key, explain)]
    return "\n".join(lines).strip() + "\n"


def _entry(section: Section, key: str, explain: bool) -> Iterator[str]:
    field, value = type(section).model_fields[key], getattr(section, key)
    if explain:
        yield from ("", *_comment(f"{field.description} Takes {_expectation(field.annotation, field.metadata)}."))
    if value is not None:
        yield f"{key} = {toml_value(value)}"
    elif explain:
        yield f"# {key} is not set"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")


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
        return f"{{{', '.join(f'{key} = {toml_value(item)}' for key, item in value.items())}}}"
    return str(value)


def _apply(raw: dict[str, object], override: str) -> str:
    """Put one override into ``raw``, which belongs to the caller alone, and return its key."""
    dotted, equals, text = override.partition("=")
    *parents, key = (part.strip() for part in dotted.split("."))
    if not equals or not key or not all(parents):
        raise ConfigError(f"--set {override}: expected section.key=value, such as training.rounds=50")
    table = raw
    for depth, parent in enumerate(parents, start=1):
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: {'.'.join(parents[:depth])} is a value, it has no key {key!r}")
        table = inner
    table[key] = _override_value(text.strip())
    return ".".join((*parents, key))


def _is_within(key: str, overridden: Collection[str]) -> bool:
    """Return whether a key, or one in its table, has been overridden."""
    return any(override == key or override.startswith(f"{key}.") for override in overridden)


def _override_value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could have smuggled in more keys: then it was no value.
    return parsed["value"] if len(parsed) == 1 else text


def _problem(detail: ErrorDetails, raw: Mapping[str, object]) -> str:
    """Return one line about one validation error: the key, what was expected, what came."""
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    model: type[Section] = Config
    keys: tuple[str, ...] = ()
    got: object = raw
    for part in detail["loc"]:
        got = got.get(str(part)) if isinstance(got, dict) else got
        keys = (*keys, str(part))
        field = model.model_fields.get(str(part))
        if field is None:
            return _unknown_key(keys, model)
        inner = _section(field)
        if inner is None:
            expected = _expectation(field.annotation, field.metadata)
            return f"{'.'.join(keys)}: expected {expected}, got {toml_value(got)}{_nearest_choice(got, field)}"
        model = inner
    name = ".".join(keys)
    return f"{name}: expected a section [{name}], got {toml_value(got)}; set one of: {', '.join(model.model_fields)}"


def _unknown_key(keys: tuple[str, ...], model: type[Section]) -> str:
    """Return the message for a key that ``model`` does not have, with the key that was probably meant."""
    *parents, key = keys
    here = {name: ".".join((*parents, name)) for name in model.model_fields}
    everywhere = {
        name: f"{section}.{name}"
        for section, field in Config.model_fields.items()
        if (inner := _section(field)) is not None
        for name in inner.model_fields
    } | {name: name for name, field in Config.model_fields.items() if _section(field) is None}
    near_here = difflib.get_close_matches(key, here, n=1)
    near_elsewhere = difflib.get_close_matches(key, everywhere, n=1)
    meant = (
        everywhere.get(key)
        or (here[near_here[0]] if near_here else None)
        or (everywhere[near_elsewhere[0]] if near_elsewhere else None)
    )
    where = f"[{'.'.join(parents)}]" if parents else "the top level"
    hint = f"; did you mean {meant}?" if meant else "."
    return f"{'.'.join(keys)}: unknown key{hint} Keys of {where}: {', '.join(here)}"


def _nearest_choice(value: object, field: FieldInfo) -> str:
    choices = [str(choice) for choice in get_args(field.annotation)] if get_origin(field.annotation) is Literal else []
    near = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    return f'; did you mean "{near[0]}"?' if near else ""


def _section(field: FieldInfo) -> type[Section] | None:
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def _expectation(annotation: object, metadata: Sequence[object] = ()) -> str:
    """Return in words which values a type takes: "a whole number (at least 1)"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        rules = [rule for extra in arguments[1:] if isinstance(extra, FieldInfo) for rule in extra.metadata]
        return _expectation(arguments[0], [*rules, *metadata])
    if origin is Literal:
        return _either([toml_value(choice) for choice in arguments])
    if origin in (Union, UnionType):
        return _either([_expectation(option, metadata) for option in arguments if option is not NoneType])
    if origin in (dict, list) or (origin is tuple and arguments[-1] is Ellipsis):
        some = "one or more values" if any(hasattr(rule, "min_length") for rule in metadata) else "values"
        kind, item = ("table", arguments[1]) if origin is dict else ("list", arguments[0])
        return f"a {kind} of {some}, each {_expectation(item)}"
    if origin is tuple:
        return f"a list [{', '.join(_expectation(item) for item in arguments)}]"
    name = _TYPE_NAMES.get(annotation, str(annotation)) if isinstance(annotation, type) else str(annotation)
    bounds = ", ".join(
        f"{words} {getattr(rule, bound)}"
        for rule in metadata
        for bound, words in _BOUNDS.items()
        if hasattr(rule, bound)
    )
    return f"{name} ({bounds})" if bounds else name


def _either(options: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))

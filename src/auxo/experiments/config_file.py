"""Configurations as TOML: reading with overrides, errors that name the key and the way out, and writing."""

import difflib
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from auxo.experiments.config import Config, Section, ServiceConfig
from auxo.experiments.config_paths import with_absolute_paths
from auxo.experiments.references import reference_names, reference_text
from auxo.registry.expectation import expectation, nearest, nearest_choice, toml_key, toml_value
from auxo.registry.import_path import code_file, is_import_path
from auxo.registry.part_settings import SettingLine
from auxo.registry.registry import short_name

_COMMENT_WIDTH = 100
_TABLES = (".csv", ".parquet")
_DATA = (*_TABLES, ".arrow", ".feather", ".npz")  # what is no configuration, though it is often given for one


class ConfigError(ValueError):
    """A configuration that cannot be used, by itself or with its data; the message is for the person who wrote it.

    Whatever follows a configuration raises it; functions say so only where there is more to know.
    """


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply ``overrides`` of the form ``section.key=value``, the last one last.

    Without a path it is the defaults; what is no file may be the name of a reference. Values of overrides are read as
    TOML, or taken as plain strings where they are none. Paths in the file are relative to it, those in overrides to the
    working directory; both become absolute, so that the copy in a run's directory means the same from everywhere.
    """
    if path is None:
        return parse_config("", overrides, folder=Path())
    if path.suffix.lower() in _DATA:
        raise ConfigError(_this_is_data(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if str(path) in reference_names():
            return parse_config(reference_text(str(path)), overrides, source=f"reference {path}", folder=Path())
        known = ", ".join(reference_names())
        beside = [] if not path.parent.is_dir() else [str(one) for one in path.parent.glob("*.toml")]
        near = nearest(str(path), [*reference_names(), *beside])
        hint = f"did you mean {near}? Or: " if near else ""
        raise ConfigError(
            f"{path}: no such file; {hint}`auxo config init {path}` writes one to start from. "
            f"Configurations that come with Auxo: {known}"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: expected a TOML file, got a directory; name the file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text, got {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_config(text, overrides, source=str(path), folder=path.parent)


def _this_is_data(path: Path) -> str:
    converted = path.with_suffix(".arrow").name
    told = (
        f"{path}: expected a configuration (TOML), got clients' data; run on them with `auxo run --population {path}`"
    )
    if path.suffix.lower() not in _TABLES:
        return told
    return (
        f"{told} (a table with the columns client and label; if yours are called otherwise, first "
        f"`auxo data convert {path} {converted} --client COLUMN --label COLUMN`, and run on {converted})"
    )


def parse_config(
    text: str, overrides: Sequence[str] = (), source: str = "configuration", folder: Path | None = None
) -> Config:
    """Do what `load_config` does for TOML text; ``source`` names it in messages.

    Paths in the text are relative to ``folder``, those in overrides to the working directory, and all become absolute;
    None: they stay as they are.
    """
    try:
        raw: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source}: expected tables and lists a few levels deep, got far more; flatten it") from None
    if folder is not None:
        raw = with_absolute_paths(raw, folder)
    overridden = {_apply(raw, override) for override in overrides}
    if folder is not None:
        raw = with_absolute_paths(raw, Path())
    try:
        if "parts" in raw:  # for Python only; a file has a section for each
            raise ConfigError(_told([_unknown_key(("parts",), Config)], overridden, source))
        return Config.model_validate(raw)
    except ValidationError as error:
        problems = dict.fromkeys(_problem(detail, raw) for detail in error.errors())
        raise ConfigError(_told(problems, overridden, source)) from None


def _told(problems: Iterable[str], overridden: Collection[str], source: str) -> str:
    """Return problems, each with where it came from."""
    return "\n".join(f"{'--set' if _is_overridden(one, overridden) else source}: {one}" for one in problems)


def to_toml(config: Config, explain: bool = False) -> str:
    """Return the complete configuration as TOML; what is not set is left out.

    With ``explain`` comments say what each key means and which values it takes.
    """
    fields = Config.model_fields
    sections = {name for name, field in fields.items() if _section(field) is not None}
    lines = [
        text for name in fields if name not in {*sections, "parts"} for text in _entry(_line(config, name), explain)
    ]
    for name in fields:
        section = getattr(config, name)
        if not isinstance(section, Section) or (name == "service" and section == ServiceConfig() and not explain):
            continue  # an experiment is no service
        lines += ["", *(_comment(fields[name].description or "") if explain else ()), f"[{name}]"]
        lines += [text for key in type(section).model_fields for text in _entry(_line(section, key), explain)]
    abouts = {short_name(name): registry.about(name) for _, registry, name in config.parts_in_use()}
    for name, section_lines in sections_of_parts(config).items():
        said = _comment(abouts.get(name, "")) if explain else ()
        heading = ".".join(toml_key(key) for key in name.split("."))
        lines += ["", *said, f"[{heading}]", *(text for line in section_lines for text in _entry(line, explain))]
    return "\n".join(lines).strip() + "\n"


def sections_of_parts(config: Config) -> dict[str, list[SettingLine]]:
    """Return the settings of the parts in use by section; two that share a part within them share its section."""
    found: dict[str, list[SettingLine]] = {}
    for _, registry, name in config.parts_in_use():
        for section, lines in config.maker.described(config.maker.make(registry, name), short_name(name)):
            if lines:
                found.setdefault(section, lines)
    return found


def own_code(config: Config) -> tuple[Path, ...]:
    """Return the files of the user's own model and parts, of those within parts, too, as far as they can be told."""
    within = (line.value for lines in sections_of_parts(config).values() for line in lines if line.key == "name")
    training = config.training
    names = (training.model, training.loss, training.metric, *(name for _, _, name in config.parts_in_use()), *within)
    found = (code_file(name) for name in names if isinstance(name, str) and is_import_path(name))
    return tuple(file for file in found if file is not None)


def _line(section: Section, key: str) -> SettingLine:
    field = type(section).model_fields[key]
    takes = expectation(field.annotation, field.metadata)
    return SettingLine(key, getattr(section, key), field.description or "", takes)


def _entry(line: SettingLine, explain: bool) -> Iterator[str]:
    if explain:
        yield from ("", *_comment(f"{line.about} Takes {line.takes}.".strip()))
    if line.value is not None:
        yield f"{toml_key(line.key)} = {toml_value(line.value)}"
    elif explain:
        yield f"# {line.key} is not set"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")


def _apply(raw: dict[str, object], override: str) -> str:
    """Put one override into ``raw``, which belongs to the caller alone, and return its key."""
    dotted, equals, text = override.partition("=")
    *parents, key = (part.strip() for part in dotted.split("."))
    if not equals or not key or not all(parents):
        raise ConfigError(f"--set {override}: expected section.key=value, such as training.rounds=50")
    table = raw
    for depth, parent in enumerate(parents, start=1):
        inner = table.setdefault(parent, {})
        if isinstance(inner, str) and parents[0] not in Config.model_fields:  # the name of a part within a part
            inner = table[parent] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: {'.'.join(parents[:depth])} is a value, it has no key {key!r}")
        table = inner
    table[key] = _override_value(text.strip())
    return ".".join((*parents, key))


def _is_overridden(problem: str, overridden: Collection[str]) -> bool:
    """Return whether a key that a problem begins with, or one in its table, or its table, has been overridden."""
    first, *others = problem.partition(":")[0].split(", ")  # several do not go together: section.key, another
    section = first.rpartition(".")[0]
    keys = [first, *(f"{section}.{other}".removeprefix(".") for other in others)]
    return any(
        f"{one}.".startswith(f"{other}.") for a, b in product(keys, overridden) for one, other in ((a, b), (b, a))
    )


def _override_value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
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
            expected = expectation(field.annotation, field.metadata)
            hint = nearest_choice(got, field.annotation)
            return f"{'.'.join(keys)}: expected {expected}, got {toml_value(got)}{hint}"
        model = inner
    name = ".".join(keys)
    return f"{name}: expected a section [{name}], got {toml_value(got)}; set one of: {', '.join(model.model_fields)}"


def setting_called(key: str) -> str | None:
    """Return the setting whose last word is, or nearly is, ``key``; None: there is none.

    >>> setting_called("rounds"), setting_called("particpants"), setting_called("qqqq")
    ('training.rounds', 'training.participants', None)
    """
    known = _settings_by_key()
    near = nearest(key, known)
    return None if near is None else known[near]


def _settings_by_key() -> dict[str, str]:
    """Return all settings by the last word of their names; where two share it, an experiment's own comes first."""
    found = {
        name: f"{section}.{name}"
        for section, field in Config.model_fields.items()
        if (inner := _section(field)) is not None
        for name in inner.model_fields
    } | {name: name for name, field in Config.model_fields.items() if _section(field) is None and name != "parts"}
    for section, lines in sections_of_parts(Config()).items():
        found |= {line.key: f"{section}.{line.key}" for line in lines if line.key not in found}
    return found


def _unknown_key(keys: tuple[str, ...], model: type[Section]) -> str:
    """Return the message for a key that ``model`` does not have, with the key that was probably meant."""
    *parents, key = keys
    here = {name: ".".join((*parents, name)) for name in model.model_fields if name != "parts"}
    everywhere = _settings_by_key()
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


def _section(field: FieldInfo) -> type[Section] | None:
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None

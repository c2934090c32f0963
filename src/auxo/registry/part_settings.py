"""The settings of a part from a configuration: its section is laid over its defaults, field by field."""

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import get_args

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from auxo.core.settings import about, check_settings, field_types
from auxo.registry.expectation import expectation, nearest, nearest_choice, toml_value, unspellable
from auxo.registry.import_path import code_file
from auxo.registry.own_errors import error_words
from auxo.registry.registry import Registry, short_name

_NAME = "name"  # the key that says which part it is, where one holds another

Sections = Mapping[str, object]
"""Tables of settings by the short name of their part; a part itself may stand in place of its table."""


@dataclass(frozen=True)
class SettingLine:
    """One setting of a part, to be written down."""

    key: str
    value: object
    about: str
    takes: str


@dataclass(frozen=True)
class PartMaker:
    """Makes parts of any kind from their names and sections."""

    choices: Mapping[object, Registry]  # by the protocol that a field is declared with
    sections: Sections
    kinds: Collection[Registry] = ()  # all there are: what is of another kind than it should be is told so

    def default(self, registry: Registry, name: str) -> object:
        """Return the part of this name without what its section says.

        Raises:
            ValueError: there is no such part, or it is not what its kind asks for; the message names it.
        """
        made = _made(registry.find(name, self.kinds), name)
        registry.check(made, name, self.kinds)
        if is_dataclass(made):
            _field_types(type(made), name)
        return made

    def make(self, registry: Registry, name: str) -> object:
        """Return the part of this name, or import path, with what its section says; errors as with `default`."""
        default, section = self.default(registry, name), short_name(name)
        given = self.sections.get(section, {})
        return given if type(given) is type(default) else self._laid_over(default, given, section)

    def check_written(self, registry: Registry, name: str, part: object) -> None:
        """Check that a part which is written down would be read back as it is."""
        path = short_name(name)
        again = self._laid_over(self.default(registry, name), self._table(part, path), path)
        for key, before, after in _differences(part, again, path):
            raise ValueError(
                f"{key}: expected a value that a configuration can hold, got {before!r}, which would be read back as "
                f"{after!r}; give it another value, or declare another type"
            )

    def _table(self, part: object, path: str) -> dict[str, object]:
        """Return what would be read back of a part's sections."""
        table: dict[str, object] = {}
        for section, lines in self.described(part, path):
            inner = table
            for key in section.removeprefix(path).split(".")[1:]:
                inner = inner.setdefault(key, {})  # type: ignore[assignment]  # a section holds sections
            for line in lines:
                where = f"{section}.{line.key}"
                if line.key in inner:
                    raise ValueError(f"{where}: expected another name for a setting, as this one says which part it is")
                if line.value is None:
                    continue
                if (strange := unspellable(line.value)) is not None:
                    raise ValueError(
                        f"{where}: expected a value that a configuration can hold, got {strange}; a setting is a "
                        "number, a string, a path, true or false, a list or a table of them, a dataclass, or a part"
                    )
                inner[line.key] = tomllib.loads(f"value = {toml_value(line.value)}")["value"]
        return table

    def _laid_over(self, default: object, table: object, path: str) -> object:
        if not isinstance(table, Mapping):
            raise ValueError(f"{path}: expected a section [{path}], got {toml_value(table)}; set its keys")
        if not is_dataclass(default) or isinstance(default, type):
            if table:
                raise ValueError(f"{path}.{next(iter(table))}: unknown key. {path} has nothing to set")
            return default
        hints = _field_types(type(default), path)
        names = [field.name for field in _settings(default)]
        for key in table:
            if key not in names:
                raise ValueError(self._unknown(default, path, str(key), names))
        changes = {}
        for key in names:
            value = self._value(getattr(default, key), hints[key], table.get(key), f"{path}.{key}", key in table)
            if value is not getattr(default, key):
                changes[key] = value
        try:
            made = replace(default, **changes)
            check_settings(made)  # which those of one's own need not do themselves
        except Exception as error:
            raise ValueError(_blamed(error, path, names)) from error
        return made

    def _value(self, default: object, hint: object, given: object, path: str, is_given: bool) -> object:
        if not is_given:
            return default
        registry = self._choice(hint)
        if registry is not None:
            return self._part_within(registry, default, given, path)
        if is_dataclass(default) and not isinstance(default, type):
            return self._laid_over(default, given, path)
        try:
            return _validated(given, hint)
        except ValueError:
            raise ValueError(
                f"{path}: expected {expectation(hint)}, got {toml_value(given)}{nearest_choice(given, hint)}"
            ) from None
        except PydanticUserError:  # nobody knows how to read such a type
            raise ValueError(f"{path}: cannot be set in a configuration, because it is {expectation(hint)}") from None

    def _part_within(self, registry: Registry, default: object, given: object, path: str) -> object:
        """Return a part that another holds: it is given by its name, or as a table with its settings and its name."""
        table = given if isinstance(given, Mapping) else {_NAME: given}
        name = table.get(_NAME, "" if default is None else registry.name_of(default))
        if not isinstance(name, str):
            raise ValueError(f"{path}: expected the name of {registry.a_kind}, got {toml_value(name)}")
        if name != registry.name_of(default):
            try:
                default = self.default(registry, name)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
        return self._laid_over(default, {key: value for key, value in table.items() if key != _NAME}, path)

    def _choice(self, hint: object) -> Registry | None:
        """Return the kind of the parts that a field is declared to hold, or to hold or not; None: it holds none."""
        options = [option for option in get_args(hint) if option is not NoneType]
        is_optional = NoneType in get_args(hint) and len(options) == 1
        return self.choices.get(options[0] if is_optional else hint)

    def described(self, part: object, path: str) -> Iterator[tuple[str, list[SettingLine]]]:
        """Yield a part's sections, one for itself and one for each dataclass or part within it, with their lines."""
        if not is_dataclass(part) or isinstance(part, type):
            return
        hints, lines, deeper = _field_types(type(part), path), [], []
        for field in _settings(part):
            value, inner = getattr(part, field.name), f"{path}.{field.name}"
            registry = self._choice(hints[field.name])
            if registry is not None:
                takes = " or ".join(f'"{known}"' for known in registry.names) + " or an import path"
                said = about(field) or f"Which {registry.kind}."
                if value is None:
                    lines.append(SettingLine(field.name, None, said, takes))
                    continue
                line = SettingLine(_NAME, registry.name_of(value), said, takes)
                (_, further), *rest = list(self.described(value, inner)) or [(inner, [])]
                deeper += [(inner, [line, *further]), *rest]
            elif is_dataclass(value) and not isinstance(value, type):
                deeper += self.described(value, inner)
            else:
                lines.append(SettingLine(field.name, value, about(field), expectation(hints[field.name])))
        yield path, lines
        yield from deeper

    def _unknown(self, part: object, path: str, key: str, names: list[str]) -> str:
        """Return the message for a key that a section does not have, with the one that was probably meant."""
        below = [f"{section}.{key}" for section, lines in self.described(part, path) if key in {x.key for x in lines}]
        near = nearest(key, names)
        meant = below[0] if below else near and f"{path}.{near}"
        hint = f"; did you mean {meant}?" if meant else "."
        return f"{path}.{key}: unknown key{hint} Keys of [{path}]: {', '.join(names) or 'none'}"


def _made(kind: Callable[..., object], name: str) -> object:
    for cls in getattr(kind, "__mro__", ()):
        bare = [key for key, value in vars(cls).items() if isinstance(value, Field)]
        if bare:  # dataclass would have put the defaults in their place
            raise ValueError(
                f"{name}: expected a dataclass, because it has settings ({', '.join(bare)}), got the plain class "
                f"{cls.__name__}; decorate it with @dataclass(frozen=True)"
            )
    try:
        return kind()
    except TypeError as error:
        raise ValueError(f"{name}: {error}; give every setting of it a default") from error
    except Exception as error:
        raise ValueError(f"{name}: {error_words(error, code_file(name))} while it was made; mend it") from error


def _settings(part: object) -> list[Field[object]]:
    """Return the fields of a dataclass that can be set."""
    return [field for field in fields(part) if field.init]  # type: ignore[arg-type]  # the caller knows what it is


def _field_types(kind: type, path: str) -> dict[str, object]:
    try:
        return field_types(kind, with_bounds=True)
    except (NameError, TypeError) as error:
        raise ValueError(f"{path}: its types cannot be read ({error}); import what they name") from error


def _blamed(error: Exception, path: str, names: Collection[str]) -> str:
    """Return what a part says about its settings, with the key of the one that it names first, if any."""
    text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__} ({error}) while it was made"
    named = re.match(r"(\w+)[:,]", text)
    return f"{path}.{text}" if named and named[1] in names else f"{path}: {text}"


def _validated(given: object, hint: object) -> object:
    """Return a value of TOML as what a setting is declared to be.

    Raises:
        ValueError: it is something else, or no finite number.
        PydanticUserError: nothing can be read as what is declared.
    """
    if unspellable(given) is not None:
        raise ValueError(given)
    reader = _reader(hint)
    try:
        return reader.validate_python(tuple(given) if isinstance(given, list) else given, strict=True)
    except ValidationError:
        if not isinstance(given, str | list | dict):
            raise
    # TOML has no tuples and no paths, nor has JSON: pydantic reads them from lists and strings there, and is as strict.
    return reader.validate_json(json.dumps(given, default=str), strict=True)


@cache
def _reader(hint: object) -> TypeAdapter[object]:
    return TypeAdapter[object](hint)  # type: ignore[arg-type]


def _differences(one: object, other: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Yield each setting that two parts do not share, with its two values."""
    if type(one) is not type(other):
        yield path, one, other
    elif is_dataclass(one) and not isinstance(one, type):
        for field in _settings(one):
            yield from _differences(getattr(one, field.name), getattr(other, field.name), f"{path}.{field.name}")
    elif one != other:
        yield path, one, other

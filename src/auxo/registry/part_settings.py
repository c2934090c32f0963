"""The settings of a part from a configuration: its section is laid over its defaults, field by field."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace

from pydantic import TypeAdapter, ValidationError

from auxo.core.settings import about, field_types
from auxo.registry.expectation import expectation, nearest_choice, toml_value
from auxo.registry.registry import Registry, short_name

_NAME = "name"  # the key that says which part it is, where one holds another

Sections = Mapping[str, object]
"""Tables of settings by the short name of their part; a part itself may stand in place of its table."""


@dataclass(frozen=True)
class Line:
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

    def make(self, registry: Registry, name: str) -> object:
        """Return the part of this name, with what its section says.

        Args:
            registry: of its kind.
            name: of a part that comes with Auxo, or an import path.

        Raises:
            ValueError: there is no such part, or a setting of it is unknown or wrong; the message names it.
            ModuleNotFoundError: code of the user's own needs a module that is not installed.
        """
        kind, section = registry.find(name), short_name(name)
        given = self.sections.get(section, {})
        part = given if type(given) is kind else self._laid_over(_made(kind, section), given, section)
        registry.check(part, name)
        return part

    def _laid_over(self, default: object, table: object, path: str) -> object:
        if not isinstance(table, Mapping):
            raise ValueError(f"{path}: expected a section [{path}], got {toml_value(table)}; set its keys")
        if not is_dataclass(default) or isinstance(default, type):
            if table:
                raise ValueError(f"{path}.{next(iter(table))}: unknown key. {path} has nothing to set")
            return default
        hints = field_types(type(default))
        names = [field.name for field in fields(default) if field.init]
        for key in table:
            if key not in names:
                raise ValueError(self._unknown(default, path, str(key), names))
        changes = {}
        for key in names:
            value = self._value(getattr(default, key), hints[key], table.get(key), f"{path}.{key}", key in table)
            if value is not getattr(default, key):
                changes[key] = value
        try:
            return replace(default, **changes)
        except ValueError as error:  # names the field
            raise ValueError(f"{path}.{error}") from error

    def _value(self, default: object, hint: object, given: object, path: str, is_given: bool) -> object:
        if hint in self.choices and is_given:
            return self._part_within(self.choices[hint], default, given, path)
        if not is_given:
            return default
        if is_dataclass(default):
            return self._laid_over(default, given, path)
        value = tuple(given) if isinstance(given, list) else given
        try:
            checked: object = TypeAdapter[object](hint).validate_python(value, strict=True)  # type: ignore[arg-type]
            return checked
        except ValidationError:
            raise ValueError(
                f"{path}: expected {expectation(hint)}, got {toml_value(given)}{nearest_choice(given, hint)}"
            ) from None

    def _part_within(self, registry: Registry, default: object, given: object, path: str) -> object:
        """Return a part that another holds: it is given by its name, or as a table with its settings and its name."""
        table = given if isinstance(given, Mapping) else {_NAME: given}
        name = table.get(_NAME, registry.name_of(default))
        if not isinstance(name, str):
            raise ValueError(f"{path}: expected the name of {registry.a_kind}, got {toml_value(name)}")
        if name != registry.name_of(default):
            try:
                default = _made(registry.find(name), path)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
        part = self._laid_over(default, {key: value for key, value in table.items() if key != _NAME}, path)
        registry.check(part, name)
        return part

    def described(self, part: object, path: str) -> Iterator[tuple[str, list[Line]]]:
        """Yield a part's sections, one for itself and one for each dataclass or part within it, with their lines."""
        if not is_dataclass(part) or isinstance(part, type):
            return
        hints, lines, deeper = field_types(type(part)), [], []
        for field in fields(part):
            value, inner = getattr(part, field.name), f"{path}.{field.name}"
            registry = self.choices.get(hints[field.name])
            if registry is not None:
                takes = " or ".join(f'"{known}"' for known in registry.names) + " or an import path"
                line = Line(_NAME, registry.name_of(value), about(field) or f"Which {registry.kind}.", takes)
                (_, further), *rest = list(self.described(value, inner)) or [(inner, [])]
                deeper += [(inner, [line, *further]), *rest]
            elif is_dataclass(value):
                deeper += self.described(value, inner)
            else:
                lines.append(Line(field.name, value, about(field), expectation(hints[field.name])))
        yield path, lines
        yield from deeper

    def _unknown(self, part: object, path: str, key: str, names: list[str]) -> str:
        """Return the message for a key that a section does not have, with the one that was probably meant."""
        below = [f"{section}.{key}" for section, lines in self.described(part, path) if key in {x.key for x in lines}]
        near = below or [f"{path}.{name}" for name in difflib.get_close_matches(key, names, n=1)]
        hint = f"; did you mean {near[0]}?" if near else "."
        return f"{path}.{key}: unknown key{hint} Keys of [{path}]: {', '.join(names) or 'none'}"


def _made(kind: Callable[..., object], path: str) -> object:
    try:
        return kind()
    except TypeError as error:
        raise ValueError(f"{path}: {error}; give every setting of it a default") from error

"""Parts by name: each kind of part has a table of those that come with Auxo, and takes import paths for others."""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass

from auxo.registry.expectation import nearest
from auxo.registry.import_path import is_import_path, load_callable

_FOUND_AS: dict[object, str] = {}  # classes by the import path that they were asked for with: files have no other name


@dataclass(frozen=True)
class Entry:
    """A part that comes with Auxo."""

    name: str
    about: str  # what it is, in a line
    path: str  # where it is: package.module:Name


@dataclass(frozen=True)
class Registry:
    """All parts of one kind."""

    kind: str  # in the singular, as messages call it
    entries: tuple[Entry, ...]
    protocols: tuple[type, ...]  # a part keeps one of them
    set_by: str = ""  # the setting that names one

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of those that come with Auxo."""
        return tuple(entry.name for entry in self.entries)

    @property
    def a_kind(self) -> str:
        """Return the kind with its article."""
        return f"an {self.kind}" if self.kind[0] in "aeiou" else f"a {self.kind}"

    def find(self, name: str, others: "Collection[Registry]" = ()) -> Callable[..., object]:
        """Return the class that a name or an import path stands for; ``others`` may be meant by mistake."""
        paths = {entry.name: entry.path for entry in self.entries}
        if name not in paths and not is_import_path(name):
            hint = self._hint(name, others)
            raise ValueError(f'expected {self.a_kind} ({", ".join(paths)}) or an import path, got "{name}"; {hint}')
        try:
            found = load_callable(paths.get(name, name))
        except ModuleNotFoundError as error:
            raise ValueError(f"{name}: needs the module {error.name}, which is not installed; install it") from error
        if not inspect.isclass(found):
            raise ValueError(f"{name}: expected a class with settings as its fields, got a function; name the class")
        _FOUND_AS[found] = name
        return found

    def about(self, name: str) -> str:
        """Return what a part is, in a line; nothing for one of the user's own."""
        return next((entry.about for entry in self.entries if entry.name == name), "")

    def path_of(self, name: str) -> str:
        """Return the import path of a part."""
        return next((entry.path for entry in self.entries if entry.name == name), name)

    def _hint(self, name: str, others: "Collection[Registry]") -> str:
        for other in others:
            if other is not self and name.lower() in other.names:
                known = name.lower()
                return f'"{known}" is {other.a_kind}, it goes in by {other.set_by}'
        near = nearest(name, self.names)
        return f'did you mean "{near}"?' if near else 'a part of your own goes in as "file.py:Name".'

    def check(self, part: object, name: str, others: "Collection[Registry]" = ()) -> None:
        """Check that a part, of which messages speak by this name, can do what its kind asks for.

        ``others`` are kinds that it may be of by mistake.
        """
        if not isinstance(part, self.protocols):
            first = self.protocols[0]
            lacking = [asked for asked in vars(first) if not asked.startswith("_") and not hasattr(part, asked)]
            like = next((other for other in others if other is not self and isinstance(part, other.protocols)), None)
            way_out = f"it looks like {like.a_kind}, which goes in by {like.set_by}" if like else "add what is missing"
            raise ValueError(
                f"{name}: expected {self.a_kind} as {first.__module__}:{first.__name__} describes it, got one without "
                f"{', '.join(lacking)}; {way_out}"
            )

    def name_of(self, part: object) -> str:
        """Return the name that the class of a part has in a configuration."""
        kind = type(part)
        path = f"{kind.__module__}:{kind.__qualname__}"
        built_in = next((entry.name for entry in self.entries if entry.path == path), None)
        return built_in or _FOUND_AS.get(kind, path)


def short_name(name: str) -> str:
    """Return what a part is called where an import path would be too long: sections, folders, tables.

    >>> short_name("auxo"), short_name("my_file.py:MyMethod")
    ('auxo', 'MyMethod')
    """
    return name.rpartition(":")[2]

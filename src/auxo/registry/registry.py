"""Parts by name: each kind of part has a table of those that come with Auxo, and takes import paths for others."""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

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

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of those that come with Auxo."""
        return tuple(entry.name for entry in self.entries)

    @property
    def a_kind(self) -> str:
        """Return the kind with its article."""
        return f"an {self.kind}" if self.kind[0] in "aeiou" else f"a {self.kind}"

    def find(self, name: str) -> Callable[..., object]:
        """Return the class that a name or an import path stands for.

        Raises:
            ValueError: there is no such part.
            ModuleNotFoundError: a file of the user's own needs a module that is not installed.
        """
        paths = {entry.name: entry.path for entry in self.entries}
        if name not in paths and not is_import_path(name):
            near = difflib.get_close_matches(name, paths, n=1)
            hint = f'did you mean "{near[0]}"?' if near else 'a part of your own goes in as "file.py:Name".'
            raise ValueError(f'expected {self.a_kind} ({", ".join(paths)}) or an import path, got "{name}"; {hint}')
        found = load_callable(paths.get(name, name))
        if not inspect.isclass(found):
            raise ValueError(f"{name}: expected a class with settings as its fields, got a function; name the class")
        _FOUND_AS[found] = name
        return found

    def about(self, name: str) -> str:
        """Return what a part is, in a line; nothing for one of the user's own."""
        return next((entry.about for entry in self.entries if entry.name == name), "")

    def check(self, part: object, name: str) -> None:
        """Check that a part can do what its kind asks for.

        Raises:
            ValueError: it lacks something; the message says what.
        """
        if not isinstance(part, self.protocols):
            first = self.protocols[0]
            lacking = [asked for asked in vars(first) if not asked.startswith("_") and not hasattr(part, asked)]
            raise ValueError(
                f"{name}: expected {self.a_kind} as {first.__module__}:{first.__name__} describes it, got one without "
                f"{', '.join(lacking)}; add what is missing"
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

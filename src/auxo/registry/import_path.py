"""Things named by an import path: "package.module:Name", or "file.py:Name" for a file that belongs to no package."""

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from auxo.registry.own_errors import error_words

_MOST_NAMED = 8  # names that an error lists at most; our choice
_LENT = "lent"  # stands where a module would, in paths of what was given as it is
_lent: dict[str, Callable[..., object]] = {}  # by name


def is_import_path(name: str) -> bool:
    """Return whether a name has the form of an import path.

    >>> is_import_path("my_net.py:MyNet"), is_import_path("my_net"), is_import_path("my_net:")
    (True, False, False)
    """
    where, _, what = name.rpartition(":")
    return bool(where and what)


def made_absolute(path: str) -> str:
    """Return an import path that means the same in a process with another working directory."""
    where, _, what = path.rpartition(":")
    return f"{Path(where).resolve()}:{what}" if _is_file(where) else path


def path_of(thing: Callable[..., object]) -> str:
    """Return an import path that leads to a class or a function in this process, and in those forked from it.

    Where its module and name lead to it, that is the path; what has no such name, as a class within a function, is lent
    one that means nothing to other processes.

    >>> path_of(is_import_path)
    'auxo.registry.import_path:is_import_path'
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", type(thing).__name__)
    found: object = sys.modules.get(str(module))
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is thing:
        return f"{module}:{name}"
    lent = name.replace("<", "").replace(">", "").rpartition(".")[2]
    _lent[lent] = thing
    return f"{_LENT}:{lent}"


def load_callable(path: str) -> Callable[..., object]:
    """Return the class or function that an import path names; its module or file is run once in a process.

    Raises:
        ValueError: there is no such module, file or name, or it is nothing that can be called, or the code fails.
        ModuleNotFoundError: the code needs a module that is not installed.
    """
    where, _, what = path.rpartition(":")
    if where == _LENT:
        if what not in _lent:
            raise ValueError(f"{path}: it was given from Python, by code that is not known here; give it again")
        return _lent[what]
    module = _module_of_file(Path(where)) if _is_file(where) else _module_of_package(where)
    found: object = module
    for part in what.split("."):
        if not hasattr(found, part):
            raise ValueError(f'{path}: expected "{what}" in {where}, got no such name; {_what_there_is(module, part)}')
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{path}: expected a class or a function, got {type(found).__name__}; name what makes one")
    return found


def code_file(path: str) -> Path | None:
    """Return the file that an import path leads to, which is not run; None where it cannot be told.

    >>> code_file("my_net.py:MyNet"), code_file("no_such_package.net:MyNet")
    (PosixPath('my_net.py'), None)
    """
    where = path.rpartition(":")[0]
    if _is_file(where):
        return Path(where)
    packages = where.split(".")
    try:
        spec = importlib.util.find_spec(packages[0])
    except (ImportError, ValueError):  # the latter for what runs as a script
        return None
    for depth in range(2, len(packages) + 1):  # find_spec would import the packages on the way
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(".".join(packages[:depth]), spec.submodule_search_locations)
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin is not None else None


def _is_file(where: str) -> bool:
    return where.endswith(".py")


def _module_of_package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)  # noqa: TID251 - the one place for it
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        hint = f'or name a file by its path, such as "{name.rpartition(".")[2]}.py:Name"'
        raise ValueError(f"{name}: expected a module, got none named {error.name}; install it, {hint}") from error
    except Exception as error:
        raise ValueError(
            f"{name}: {error_words(error, code_file(f'{name}:'))} while it was imported; mend it"
        ) from error


@cache
def _module_of_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise ValueError(f"{file}: no such file; give its path from the working directory, {Path.cwd()}")
    name = f"_auxo_file_{file.stem}"  # its own name may be that of a package
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # noqa: S101 - the ending is that of Python
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    # Known by its name only while it runs, for dataclasses look there: in another process the name means nothing, and
    # what is not known by name is sent there as it is.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{file}: {error_words(error, file)} while it was run; mend it") from error
    finally:
        del sys.modules[name]
    return module


def _what_there_is(module: ModuleType, wanted: str) -> str:
    near = difflib.get_close_matches(wanted, vars(module), n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return f"it defines {', '.join(own[:_MOST_NAMED])}" if own else "it defines nothing"

"""Settings of a part: fields of a frozen dataclass, each with a line for those who set it."""

from dataclasses import Field, field, fields
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")

_ABOUT = "about"


def setting(default: T, about: str) -> T:
    """Return a dataclass field with a default and what it means; `auxo config show --explain` prints both."""
    made: T = field(default=default, metadata={_ABOUT: about})
    return made


def about(of: "Field[object]") -> str:
    """Return what a field means; nothing where nobody has said it."""
    return str(of.metadata.get(_ABOUT, ""))


def field_types(kind: type) -> dict[str, Any]:
    """Return the types that the fields of a dataclass are declared with.

    Names in them are looked up where its functions stand: the module of a file of the user's own is in no table, so
    that ``from __future__ import annotations`` would leave nothing but words.

    Raises:
        NameError: a name in them means nothing there.
    """
    return get_type_hints(kind, getattr(vars(kind).get("__init__"), "__globals__", None))


def meanings(settings: object) -> dict[str, str]:
    """Return what each field of a dataclass or of an instance of one means.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Prox:
    ...     mu: float = setting(0.1, "How strongly participants are held.")
    >>> meanings(Prox)
    {'mu': 'How strongly participants are held.'}
    """
    return {one.name: about(one) for one in fields(settings)}  # type: ignore[arg-type]  # what else has fields

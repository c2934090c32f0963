"""Settings of a part: fields of a frozen dataclass, declared with their bounds, each with a line for who sets it."""

from dataclasses import Field, dataclass, field
from functools import cache
from math import inf
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

_ABOUT, _POST_INIT = "about", "__post_init__"


@dataclass(frozen=True)
class Bounds:
    """Where the numbers lie that a setting takes: all of them finite, and None is no bound of this kind.

    A field is declared with them: ``clusters: Annotated[int, Bounds(ge=2, le=8)]``. Those of most have names below.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def hold(self, value: float) -> bool:
        """Return whether a number lies there."""
        return (
            -inf < value < inf  # which is false of NaN, too
            and (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    def words(self, are_whole: bool) -> str:
        """Return in words which numbers lie there, or which whole ones.

        >>> Bounds(ge=1).words(are_whole=True), Bounds(ge=0, lt=1).words(are_whole=False)
        ('at least 1', 'a value in [0, 1)')
        """
        if self.le is None and self.lt is None:
            if self.gt is not None:
                return "a positive number" if self.gt == 0 else f"a number > {self.gt}"
            return f"at least {self.ge}" if are_whole else f"a number >= {self.ge}"
        if are_whole and self.ge is not None and self.le is not None:
            return f"{self.ge} to {self.le}"
        lower = f"({self.gt}" if self.ge is None else f"[{self.ge}"
        upper = f"{self.lt})" if self.le is None else f"{self.le}]"
        return f"a value in {lower}, {upper}"


PositiveInt = Annotated[int, Bounds(ge=1)]
NonNegativeInt = Annotated[int, Bounds(ge=0)]
AtLeastTwo = Annotated[int, Bounds(ge=2)]
PositiveFloat = Annotated[float, Bounds(gt=0)]
NonNegativeFloat = Annotated[float, Bounds(ge=0)]
Fraction = Annotated[float, Bounds(ge=0, le=1)]
ProperFraction = Annotated[float, Bounds(ge=0, lt=1)]


def setting(default: T, about: str) -> T:
    """Return a dataclass field with a default and what it means; `auxo config show --explain` prints both."""
    made: T = field(default=default, metadata={_ABOUT: about})
    return made


def about(of: "Field[object]") -> str:
    """Return what a field means; nothing where nobody has said it."""
    return str(of.metadata.get(_ABOUT, ""))


def checked(kind: type[T]) -> type[T]:
    """Have every instance of a dataclass checked when it is made, before its own ``__post_init__``.

    It goes below `dataclass`, because that looks for a ``__post_init__``.

    >>> @dataclass(frozen=True)
    ... @checked
    ... class Prox:
    ...     mu: NonNegativeFloat = setting(0.1, "How strongly participants are held.")
    >>> Prox(mu=-1.0)
    Traceback (most recent call last):
    ValueError: mu: expected a number >= 0, got -1.0
    """
    own = getattr(kind, _POST_INIT, None)

    def check(self: T) -> None:
        check_settings(self)
        if own is not None:
            own(self)

    setattr(kind, _POST_INIT, check)
    return kind


def check_settings(settings: object) -> None:
    """Raise a ValueError unless all fields are within the bounds, or among the choices, that they are declared with."""
    kind: type = type(settings)
    for name, declared, or_none in _checkable(kind):
        value, (base, *said) = getattr(settings, name), get_args(declared)
        if value is None and or_none:
            continue
        if get_origin(declared) is Literal and value not in (base, *said):
            raise ValueError(f"{name}: expected {' or '.join(map(repr, (base, *said)))}{or_none}, got {value!r}")
        for bounds in said:
            if isinstance(bounds, Bounds) and not bounds.hold(value):
                raise ValueError(f"{name}: expected {bounds.words(are_whole=base is int)}{or_none}, got {value}")


@cache
def _checkable(kind: type) -> tuple[tuple[str, Any, str], ...]:
    """Return the fields of a dataclass that can be checked: name, type, and words where it may be None as well."""
    found = []
    for name, hint in field_types(kind, with_bounds=True).items():
        options = [option for option in get_args(hint) if option is not NoneType]
        is_optional = NoneType in get_args(hint) and len(options) == 1
        declared = options[0] if is_optional else hint
        if get_origin(declared) in (Annotated, Literal):
            found.append((name, declared, ", or none" if is_optional else ""))
    return tuple(found)


def field_types(kind: type, with_bounds: bool = False) -> dict[str, Any]:
    """Return the types that the fields of a dataclass are declared with, as they stand there or without their bounds.

    Names in them are looked up where its functions stand: the module of a file of the user's own is in no table, so
    that ``from __future__ import annotations`` would leave nothing but words.

    Raises:
        NameError: a name in them means nothing there.
    """
    return get_type_hints(kind, getattr(vars(kind).get("__init__"), "__globals__", None), include_extras=with_bounds)

"""Contracts: promises that every part of a kind keeps, each with a way to see whether it does."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

_Part = TypeVar("_Part")


class ContractBroken(AssertionError):  # noqa: N818 - it says what happened
    """A part does not keep a promise; the message says which, what was expected, what came, and where to read on."""


class Unkept(Exception):  # noqa: N818
    """What was expected and what came; a check makes a `ContractBroken` of it."""


def expect(is_kept: bool, expected: str, got: object) -> None:
    """Raise `Unkept` unless a promise is kept."""
    if not is_kept:
        raise Unkept(f"Expected {expected}, got {got}")


def expect_frozen(part: object) -> None:
    """Check that a part is a value: nobody can give it another attribute, or change one that it has."""
    settings = [name for name in getattr(part, "__dict__", {}) if not name.startswith("_")]
    for name in (*settings[:1], "written_by_a_check"):
        before = getattr(part, name, None)
        try:
            setattr(part, name, before)
        except (AttributeError, TypeError):
            continue
        if name not in settings:
            delattr(part, name)
        expect(False, "a frozen value, such as a frozen dataclass", f"an object whose attribute {name} can be set")


def expect_array(found: NDArray[np.generic], dtype: str, shape: tuple[int, ...], what: str) -> None:
    """Check the type and the shape of an array."""
    got, expected = f"{found.dtype} {found.shape}", f"{dtype} {shape}"
    expect(got == expected, f"{what} of {expected}", got)


def expect_finite(*found: NDArray[np.generic], what: str = "finite numbers") -> None:
    """Check that all numbers in some arrays are finite."""
    expect(all(bool(np.isfinite(array).all()) for array in found), what, "others")


@dataclass(frozen=True)
class Check(Generic[_Part]):
    """One promise; call it with a part to see whether the part keeps it."""

    name: str
    promise: str  # a sentence
    contract: "Contract[_Part]"
    look: Callable[[_Part], None]

    def __call__(self, part: _Part) -> None:
        """Look at a part.

        Raises:
            ContractBroken: it does not keep the promise, or raises an exception where it must not.
        """
        try:
            self.look(part)
        except Unkept as unkept:
            raise ContractBroken(self._message(part, str(unkept))) from None
        except Exception as error:
            raised = f"Expected no exception, got {type(error).__name__}: {error}"
            raise ContractBroken(self._message(part, raised)) from error

    def _message(self, part: _Part, found: str) -> str:
        contract = self.contract
        return (
            f"{contract.name_of(part)} breaks a promise of {contract.kind}: {self.promise} {found}; "
            f"the protocol is described at {contract.described}"
        )


def _name(part: object) -> str:
    return str(getattr(part, "__name__", type(part).__name__))


@dataclass(frozen=True)
class Contract(Generic[_Part]):
    """What parts of one kind promise: the checks that were made with `promise`, in their order."""

    kind: str  # with its article: "a method"
    described: str  # where the protocol is
    name_of: Callable[[_Part], str] = _name
    checks: list[Check[_Part]] = field(default_factory=list)

    def promise(self, look: Callable[[_Part], None]) -> Check[_Part]:
        """Add and return the check that a function makes; the first line of its docstring is the promise."""
        promise = (inspect.getdoc(look) or "").partition("\n")[0]
        check = Check(getattr(look, "__name__", "check"), promise, self, look)
        self.checks.append(check)
        return check

    def check(self, part: _Part) -> None:
        """Run all checks in their order; the first that fails raises a `ContractBroken`."""
        for check in self.checks:
            check(part)

"""Parts to put into others: rules that say when to stop, of two kinds."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from auxo.core.settings import setting


@dataclass(frozen=True)
class Limits:
    begin: float = setting(0.25, "When it begins.")
    end: float = setting(0.5, "When it ends.")

    def __post_init__(self) -> None:
        if not self.begin <= self.end:
            raise ValueError(f"begin, end: expected begin <= end, got {self.begin} and {self.end}")


@runtime_checkable
class Rule(Protocol):
    @property
    def limits(self) -> Limits: ...

    def stops(self, number: int) -> bool: ...


@dataclass(frozen=True)
class Patient:
    limits: Limits = field(default_factory=Limits)
    rounds: int = setting(15, "How long it waits.")

    def stops(self, number: int) -> bool:
        return number > self.rounds


@dataclass(frozen=True)
class Strict:
    limits: Limits = field(default_factory=Limits)
    alpha: float = setting(1.0, "How strict it is.")
    rounds: int = setting(1, "How long it waits.")

    def __post_init__(self) -> None:
        if self.alpha <= 0:
            raise ValueError(f"alpha: expected a positive number, got {self.alpha}")

    def stops(self, number: int) -> bool:
        return number > self.alpha * self.rounds


STUBBORN = """
from dataclasses import dataclass, field

from auxo.core.settings import setting
from tests.registry.toy_rules import Limits


@dataclass(frozen=True)
class Stubborn:
    limits: Limits = field(default_factory=Limits)
    patience: int = setting(3, "How long it waits.")

    def stops(self, number):
        return False
"""

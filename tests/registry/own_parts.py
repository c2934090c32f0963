"""Parts that a user might write, as the text of a file."""

METHOD = '''
from dataclasses import dataclass, field

from auxo.algorithms.base import OneCohort
from auxo.core.aggregators import Aggregator, FedAvg
from auxo.core.settings import setting


@dataclass(frozen=True)
class Depth:
    levels: int = setting(2, "How deep it goes.")


@dataclass(frozen=True)
class MyMethod:
    """The base with settings that do nothing."""

    strength: float = setting(0.5, "How strong it is.")
    depth: Depth = field(default_factory=Depth)
    aggregator: Aggregator = field(default_factory=FedAvg)

    own_states = ()
    client_half = None
    matching = OneCohort().matching
    begin = OneCohort.begin
    memory = OneCohort.memory
    openers = OneCohort.openers
    shares = OneCohort.shares
    plan = OneCohort.plan
    admission = OneCohort.admission
    close = OneCohort.close

    def __post_init__(self) -> None:
        if self.strength < 0:
            raise ValueError(f"strength: expected at least 0, got {self.strength}")


@dataclass(frozen=True)
class Half:
    """Lacks what makes a method."""

    own_states = ()
    client_half = None
    begin = OneCohort.begin


@dataclass(frozen=True)
class Needy:
    """Has a setting without a default."""

    strength: float


def make_method():
    return MyMethod()
'''

SMALL_PARTS = '''
from dataclasses import dataclass

from auxo.core.aggregators import FedAvg
from auxo.core.client_algorithms import LocalSgd
from auxo.core.selectors import Uniform


@dataclass(frozen=True)
class Doubled:
    """Makes steps of twice the length."""

    factor: float = 2.0

    def initial(self, weights):
        return FedAvg().initial(weights)

    def accumulate(self, state):
        return FedAvg().accumulate(state)

    def step(self, state, movement, rate_scale=1.0):
        return FedAvg().step(state, self.factor * movement, rate_scale)


@dataclass(frozen=True)
class FirstComeFirstServed:
    """Selects those with the smallest numbers."""

    own_states = ()
    begin = Uniform.begin
    learn = Uniform.learn

    def select(self, memory, candidates, rows, wanted, rng):
        return rows[:wanted]


@dataclass(frozen=True)
class Held:
    """Holds participants firmly."""

    proximal: float = 0.7
    sends_partial_work: bool = False
'''

SETTINGS = '''
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from auxo.core.client_algorithms import LocalSgd
from auxo.core.settings import setting


@dataclass(frozen=True)
class Inner:
    limit: float | None = setting(None, "The most.")
    size: int = 3


@dataclass(frozen=True)
class Rich(LocalSgd):
    """Has a setting of every type that a configuration can hold."""

    limit: int | None = setting(None, "The most.")
    cache: Path = Path("a b/c")
    sizes: list[int] = field(default_factory=lambda: [1, 2])
    pairs: tuple[tuple[int, float], ...] = ((1, 0.5), (2, 1.0))
    kind: Literal["plain", "odd", 3] = "plain"
    is_on: bool = True
    by_name: dict[str, float] = field(default_factory=lambda: {"a b": 0.5})
    paths: tuple[Path, ...] = (Path("x"),)
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    anything: Any = None
    derived: int = field(default=7, init=False)
    μ: float = 0.5


@dataclass(frozen=True)
class WithClass(LocalSgd):
    kind: type = int


@dataclass(frozen=True)
class WithSet(LocalSgd):
    names: frozenset[str] = frozenset({"a"})


@dataclass(frozen=True)
class WithNan(LocalSgd):
    rate: float = float("nan")


@dataclass(frozen=True)
class WithNoneInside(LocalSgd):
    rates: tuple[float | None, ...] = (None,)


@dataclass(frozen=True)
class WithWrongType(LocalSgd):
    size: int = 0.5


@dataclass(frozen=True)
class WithStringOrPath(LocalSgd):
    place: str | Path = Path("here")


@dataclass(frozen=True)
class WithNumber(LocalSgd):
    limit: int | None = 3


class Undecorated(LocalSgd):
    mu: float = setting(0.1, "How strongly.")


@dataclass(frozen=True)
class Strict(LocalSgd):
    mu: float = 0.1

    def __post_init__(self):
        if self.mu > 1:
            raise ValueError("that is too much")
        if self.mu < 0:
            raise ZeroDivisionError("below 0")
'''

"""The strategy that `AuxoStrategy` wraps: one, or what makes one; checked, and reachable through the wrapper.

Every cohort has a strategy of its own. So what is written to a strategy that was given goes to all of them, what is
read comes from them where they agree, and what cannot be passed on is refused.
"""

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flwr.serverapp.strategy import FedXgbBagging, FedXgbCyclic, Strategy

from auxo.core.types import ROOT
from auxo.flower.foreign_step import CohortSeen, wrapped
from auxo.flower.legacy import OLD_METHODS, how_to_migrate, is_old
from auxo.flower.logs import LOG
from auxo.flower.strategy_state import is_alike

Base = Strategy | Callable[[], Strategy] | Callable[[CohortSeen], Strategy]


@dataclass
class BaseStrategy:
    """A base as it was given, and what has become of it in cohorts."""

    base: Base
    participants: int
    asks_cohort: bool = field(init=False)  # what makes strategies looks at the cohort that they are for
    pattern: Strategy = field(init=False)  # as strategies are before their first round
    _ended: Mapping[str, Strategy] = field(default_factory=dict)  # of cohorts, after a run

    def __post_init__(self) -> None:
        """Check it.

        Raises:
            TypeError: it makes no strategy of Flower's message API.
            ValueError: it is one that Auxo cannot work with; the message says why.
        """
        given: object = self.base  # by somebody who may not have looked at its type
        if is_old(given) or not (isinstance(given, Strategy) or callable(given)):
            check_base(given)
        self.asks_cohort = not isinstance(self.base, Strategy) and _needs_argument(self.base)
        first = CohortSeen(ROOT, self.participants)
        self.pattern = self.base if isinstance(self.base, Strategy) else self.make(first)
        check_base(self.pattern)
        if not self.asks_cohort:
            _refuse_fixed_noise(self.pattern)

    def make(self, cohort: CohortSeen) -> Strategy:
        """Return a new strategy for a cohort."""
        if isinstance(self.base, Strategy):
            return copy.deepcopy(self.pattern)
        return self.base(cohort) if self.asks_cohort else self.base()  # type: ignore[call-arg]  # its signature says so

    def end(self, strategies: Mapping[str, Strategy]) -> None:
        """Keep what the strategies of cohorts are at the end of a run; one that was given becomes that of all nodes."""
        self._ended = strategies
        if not isinstance(self.base, Strategy):
            return
        if len(strategies) == 1:
            if self.pattern is self.base:
                self.pattern = copy.deepcopy(self.base)  # another run begins from here, as this one has
            vars(self.base).update(vars(*strategies.values()))
        elif not type(self.base).__module__.startswith("flwr."):
            LOG.warning(
                "the %s that was given stays as it was: each of the cohorts %s has a copy of its own, and "
                "result.strategies has these",
                type(self.base).__name__,
                ", ".join(strategies),
            )

    def read(self, name: str) -> object:
        """Return an attribute of the base: of the strategies of cohorts after a run, and as it was made before.

        Raises:
            AttributeError: it has none, cohorts differ in it, or it would change what is made anew for each cohort.
        """
        if name in OLD_METHODS:
            raise AttributeError(how_to_migrate(f"the ServerApp that asks for {name}()"))
        found, *others = (getattr(one, name) for one in self._ended.values() or (self.pattern,))
        if not all(is_alike(one, found) for one in others):
            raise AttributeError(
                f"{name}: expected one for all cohorts, but {', '.join(self._ended)} have their own; read "
                f"result.strategies[cohort].{name}"
            )
        if callable(found) and not isinstance(self.base, Strategy):
            raise self._made_anew(name, "call")
        return found

    def write(self, name: str, value: object) -> None:
        """Set an attribute of a base that was given, and so of the strategies that are copied from it.

        Raises:
            AttributeError: it is made anew for each cohort.
        """
        if not isinstance(self.base, Strategy):
            raise self._made_anew(name, "set")
        setattr(self.base, name, value)
        setattr(self.pattern, name, value)
        self._ended = {}

    def _made_anew(self, name: str, verb: str) -> AttributeError:
        return AttributeError(
            f"{name}: the base is made anew for each cohort, which would not know of it; {verb} it where base makes "
            "the strategy, or give a strategy in place of what makes one"
        )


def check_base(strategy: object) -> None:
    """Check that Auxo can work with a strategy.

    Raises:
        TypeError: it is none of Flower's message API.
        ValueError: it hides updates, or has no arrays of floats, or accounts for one release a round.
    """
    name = strategy.__name__ if isinstance(strategy, type) else type(strategy).__name__
    if "secagg" in name.lower():
        raise ValueError(
            f"base: {name} hides clients' updates from the server, and Auxo compares clients by their updates; "
            "use a strategy without secure aggregation, or Flower without Auxo"
        )
    if is_old(strategy):
        raise TypeError(f"base: {how_to_migrate(name)}")
    if not isinstance(strategy, Strategy):
        raise TypeError(
            f"base: expected a strategy of flwr.serverapp.strategy, or a callable that makes one, got {name}"
        )
    if isinstance(strategy, FedXgbBagging | FedXgbCyclic):
        raise ValueError(f"base: {name} exchanges trees, and Auxo compares updates of numbers")
    for inside in wrapped(strategy):
        if getattr(inside, "accountant", None) is not None:
            raise ValueError(
                f"base: {type(inside).__name__} has an accountant, which counts one release a round of one model; "
                "cohorts and branches on trial release more. Leave it out, and see docs/flower.md on privacy"
            )


def _refuse_fixed_noise(strategy: Strategy) -> None:
    """Refuse a wrapper for differential privacy that would add too little noise in a cohort smaller than all nodes."""
    for inside in wrapped(strategy):
        sampled = getattr(inside, "num_sampled_clients", None)
        if sampled is not None:
            name = type(inside).__name__
            raise ValueError(
                f"base: {name} divides its noise by the {sampled} clients that it was made for, and cohorts have "
                "fewer: their models would have too little. Give what makes it for a cohort: "
                f"AuxoStrategy(lambda cohort: {name}(..., num_sampled_clients=cohort.participants), ...)"
            )


def warn_of_own_start(strategy: Strategy) -> None:
    """Warn whoever has given a strategy that what its own start() does is not done."""
    for inside in wrapped(strategy):
        if type(inside).start is not Strategy.start:
            warnings.warn(
                f"base: the start() of {type(inside).__name__} is not called: AuxoStrategy runs the rounds of all "
                "cohorts itself, and what else that start() does, such as to save results, is left undone. Do it in "
                "evaluate_fn or on_event, or after start() with result.cohorts",
                RuntimeWarning,
                stacklevel=3,
            )


def _needs_argument(base: Callable[..., Strategy]) -> bool:
    try:
        parameters = inspect.signature(base).parameters.values()
    except ValueError:  # one of Python's own, which does not tell
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(one.default is one.empty and one.kind in by_place for one in parameters)

"""The accounting: what releases come to, told as epsilon at a delta, and how much noise an epsilon takes.

Nothing is amplified by sampling: the server is curious and sees who takes part. dp-accounting does the work (the extra
``auxo[dp]``), and is imported when it is needed. Releases of Gaussian noise alone are told exactly; mixtures by Rényi
divergences, or by adding up, whichever is less, for both are bounds.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf, sqrt
from types import ModuleType

from auxo.privacy.mechanisms import any_of

_MOST_NOISE = 1e9  # deviations over clips; who needs more is promised nothing useful; our choice
_PRECISE = 1e-4  # relative, of what is looked for; our choice


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise on a vector: its deviation over how far apart two inputs can lie."""

    multiplier: float


@dataclass(frozen=True)
class RandomisedResponse:
    """One of so many by randomised response."""

    epsilon: float
    choices: int


@dataclass(frozen=True)
class Exponential:
    """One of several by the exponential mechanism."""

    epsilon: float


@dataclass(frozen=True)
class Pure:
    """Anything else that is pure epsilon, such as PrivUnit."""

    epsilon: float


Release = Gaussian | RandomisedResponse | Exponential | Pure
"""One thing that has left a client."""

Releases = Mapping[Release, int]
"""How often each has."""


@dataclass(frozen=True)
class PrivacyBudget:
    """What may be spent on a client, or on each of its samples."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < inf:
            raise ValueError(f"epsilon: expected a positive number, got {self.epsilon}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta: expected a value in (0, 1), got {self.delta}")

    def holds(self, releases: Releases) -> bool:
        """Return whether so many releases are within it."""
        return epsilon_of(releases, self.delta) <= self.epsilon


def rho_of(release: Release) -> float:
    """Return what a release costs in zero-concentrated differential privacy; these add up.

    >>> round(20 * rho_of(Exponential(0.45)), 4)
    0.5063
    """
    match release:
        case Gaussian(multiplier):
            return 1 / (2 * multiplier**2)
        case Exponential(epsilon):
            return epsilon**2 / 8
        case RandomisedResponse(epsilon) | Pure(epsilon):
            return epsilon**2 / 2


def epsilon_of(releases: Releases, delta: float) -> float:
    """Return the epsilon that releases come to at a delta; 0: nothing was released."""
    return _epsilon(frozenset((release, count) for release, count in releases.items() if count), delta)


def rho_for(epsilon: float, delta: float) -> float:
    """Return how much concentrated privacy a budget comes to."""
    accountant = _dp_accounting()
    return _largest(lambda rho: _renyi([(accountant.ZCDpEvent(rho), 1)], delta) <= epsilon, epsilon)


def least_noise(budget: PrivacyBudget, releases: Callable[[float], Releases]) -> float:
    """Return the least noise with which releases are within a budget; infinite: with none that could be used.

    Args:
        budget: to spend.
        releases: of a noise; more noise must cost less.
    """
    if not budget.holds(releases(_MOST_NOISE)):
        return inf
    return 1 / _largest(lambda inverse: budget.holds(releases(1 / inverse)), 1.0)


def times_within(budget: PrivacyBudget, releases: Releases) -> int:
    """Return how often releases can be repeated within a budget."""

    def holds(times: float) -> bool:
        return budget.holds({release: int(times) * count for release, count in releases.items()})

    if not releases:
        raise ValueError("releases: expected at least one, got none")
    if not holds(1):
        return 0
    low, high = 1, 2
    while holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def amplified_epsilon(sigma: float, share: float, rounds: int, delta: float) -> float:
    """Return the epsilon of noise on the *sum* of a round of which nobody knows who took part, as papers count it.

    It is no promise of ours: our server sees each participant's own update, and who sent it.

    >>> round(amplified_epsilon(1.0, 0.01, 500, 1e-6), 2)
    1.97
    """
    accountant = _dp_accounting()
    event = accountant.PoissonSampledDpEvent(share, accountant.GaussianDpEvent(sigma))
    return float(accountant.rdp.RdpAccountant().compose(event, rounds).get_epsilon(delta))


@lru_cache(maxsize=4096)
def _epsilon(releases: frozenset[tuple[Release, int]], delta: float) -> float:
    if not releases:
        return 0.0
    spread = sum(count / release.multiplier**2 for release, count in releases if isinstance(release, Gaussian))
    exact = float(_dp_accounting().get_epsilon_gaussian(1 / sqrt(spread), delta)) if spread else 0.0
    pure = [(release.epsilon, count) for release, count in releases if not isinstance(release, Gaussian)]
    added = exact + sum(epsilon * count for epsilon, count in pure)
    if not pure:
        return exact
    return min(added, _renyi([(_event(release), count) for release, count in releases], delta))


def _event(release: Release) -> object:
    accountant = _dp_accounting()
    match release:
        case Gaussian(multiplier):
            return accountant.GaussianDpEvent(multiplier)
        case RandomisedResponse(epsilon, choices):
            return accountant.RandomizedResponseDpEvent(any_of(choices, epsilon), choices)
        case Pure(epsilon):  # nothing that is pure epsilon tells more than this
            return accountant.RandomizedResponseDpEvent(any_of(2, epsilon), 2)
        case Exponential():
            return accountant.ZCDpEvent(rho_of(release))


def _renyi(events: Iterable[tuple[object, int]], delta: float) -> float:
    """Return the epsilon of events by Rényi divergences; multipliers are over how far apart inputs lie, as they are."""
    accountant = _dp_accounting()
    composed = accountant.rdp.RdpAccountant(neighboring_relation=accountant.NeighboringRelation.REPLACE_ONE)
    for event, count in events:
        composed.compose(event, count)
    return float(composed.get_epsilon(delta))


def _largest(holds: Callable[[float], bool], guess: float) -> float:
    """Return about the largest positive number that holds, where all smaller ones do, and never one that does not."""
    low, high = guess, guess
    while not holds(low):
        high, low = low, low / 2
    while holds(high):
        low, high = high, 2 * high
    while high - low > _PRECISE * low:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _dp_accounting() -> ModuleType:
    try:
        import dp_accounting  # noqa: PLC0415 - only who promises something needs it
    except ImportError as error:
        raise ImportError("privacy needs dp-accounting, which is not installed: pip install 'auxo[dp]'") from error
    found: ModuleType = dp_accounting
    return found

"""Robust aggregators: what a round's updates come to although some of them may be wrong, or hostile.

The coordinate-wise median and trimmed mean are Yin et al. (ICML 2018); Krum and multi-Krum are Blanchard et al.
(NeurIPS 2017). All of them see the updates of a round side by side, so they hold them until it closes: 4 bytes x
participants of the round x parameters, 400 MB for a hundred participants and a million parameters. Every update counts
the same, whatever examples its sender claims. How the model then moves is the affair of a server optimiser.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from auxo.core.aggregators.aggregator import Accumulator, Aggregator, Report, ServerState, check_update_shape
from auxo.core.aggregators.fedavg import FedAvg
from auxo.core.aggregators.server_step import ABOUT_SERVER, StepsByServer
from auxo.core.settings import Bounds, NonNegativeInt, checked, setting
from auxo.core.types import Float32Array, FloatArray, IntArray

_NUMBERS_AT_ONCE = 2**20  # that are looked at; our choice
_FEWEST_COMPARED = 3  # updates: of two nobody can say which is the stranger
_ABOUT_HOSTILE = "Share of a round's updates that may be hostile, below a half."

_Minority = Annotated[float, Bounds(ge=0, lt=0.5)]

Reduction = Callable[[Sequence[Float32Array]], FloatArray]
"""Makes one vector of at least one update."""


class KeptUpdates:
    """A round's updates, all of them kept until the last has come."""

    def __init__(self, n_params: int, reduction: Reduction) -> None:
        self._n_params, self._reduction = n_params, reduction
        self._updates: list[Float32Array] = []

    def add(self, update: Float32Array, report: Report) -> None:
        """Keep a copy of an update."""
        check_update_shape(update, self._n_params)
        self._updates.append(update.copy())

    def result(self) -> FloatArray | None:
        """Return what they come to; None without any."""
        return self._reduction(self._updates) if self._updates else None


def coordinate_median(updates: Sequence[Float32Array]) -> FloatArray:
    """Return the median of each parameter: of two in the middle their mean.

    >>> coordinate_median([np.float32([1, 9]), np.float32([2, 0]), np.float32([30, 1])])
    array([2., 1.])
    """
    low, high = (len(updates) - 1) // 2, len(updates) // 2
    return np.concatenate([some[:, [low, high]].mean(axis=1, dtype=np.float64) for some in _sorted(updates)])


def trimmed_mean(updates: Sequence[Float32Array], share: float) -> FloatArray:
    """Return the mean of each parameter without the largest and the smallest ``share`` of it, rounded down.

    >>> trimmed_mean([np.float32([value]) for value in (1, 2, 3, 4, 900)], share=0.2)
    array([3.])
    """
    n, cut = len(updates), _whole(share, len(updates))
    if cut == 0:
        return np.concatenate([some.mean(axis=0, dtype=np.float64) for some in _columns(updates)])
    return np.concatenate([some[:, cut : n - cut].mean(axis=1, dtype=np.float64) for some in _sorted(updates)])


def krum_scores(updates: Sequence[Float32Array], hostile: int) -> FloatArray:
    """Return, for each update, the sum of squared distances to the nearest n - hostile - 2 others; small is good.

    >>> krum_scores([np.float32([value]) for value in (0, 1, 3, 9)], hostile=0).tolist()
    [10.0, 5.0, 13.0, 100.0]
    """
    n = len(updates)
    products = np.zeros((n, n))
    for some in _columns(updates):
        apart = some - some.mean(axis=0, dtype=np.float64)  # or what all have in common would hide the differences
        products += apart @ apart.T
    squares = np.diag(products)
    distances = np.maximum(squares[:, np.newaxis] + squares - 2 * products, 0.0)
    np.fill_diagonal(distances, np.inf)
    nearest = max(1, n - hostile - 2)
    return np.asarray(np.sort(distances, axis=1)[:, :nearest].sum(axis=1))


def krum_choice(updates: Sequence[Float32Array], share: float, kept: int | None) -> IntArray:
    """Return which updates have the least scores, ascending; of equals the first.

    Args:
        updates: of a round.
        share: of them that may be hostile: f, of which no more count than n > 2 f + 2 allows.
        kept: how many; None: n - f.
    """
    n = len(updates)
    if n < _FEWEST_COMPARED:
        return np.arange(n)
    hostile = min(_whole(share, n), (n - 3) // 2)
    wanted = n - hostile if kept is None else min(kept, n)
    return np.sort(np.argsort(krum_scores(updates, hostile), kind="stable")[:wanted])


@dataclass(frozen=True)
class Median(StepsByServer):
    """Move by the median of each parameter: no minority can bring it beyond what the others sent.

    It holds all updates of a round: participants x parameters.
    """

    server: Aggregator = setting(FedAvg(), ABOUT_SERVER)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return what keeps the updates."""
        return KeptUpdates(len(state.weights), coordinate_median)


@dataclass(frozen=True)
@checked
class TrimmedMean(StepsByServer):
    """Move by the mean of each parameter without its extremes.

    It holds all updates of a round: participants x parameters. Without anything cut off it is the uniform mean.
    """

    trimmed: _Minority = setting(
        0.2, "Share of a round's values that is cut off at either end, for each parameter; below a half."
    )
    server: Aggregator = setting(FedAvg(), ABOUT_SERVER)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return what keeps the updates."""
        return KeptUpdates(len(state.weights), lambda updates: trimmed_mean(updates, self.trimmed))


@dataclass(frozen=True)
@checked
class Krum(StepsByServer):
    """Move by the one update that is nearest to its neighbours (Blanchard et al., section 4).

    It holds all updates of a round: participants x parameters. Of fewer than three it takes the mean.
    """

    hostile: _Minority = setting(0.2, _ABOUT_HOSTILE)
    server: Aggregator = setting(FedAvg(), ABOUT_SERVER)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return what keeps the updates."""
        return KeptUpdates(len(state.weights), lambda updates: _mean_of(updates, krum_choice(updates, self.hostile, 1)))


@dataclass(frozen=True)
@checked
class MultiKrum(StepsByServer):
    """Move by the mean of the updates that are nearest to their neighbours (Blanchard et al., section 7).

    It holds all updates of a round: participants x parameters. With nobody hostile and all kept it is the uniform mean.
    """

    hostile: _Minority = setting(0.2, _ABOUT_HOSTILE)
    kept: NonNegativeInt = setting(0, "Updates that the mean is of; 0: all but as many as may be hostile, our choice.")
    server: Aggregator = setting(FedAvg(), ABOUT_SERVER)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return what keeps the updates."""
        kept = self.kept or None
        return KeptUpdates(
            len(state.weights), lambda updates: _mean_of(updates, krum_choice(updates, self.hostile, kept))
        )


def _columns(updates: Sequence[Float32Array]) -> Iterator[Float32Array]:
    """Yield (updates, some parameters), parameters in their order: a few at a time take little memory."""
    n_params, width = len(updates[0]), max(1, _NUMBERS_AT_ONCE // len(updates))
    for first in range(0, n_params, width):
        yield np.array([update[first : first + width] for update in updates])


def _sorted(updates: Sequence[Float32Array]) -> Iterator[Float32Array]:
    """Yield (some parameters, updates), each parameter's values in ascending order.

    Numbers side by side are sorted three times as fast as found by their rank; measured.
    """
    for some in _columns(updates):
        values = np.ascontiguousarray(some.T)
        values.sort(axis=1)
        yield values


def _mean_of(updates: Sequence[Float32Array], rows: IntArray) -> FloatArray:
    return trimmed_mean([updates[row] for row in rows], share=0.0)


def _whole(share: float, n: int) -> int:
    """Return how many of ``n`` a share is, rounded down; 0.29 of 100 are 29, which plain floats miss by a bit."""
    return int(share * n + 1e-9)

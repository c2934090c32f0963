"""What a cohort's participants usually send, and how far each may move its model: nobody by far more than that.

One update that is finite and of the right shape can still undo all that a cohort has learnt, by its length or by the
examples that it claims. So a cohort remembers how long the updates of its last rounds were and how many examples stood
behind them. What is far too long moves no model. Its sender is heard all the same: a stranger that a well trained
model does not fit sends long updates in good faith, and has to learn that it is one. Many examples are no fault, for
an institution among phones has them: such an update counts for as many as one participant may (`most_times`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.aggregators import Report
from auxo.core.types import Float32Array
from auxo.core.validation import Reason

LONGER = 30.0
"""How many times as long as usual an update may be.

Our choice. Of honest updates in the populations that it was chosen on the longest was 10 times as long as usual, of a
group of one client in twenty that one model for all does not serve.
"""

MOST_WEIGHT = 0.5
"""Share of a round's weight that one participant may have.

Our choice. Nobody can tell a large institution from a liar by a number that it sends itself, so neither is left out,
and neither owns the model: it counts for no more than all others together. In a round of many no honest client comes
near that, however long the tail of their sizes is.
"""

FEWEST_TIMES = 10.0
"""How many times the usual examples count in any case; our choice: a round of two or three is weighed by examples."""

_ROUNDS = 5  # that are remembered; our choice
_UPPER = 0.75  # quantile of a round that counts as usual: a quarter of the participants cannot move it; our choice
_ENOUGH = 8  # updates that tell what is usual where no round has; as many are held at a time, at most; our choice
_OWN_ROUND = 3  # updates from which a round may speak for itself where all of it is unusual; our choice


@dataclass(frozen=True)
class UsualUpdates:
    """Of each of a cohort's last rounds, the upper quartile of what moved its model; a partition's children inherit it.

    >>> UsualUpdates().after([2.0, 3.0, 2.0], [10, 20, 20])
    UsualUpdates(lengths=(2.0,), examples=(20.0,))
    """

    lengths: tuple[float, ...] = ()
    examples: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.lengths) != len(self.examples):
            raise ValueError(
                f"lengths, examples: expected as many rounds of both, got {len(self.lengths)} and {len(self.examples)}"
            )
        for value in (*self.lengths, *self.examples):
            if not 0 <= value < float("inf"):
                raise ValueError(f"lengths, examples: expected finite numbers of at least 0, got {value}")

    def after(self, lengths: Sequence[float], examples: Sequence[float]) -> "UsualUpdates":
        """Return what is usual after a round that updates of these lengths and examples have moved models in."""
        if not lengths:
            return self
        return UsualUpdates(
            (*self.lengths, _upper(lengths))[-_ROUNDS:],
            (*self.examples, _upper(examples))[-_ROUNDS:],
        )


@dataclass(frozen=True)
class Move:
    """A participant's update on its way to a model."""

    row: int  # in Participants
    models: tuple[int, ...]
    update: Float32Array
    report: Report
    length: float  # plain, not relative to the examples
    bounded: bool = False  # counts for no more than is usual: nobody has seen its sender before, see `concentration`

    def shortened(self, length: float, examples: float) -> "Move":
        """Return an update that is no longer than this, and counts for no more examples."""
        count = max(1, min(self.report.examples, int(examples)))
        by = 1.0 if self.length <= length else length / self.length
        update = self.update if by == 1.0 else (self.update * by).astype(np.float32)
        return replace(self, update=update, length=self.length * by, report=replace(self.report, examples=count))


def most_times(share: float, participants: int) -> float:
    """Return how many times the usual examples one of so many participants counts for, at most.

    If the others send what is usual, that is a share of the round's weight; 1: as many as it claims.

    >>> most_times(0.5, 100), most_times(0.5, 8), most_times(1.0, 8)
    (99.0, 10.0, inf)
    """
    return max(FEWEST_TIMES, (participants - 1) * share / (1 - share)) if share < 1 else math.inf


class UsualOnly:
    """Lets through, in their order, a round's updates that are not far longer than usual, with no more than may count.

    Where no round has told what is usual, the first updates are held until a few are there to be compared; after that,
    only what is beyond the bounds is held, until the round itself may speak for it: when all participants send longer
    updates than before, none of them is at fault. Updates that are held are copied, and they are few.
    """

    def __init__(self, usual: UsualUpdates, move: Callable[[Move], None], most: float = FEWEST_TIMES) -> None:
        self._length = float(np.median(usual.lengths)) if usual.lengths else None
        self._examples = float(np.median(usual.examples)) if usual.examples else None
        self._move, self._most = move, most  # times the usual examples that count
        self._lengths: list[float] = []  # of all that were offered in this round
        self._counts: list[float] = []
        self._held: list[Move] = []
        self.refused: list[tuple[int, Reason]] = []
        self.capped: list[int] = []  # rows of those that count for fewer examples than they claim

    @property
    def longest(self) -> float:
        """Return the length from which an update is unusual, as far as the last rounds tell."""
        return LONGER * self._length if self._length else float("inf")

    def offer(self, move: Move) -> None:
        """Take one more update; it lasts only until this returns."""
        if move.bounded and self._length is not None and self._examples is not None:
            if move.report.reply is None:
                self._move(move.shortened(self._length, self._examples))
            elif move.length <= self.longest:  # another framework takes the update as it came
                self._move(move)
            else:
                self.refused.append((move.row, "UNUSUAL_LENGTH"))
            return
        self._lengths.append(move.length)
        self._counts.append(float(move.report.examples))
        if self._length is None:
            self._hold(move)
            if len(self._held) >= _ENOUGH:
                self._length, self._examples = _middle(self._lengths), _upper(self._counts)
                self._release()
        elif move.length <= self.longest and move.report.examples <= self._counting:
            self._move(move)
        else:
            self._hold(move)
            if len(self._held) >= _ENOUGH:
                self._release()

    def finish(self) -> None:
        """Decide on all that are still held."""
        if self._length is None and self._held:
            self._length, self._examples = _middle(self._lengths), _upper(self._counts)
        self._release()

    def _hold(self, move: Move) -> None:
        self._held.append(replace(move, update=move.update.copy()))

    def _release(self) -> None:
        if len(self._lengths) >= _OWN_ROUND:
            self._length = max(self._length or 0.0, _middle(self._lengths))
            self._examples = max(self._examples or 0.0, _upper(self._counts))
        for move in self._held:
            if move.length > self.longest:
                self.refused.append((move.row, "UNUSUAL_LENGTH"))
            elif move.report.examples <= self._counting:
                self._move(move)
            else:
                self.capped.append(move.row)
                self._move(replace(move, report=replace(move.report, examples=int(self._counting))))
        self._held = []

    @property
    def _counting(self) -> float:
        """Return how many examples count, as far as is known what is usual."""
        return max(1.0, self._most * self._examples) if self._examples else math.inf


def _middle(values: Sequence[float]) -> float:
    """Return the median, of two the lower one: of what few have sent so far a quarter may well be attackers' by chance.

    Where one client in seven sends updates that are far too long, three of the first eight do in a tenth of the rounds.
    """
    return float(np.quantile(values, 0.5, method="lower"))


def _upper(values: Sequence[float]) -> float:
    """Return the upper quartile, itself one of the values: of two the lower one, or one of them could set it."""
    return float(np.quantile(values, _UPPER, method="lower"))

"""Words: the little that a participant says of itself where its update must not show what its data are like.

Labels that a server reads from noised updates are chance, and centres of many noised sketches are not: the noise
averages out. So a participant sends one sketch of its update, a few numbers that bear noise; the server looks for
centres among many, and publishes them; a participant finds its label by its own sketch, without noise; and who judges
says one gain in place of losses. What is worked out here is clean: the noise is added by a client mod, at the price
that the words name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from auxo.core.fingerprint import Fingerprint
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

_CLEARLY = 0.02  # share of a loss by which a model has to be better to be chosen; our choice, as that of trials
_LONGEST = 1e6  # number in a word that can be meant; our choice


@dataclass(frozen=True)
class Words:
    """Words that one participant is asked for; a price is an epsilon, 0: as it is; None: the word is not wanted."""

    about: str  # names the question: who is asked the same one again repeats what it has said
    seed: int = 0  # of the projection
    width: int = 32  # of a sketch; models that are not larger are sent as they are
    sketch: float | None = None  # price of a sketch of its update
    label: float | None = None  # price of the number of the centre that its own sketch is nearest to
    centres: tuple[tuple[float, ...], ...] = ()  # that are published, where a label is wanted
    gain: float | None = None  # price of what it gains by its choice among the models that it judges
    reference: int = 0  # place among these of the one that its choice is held against


@dataclass(frozen=True)
class SaidWords:
    """What a round's participants say, a row each; what cannot be counts as not said."""

    sketches: tuple[tuple[float, ...], ...]
    labels: IntArray  # -1: none
    gains: FloatArray  # NaN: none

    @staticmethod
    def of(sketches: Sequence[object], labels: Sequence[object], gains: Sequence[object]) -> "SaidWords":
        """Return what is said, as it came over the wire."""
        return SaidWords(
            tuple(possible_sketch(one) for one in sketches),
            np.array([-1 if (label := possible_label(one)) is None else label for one in labels], dtype=np.int64),
            np.array([np.nan if (gain := possible_gain(one)) is None else gain for one in gains], dtype=np.float64),
        )

    @staticmethod
    def none() -> "SaidWords":
        """Return that there is nobody."""
        return SaidWords((), np.zeros(0, dtype=np.int64), np.zeros(0))

    def take(self, mine: BoolArray) -> "SaidWords":
        """Return what some of them say."""
        kept = tuple(one for one, is_mine in zip(self.sketches, mine.tolist(), strict=True) if is_mine)
        return SaidWords(kept, self.labels[mine], self.gains[mine])

    def of_width(self, width: int) -> FloatArray:
        """Return (rows, width) their sketches; NaN where there is none, or one of another width."""
        nothing = (np.nan,) * width
        rows = [one if len(one) == width else nothing for one in self.sketches]
        return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def possible_sketch(said: object) -> tuple[float, ...]:
    """Return a sketch of finite numbers; nothing where it cannot be."""
    if not isinstance(said, tuple | list) or not all(_is_number(one) and abs(one) <= _LONGEST for one in said):
        return ()
    return tuple(float(one) for one in said)


def possible_label(said: object) -> int | None:
    """Return the number of a centre; None where it cannot be."""
    is_whole = isinstance(said, int | np.integer) and not isinstance(said, bool)
    return int(said) if is_whole and 0 <= said < 2**31 else None  # type: ignore[call-overload, operator]  # it is whole


def possible_gain(said: object) -> float | None:
    """Return a gain, of -1 to 1 and the noise that it bears; None where it cannot be."""
    return float(said) if _is_number(said) and abs(said) <= _LONGEST else None  # type: ignore[arg-type]  # it is one


def _is_number(said: object) -> bool:
    return isinstance(said, int | float | np.floating) and not isinstance(said, bool)


def bound_of(epsilon: float) -> float:
    """Return how large a gain is at the most that was said at this price: 1 where it is said as it is.

    >>> [round(bound_of(epsilon), 2) for epsilon in (0.0, 2.0, 4.0)]
    [1.0, 2.16, 1.31]
    """
    return float(1 / np.tanh(epsilon / 4)) if epsilon > 0 else 1.0


def width_of(n_params: int, width: int) -> int:
    """Return how wide sketches are of updates of so many parameters."""
    return _projection(n_params, width, 0).width


def sketch_of(update: Float32Array, words: Words) -> FloatArray:
    """Return (width,) the sketch of an update, of length one; zero where it points nowhere, and empty as it is."""
    if len(update) == 0:
        return np.zeros(0)
    sketch = _projection(len(update), words.width, words.seed).of(update)
    return sketch if np.isfinite(sketch).all() else np.zeros_like(sketch)


def label_of(sketch: FloatArray, centres: Sequence[Sequence[float]]) -> int | None:
    """Return the number of the nearest centre; None where there is none of that width."""
    if not centres or any(len(one) != len(sketch) for one in centres):
        return None
    squares = ((np.array(centres, dtype=np.float64) - sketch) ** 2).sum(axis=1)
    return int(squares.argmin()) if np.isfinite(squares).any() else None


def gain_of(losses: Sequence[float], others: Sequence[float] | None, reference: int, label: int | None) -> float | None:
    """Return what a judge gains by its choice among models over one of them, -1 to 1, in parts of the larger loss.

    It chooses by one half of its samples and is judged by the other, both ways. Who has told losses of one kind alone
    takes the branch of its label: by the same samples it would choose and be judged.

    Args:
        losses: of the models on one half, the cohort's own first; then the branches', in the order of the centres.
        others: on the other half; None: there is none.
        reference: place of the model that its choice is held against.
        label: of the judge; None: it has none.
    """
    if not 0 <= reference < len(losses) or not all(0 <= one < np.inf for one in losses):
        return None
    if others is None:
        return None if label is None or 1 + label >= len(losses) else _gain(losses, reference, 1 + label)
    if len(others) != len(losses) or not all(0 <= one < np.inf for one in others):
        return None
    one_way = _gain(losses, reference, _choice(others, reference))
    other_way = _gain(others, reference, _choice(losses, reference))
    return (one_way + other_way) / 2


def _choice(losses: Sequence[float], reference: int) -> int:
    """Return the model with the least loss; another than the reference has to be clearly better."""
    by = np.array(losses, dtype=np.float64)
    by[reference] *= 1 - _CLEARLY
    return int(by.argmin())


def _gain(losses: Sequence[float], reference: int, choice: int) -> float:
    larger = max(losses[reference], losses[choice])
    return float((losses[reference] - losses[choice]) / larger) if larger > 0 else 0.0


@lru_cache(maxsize=16)
def _projection(n_params: int, width: int, seed: int) -> Fingerprint:
    return Fingerprint(n_params, width, seed)

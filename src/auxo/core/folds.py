"""Parts of a client's samples, by number: what it trains on, and what it keeps out to judge models by.

Judges who train on everything choose by one half and are judged by the other, and then the other way round. Where
everybody judges, samples that are kept out are missed in training: of few clients with few samples each, models of
halves gained nothing over one for all where models of four fifths gained five points of accuracy. So these keep out a
fifth, and another one in the next trial.
"""

from functools import lru_cache

import numpy as np

from auxo.core.types import IntArray

HALVES = (0, 1)
"""Samples at even places, and at odd ones."""

FIFTHS = 5
"""Parts that samples are kept out by in turn."""

FOLD_NUMBERS = 2 + 2 * FIFTHS
"""Numbers of parts: the halves, and then in turn all but a fifth of the samples, and that fifth."""


def all_but(fifth: int) -> int:
    """Return the number of the part that is left without one of the fifths, counted on and on.

    >>> all_but(0), all_but(4), all_but(5)
    (2, 10, 2)
    """
    return 2 + 2 * (fifth % FIFTHS)


def kept_out_by(fold: int) -> int:
    """Return the part that is left of a client's samples by another one.

    >>> [kept_out_by(fold) for fold in (0, 1, 2, 3, 10)]
    [1, 0, 3, 2, 11]
    """
    return fold ^ 1


def size_of(fold: IntArray, samples: IntArray) -> IntArray:
    """Return how many of so many samples are in a part; all of a single one, and of a fold of -1."""
    ways, which = _read(fold, samples)
    fifth = (samples + ways - 1 - which) // ways
    sizes = np.where(fold % 2 == 1, fifth, samples - fifth)
    sizes = np.where(np.isin(fold, HALVES), (samples + 1 - fold) // 2, sizes)
    return np.asarray(np.where((fold < 0) | (samples < 2), samples, sizes))


def places_in(fold: IntArray, samples: IntArray, nth: IntArray) -> IntArray:
    """Return the places among a client's samples of the ``nth`` ones of a part, from 0; rows as in `size_of`."""
    ways, which = _read(fold, samples)
    fifth = which + ways * nth
    others = nth + (nth + ways - 1 - which) // (ways - 1)
    places = np.where(fold % 2 == 1, fifth, others)
    places = np.where(np.isin(fold, HALVES), 2 * nth + fold, places)
    return np.asarray(np.where((fold < 0) | (samples < 2), nth, places))


@lru_cache(maxsize=4096)  # it is asked for with every model that a client tries
def part_of(fold: int | None, samples: int) -> IntArray:
    """Return the places of all samples of a part, ascending, not to be written to; None: of all.

    >>> part_of(3, 7).tolist(), part_of(2, 7).tolist(), part_of(2, 1).tolist()
    ([0, 5], [1, 2, 3, 4, 6], [0])
    """
    named, of = np.array(-1 if fold is None else fold), np.array(samples)
    places = places_in(named, of, np.arange(int(size_of(named, of))))
    places.setflags(write=False)
    return places


def _read(fold: IntArray, samples: IntArray) -> tuple[IntArray, IntArray]:
    """Return how many ways samples are parted, and which part a fold speaks of: who has fewer than five has fewer."""
    ways = np.clip(samples, 2, FIFTHS)
    return ways, np.maximum(fold - 2, 0) // 2 % ways

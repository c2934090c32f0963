"""Words that leave a client privately: a sketch of its update, its label, and what it would gain, each pure epsilon.

Each is for one question, and is said once: who answers the same question again repeats what it has said,
or its noise would average out. The mod that stands around all that leaves a client charges for them before they go.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Literal, get_args

import numpy as np

from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import Do
from auxo.core.rng import stream
from auxo.core.types import FloatArray
from auxo.core.words import Words, bound_of
from auxo.privacy.accounting import Pure, RandomisedResponse, Release
from auxo.privacy.kept_words import Word
from auxo.privacy.mechanisms import randomised_response
from auxo.privacy.priv_unit import PrivUnit

WordName = Literal["sketch", "label", "gain"]
WORD_NAMES: tuple[WordName, ...] = get_args(WordName)


def private_sketch(unit_vector: FloatArray, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Return a vector whose mean is the given one; its length tells how much noise there is in it (`PrivUnit`)."""
    (drawn,) = PrivUnit(len(unit_vector), epsilon).draw(unit_vector[None, :], rng)
    return np.asarray(drawn)


def private_gain(gain: float, epsilon: float, rng: np.random.Generator) -> float:
    """Return a number whose mean is the gain, within plus and minus `auxo.core.words.bound_of` the epsilon.

    The piecewise mechanism (Wang et al., Collecting and analyzing multidimensional data with local differential
    privacy, 2019): from a short range around the gain with most of the chance, else from beyond it. It stays bounded,
    which is what bets need (`auxo.algorithms.auxo.evidence`), and at an epsilon of 4 bears a twelfth of the noise that
    a bit by randomised response does.

    Raises:
        ValueError: the gain is not one of -1 to 1.
    """
    if not -1 <= gain <= 1:
        raise ValueError(f"gain: expected a number from -1 to 1, got {gain}")
    bound = bound_of(epsilon)
    low = (bound + 1) / 2 * gain - (bound - 1) / 2
    high = low + bound - 1
    place = rng.random()
    if rng.random() < 1 / (1 + exp(-epsilon / 2)):
        return low + place * (high - low)
    beyond = place * (bound + 1)  # along what is left and right of the range, put together
    return -bound + beyond if beyond < low + bound else high + beyond - (low + bound)


def private_word(name: WordName, answer: Answer, words: Words, rng: np.random.Generator) -> Word | None:
    """Return one of an answer's words with the noise of its price; 0 leaves it as it is; None: there is none.

    A judge that cannot tell what it gains, as where losses have diverged, says that it gains nothing: silence would
    tell of its samples.
    """
    price = getattr(words, name) or 0.0
    if name == "sketch":
        is_private = price > 0 and len(answer.sketch) > 1  # of one number only the sign is left
        noisy = private_sketch(np.array(answer.sketch), price, rng) if is_private else None
        return answer.sketch or None if price == 0 else None if noisy is None else tuple(noisy.tolist())
    if name == "label":
        is_private = price > 0 and answer.label is not None
        k = len(words.centres)
        return randomised_response(answer.label or 0, k, price, rng) if is_private else answer.label
    return private_gain(answer.gain or 0.0, price, rng) if price > 0 else answer.gain


def with_word(answer: Answer, name: WordName, word: Word | None) -> Answer:
    """Return an answer with another word in its place; None: without it."""
    return replace(answer, **{name: () if word is None and name == "sketch" else word})  # type: ignore[arg-type]  # its kind


def wanted_words(words: Words) -> tuple[WordName, ...]:
    """Return the words that are asked for.

    >>> wanted_words(Words("0#1", label=2.0, gain=4.0))
    ('label', 'gain')
    """
    return tuple(name for name in WORD_NAMES if getattr(words, name) is not None)


def price_of(words: Words) -> float:
    """Return what the words cost together: the sum of their prices.

    >>> price_of(Words("0#1", label=2.0, gain=4.0))
    6.0
    """
    return float(sum(getattr(words, name) for name in wanted_words(words)))


def release_of(name: WordName, words: Words) -> Release:
    """Return what is charged for a word."""
    price = getattr(words, name)
    return RandomisedResponse(price, len(words.centres)) if name == "label" else Pure(price)


@dataclass(frozen=True)
class PrivateWords:
    """A client mod for simulations: words bear their noise, and all else leaves a client as it is.

    The noise follows from the seed, the client and the question, so that a run can be repeated. It remembers nothing:
    in a simulation nobody is asked the same question twice but where feedback is lost.
    """

    seed: int

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield answers whose words are private."""
        for ask, client, answer in zip(asks, device.clients.tolist(), do(asks, device), strict=True):
            if ask.words is None or isinstance(answer, Failure):
                yield answer
                continue
            clean, words = answer, ask.words
            for name in wanted_words(words):
                rng = stream(self.seed, "words", client, words.about, name)
                answer = with_word(answer, name, private_word(name, clean, words, rng))  # noqa: PLW2901 - the same one
            yield answer

"""Words that leave a client privately: a sketch of its update, its label, and what it would gain, each pure epsilon.

Each is for one question, and is said once: who answers the same question again repeats what it has said,
or its noise would average out. The mod that stands around all that leaves a client charges for them before they go.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp

import numpy as np

from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import Do
from auxo.core.rng import stream
from auxo.core.types import FloatArray
from auxo.core.words import Words, bound_of
from auxo.privacy.priv_unit import PrivUnit


def private_sketch(unit_vector: FloatArray, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Return a vector whose mean is the given one; its length tells how much noise there is in it (`PrivUnit`)."""
    (drawn,) = PrivUnit(len(unit_vector), epsilon).draw(unit_vector[None, :], rng)
    return np.asarray(drawn)


def private_label(label: int, k: int, epsilon: float, rng: np.random.Generator) -> int:
    """Return the label by k-ary randomised response: the true one, or with some chance any of the k.

    Raises:
        ValueError: the label is none of them.
    """
    if not 0 <= label < k:
        raise ValueError(f"label: expected a whole number from 0 to {k - 1}, got {label}")
    is_any = rng.random() < k / (exp(epsilon) + k - 1)
    other = int(rng.integers(k))
    return other if is_any else label


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


def said_privately(answer: Answer, words: Words, rng: Callable[[str], np.random.Generator]) -> Answer:
    """Return an answer whose words bear the noise that their prices ask for; a price of 0 leaves a word as it is.

    Args:
        answer: with the words as they are.
        words: that were asked for.
        rng: for each word, by its name: "sketch", "label" or "gain".
    """
    sketch, label, gain = answer.sketch, answer.label, answer.gain
    if sketch and words.sketch:
        sketch = tuple(private_sketch(np.array(sketch), words.sketch, rng("sketch")).tolist())
    if label is not None and words.label:
        label = private_label(label, len(words.centres), words.label, rng("label"))
    if gain is not None and words.gain:
        gain = private_gain(gain, words.gain, rng("gain"))
    return replace(answer, sketch=sketch, label=label, gain=gain)


def price_of(words: Words) -> float:
    """Return what the words cost together: the sum of their prices.

    >>> price_of(Words("0#1", label=4.0, gain=2.0))
    6.0
    """
    return sum(price for price in (words.sketch, words.label, words.gain) if price is not None)


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
            named = partial(stream, self.seed, "words", client, ask.words.about)
            yield said_privately(answer, ask.words, named)

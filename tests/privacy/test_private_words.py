"""Private words: their chances are those of their epsilon, and what is said of many is right on average."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.asking import Answer
from auxo.core.rng import stream
from auxo.core.words import Words, bound_of
from auxo.privacy.accounting import Pure, RandomisedResponse
from auxo.privacy.priv_unit import PrivUnit
from auxo.privacy.private_words import private_gain, private_sketch, private_word, release_of, wanted_words, with_word

_SAID = 20_000


@pytest.mark.parametrize(("gain", "epsilon"), [(0.3, 1.0), (-0.8, 4.0), (0.0, 2.0), (1.0, 1.0), (-1.0, 8.0)])
def test_a_gain_is_right_on_average_and_bounded(gain: float, epsilon: float) -> None:
    rng = stream(1, "gains")
    said = np.array([private_gain(gain, epsilon, rng) for _ in range(_SAID)])
    assert np.abs(said).max() <= bound_of(epsilon) * (1 + 1e-9)
    assert said.mean() == pytest.approx(gain, abs=4 * said.std() / np.sqrt(_SAID))


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_no_gain_makes_a_word_likelier_by_more_than_e_to_the_epsilon(epsilon: float) -> None:
    rng, bound = stream(2, "gains"), bound_of(epsilon)
    words = [np.array([private_gain(one, epsilon, rng) for _ in range(2 * _SAID)]) for one in (-1.0, 0.2, 1.0)]
    counts = [np.histogram(one, bins=8, range=(-bound, bound))[0] for one in words]
    for one in counts:
        for other in counts:
            likely = np.maximum(other, 1)
            assert (one / likely <= exp(epsilon) * (1 + 4 / np.sqrt(likely))).all()
    # What is near a gain of 1 is as much likelier as it may be: nothing of the price is wasted.
    assert counts[2][-1] / counts[0][-1] == pytest.approx(exp(epsilon), rel=0.2)


def _said(answer: Answer, words: Words, seed: int) -> Answer:
    for name in wanted_words(words):
        answer = with_word(answer, name, private_word(name, answer, words, stream(seed, name)))
    return answer


WORDS = Words("0#1", sketch=4.0, label=1.0, gain=2.0, centres=((1.0, 0.0), (0.0, 1.0)))


def test_words_bear_the_noise_of_their_price_and_no_price_is_no_noise() -> None:
    answer = Answer(np.zeros(3, dtype=np.float32), 5, sketch=(1.0, 0.0), label=1, gain=0.5)

    said = [_said(answer, WORDS, seed) for seed in range(200)]

    lengths = [np.linalg.norm(one.sketch) for one in said]
    np.testing.assert_allclose(lengths, 1 / PrivUnit(2, 4.0).bias, rtol=1e-9)
    assert {one.label for one in said} == {0, 1}
    assert len({one.gain for one in said}) == 200
    assert _said(answer, replace(WORDS, sketch=0.0, label=0.0, gain=0.0), 0) == answer
    assert release_of("label", WORDS) == RandomisedResponse(1.0, 2)
    assert (release_of("sketch", WORDS), release_of("gain", WORDS)) == (Pure(4.0), Pure(2.0))


def test_a_judge_that_cannot_tell_its_gain_says_that_there_is_none_and_not_nothing() -> None:
    said = _said(Answer(np.zeros(3, dtype=np.float32), 5), WORDS, 0)
    assert (said.sketch, said.label) == ((), None)
    assert said.gain is not None


@given(st.integers(2, 64), st.floats(0.5, 16), st.integers(0, 2**32))
def test_a_sketch_is_as_wide_as_what_it_is_of(width: int, epsilon: float, seed: int) -> None:
    vector = np.eye(width)[0]
    assert private_sketch(vector, epsilon, stream(seed, "sketch")).shape == (width,)


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ValueError, match="gain: expected a number from -1 to 1"):
        private_gain(float("nan"), 1.0, stream(0, "no"))

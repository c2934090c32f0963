"""Private words: their chances are those of their epsilon, and what is said of many is right on average."""

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.privacy.private_words import private_bit, private_label, private_sketch, shortened_by

_SAID = 20_000


def _shares(label: int, k: int, epsilon: float, seed: int = 0) -> np.ndarray:
    rng = stream(seed, "labels")
    said = [private_label(label, k, epsilon, rng) for _ in range(_SAID)]
    return np.bincount(said, minlength=k) / _SAID


@pytest.mark.parametrize(("k", "truth"), [(4, 0.7113), (8, 0.5135)])
def test_a_label_is_the_true_one_as_often_as_epsilon_allows(k: int, truth: float) -> None:
    shares = _shares(2, k, 2.0)
    assert shares[2] == pytest.approx(truth, abs=0.015)
    np.testing.assert_allclose(np.delete(shares, 2), (1 - truth) / (k - 1), atol=0.01)
    assert truth / ((1 - truth) / (k - 1)) == pytest.approx(exp(2.0), rel=1e-3)


@pytest.mark.parametrize(("gain", "epsilon"), [(0.3, 1.0), (-0.8, 4.0), (0.0, 2.0), (1.0, 1.0)])
def test_bits_say_the_gain_on_average_once_their_shortening_is_made_up_for(gain: float, epsilon: float) -> None:
    rng = stream(1, "bits")
    said = np.array([private_bit(gain, epsilon, rng) for _ in range(_SAID)])
    assert set(said.tolist()) <= {-1.0, 1.0}
    assert said.mean() / shortened_by(epsilon) == pytest.approx(gain, abs=4 / shortened_by(epsilon) / np.sqrt(_SAID))


def test_no_gain_makes_a_bit_likelier_by_more_than_e_to_the_epsilon() -> None:
    rng = stream(2, "bits")
    share = np.mean([private_bit(1.0, 1.0, rng) == 1 for _ in range(_SAID)])
    assert share / (1 - share) == pytest.approx(exp(1.0), rel=0.06)


@given(st.integers(2, 64), st.floats(0.5, 16), st.integers(0, 2**32))
def test_a_sketch_is_as_wide_as_what_it_is_of(width: int, epsilon: float, seed: int) -> None:
    vector = np.eye(width)[0]
    assert private_sketch(vector, epsilon, stream(seed, "sketch")).shape == (width,)


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ValueError, match="label: expected a whole number from 0 to 3, got 4"):
        private_label(4, 4, 1.0, stream(0, "no"))
    with pytest.raises(ValueError, match="gain: expected a number from -1 to 1"):
        private_bit(float("nan"), 1.0, stream(0, "no"))

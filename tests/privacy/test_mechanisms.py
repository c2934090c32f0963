import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auxo.core.rng import stream
from auxo.core.types import FloatArray
from auxo.privacy.mechanisms import any_of, clipped, exponential, gaussian, randomised_response, said_truly

vectors = arrays(np.float64, st.integers(1, 20), elements=st.floats(allow_nan=True, allow_infinity=True))


@given(vectors, st.floats(1e-6, 1e6))
def test_what_is_clipped_is_never_longer(vector: FloatArray, longest: float) -> None:
    before = vector.copy()
    assert np.linalg.norm(clipped(vector, longest)) <= longest
    assert np.array_equal(vector, before, equal_nan=True)


def test_short_vectors_stay_and_long_ones_keep_their_direction() -> None:
    assert clipped(np.array([0.3, 0.4]), 1.0).tolist() == [0.3, 0.4]
    assert clipped(np.array([30.0, 40.0]), 1.0) == pytest.approx([0.6, 0.8])


def test_what_is_not_finite_becomes_zero_and_noise() -> None:
    found = gaussian(np.array([np.nan, 1.0], dtype=np.float32), 2.0, 0.5, np.array([1.0, -1.0]))
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, -1.0]


@pytest.mark.parametrize(("k", "epsilon", "noise", "truth"), [(4, 2.0, 0.3850, 0.7113), (8, 2.0, 0.5560, 0.5135)])
def test_chances_of_randomised_response(k: int, epsilon: float, noise: float, truth: float) -> None:
    assert any_of(k, epsilon) == pytest.approx(noise, rel=1e-2)
    assert said_truly(k, epsilon) == pytest.approx(truth, rel=1e-2)
    rng = stream(100, "response")
    said = [randomised_response(1, k, epsilon, rng) for _ in range(20_000)]
    shares = np.bincount(said, minlength=k) / len(said)
    assert shares[1] == pytest.approx(truth, abs=0.02)
    # The promise itself: nothing is said more than e to the epsilon times as often for one truth as for another.
    assert shares[1] / np.delete(shares, 1).mean() == pytest.approx(np.exp(epsilon), rel=0.1)


@pytest.mark.parametrize(("gap", "k", "right"), [(0.3, 4, 0.87), (0.1, 4, 0.48), (0.3, 2, 0.95)])
def test_the_exponential_mechanism_finds_the_better_model_about_so_often(gap: float, k: int, right: float) -> None:
    scores = np.full(k, -gap)
    scores[0] = 0.0
    rng = stream(100, "choice")
    found = [exponential(scores, 2.0 / 40, 1.0, rng) for _ in range(5_000)]
    assert np.mean(np.array(found) == 0) == pytest.approx(right, abs=0.02)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.floats(0.01, 5), st.integers(0, 5))
def test_the_exponential_mechanism_keeps_its_promise(scores: list[float], epsilon: float, seed: int) -> None:
    # Scores that one sample has changed by the sensitivity, each in the direction that hurts most.
    one = np.array(scores)
    other = one + np.where(stream(seed, "signs").random(len(one)) < 0.5, -1.0, 1.0)
    chances = [np.exp(x * epsilon / 2) / np.exp(x * epsilon / 2).sum() for x in (one, other)]
    assert np.abs(np.log(chances[0] / chances[1])).max() <= epsilon * (1 + 1e-9)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="bound what they are the mean of"):
        exponential(np.array([0.0, np.nan]), 1.0, 1.0, stream(0))
    with pytest.raises(ValueError, match="from 0 to 2, got 3"):
        randomised_response(3, 3, 1.0, stream(0))

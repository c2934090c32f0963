"""PrivUnit: pure epsilon, unbiased, with the least noise that its kind has."""

from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.privacy.priv_unit import PrivUnit

_DIMENSIONS, _EPSILONS = st.integers(2, 200), st.floats(0.1, 20)


@pytest.mark.parametrize(
    ("dimensions", "epsilon", "variance"),
    [(32, 2, 50.4), (32, 4, 13.2), (32, 8, 3.7), (8, 2, 11.7), (8, 4, 2.8), (8, 8, 0.6)],
)
def test_its_noise_is_that_of_the_published_mechanism(dimensions: int, epsilon: float, variance: float) -> None:
    assert PrivUnit(dimensions, epsilon).variance == pytest.approx(variance, abs=0.05)


@given(_DIMENSIONS, _EPSILONS)
def test_no_point_is_likelier_by_more_than_e_to_the_epsilon_for_one_vector_than_for_another(
    dimensions: int, epsilon: float
) -> None:
    mechanism = PrivUnit(dimensions, epsilon)
    likeliest, least = mechanism.chance / mechanism.cap, (1 - mechanism.chance) / (1 - mechanism.cap)
    assert likeliest / least <= exp(epsilon) * (1 + 1e-9)
    # Of a vector of zeros every point is as likely as on the whole sphere, which has to be between them.
    assert least <= 1 <= likeliest


@given(_DIMENSIONS, _EPSILONS)
def test_no_cap_leaves_less_noise(dimensions: int, epsilon: float) -> None:
    from auxo.privacy.priv_unit import _bias  # noqa: PLC0415 - of other caps

    mechanism = PrivUnit(dimensions, epsilon)
    for times in (0.5, 0.9, 1.1, 1.5):
        if mechanism.cap * times <= 0.5:
            assert _bias(dimensions, epsilon, mechanism.cap * times) <= mechanism.bias * (1 + 1e-6)


@pytest.mark.parametrize(("dimensions", "epsilon"), [(2, 1.0), (8, 4.0), (32, 2.0), (32, 8.0), (1000, 6.0)])
def test_draws_have_the_vector_as_their_mean_and_the_variance_that_is_promised(dimensions: int, epsilon: float) -> None:
    mechanism, rows = PrivUnit(dimensions, epsilon), 4_000_000 // max(dimensions, 100)
    vector = np.zeros(dimensions)
    vector[:2] = 0.6, 0.8
    drawn = mechanism.draw(np.tile(vector, (rows, 1)), stream(1, "draws", dimensions))
    squares = ((drawn - vector) ** 2).sum(axis=1)
    assert drawn.mean(axis=0) @ vector == pytest.approx(1.0, abs=5 * np.sqrt(mechanism.variance / rows))
    assert ((drawn.mean(axis=0) - vector) ** 2).sum() < 2 * mechanism.variance / rows
    assert squares.mean() == pytest.approx(mechanism.variance, rel=0.05)


@given(_DIMENSIONS, _EPSILONS, st.integers(0, 2**32))
def test_all_draws_are_equally_long_and_their_length_tells_the_noise(
    dimensions: int, epsilon: float, seed: int
) -> None:
    mechanism, rng = PrivUnit(dimensions, epsilon), stream(seed, "draws")
    vectors = rng.standard_normal((5, dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[0] = 0.0
    before = vectors.copy()
    lengths = np.linalg.norm(mechanism.draw(vectors, rng), axis=1)
    np.testing.assert_allclose(lengths**2 - 1, mechanism.variance, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(vectors, before)


@pytest.mark.parametrize("epsilon", [2.0, 6.0])
def test_the_share_of_draws_in_the_cap_is_the_promised_chance(epsilon: float) -> None:
    from scipy.special import betaincinv  # noqa: PLC0415 - the edge of the cap

    mechanism, rows = PrivUnit(16, epsilon), 40_000
    vector = np.eye(16)[0]
    cosines = mechanism.draw(np.tile(vector, (rows, 1)), stream(2, "cap"))[:, 0] * mechanism.bias
    edge = 1 - 2 * betaincinv(7.5, 7.5, mechanism.cap)
    deviation = np.sqrt(mechanism.chance * (1 - mechanism.chance) / rows)
    assert (cosines >= edge).mean() == pytest.approx(mechanism.chance, abs=4 * deviation)


def test_a_vector_of_zeros_is_drawn_from_the_whole_sphere() -> None:
    mechanism, rows = PrivUnit(8, 4.0), 20_000
    drawn = mechanism.draw(np.zeros((rows, 8)), stream(3, "zeros"))
    assert np.linalg.norm(drawn.mean(axis=0)) < 4 / (mechanism.bias * np.sqrt(rows))
    assert (drawn[:, 0] > 0).mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("wrong", [np.full((1, 8), 0.5), np.full((1, 8), np.nan), np.zeros((1, 7)), np.zeros(8)])
def test_what_is_no_unit_vector_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="vectors: expected"):
        PrivUnit(8, 4.0).draw(wrong, stream(4, "wrong"))


@pytest.mark.parametrize(("dimensions", "epsilon"), [(1, 1.0), (8, 0.0), (8, -1.0), (8, float("nan")), (8, 1e9)])
def test_what_cannot_be_promised_is_refused(dimensions: int, epsilon: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        PrivUnit(dimensions, epsilon)


@settings(max_examples=25)
@given(st.floats(0.1, 8))
def test_more_epsilon_is_less_noise(epsilon: float) -> None:
    assert PrivUnit(32, epsilon * 1.1).variance < PrivUnit(32, epsilon).variance

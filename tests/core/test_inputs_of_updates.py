"""What an update tells of inputs: how much of its energy falls on each, and what they are on average."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.fingerprint import Fingerprint
from auxo.core.layers import Layer
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray

INPUTS, UNITS = 7, 4
BY_ROWS = (Layer((UNITS, INPUTS)), Layer((UNITS,)))
BY_COLUMNS = (Layer((INPUTS, UNITS), units_axis=1), Layer((UNITS,)))
DEEP = (*BY_ROWS, Layer((3, UNITS)), Layer((3,)))


def fingerprint(layers: tuple[Layer, ...], size: int = 4096) -> Fingerprint:
    return Fingerprint(sum(layer.size for layer in layers), size, layers=layers)


def matrix(seed: int = 0) -> Float32Array:
    """Return an update of the first layer, (units, inputs)."""
    return stream(seed, "energies").standard_normal((UNITS, INPUTS)).astype(np.float32)


def energies_of(update: Float32Array, layers: tuple[Layer, ...] = BY_ROWS) -> FloatArray:
    return fingerprint(layers).inputs(update)[:INPUTS]


def means_of(update: Float32Array, layers: tuple[Layer, ...] = BY_ROWS) -> FloatArray:
    return fingerprint(layers).inputs(update)[INPUTS:]


def flat(first: Float32Array, layers: tuple[Layer, ...]) -> Float32Array:
    """Return it with noise in all other layers, in the order of the flat weights."""
    rest = sum(layer.size for layer in layers[1:])
    weights = first.T if layers[0].units_axis == 1 else first
    return np.concatenate([weights.ravel(), stream(9, "rest").standard_normal(rest)]).astype(np.float32)


@pytest.mark.parametrize("layers", [BY_ROWS, BY_COLUMNS, DEEP], ids=["rows", "columns", "deep"])
def test_energies_are_logarithms_of_the_first_layers_columns_less_their_mean(layers: tuple[Layer, ...]) -> None:
    logs = np.log(np.linalg.norm(matrix().astype(np.float64), axis=0))

    np.testing.assert_allclose(energies_of(flat(matrix(), layers), layers), logs - logs.mean(), rtol=1e-6)


@given(st.lists(st.floats(0.01, 100.0), min_size=INPUTS, max_size=INPUTS))
def test_other_units_of_the_inputs_add_the_same_to_everybodys_energies(units: list[float]) -> None:
    added = []
    for seed in (0, 1):
        plain, other = matrix(seed), matrix(seed) * np.array(units, dtype=np.float32)
        added.append(energies_of(flat(other, BY_ROWS)) - energies_of(flat(plain, BY_ROWS)))

    np.testing.assert_allclose(added[0], added[1], atol=1e-4)
    np.testing.assert_allclose(added[0], np.log(units) - np.log(units).mean(), atol=1e-4)


@given(st.integers(-100, 100))
def test_the_length_of_an_update_does_not_matter(exponent: int) -> None:
    update = flat(matrix(), BY_ROWS)

    np.testing.assert_allclose(
        fingerprint(BY_ROWS).inputs(np.float32(2.0**exponent) * update), fingerprint(BY_ROWS).inputs(update), atol=1e-6
    )


def test_an_input_that_nothing_falls_on_is_far_below_the_others_but_finite() -> None:
    first = matrix()
    first[:, 2] = 0
    energies = energies_of(flat(first, BY_ROWS))

    assert np.isfinite(energies).all()
    assert energies.argmin() == 2
    assert energies.max() - energies.min() == pytest.approx(np.log(1e6))


def test_a_zero_update_tells_nothing_of_inputs() -> None:
    assert fingerprint(BY_ROWS).inputs(np.zeros(32, dtype=np.float32)).tolist() == [0.0] * 2 * INPUTS


@pytest.mark.parametrize("layers", [BY_ROWS, BY_COLUMNS, DEEP], ids=["rows", "columns", "deep"])
def test_of_a_single_sample_the_mean_is_its_input(layers: tuple[Layer, ...]) -> None:
    rng = stream(3, "means")
    inputs, wrong = rng.standard_normal(INPUTS), rng.standard_normal(UNITS)
    update = flat(np.outer(wrong, inputs).astype(np.float32), layers)
    update[UNITS * INPUTS : UNITS * (INPUTS + 1)] = wrong

    np.testing.assert_allclose(means_of(update, layers), inputs, rtol=1e-5)


@given(st.lists(st.floats(-10.0, 10.0), min_size=INPUTS, max_size=INPUTS))
def test_a_shift_of_all_inputs_shifts_the_means_by_as_much(shift: list[float]) -> None:
    rng = stream(4, "means")
    inputs, wrong = rng.standard_normal((20, INPUTS)), rng.standard_normal((20, UNITS)) + np.array([2, -2, 2, -2])

    def means(moved: FloatArray) -> FloatArray:
        return means_of(np.concatenate([(wrong.T @ moved).ravel(), wrong.sum(axis=0)]).astype(np.float32))

    np.testing.assert_allclose(means(inputs + np.array(shift)) - means(inputs), shift, atol=1e-4)


def test_without_biases_that_move_there_are_no_means() -> None:
    update = flat(matrix(), BY_ROWS)
    update[UNITS * INPUTS :] = 0

    assert not means_of(update).any()
    without = (Layer((UNITS, INPUTS)), Layer((3, UNITS)), Layer((3,)))
    assert not means_of(flat(matrix(), without), without).any()
    assert energies_of(flat(matrix(), without), without).any()


def test_there_are_none_without_layers_or_inputs_or_room() -> None:
    update = flat(matrix(), BY_ROWS)

    assert Fingerprint(32).inputs(update).shape == (0,)
    assert fingerprint(BY_ROWS, size=INPUTS - 1).inputs(update).shape == (0,)
    assert fingerprint((Layer((32,)),)).inputs(update).shape == (0,)
    assert fingerprint((Layer((31, 1)), Layer((1,)))).inputs(update).shape == (0,)


def test_the_update_is_left_untouched() -> None:
    update = flat(matrix(), BY_COLUMNS)
    before = update.copy()
    fingerprint(BY_COLUMNS).inputs(update)

    np.testing.assert_array_equal(update, before)

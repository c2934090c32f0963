import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.fingerprint import Fingerprint, unit_rows
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray

SIZE = 256
SKETCH = Fingerprint(n_params=5000, size=SIZE, seed=3)


def random_update(number: int, n_params: int = 5000) -> Float32Array:
    return stream(0, "update", number).standard_normal(n_params).astype(np.float32)


def cosine(one: FloatArray, other: FloatArray) -> float:
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


@settings(max_examples=25)
@given(exponent=st.integers(-12, 6), sketch=st.sampled_from([SKETCH, Fingerprint(n_params=5000, size=8192)]))
def test_only_the_direction_of_an_update_counts(exponent: int, sketch: Fingerprint) -> None:
    update = random_update(0)
    scaled = (update * 10.0**exponent).astype(np.float32)

    np.testing.assert_allclose(sketch.of(scaled), sketch.of(update), atol=1e-6)


def test_a_thousandfold_update_has_the_same_fingerprint_up_to_rounding() -> None:
    update = random_update(0)

    np.testing.assert_allclose(SKETCH.of(np.float32(1000) * update), SKETCH.of(update), atol=1e-7)


@pytest.mark.parametrize("scale", [1e-38, 1e-12, 1.0, 1e6, 1e37])
def test_a_fingerprint_has_length_one_at_any_scale(scale: float) -> None:
    fingerprint = SKETCH.of((random_update(1) * scale).astype(np.float32))

    assert np.linalg.norm(fingerprint) == pytest.approx(1.0)


@pytest.mark.parametrize("sketch", [SKETCH, Fingerprint(n_params=5000, size=5000)])
def test_a_zero_update_stays_zero(sketch: Fingerprint) -> None:
    fingerprint = sketch.of(np.zeros(5000, dtype=np.float32))

    np.testing.assert_array_equal(fingerprint, np.zeros(sketch.width))


def test_cosines_of_updates_larger_than_the_sketch_are_kept() -> None:
    shared = random_update(100)
    errors = []
    for number in range(30):
        mix = np.float32(number / 30)
        one = shared + mix * random_update(2 * number)
        other = shared + mix * random_update(2 * number + 1)
        exact = cosine(one.astype(np.float64), other.astype(np.float64))
        errors.append(cosine(SKETCH.of(one), SKETCH.of(other)) - exact)

    assert np.max(np.abs(errors)) < 4 / np.sqrt(SIZE)
    assert abs(np.mean(errors)) < 2 / np.sqrt(SIZE * len(errors))


def test_the_sketch_is_linear_before_it_is_scaled() -> None:
    sketch = Fingerprint(n_params=40, size=8)
    update = random_update(0, 40)
    parts = [sketch.of(parameter) for parameter in np.eye(40, dtype=np.float32)]
    added = sum((value * part for value, part in zip(update, parts, strict=True)), np.zeros(sketch.width))

    np.testing.assert_allclose(sketch.of(update), unit_rows(added[None, :])[0], atol=1e-6)  # float32


@pytest.mark.parametrize(("size", "width"), [(1, 1), (2, 2), (16, 13), (256, 251), (4093, 4093), (4096, 4093)])
def test_a_sketch_is_as_wide_as_the_largest_prime_number_that_fits(size: int, width: int) -> None:
    assert Fingerprint(n_params=5000, size=size).width == width


def test_parameters_of_one_input_meet_in_a_bucket_no_more_often_than_any_others() -> None:
    rows, inputs = 100, 64  # a matrix whose rows fit a sketch of 256 buckets four times
    sketch = Fingerprint(n_params=rows * inputs, size=256)
    used = np.zeros(sketch.width)
    for row in range(rows):
        parameter = np.zeros((rows, inputs), dtype=np.float32)
        parameter[row, 5] = 1.0
        used += sketch.of(parameter.ravel()) != 0

    assert used.sum() == rows
    assert used.max() == 1


@pytest.mark.parametrize("size", [6, 7, 2048])
def test_a_model_no_larger_than_the_sketch_is_kept_without_loss(size: int) -> None:
    update = np.array([3, 0, -4, 0, 0, 12], dtype=np.float32)
    sketch = Fingerprint(n_params=6, size=size)

    assert sketch.width == 6
    np.testing.assert_allclose(sketch.of(update), update / 13.0)


def test_the_same_seed_gives_the_same_sketch_and_another_seed_another() -> None:
    update = random_update(0)
    again = Fingerprint(n_params=5000, size=SIZE, seed=3)

    np.testing.assert_array_equal(again.of(update), SKETCH.of(update))
    assert not np.array_equal(Fingerprint(n_params=5000, size=SIZE, seed=4).of(update), SKETCH.of(update))


def test_the_update_is_left_untouched() -> None:
    update = random_update(0)
    before = update.copy()
    SKETCH.of(update)
    Fingerprint(n_params=5000, size=5000).of(update)

    np.testing.assert_array_equal(update, before)


def test_unit_rows_scales_rows_and_leaves_zero_rows_and_its_input_alone() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0]])
    before = vectors.copy()

    np.testing.assert_allclose(unit_rows(vectors), [[0.6, 0.8], [0.0, 0.0]])
    np.testing.assert_array_equal(vectors, before)


@pytest.mark.parametrize(("n_params", "size", "name"), [(0, 8, "n_params"), (8, 0, "size")])
def test_impossible_sizes_are_refused_by_name(n_params: int, size: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
        Fingerprint(n_params=n_params, size=size)

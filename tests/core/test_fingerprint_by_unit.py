"""Fingerprints by unit: every unit's part counts the same, whatever its length."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.fingerprint import Fingerprint
from auxo.core.layers import Layer, unit_of_parameter
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray

SIZE = 256
MLP = (Layer((12, 90)), Layer((12,)), Layer((5, 12)), Layer((5,)))
SOFTMAX = (Layer((90, 12), units_axis=1), Layer((12,)))
CNN = (Layer((8, 3, 5, 5)), Layer((8,)), Layer((8,)), Layer((16, 8, 3, 3)), Layer((16,)), Layer((10, 64)), Layer((10,)))
MANY = (Layer((300, 16)), Layer((40, 30)), Layer((40,)), Layer((50,)))  # units than there are buckets
MODELS = {"mlp": MLP, "softmax": SOFTMAX, "cnn": CNN, "many": MANY}
every_model = pytest.mark.parametrize("layers", MODELS.values(), ids=MODELS)
every_size = pytest.mark.parametrize("size", [SIZE, 2**14], ids=["sketch", "whole"])


def parameters(layers: tuple[Layer, ...]) -> int:
    return sum(layer.size for layer in layers)


def by_unit(layers: tuple[Layer, ...], size: int = SIZE) -> Fingerprint:
    return Fingerprint(parameters(layers), size, seed=3, layers=layers)


def random_update(number: int, layers: tuple[Layer, ...]) -> Float32Array:
    return stream(0, "update", number).standard_normal(parameters(layers)).astype(np.float32)


def scaled(values: FloatArray | Float32Array, blocks: IntArray) -> FloatArray:
    """Return values with every block's part as long as each other's, the slow way."""
    found = values.astype(np.float64)
    for block in np.unique(blocks):
        found[blocks == block] /= np.linalg.norm(found[blocks == block])
    return found / np.linalg.norm(found)


def block_lengths(direction: FloatArray, blocks: IntArray) -> FloatArray:
    return np.sqrt(np.bincount(blocks, direction**2))


@every_model
@every_size
def test_all_blocks_are_of_one_length_and_fit_the_sketch(layers: tuple[Layer, ...], size: int) -> None:
    fingerprint = by_unit(layers, size)
    direction = fingerprint.of(random_update(0, layers))
    lengths = block_lengths(direction, fingerprint.blocks)

    assert direction.shape == fingerprint.blocks.shape == (fingerprint.width,)
    assert fingerprint.width <= size
    assert set(fingerprint.blocks.tolist()) == set(range(len(lengths)))
    np.testing.assert_allclose(lengths, 1 / np.sqrt(len(lengths)))


@every_model
def test_a_model_no_larger_than_the_sketch_is_kept_without_loss(layers: tuple[Layer, ...]) -> None:
    fingerprint, update = by_unit(layers, parameters(layers)), random_update(0, layers)
    blocks = unit_of_parameter(layers)

    np.testing.assert_array_equal(fingerprint.blocks, blocks)
    np.testing.assert_allclose(fingerprint.of(update), scaled(update, blocks))


@pytest.mark.parametrize("layers", [MLP, SOFTMAX, CNN], ids=["mlp", "softmax", "cnn"])
def test_units_have_blocks_of_their_own_while_there_is_room(layers: tuple[Layer, ...]) -> None:
    fingerprint = by_unit(layers, 512)
    assert fingerprint.width <= 512 < fingerprint.n_params
    assert fingerprint.blocks.max() == unit_of_parameter(layers).max()


@every_model
@every_size
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_the_length_of_a_units_part_does_not_matter(layers: tuple[Layer, ...], size: int, data: st.DataObject) -> None:
    fingerprint, update, units = by_unit(layers, size), random_update(0, layers), unit_of_parameter(layers)
    seed = data.draw(st.integers(0, 1000))
    factors = 10.0 ** stream(seed, "factors").uniform(-15, 15, units.max() + 1)
    longer = (update * factors[units]).astype(np.float32)

    np.testing.assert_allclose(fingerprint.of(longer), fingerprint.of(update), atol=1e-5)  # float32


@pytest.mark.parametrize("layers", [MLP, SOFTMAX, CNN], ids=["mlp", "softmax", "cnn"])
def test_the_sketch_is_linear_in_each_block_before_it_is_scaled(layers: tuple[Layer, ...]) -> None:
    fingerprint = by_unit(layers)
    one, other = random_update(0, layers), random_update(1, layers)
    added, parts = fingerprint.of(one + other), (fingerprint.of(one), fingerprint.of(other))
    for block in range(int(fingerprint.blocks.max()) + 1):
        here = fingerprint.blocks == block
        basis = np.stack([part[here] for part in parts], axis=1)
        left = added[here] - basis @ np.linalg.lstsq(basis, added[here], rcond=None)[0]
        np.testing.assert_allclose(left, 0.0, atol=1e-6)


@every_model
def test_each_parameter_moves_one_bucket_of_its_own_block(layers: tuple[Layer, ...]) -> None:
    fingerprint, units = by_unit(layers), unit_of_parameter(layers)
    block_of_unit: dict[int, int] = {}
    for number in range(fingerprint.n_params):
        parameter = np.zeros(fingerprint.n_params, dtype=np.float32)
        parameter[number] = 1.0
        (bucket,) = np.flatnonzero(fingerprint.of(parameter))
        block = int(fingerprint.blocks[bucket])
        assert block_of_unit.setdefault(int(units[number]), block) == block
    assert len(set(block_of_unit.values())) == fingerprint.blocks.max() + 1


@every_model
def test_cosines_are_those_of_the_units_but_for_the_error_of_a_sketch(layers: tuple[Layer, ...]) -> None:
    fingerprint, units, shared = by_unit(layers), unit_of_parameter(layers), random_update(100, layers)
    errors = []
    for number in range(30):
        mix = np.float32(number / 30)
        one, other = (shared + mix * random_update(2 * number + which, layers) for which in (0, 1))
        exact = float(scaled(one, units) @ scaled(other, units))
        errors.append(float(fingerprint.of(one) @ fingerprint.of(other)) - exact)

    assert np.max(np.abs(errors)) < 4 / np.sqrt(fingerprint.width)


def test_units_that_move_alike_err_each_in_its_own_way() -> None:
    """As in a first layer whose units all see the same inputs: errors of a sketch would otherwise add up."""
    layers = (Layer((32, 400)),)
    fingerprint = by_unit(layers)
    errors = []
    for number in range(30):
        rng = stream(number, "alike")
        one, other = (np.outer(np.ones(32), rng.standard_normal(400)).ravel().astype(np.float32) for _ in range(2))
        exact = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        errors.append(float(fingerprint.of(one) @ fingerprint.of(other)) - exact)

    assert np.sqrt(np.mean(np.square(errors))) < 1.5 / np.sqrt(fingerprint.width)


@every_model
@every_size
@pytest.mark.parametrize("scale", [1e-38, 1e-12, 1.0, 1e37])
def test_any_scale_is_scaled_to_length_one(layers: tuple[Layer, ...], size: int, scale: float) -> None:
    direction = by_unit(layers, size).of((random_update(1, layers) * scale).astype(np.float32))

    assert np.linalg.norm(direction) == pytest.approx(1.0)


@every_model
@every_size
def test_zero_blocks_stay_zero_and_the_others_share_the_length(layers: tuple[Layer, ...], size: int) -> None:
    fingerprint, update = by_unit(layers, size), random_update(0, layers)
    update[unit_of_parameter(layers) > 0] = 0.0
    lengths = block_lengths(fingerprint.of(update), fingerprint.blocks)

    np.testing.assert_allclose(lengths, np.arange(len(lengths)) == 0)
    nothing = fingerprint.of(np.zeros(fingerprint.n_params, dtype=np.float32))
    np.testing.assert_array_equal(nothing, np.zeros(fingerprint.width))


@pytest.mark.parametrize("size", [256, 2**14])
def test_without_layers_an_update_is_one_block(size: int) -> None:
    plain = Fingerprint(parameters(MLP), size, seed=3)
    np.testing.assert_array_equal(plain.blocks, np.zeros(plain.width))


@pytest.mark.parametrize("size", [1, 2, 3, 6, 14, 30])
def test_sketches_of_any_size_can_be_taken(size: int) -> None:
    fingerprint = by_unit(CNN, size)
    direction = fingerprint.of(random_update(0, CNN))

    assert fingerprint.width <= size
    assert direction.shape == fingerprint.blocks.shape == (fingerprint.width,)
    assert np.linalg.norm(direction) == pytest.approx(1.0)


@every_model
def test_the_update_is_left_untouched(layers: tuple[Layer, ...]) -> None:
    update = random_update(0, layers)
    before = update.copy()
    for size in (SIZE, 2**14):
        by_unit(layers, size).of(update)

    np.testing.assert_array_equal(update, before)


def test_layers_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match="layers: expected tensors of 1158 parameters in all, got 1157"):
        Fingerprint(1158, layers=MLP)

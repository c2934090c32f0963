import numpy as np
import pytest

from auxo.core.layers import Layer, check_layers, unit_of_parameter, units_of

MLP = (Layer((5, 3)), Layer((5,)), Layer((2, 5)), Layer((2,)))


def test_a_matrix_and_the_vector_after_it_are_the_same_units() -> None:
    assert [(units.first, units.count, units.size, units.bias) for units in units_of(MLP)] == [
        (0, 5, 4, 15),
        (20, 2, 6, 30),
    ]


def test_vectors_that_are_nobodys_bias_are_a_unit_of_their_own() -> None:
    convolution, gains, shifts, scalar = Layer((4, 3, 2, 2)), Layer((4,)), Layer((4,)), Layer(())
    found = units_of((Layer((7,)), convolution, gains, shifts, Layer((2, 6)), Layer((3,)), scalar))
    assert [(units.count, units.size) for units in found] == [(1, 7), (4, 13), (1, 4), (2, 6), (1, 3), (1, 1)]


def test_every_parameter_belongs_to_a_unit() -> None:
    rows = [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3 + [0, 1, 2, 3, 4] + [5] * 5 + [6] * 5 + [5, 6]
    assert unit_of_parameter(MLP).tolist() == rows
    columns = (Layer((3, 2), units_axis=1), Layer((2,)), Layer(()), Layer((4,)))
    assert unit_of_parameter(columns).tolist() == [0, 1] * 3 + [0, 1] + [2] + [3] * 4


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_are_those_of_the_units(axis: int) -> None:
    layers = (Layer((6,)), Layer((2, 3, 4), axis), Layer(((2, 3, 4)[axis],)))
    flat = np.arange(sum(layer.size for layer in layers), dtype=np.float32)
    numbers = unit_of_parameter(layers)
    units = units_of(layers)[1]
    biases = units.biases(flat)
    assert biases is not None
    for unit, (row, bias) in enumerate(zip(units.rows(flat), biases, strict=True)):
        assert flat[numbers == unit + 1].tolist() == [*row, bias]


def test_layers_that_do_not_describe_the_model_are_refused() -> None:
    check_layers(MLP, 32)
    with pytest.raises(ValueError, match=r"layers: expected tensors of 33 parameters in all, got 32; give the shape"):
        check_layers(MLP, 33)


def test_impossible_layers_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"shape: expected lengths of at least 1, got \(3, 0\); leave empty"):
        Layer((3, 0))
    with pytest.raises(ValueError, match=r"units_axis: expected an axis of the shape \(3, 2\), got 2"):
        Layer((3, 2), units_axis=2)

"""Columns of federated data: what they refuse, what models are given of them, and standardised inputs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auxo.core.rng import stream
from auxo.population.federated_data import FederatedData, NumberedNames, Samples, Scaling, StoredInputs


def population(y: list[int], n_classes: int = 3) -> FederatedData:
    rows = np.arange(len(y))
    both = Samples(rows, np.array(y), np.array([0, len(y)]))
    x = stream(0, "x").normal(40.0, 9.0, (len(y), 4)).astype(np.float32)
    return FederatedData("toy", x, both, both, n_classes, ("only",))


def test_labels_outside_the_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"train\.y: expected labels in 0\.\.2, got 0\.\.3"):
        population([0, 1, 3])


def test_an_empty_population_is_refused() -> None:
    nothing = Samples(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.array([0]))
    with pytest.raises(ValueError, match="population is empty"):
        FederatedData("none", np.zeros((0, 2), dtype=np.float32), nothing, nothing, 2, ())


def test_standardised_inputs_have_mean_zero_and_deviation_one_and_the_original_is_untouched() -> None:
    data = population([0, 1, 2] * 20)
    before = data.x.copy()
    scaled = data.standardised().x
    assert abs(float(scaled.mean())) < 1e-5
    assert float(scaled.std()) == pytest.approx(1.0, abs=1e-5)
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(data.x, before)


def test_constant_inputs_standardise_to_zeros() -> None:
    data = population([0, 1])
    constant = FederatedData("flat", np.ones_like(data.x), data.train, data.test, 3, ("only",))
    np.testing.assert_array_equal(constant.standardised().x, np.zeros_like(data.x))


def test_samples_of_some_clients_are_counted_and_found_in_the_order_asked_for() -> None:
    samples = Samples(np.arange(9), np.zeros(9, dtype=np.int64), np.array([0, 3, 3, 7, 9]))
    clients = np.array([3, 1, 0])
    np.testing.assert_array_equal(samples.counts(clients), [2, 0, 3])
    np.testing.assert_array_equal(samples.positions(clients), [7, 8, 0, 1, 2])
    np.testing.assert_array_equal(samples.positions(np.arange(4)), np.arange(9))
    np.testing.assert_array_equal(samples.positions(np.arange(0)), [])


def test_numbered_names_are_the_sequence_of_names_that_they_stand_for() -> None:
    names, spelt_out = NumberedNames(12), tuple(f"client-{number:02d}" for number in range(12))
    assert tuple(names) == spelt_out
    assert names == spelt_out == names
    assert hash(names) == hash(spelt_out)
    assert (names[3], names[-1], names[2:4]) == ("client-03", "client-11", ("client-02", "client-03"))
    assert names != NumberedNames(13)
    assert names != spelt_out[:-1]
    assert NumberedNames(1)[0] == "client-0"
    with pytest.raises(IndexError):
        names[12]


def test_names_sort_in_the_order_of_the_clients() -> None:
    names = NumberedNames(101)
    assert sorted(set(names)) == list(names)


def test_columns_may_be_maps_of_files(tmp_path: Path) -> None:
    data = population([0, 1, 2] * 20)
    np.save(tmp_path / "x.npy", data.x)
    mapped = replace(data, x=np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False))
    np.testing.assert_array_equal(mapped.standardised().x, data.standardised().x)


def stored(x: StoredInputs) -> FederatedData:
    """Return the population of one client with these inputs, which are its training samples and its test samples."""
    both = Samples(np.arange(len(x)), np.zeros(len(x), dtype=np.int64), np.array([0, len(x)]))
    return FederatedData("stored", x, both, both, 1, ("only",))


def test_models_are_given_levels_as_numbers_from_0_to_1() -> None:
    data = stored(np.array([[0, 51], [255, 102]], dtype=np.uint8))
    seen = data.inputs(np.array([[1], [0]]))
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(seen, np.array([[[1.0, 0.4]], [[0.0, 0.2]]], dtype=np.float32))
    assert data.x.tolist() == [[0, 51], [255, 102]]


def test_models_are_given_tokens_untouched_and_standardising_leaves_them_alone() -> None:
    data = stored(np.array([[7, 300], [0, 2]], dtype=np.int32))
    for one in (data, data.standardised()):
        seen = one.inputs(np.array([1, 0, 1]))
        assert seen.dtype == np.int32
        assert seen.tolist() == [[0, 2], [7, 300], [0, 2]]
    with pytest.raises(ValueError, match="x: expected numbers, got tokens of a text"):
        data.numbers(np.array([0]))


def test_numbers_are_shifted_and_scaled_as_they_are_read() -> None:
    data = replace(stored(np.array([[3.0], [5.0]], dtype=np.float32)), scaling=Scaling(shift=1.0, scale=2.0))
    assert data.inputs(np.array([0, 1])).tolist() == [[1.0], [2.0]]
    assert data.x.tolist() == [[3.0], [5.0]]


@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_inputs_too_large_to_scale_in_advance_are_scaled_when_read_to_the_same_bits(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = stream(1, "levels").integers(256, size=(50, 3, 4))
    data = stored(levels.astype(np.uint8) if kind == "uint8" else levels.astype(np.float32))
    rows = np.array([4, 49, 0, 4])
    eager = data.standardised()
    monkeypatch.setattr("auxo.population.federated_data._SCALED_AT_ONCE", data.x.size * 4 - 1)
    lazy = data.standardised()

    assert eager.scaling is None
    assert lazy.scaling is not None
    assert lazy.x is data.x
    assert lazy.inputs(rows).tobytes() == eager.inputs(rows).tobytes()


def test_mean_and_deviation_of_large_data_are_found_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = population([0, 1, 2] * 20)
    whole = data.standardised().x
    monkeypatch.setattr("auxo.population.federated_data._SCALED_AT_ONCE", 100)
    np.testing.assert_allclose(data.standardised().inputs(np.arange(60)), whole, rtol=0, atol=1e-6)


def test_what_is_standardised_twice_stays_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auxo.population.federated_data._SCALED_AT_ONCE", 100)
    once = population([0, 1, 2] * 20).standardised()
    rows = np.arange(60)
    np.testing.assert_allclose(once.standardised().inputs(rows), once.inputs(rows), rtol=0, atol=1e-5)

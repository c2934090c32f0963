"""Columns of federated data: what they refuse, and standardised inputs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auxo.core.rng import stream
from auxo.learning.federated_data import FederatedData, NumberedNames, Samples


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


def test_columns_may_be_maps_of_files(tmp_path: Path) -> None:
    data = population([0, 1, 2] * 20)
    np.save(tmp_path / "x.npy", data.x)
    mapped = replace(data, x=np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False))
    np.testing.assert_array_equal(mapped.standardised().x, data.standardised().x)

"""The stamp of a run: what it names, and that equal data have equal hashes wherever they are kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auxo.experiments import stamp
from auxo.experiments.stamp import data_hash, make_stamp
from auxo.population.federated_data import FederatedData
from auxo.testing.trainers import separable_population


def test_it_names_versions_processor_date_command_and_data() -> None:
    data = separable_population()
    made = make_stamp(data, ["auxo", "run"])
    assert made.command == ("auxo", "run")
    assert made.versions["numpy"] == np.__version__
    assert made.processor
    assert made.date.endswith("+00:00")
    assert (made.population, made.clients, made.hashed) == ("separable", 6, "everything")
    assert len(made.data_sha256) == 64


def test_equal_data_have_equal_hashes_also_on_disk(tmp_path: Path) -> None:
    data = separable_population()
    np.save(tmp_path / "x.npy", data.x)
    assert data_hash(replace(data, x=np.load(tmp_path / "x.npy", mmap_mode="r"))) == data_hash(data)


@pytest.mark.parametrize(
    "changed",
    [
        lambda data: replace(data, x=np.where(np.arange(data.x.size).reshape(data.x.shape) == 77, 0, data.x)),
        lambda data: replace(data, train=replace(data.train, y=data.train.y[::-1].copy())),
        lambda data: replace(data, client_names=tuple("abcdef")),
        lambda data: data.standardised(),
    ],
)
def test_other_data_have_another_hash(changed: "object") -> None:
    data = separable_population()
    assert callable(changed)
    other = changed(data)
    assert isinstance(other, FederatedData)
    assert data_hash(other)[0] != data_hash(data)[0]


def test_of_many_inputs_parts_are_hashed_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamp, "_HASHED_AT_ONCE", 1 << 10)
    monkeypatch.setattr(stamp, "_MOST_HASHED", 1 << 13)
    data = separable_population()
    digest, covers = data_hash(data)
    assert covers.startswith("0 MiB of the inputs, spread evenly")
    assert data_hash(replace(data, x=data.x + 1))[0] != digest

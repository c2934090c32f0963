"""Clients as people have them in Python: arrays, torch data sets, Hugging Face, flwr-datasets."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

import auxo
from auxo.api.client_data import DataColumns, population_from
from auxo.core.rng import stream
from auxo.core.types import InputArray, IntArray
from auxo.population.federated_data import FederatedData, Samples
from tests.api.small_clients import NAMES, clients, samples


def rows(data: FederatedData, client: str, split: Samples) -> tuple[InputArray, IntArray]:
    """Return one client's inputs and labels, sorted by the first feature."""
    at = split.of(list(data.client_names).index(client))
    x, y = data.inputs(split.x_rows[at]), split.y[at]
    order = np.argsort(x[:, 0])
    return x[order], y[order]


def test_arrays_by_name_are_held_out_by_chance_and_labels_that_are_texts_are_numbered() -> None:
    data = population_from(clients(12))
    assert data.client_names == tuple(f"phone {number:03d}" for number in range(12))
    assert data.preparation.classes == tuple(NAMES)
    assert (data.train.counts() == 32).all()
    assert (data.test.counts() == 8).all()
    x, y = samples(5)
    both = [rows(data, "phone 005", split) for split in (data.train, data.test)]
    order = np.argsort(x[:, 0])
    found = np.concatenate([part for part, _ in both])
    assert np.array_equal(found[np.argsort(found[:, 0])], x[order])
    labels = np.concatenate([part for _, part in both])
    assert np.array_equal(labels[np.argsort(found[:, 0])], y[order])


def test_a_client_may_say_what_is_for_testing() -> None:
    x, y = samples(0)
    data = population_from([(x[:30], y[:30], x[30:], y[30:]), (*samples(1), *samples(2))])
    assert data.client_names == ("0", "1")
    assert np.array_equal(rows(data, "0", data.test)[0], x[30:][np.argsort(x[30:, 0])])
    assert data.train.counts().tolist() == [30, 40]


def test_numbers_as_names_keep_their_order() -> None:
    data = population_from({number: samples(number) for number in (2, 10, 1)})
    assert data.client_names == ("1", "2", "10")


def test_a_torch_data_set_for_each_client_is_the_same_as_its_arrays() -> None:
    torch = pytest.importorskip("torch")
    sets_of = pytest.importorskip("torch.utils.data")

    def tensors(number: int) -> object:
        x, y = samples(number)
        return sets_of.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))

    arrays = population_from({f"c{number}": samples(number) for number in range(4)})
    sets = population_from({f"c{number}": tensors(number) for number in range(4)})
    assert np.array_equal(arrays.x, sets.x)
    assert np.array_equal(arrays.train.y, sets.train.y)
    split = population_from({"a": (tensors(0), tensors(1)), "b": (tensors(2), tensors(3))})
    x, _ = samples(1)
    assert np.array_equal(rows(split, "a", split.test)[0], x[np.argsort(x[:, 0])])


def test_torch_tensors_and_lists_are_arrays() -> None:
    torch = pytest.importorskip("torch")
    x, y = samples(0)
    tensors = population_from([(torch.from_numpy(x), torch.from_numpy(y))])
    lists = population_from([(x.tolist(), y.tolist())])
    assert np.array_equal(tensors.x, lists.x)


def test_tokens_stay_whole_numbers() -> None:
    windows = np.arange(40).reshape(10, 4)
    data = population_from([(windows, np.zeros(10, int))], DataColumns(tokens=True))
    assert data.has_tokens
    assert np.array_equal(np.sort(data.x, axis=0), windows)


def test_a_hugging_face_data_set_has_its_clients_in_a_column() -> None:
    datasets = pytest.importorskip("datasets")
    table: dict[str, list[Any]] = {"user": [], "x": [], "y": []}
    for number in range(6):
        x, y = samples(number)
        table["user"] += [f"phone {number}"] * len(y)
        table["x"] += x.tolist()
        table["y"] += NAMES[y].tolist()
    data = population_from(datasets.Dataset.from_dict(table), DataColumns("user", "x", "y"), "phones")
    assert data.name == "phones"
    assert data.client_names == tuple(f"phone {number}" for number in range(6))
    assert data.preparation.classes == tuple(NAMES)
    arrays = population_from({f"phone {number}": samples(number) for number in range(6)})
    for one, other in ((data.train, arrays.train), (data.test, arrays.test)):
        for mine, same in zip(rows(data, "phone 3", one), rows(arrays, "phone 3", other), strict=True):
            assert np.array_equal(mine, same)


def test_a_partitioner_of_flwr_datasets_makes_clients() -> None:
    datasets = pytest.importorskip("datasets")
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    x, y = (np.concatenate([samples(number)[place] for number in range(6)]) for place in (0, 1))
    users = [f"phone {number}" for number in range(6) for _ in range(40)]
    whole = datasets.Dataset.from_dict({"user": users, "x": x.tolist(), "y": NAMES[y].tolist()})
    natural = partitioners.NaturalIdPartitioner(partition_by="user")
    natural.dataset = whole
    data = population_from(natural, DataColumns(features="x", label="y"))
    assert sorted(data.client_names) == [f"phone {number}" for number in range(6)]
    mine = [rows(data, "phone 2", split)[0] for split in (data.train, data.test)]
    assert np.array_equal(np.sort(np.concatenate(mine), axis=0), np.sort(samples(2)[0], axis=0))
    skewed = partitioners.DirichletPartitioner(num_partitions=12, partition_by="y", alpha=0.3, min_partition_size=3)
    skewed.dataset = whole
    data = population_from(skewed, DataColumns(features="x", label="y"))
    assert data.client_names == tuple(f"{number:02d}" for number in range(12))
    # Partitions lack labels, and still all number them alike.
    named = {tuple(values): name for values, name in zip(x.tolist(), NAMES[y].tolist(), strict=True)}
    for row, label in zip(data.train.x_rows, data.train.y, strict=True):
        assert named[tuple(data.x[row].tolist())] == data.preparation.classes[label]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: 3, "data: expected a mapping of clients' names"),
        (dict, "expected at least one client"),
        (lambda: {"a": samples(0)[0]}, "client 'a': expected"),
        (lambda: {"a": (samples(0)[0], samples(0)[1][:3])}, "client 'a': expected one label for each input"),
        (lambda: {"a": samples(0), "b": (np.zeros((5, 2)), np.zeros(5, int))}, "expected inputs of one shape"),
        (lambda: {1: samples(0), "1": samples(1)}, "clients of different names"),
        (lambda: [([[1.0], [2.0, 3.0]], [0, 1])], "inhomogeneous|objects"),
        (lambda: [(np.full((5, 2), np.nan), np.zeros(5, int))], "NaN or infinity"),
    ],
)
def test_what_is_no_data_of_clients_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        population_from(make())


def test_a_share_for_testing_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"test_share: expected a value in \(0, 1\), got 1"):
        DataColumns(test_share=1.0)


@pytest.mark.parametrize("task", ["regression", "multi-label"])
def test_numbers_and_flags_are_learned_and_told_in_the_units_they_came_in(
    task: Literal["regression", "multi-label"],
) -> None:
    pytest.importorskip("torch")
    slopes = stream(0, "slopes").normal(size=(4, 2))

    def client(number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        x = stream(1, "x", number).normal(size=(30, 4))
        y = 500 + 100 * (x @ slopes)
        return x, y if task == "regression" else (y > 500).astype(float)

    columns = DataColumns(task=task)
    run = auxo.simulate(
        {f"town {number}": client(number) for number in range(30)},
        model="linear",
        methods=["base"],
        rounds=60,
        participants=20,
        columns=columns,
        settings={"training.learning_rate": 0.2, "training.aggregator": "fedavg"},
    )
    x, y = client(99)
    place = run.place(x, y)
    predicted = run.predict(x, place)
    assert predicted.shape == y.shape
    assert run.models[place.cohort].accuracy(x, y) > 0.8
    if task == "regression":
        assert np.abs(predicted - y).mean() < 0.3 * y.std()
    else:
        assert (predicted == (y > 0)).mean() > 0.85
    wrong = np.full(len(x), 0.5 if task == "multi-label" else np.nan)
    words = "expected 0 or 1" if task == "multi-label" else "expected finite numbers to learn"
    with pytest.raises(ValueError, match=words):
        population_from({"one": (x, wrong)}, columns)
    with pytest.raises(ValueError, match="task="):
        population_from({"one": (x, x[:, 0])})

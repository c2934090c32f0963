"""A population file is read back as it was written, and every malformed one is refused with a remedy."""

import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from auxo.datasets.open_dataset import open_dataset
from auxo.datasets.tables import TableColumns
from auxo.files.errors import FileError
from auxo.population.digits import digits_population
from auxo.population.federated_data import FederatedData, Samples
from auxo.population.heterogeneity import NoGroups, Rotation
from tests.population.saved import save_population

Arrays = dict[str, NDArray[np.generic]]


def good_arrays() -> Arrays:
    """Return three clients of four samples each."""
    return {
        "x": np.arange(24, dtype=np.float64).reshape(12, 2),
        "y": np.tile([0, 1, 2, 1], 3),
        "client": np.repeat(["ann", "bob", "eve"], 4),
        "test": np.tile([False, False, False, True], 3),
        "group": np.repeat([0, 1, 1], 4),
    }


def write(path: Path, arrays: Arrays) -> Path:
    contents: dict[str, object] = dict(arrays)
    np.savez(path, **contents)  # type: ignore[arg-type]  # savez might take an array for its own keyword
    return path


def contents(data: FederatedData, samples: Samples) -> dict[str, Counter[tuple[bytes, int]]]:
    """Return each client's samples, whatever their order."""
    return {
        name: Counter(
            (data.x[row].tobytes(), int(label))
            for row, label in zip(samples.x_rows[samples.of(client)], samples.y[samples.of(client)], strict=True)
        )
        for client, name in enumerate(data.client_names)
    }


@pytest.mark.parametrize("heterogeneity", [Rotation(), NoGroups()])
def test_a_saved_population_is_read_back_with_the_same_samples(
    tmp_path: Path, heterogeneity: Rotation | NoGroups
) -> None:
    data = digits_population(clients=12, heterogeneity=heterogeneity)
    save_population(tmp_path / "digits.npz", data)
    read = open_dataset(tmp_path / "digits.npz", TableColumns(standardise=False))
    assert read.client_names == data.client_names
    assert np.array_equal(read.groups if read.groups is not None else -1, data.groups if data.groups is not None else 0)
    assert read.n_classes == data.n_classes
    assert contents(read, read.train) == contents(data, data.train)
    assert contents(read, read.test) == contents(data, data.test)


def test_a_population_without_groups_is_read_back_without_groups(tmp_path: Path) -> None:
    arrays = good_arrays()
    del arrays["group"]
    first = open_dataset(write(tmp_path / "first.npz", arrays))
    save_population(tmp_path / "second.npz", first)
    assert first.groups is None
    assert open_dataset(tmp_path / "second.npz").groups is None


def test_a_population_is_called_by_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "speech.npz", good_arrays())
    assert open_dataset(path).name == "speech"


def test_samples_may_come_in_any_order(tmp_path: Path) -> None:
    arrays = good_arrays()
    mixed = {name: values[[7, 3, 11, 0, 4, 8, 1, 9, 5, 2, 6, 10]] for name, values in arrays.items()}
    one, other = open_dataset(write(tmp_path / "a.npz", arrays)), open_dataset(write(tmp_path / "b.npz", mixed))
    assert one.client_names == other.client_names == ("ann", "bob", "eve")
    assert contents(one, one.train) == contents(other, other.train)
    assert contents(one, one.test) == contents(other, other.test)
    assert one.groups is not None
    assert other.groups is not None
    assert one.groups.tolist() == other.groups.tolist() == [0, 1, 1]


def test_samples_sorted_by_label_are_read_in_random_order_always_the_same(tmp_path: Path) -> None:
    y = np.repeat([0, 1], 200)
    arrays: Arrays = {
        "x": np.zeros((400, 1)),
        "y": y,
        "client": np.zeros(400, dtype=int),
        "test": np.arange(400) % 4 == 0,
    }
    one, again = (open_dataset(write(tmp_path / "sorted.npz", arrays)) for _ in range(2))
    assert np.array_equal(one.train.x_rows, again.train.x_rows)
    assert 100 < np.count_nonzero(np.diff(one.train.y)) < 200  # about half of 299 neighbours differ
    for fold in (one.train.y[::2], one.train.y[1::2]):
        assert 0.3 < fold.mean() < 0.7


def test_clients_known_by_numbers_come_in_numeric_order(tmp_path: Path) -> None:
    arrays = good_arrays() | {"client": np.repeat([10, 9, -1], 4)}
    assert open_dataset(write(tmp_path / "numbers.npz", arrays)).client_names == ("-1", "9", "10")


@pytest.mark.parametrize(
    "change",
    [
        {"test": np.tile([0, 0, 0, 1], 3)},
        {"test": np.tile(np.array([0, 0, 0, 1], dtype=np.uint8), 3)},
        {"y": np.tile([0.0, 1.0, 2.0, 1.0], 3)},
        {"y": np.tile(np.array([0, 1, 2, 1], dtype=np.uint16), 3)},
        {"x": np.arange(24, dtype=np.int32).reshape(12, 2)},
        {"group": np.repeat(["north", "south", "south"], 4)},
        {"group": np.repeat([-5, 7, 7], 4)},
    ],
)
def test_other_ways_to_write_the_same_are_read_the_same(tmp_path: Path, change: Arrays) -> None:
    usual = open_dataset(write(tmp_path / "usual.npz", good_arrays()))
    other = open_dataset(write(tmp_path / "other.npz", good_arrays() | change))
    assert np.array_equal(usual.x, other.x)
    assert np.array_equal(usual.train.y, other.train.y)
    assert np.array_equal(usual.test.x_rows, other.test.x_rows)
    assert usual.groups is not None
    assert other.groups is not None
    assert np.array_equal(usual.groups, other.groups)


def test_pixels_of_one_byte_are_scaled_and_keep_their_shape(tmp_path: Path) -> None:
    pixels = np.tile(np.array([[0, 51], [102, 255]], dtype=np.uint8), (12, 1, 1))
    x = open_dataset(write(tmp_path / "pixels.npz", good_arrays() | {"x": pixels})).x
    assert x.dtype == np.float32
    assert x.shape == (12, 2, 2)
    assert np.allclose(x[0], [[0, 0.2], [0.4, 1]])


def with_value(array: str, row: int | slice, value: float) -> Arrays:
    values = good_arrays()[array].copy()
    values[row] = value
    return {array: values}


@pytest.mark.parametrize(
    ("change", "array", "messages"),
    [
        ({"x": np.arange(12.0)}, "x", ["shape (samples, features...)", "shape (12,)"]),
        ({"x": np.zeros((12, 0))}, "x", ["at least one feature"]),
        ({"x": np.full((12, 2), "a")}, "x", ["expected numbers", "dtype <U1"]),
        ({"x": np.zeros((12, 2), dtype=complex)}, "x", ["dtype complex128", "astype(np.float32)"]),
        ({"x": np.array([[None, 1.0]] * 12)}, "x", ["Object arrays", "no Python objects"]),
        (with_value("x", 5, np.nan), "x", ["finite", "1 samples", "row 5"]),
        (with_value("x", 7, -np.inf), "x", ["finite", "row 7"]),
        (with_value("x", 3, 1e300), "x", ["float32", "row 3"]),
        ({"y": np.zeros(11, dtype=int)}, "y", ["shape (12,)", "got shape (11,)"]),
        ({"y": np.zeros((12, 1), dtype=int)}, "y", ["shape (12,)", "got shape (12, 1)"]),
        ({"y": np.tile([0.0, 0.5, 1.0, 1.0], 3)}, "y", ["integers from 0", "0.5 at row 1"]),
        ({"y": np.tile([0.0, np.nan, 1.0, 1.0], 3)}, "y", ["integers from 0", "nan at row 1"]),
        (with_value("y", 4, -1), "y", ["integers from 0", "-1 at row 4"]),
        (with_value("y", 4, 10**15), "y", ["large gaps"]),
        ({"y": np.full(12, "cat")}, "y", ["dtype <U3", "number the classes"]),
        ({"client": np.zeros(12)}, "client", ["integers or strings", "dtype float64"]),
        ({"client": np.array([object()] * 12)}, "client", ["Object arrays", "no Python objects"]),
        ({"client": np.zeros(13, dtype=int)}, "client", ["12 samples", "got shape (13,)"]),
        ({"test": np.zeros(12)}, "test", ["booleans", "dtype float64"]),
        ({"test": np.tile([0, 0, 2, 1], 3)}, "test", ["booleans", "2 at row 2"]),
        ({"test": np.zeros(12, dtype=bool)}, "test", ["one test sample", "3 ('ann', 'bob', 'eve')", "be scored"]),
        (with_value("test", 7, False), "test", ["one test sample", "1 ('bob'), of 3 clients"]),
        (with_value("test", slice(8, 12), True), "test", ["one training sample", "1 ('eve')", "take part"]),
        ({"group": np.array([0, 1, 1])}, "group", ["12 samples", "got shape (3,)", "for each of its samples"]),
        ({"group": np.full(12, 0.5)}, "group", ["integers or strings", "dtype float64"]),
        (with_value("group", 6, 0), "group", ["the same group", "several groups for 1 ('bob')"]),
        ({"groups": np.zeros(12)}, "groups", ["optionally group", "rename or remove"]),
        ({name: values[:0] for name, values in good_arrays().items()}, "x", ["at least one sample, got none"]),
    ],
)
def test_a_malformed_array_is_refused_with_a_remedy(
    tmp_path: Path, change: Arrays, array: str, messages: list[str]
) -> None:
    path = write(tmp_path / "bad.npz", good_arrays() | change)
    with pytest.raises(FileError) as error:
        open_dataset(path)
    assert str(error.value).startswith(f"{path}: {array}: expected ")
    for message in messages:
        assert message in str(error.value)


@pytest.mark.parametrize("missing", ["x", "y", "client", "test"])
def test_a_missing_array_is_named_beside_those_present(tmp_path: Path, missing: str) -> None:
    arrays = good_arrays()
    del arrays[missing]
    path = write(tmp_path / "bad.npz", arrays)
    with pytest.raises(FileError) as error:
        open_dataset(path)
    assert str(error.value).endswith(f"got {', '.join(sorted(arrays))}; add what is missing: {missing}")


def test_only_the_first_of_many_clients_at_fault_are_listed(tmp_path: Path) -> None:
    arrays: Arrays = {
        "x": np.zeros((40, 1)),
        "y": np.zeros(40, dtype=int),
        "client": np.arange(40),
        "test": np.zeros(40, dtype=bool),
    }
    with pytest.raises(FileError, match=r"40 \('0', '1', '2', '3', '4', \.\.\.\), of 40 clients"):
        open_dataset(write(tmp_path / "bad.npz", arrays))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("client,y,x\n")


def single_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def truncated(path: Path) -> None:
    path.write_bytes(write(path, good_arrays()).read_bytes()[:-200])


def folder(path: Path) -> None:
    path.mkdir()


def empty_archive(path: Path) -> None:
    zipfile.ZipFile(path, "w").close()


def archive_of_text(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x", "y", "client", "test"):
            archive.writestr(f"{name}.npy", "not an array")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such file; check the path"),
        (empty, "cannot be read"),
        (text, "cannot be read"),
        (single_array, "got a single array; write it with np.savez"),
        (truncated, "cannot be read"),
        (folder, "cannot be read"),
        (empty_archive, "got none; add what is missing"),
        (archive_of_text, "with np.savez"),
    ],
)
def test_a_file_that_is_no_archive_of_arrays_is_refused(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / "bad.npz"
    make(path)
    with pytest.raises(FileError) as error:
        open_dataset(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (12, 2, ",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-12, 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 2)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (12, 2)}",
        "{[]: 1}",
        "(((",
    ],
)
def test_an_array_with_a_damaged_header_is_refused(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "bad.npz", {name: values for name, values in good_arrays().items() if name != "x"})
    line = header.encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + bytes(8 * 24))
    with pytest.raises(FileError, match="x: expected an npz archive of arrays, got one that cannot be read"):
        open_dataset(path)


@given(data=st.data())
def test_a_file_with_damaged_bytes_is_read_or_refused_but_never_breaks(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = write(tmp_path_factory.mktemp("damaged") / "population.npz", good_arrays())
    damaged = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged)
    with suppress(FileError):
        assert open_dataset(path).n_clients >= 1

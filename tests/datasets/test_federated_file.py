"""The federated file: what is written is what is opened, without copies, and what is wrong with one is said."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.core.types import IntArray
from auxo.datasets.client_samples import ClientSamples, SampleSource, draw_held_out
from auxo.datasets.federated_file import as_population, collect, read_columns, write_columns, write_federated_file
from auxo.datasets.validate import MOST_PROBLEMS, validate
from auxo.files.errors import FileError
from auxo.population.federated_data import StoredInputs

CLASSES = ("ant", "bee", "cat")


def source(*parts: ClientSamples) -> SampleSource:
    return SampleSource("toy", Path("toy"), CLASSES, lambda: iter(parts))


def part(client: str, rows: IntArray, kind: type = np.float32, group: str | None = None) -> ClientSamples:
    """Return samples whose inputs say which they are."""
    x: StoredInputs = np.stack([rows, rows + 1], axis=1).astype(kind)
    return ClientSamples(client, x, rows % 3, group=group)


def toy(kind: type = np.float32) -> SampleSource:
    return source(
        part("b", np.arange(0, 10), kind, "left"),
        part("a", np.arange(10, 14), kind, "right"),
        part("b", np.arange(14, 20), kind, "left"),
    )


@pytest.mark.parametrize("kind", [np.float32, np.uint8, np.int32])
def test_what_is_written_is_what_is_opened(tmp_path: Path, kind: type) -> None:
    path = tmp_path / "toy.arrow"
    write_federated_file(toy(kind), path)
    columns, collected = read_columns(path), collect(toy(kind))
    assert columns.name == "toy"
    assert columns.x.dtype == kind
    assert columns.x.tolist() == [[row, row + 1] for row in range(20)]
    assert columns.y.tolist() == [row % 3 for row in range(20)]
    assert [columns.clients[number] for number in columns.client] == ["b"] * 10 + ["a"] * 4 + ["b"] * 6
    assert columns.classes == CLASSES
    assert columns.group is not None
    assert [columns.groups[number] for number in columns.group] == ["left", "right"]
    assert columns.is_test.tolist() == collected.is_test.tolist()
    assert collected.x.tolist() == columns.x.tolist()


def test_clients_come_by_name_with_their_samples_and_groups(tmp_path: Path) -> None:
    write_federated_file(toy(), tmp_path / "toy.arrow")
    data = as_population(read_columns(tmp_path / "toy.arrow"))
    assert data.client_names == ("a", "b")
    assert data.groups is not None
    assert data.groups.tolist() == [1, 0]
    for samples in (data.train, data.test):
        assert (samples.y == samples.x_rows % 3).all()
    rows = [np.concatenate([kind.x_rows[kind.of(client)] for kind in (data.train, data.test)]) for client in (0, 1)]
    assert sorted(rows[0].tolist()) == [10, 11, 12, 13]
    assert sorted(rows[1].tolist()) == [*range(10), *range(14, 20)]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.integers(1, 7))
@settings(max_examples=30)
def test_how_a_client_is_cut_into_parts_does_not_change_what_is_held_out(owners: list[int], size: int) -> None:
    client = np.array(owners)
    whole = [part(str(number), np.flatnonzero(client == number)) for number in np.unique(client)]
    cut = [
        part(str(number), first + np.flatnonzero(client[first : first + size] == number))
        for first in range(0, len(client), size)
        for number in np.unique(client[first : first + size])
    ]
    tested = [set(made.x[made.is_test][:, 0].tolist()) for made in (collect(source(*whole)), collect(source(*cut)))]
    assert tested[0] == tested[1]


def test_the_share_that_is_held_out_is_the_sources() -> None:
    columns = collect(replace(source(part("a", np.arange(100))), test_share=0.5))
    assert columns.is_test.sum() == 50
    assert columns.is_test.tolist() == draw_held_out("a", 100, 0.5).tolist()


def test_parts_that_say_what_is_for_testing_are_obeyed() -> None:
    told = replace(part("a", np.arange(4)), is_test=np.array([True, False, False, True]))
    untold = part("a", np.arange(4, 14))
    columns = collect(source(told, untold))
    assert columns.is_test[:4].tolist() == [True, False, False, True]
    assert columns.is_test[4:].sum() == 2


def test_inputs_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "toy.arrow"
    write_federated_file(toy(), path)
    columns = read_columns(path)
    data = as_population(columns)
    assert not data.x.flags.writeable
    assert not data.x.flags.owndata
    assert np.shares_memory(data.x, columns.x)
    before = pa.total_allocated_bytes()
    again = read_columns(path)
    assert pa.total_allocated_bytes() - before < again.x.nbytes  # Arrow allocated nothing for them


def test_memory_to_write_and_open_does_not_grow_with_the_inputs(tmp_path: Path) -> None:
    clients, path = 400, tmp_path / "wide.arrow"

    def most_memory(features: int) -> int:
        def wide() -> Iterator[ClientSamples]:
            for number in range(clients):
                yield ClientSamples(f"{number}", np.ones((10, features), np.float32), np.zeros(10, np.int64))

        tracemalloc.start()
        write_federated_file(SampleSource("wide", path, CLASSES, wide), path)
        data = as_population(read_columns(path))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert data.x[-1, -1] == 1
        return most

    inputs = clients * 10 * 1000 * 4
    assert most_memory(1000) - most_memory(1) < inputs / 20


@pytest.mark.slow
def test_a_hundred_thousand_clients_are_written_and_opened_without_a_copy(tmp_path: Path) -> None:
    clients, path = 100_000, tmp_path / "many.arrow"

    def many() -> Iterator[ClientSamples]:
        for number in range(clients):
            rows = np.arange(3 * number, 3 * number + 3)
            x: StoredInputs = np.repeat((rows % 251).astype(np.uint8)[:, np.newaxis], 64, axis=1)
            yield ClientSamples(f"{number:06d}", x, rows % 3, np.array([False, False, True]))

    write_federated_file(SampleSource("many", path, CLASSES, many), path)
    data = as_population(read_columns(path))
    assert data.n_clients == clients
    assert data.x.shape == (3 * clients, 64)
    assert not data.x.flags.writeable
    assert not data.x.flags.owndata
    for client in stream(0, "some").integers(clients, size=50).tolist():
        rows = np.concatenate([data.train.x_rows[data.train.of(client)], data.test.x_rows[data.test.of(client)]])
        assert sorted(rows.tolist()) == [3 * client, 3 * client + 1, 3 * client + 2]
        assert data.client_names[client] == f"{client:06d}"
        assert (data.x[rows, 0] == rows % 251).all()
    assert (data.train.y == data.train.x_rows % 3).all()


def test_any_arrow_reader_opens_the_file(tmp_path: Path) -> None:
    write_federated_file(toy(), tmp_path / "toy.arrow")
    with pa.OSFile(str(tmp_path / "toy.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.column_names == ["client", "features", "label", "split", "group"]
    assert table.column("features")[3].as_py() == [3.0, 4.0]
    assert table.column("client")[12].as_py() == "a"
    assert set(table.column("split").to_pylist()) == {"train", "test"}
    assert json.loads(table.schema.metadata[b"auxo.shape"]) == [2]


def test_a_source_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "toy.arrow"
    path.write_text("before")

    def interrupted() -> Iterator[ClientSamples]:
        yield part("a", np.arange(4))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_federated_file(replace(toy(), clients=interrupted), path)
    assert [file.name for file in tmp_path.iterdir()] == ["toy.arrow"]
    assert path.read_text() == "before"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "samples: expected at least one, got none"),
        ((part("a", np.arange(2)), part("b", np.arange(2), np.uint8)), "client 'b': expected inputs of type float32"),
        (
            (part("a", np.arange(2), np.float64),),
            "client 'a': expected inputs of type float32, uint8, int32, got float64",
        ),
        ((part("a", np.arange(2), group="x"), part("a", np.arange(2), group="y")), "one group, got 'x' and 'y'"),
        ((part("a", np.arange(2), group="x"), part("b", np.arange(2))), "client 'b': expected a group, as other"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    tmp_path: Path, parts: tuple[ClientSamples, ...], message: str
) -> None:
    with pytest.raises(FileError, match=message):
        write_federated_file(source(*parts), tmp_path / "toy.arrow")
    with pytest.raises(FileError, match=message):
        collect(source(*parts))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nowhere: folder: expected one that exists"):
        write_federated_file(toy(), tmp_path / "nowhere" / "toy.arrow")


def test_clients_without_test_samples_are_counted_and_named(tmp_path: Path) -> None:
    write_federated_file(source(part("a", np.arange(5)), part("b", np.arange(1))), tmp_path / "toy.arrow")
    with pytest.raises(FileError, match=r"one test sample of every client, got none of 1 of 2 clients \('b'\)"):
        as_population(read_columns(tmp_path / "toy.arrow"))


def test_a_cut_file_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "toy.arrow"
    write_federated_file(toy(), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileError, match=r"toy\.arrow: file: expected a federated file \(Arrow\), got one that cannot"):
        read_columns(path)


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file; check the path"):
        read_columns(tmp_path / "toy.arrow")


def rewritten(path: Path, change: Callable[[Any], Any], **metadata: str | None) -> None:
    """Write a toy file anew with another table or other metadata; None: without this entry."""
    write_federated_file(toy(), path)
    with pa.OSFile(str(path)) as file:
        table = change(pa.ipc.open_file(file).read_all())
    told = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    told |= {f"auxo.{key}": value for key, value in metadata.items() if value is not None}
    told = {key: value for key, value in told.items() if metadata.get(key.removeprefix("auxo."), "") is not None}
    table = table.replace_schema_metadata(told)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def with_column(name: str, values: Any) -> Callable[[Any], Any]:
    return lambda table: table.set_column(table.column_names.index(name), name, values)


LABELS = pa.array([0, 1, 7, 2, -1] + [0] * 15, pa.int32())
FEATURES = pa.FixedSizeListArray.from_arrays(pa.array([0.0, np.nan] + [1.0] * 36 + [np.inf, 0.0], pa.float32()), 2)


@pytest.mark.parametrize(
    ("change", "metadata", "message"),
    [
        (lambda table: table, {"format": "9"}, "auxo.format: expected version 1 in its metadata, got format '9'"),
        (lambda table: table, {"format": None}, "an Arrow file of another origin"),
        (lambda table: table, {"classes": "3"}, "auxo.classes: expected a JSON list of strings"),
        (lambda table: table, {"shape": None}, "auxo.shape: expected a JSON list of whole numbers"),
        (lambda table: table, {"shape": "[3]"}, r"features: expected a fixed size list of 3 numbers, of shape \[3\]"),
        (lambda table: table.drop_columns(["label"]), {}, "label: expected the columns client, features, label, split"),
        (lambda table: table.slice(0, 0), {}, "rows: expected at least one sample, got none"),
        (with_column("label", pa.array([0.5] * 20)), {}, "label: expected whole numbers"),
        (with_column("label", pa.array([0, None] * 10, pa.int32())), {}, "row 1, label: expected a value, got nothing"),
        (with_column("label", LABELS), {}, "row 2, label: expected 0 to 2, for 3 classes, got 7"),
        (with_column("client", pa.array(range(20))), {}, "client: expected strings"),
        (
            with_column("split", pa.array(["train", "dev"] * 10)),
            {},
            'row 1, split: expected "train" or "test", got \'dev\'',
        ),
        (with_column("group", pa.array(["x"] * 19 + ["y"])), {}, "group: expected one group for client 'b'"),
        (
            with_column("features", pa.FixedSizeListArray.from_arrays(pa.array([0.0] * 40), 2)),
            {},
            "features: expected numbers of type float32, uint8, int32, got double",
        ),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_place(
    tmp_path: Path, change: Callable[[Any], Any], metadata: dict[str, str | None], message: str
) -> None:
    path = tmp_path / "toy.arrow"
    rewritten(path, change, **metadata)
    with pytest.raises(FileError, match=message):
        read_columns(path)
    (first, *_) = validate(path).problems
    assert str(path) in first


def test_validation_finds_everything_at_once(tmp_path: Path) -> None:
    path = tmp_path / "toy.arrow"
    rewritten(path, lambda table: with_column("features", FEATURES)(with_column("label", LABELS)(table)))
    found = validate(path).problems
    places = [problem.removeprefix(f"{path}: ").split(":")[0] for problem in found]
    assert places == ["row 2, label", "row 4, label", "row 0, features", "row 19, features"]
    assert len(found) < MOST_PROBLEMS


def test_names_that_stand_for_two_clients_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.arrow"
    codes = pa.array(np.repeat([0, 1], 10), pa.int32())
    twice = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "a"]))
    rewritten(path, lambda table: with_column("client", twice)(table.drop_columns(["group"])))
    with pytest.raises(FileError, match="client: expected names that differ, got 'a' as client 0 and 1"):
        read_columns(path)


def test_negative_tokens_are_found(tmp_path: Path) -> None:
    columns = collect(toy(np.int32))
    x = columns.x.copy()
    x[7, 1] = -3
    write_columns(replace(columns, x=x), tmp_path / "toy.arrow")
    (problem,) = validate(tmp_path / "toy.arrow").problems
    assert "row 7, features: expected tokens from 0, got -3" in problem


def test_a_class_without_samples_is_worth_a_warning_only(tmp_path: Path) -> None:
    write_federated_file(replace(toy(), classes=(*CLASSES, "dog")), tmp_path / "toy.arrow")
    found = validate(tmp_path / "toy.arrow")
    assert not found.problems
    assert found.warnings == ("1 of 4 classes have no sample: 'dog'",)
    assert (found.clients, found.train_samples + found.test_samples, found.classes) == (2, 20, 4)


def without_checksum(path: Path) -> None:
    """Make a file of it as older versions wrote them."""
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    metadata = {key: value for key, value in table.schema.metadata.items() if key != b"auxo.checksum"}
    old = table.replace_schema_metadata({key: of for key, of in metadata.items() if key != b"auxo.preparation"})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, old.schema) as writer:
        writer.write_table(old)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_mutated_file_is_refused_or_means_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("mutated") / "toy.arrow"
    write_federated_file(toy(), path)
    whole = read_columns(path)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    try:
        found = read_columns(path)
    except FileError:
        return
    assert found.x.tobytes() == whole.x.tobytes()
    assert found.y.tolist() == whole.y.tolist()
    assert (found.clients, found.classes, found.groups) == (whole.clients, whole.classes, whole.groups)
    assert found.client.tolist() == whole.client.tolist()
    assert found.is_test.tolist() == whole.is_test.tolist()


def test_a_file_without_a_checksum_is_opened_and_its_inputs_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "toy.arrow"
    write_federated_file(toy(), path)
    written = read_columns(path).x.tolist()  # a copy: the file is about to change under its map
    without_checksum(path)
    old = read_columns(path)
    assert old.x.tolist() == written
    assert old.preparation.classes == CLASSES
    rewritten(path, with_column("features", FEATURES))
    without_checksum(path)
    with pytest.raises(FileError, match="row 0, features: expected finite numbers, got"):
        read_columns(path)


def test_a_file_whose_values_have_changed_is_told_apart_from_the_one_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "toy.arrow"
    rewritten(path, with_column("label", pa.array([1] * 20, pa.int32())))
    with pytest.raises(FileError, match=r"auxo\.checksum: expected the values that were written, got others; the file"):
        read_columns(path)
    assert "auxo.checksum" in validate(path).problems[0]

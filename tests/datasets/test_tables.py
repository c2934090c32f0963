"""Users' own tables: columns by name, the three kinds of files, and what is said about those that cannot be used."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from auxo.datasets.columns import Columns
from auxo.datasets.federated_file import as_population, collect, read_columns, write_federated_file
from auxo.datasets.open_dataset import open_dataset
from auxo.datasets.tables import HASHED, WINDOW, TableColumns, table_source
from auxo.datasets.text_features import BY_CHARACTER, hashed_words
from auxo.datasets.validate import validate
from auxo.files.errors import FileError

Write = Callable[[Path, dict[str, Any]], Path]


def as_parquet(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "table.parquet"
    parquet.write_table(pa.table(columns), path, row_group_size=3)
    return path


def as_folder(folder: Path, columns: dict[str, Any]) -> Path:
    table = pa.table(columns)
    (folder / "parts").mkdir()
    parquet.write_table(table.slice(0, 2), folder / "parts" / "0.parquet")
    parquet.write_table(table.slice(2), folder / "parts" / "1.parquet")
    return folder / "parts"


def as_csv(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "table.csv"
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(str(value) for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def as_npz(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "table.npz"
    arrays: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
    np.savez(path, **arrays)
    return path


def read(path: Path, columns: TableColumns | None = None) -> Columns:
    """Return a table as it is, without standardised columns."""
    return collect(table_source(path, replace(columns or TableColumns(), standardise=False)))


def by_client(columns: Columns) -> dict[str, list[tuple[list[float], str, bool]]]:
    """Return every client's samples: inputs, name of the label, whether to test with it."""
    found: dict[str, list[tuple[list[float], str, bool]]] = {}
    for row, client in enumerate(columns.client):
        sample = columns.x[row].ravel().tolist(), columns.classes[columns.y[row]], bool(columns.is_test[row])
        found.setdefault(columns.clients[client], []).append(sample)
    return found


PLAIN: dict[str, Any] = {
    "client": ["u1", "u2", "u1", "u2", "u1", "u2"],
    "height": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "width": [0, 1, 2, 3, 4, 5],
    "label": [0, 2, 1, 0, 2, 1],
    "split": ["train", "train", "test", "test", "train", "train"],
    "group": ["x", "y", "x", "y", "x", "y"],
}


@pytest.mark.parametrize("write", [as_parquet, as_folder, as_csv, as_npz])
def test_every_kind_of_file_gives_the_same_samples(tmp_path: Path, write: Write) -> None:
    columns = read(write(tmp_path, PLAIN))
    assert by_client(columns) == {
        "u1": [([0.5, 0.0], "0", False), ([2.5, 2.0], "1", True), ([4.5, 4.0], "2", False)],
        "u2": [([1.5, 1.0], "2", False), ([3.5, 3.0], "0", True), ([5.5, 5.0], "1", False)],
    }
    assert columns.x.dtype == np.float32
    assert columns.group is not None
    assert {columns.clients[i]: columns.groups[g] for i, g in enumerate(columns.group)} == {"u1": "x", "u2": "y"}


@pytest.mark.parametrize("write", [as_parquet, as_csv, as_npz])
def test_columns_may_have_any_names(tmp_path: Path, write: Write) -> None:
    renamed = {"user_id": [7, 8, 7, 8], "h": [1, 2, 3, 4], "w": [5, 6, 7, 8], "day": [9, 9, 9, 9], "kind": [0, 1, 1, 0]}
    columns = read(write(tmp_path, renamed), TableColumns(client="user_id", features=("w", "h"), label="kind"))
    assert [inputs for inputs, *_ in by_client(columns)["7"]] == [[5, 1], [7, 3]]
    assert [label for _, label, _ in by_client(columns)["8"]] == ["1", "0"]


@pytest.mark.parametrize("write", [as_parquet, as_csv, as_npz])
def test_labels_that_are_names_are_numbered_in_sorted_order(tmp_path: Path, write: Write) -> None:
    columns = read(write(tmp_path, PLAIN | {"label": ["dog", "cat", "dog", "ant", "cat", "dog"]}))
    assert columns.classes == ("ant", "cat", "dog")
    assert [label for _, label, _ in by_client(columns)["u1"]] == ["dog", "dog", "cat"]


@pytest.mark.parametrize("write", [as_parquet, as_csv, as_npz])
@pytest.mark.parametrize("flags", [[True, False] * 3, [1, 0] * 3])
def test_a_column_called_test_may_hold_flags(tmp_path: Path, write: Write, flags: list[object]) -> None:
    columns = {name: values for name, values in PLAIN.items() if name != "split"} | {"test": flags}
    assert [is_test for *_, is_test in by_client(read(write(tmp_path, columns)))["u1"]] == [True, True, True]


def test_without_a_split_some_samples_of_every_client_are_held_out(tmp_path: Path) -> None:
    columns = {name: values * 10 for name, values in PLAIN.items() if name != "split"}
    read_columns = read(as_parquet(tmp_path, columns), TableColumns(test_share=0.3))
    assert {name: sum(test for *_, test in own) for name, own in by_client(read_columns).items()} == {"u1": 9, "u2": 9}


def test_levels_stay_levels_and_nested_lists_give_the_shape(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
    features = pa.array(images.tolist(), pa.list_(pa.list_(pa.uint8())))
    columns = read(as_parquet(tmp_path, PLAIN | {"features": features}))
    assert columns.x.dtype == np.uint8
    assert columns.x.shape == (6, 2, 2)
    assert columns.x[columns.clients.index("u1") * 3 + 1].tolist() == images[2].tolist()


def test_many_columns_of_levels_stay_levels_in_a_shape_that_is_given(tmp_path: Path) -> None:
    levels = {f"pixel{number}": np.full(6, number, np.uint8) for number in range(4)}
    columns = read(as_npz(tmp_path, PLAIN | levels), TableColumns(features=tuple(levels), shape=(2, 2)))
    assert columns.x.dtype == np.uint8
    assert columns.x[0].tolist() == [[0, 1], [2, 3]]


def test_fixed_size_lists_and_dictionaries_are_read(tmp_path: Path) -> None:
    features = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12.0)), 2)
    client = pa.array(PLAIN["client"]).dictionary_encode()
    columns = read(as_parquet(tmp_path, PLAIN | {"features": features, "client": client}))
    assert [inputs for inputs, *_ in by_client(columns)["u2"]] == [[2, 3], [6, 7], [10, 11]]


def test_tokens_are_kept_as_tokens(tmp_path: Path) -> None:
    features = pa.array([[1, 2, 3]] * 6)
    columns = read(as_parquet(tmp_path, PLAIN | {"features": features}), TableColumns(tokens=True))
    assert columns.x.dtype == np.int32


def test_texts_become_hashed_words(tmp_path: Path) -> None:
    texts = [f"number {row} is fine" for row in range(6)]
    columns = read(as_csv(tmp_path, PLAIN | {"text": texts}), TableColumns(text="hashed"))
    assert columns.x.shape == (6, HASHED)
    assert (columns.x[0] == hashed_words(texts[0], HASHED)).all()


def test_texts_become_windows_before_the_next_character_and_need_no_label(tmp_path: Path) -> None:
    columns = read(
        as_parquet(tmp_path, {"client": ["a", "b"], "text": ["hello", "x" * 1000]}), TableColumns(text="characters")
    )
    own = by_client(columns)
    assert columns.classes == BY_CHARACTER.names
    assert columns.x.shape[1:] == (WINDOW,)
    assert "".join(label for _, label, _ in own["a"]) == "hello"
    assert [is_test for *_, is_test in own["a"]] == [False, False, False, False, True]
    assert own["a"][2][0][-3:] == [0, *BY_CHARACTER.tokens("he").tolist()]
    assert len(own["b"]) < 1000


def test_a_split_of_texts_is_that_of_all_their_windows(tmp_path: Path) -> None:
    table = {"client": ["a", "a"], "text": ["one", "two"], "split": ["test", "train"]}
    columns = read(as_parquet(tmp_path, table), TableColumns(text="characters"))
    assert [is_test for *_, is_test in by_client(columns)["a"]] == [True] * 3 + [False] * 3


def test_parts_of_a_large_table_fit_together(tmp_path: Path) -> None:
    rows = 10_000  # more than are read at once
    table = {"client": [f"c{row % 7}" for row in range(rows)], "value": np.arange(rows), "label": np.arange(rows) % 5}
    whole = read(as_parquet(tmp_path, table))
    assert sorted(whole.x[:, 0].tolist()) == list(range(rows))
    for client, name in enumerate(whole.clients):
        mine = whole.client == client
        assert (whole.x[mine, 0] % 7 == int(name[1:])).all()
        assert (np.diff(whole.x[mine, 0]) > 0).all()
        assert (whole.y[mine] == whole.x[mine, 0] % 5).all()
        assert whole.is_test[mine].sum() == round(0.2 * mine.sum())


@pytest.mark.parametrize(
    ("write", "change", "asked", "message"),
    [
        (as_parquet, {}, {"client": "user"}, "column 'user': expected it, for client, got the columns client, height"),
        (as_parquet, {}, {"label": "lable"}, r"did you mean 'label'\? name the right one with --label"),
        (as_parquet, {"features": [1] * 6}, {"features": "feature"}, r"did you mean 'features'\? .* --features"),
        (as_parquet, {}, {"text": "hashed"}, "column 'text': expected it, for features"),
        (as_parquet, {"label": [0, 1, -1, 0, 0, 0]}, {}, "row 2, label: expected a class.* got -1; number the classes"),
        (as_parquet, {"label": [0, 1, 0, 0.5, 0, 0]}, {}, r"row 3, label: .* got 0\.5"),
        (as_parquet, {"label": [0, 1, 0, 0, 10**7, 0]}, {}, "row 4, label: .* got 10000000"),
        (as_parquet, {"label": [0, 1, None, 0, 0, 0]}, {}, "row 2, label: .* got 1 of 6 rows have missing values"),
        (as_parquet, {"label": [[0]] * 6}, {}, "row 0, label: .* got lists of"),
        (as_csv, {"label": [0, 1, 0, 2.5, 0, 0]}, {}, r"line 5, label: .* got 2\.5"),
        (as_csv, {"label": ["a", "b", "", "a", "a", "a"]}, {}, r"line 4, label: .* \(label: 1\); leave these"),
        (as_parquet, {"height": [0.0, np.nan, 0, 0, 0, 0]}, {}, r"row 1, height: .* \(height: 1\); leave these"),
        (as_csv, {"height": [0, 0, "inf", 0, 0, 0]}, {}, "line 4, height: expected a finite number, got 'inf'"),
        (
            as_csv,
            {"height": [0, 0, "tall", 0, 0, 0]},
            {},
            "line 4, height: expected a finite number, got 'tall'.*--categories height",
        ),
        (as_parquet, {"height": [1e300] * 6}, {}, "column 'height': expected numbers that fit float32"),
        (as_parquet, {"client": ["a", "", "a", "b", "a", "b"]}, {}, "row 1, client: .* got 1 of 6 rows have missing"),
        (as_parquet, {"client": [0.5] * 6}, {}, "row 0, client: expected names or whole numbers, got float64"),
        (as_parquet, {"split": ["train", "dev"] * 3}, {}, 'row 1, split: expected "train" or "test", got \'dev\''),
        (as_npz, {"split": [1, 0] * 3}, {}, 'row 0, split: expected "train" or "test", got \'1\''),
        (as_parquet, {"group": ["x", "y", "x", "y", "z", "y"]}, {}, "group: expected one group.* got 'x' and 'z'"),
        (as_parquet, {"features": [[1, 2]] * 4 + [[1], [1, 2]]}, {}, "row 4, features: expected 2 values.* got 1"),
        (as_parquet, {"features": [[1, None]] * 6}, {}, "row 0, features: expected a value, got nothing"),
        (as_parquet, {"features": [[1, 2]] * 6}, {"shape": (3,)}, "expected 3 numbers, for the shape 3, got 2"),
        (as_parquet, {"features": [[1, -2]] * 6}, {"tokens": True}, "expected tokens: whole numbers from 0, got -2"),
        (as_parquet, {"features": [b"bytes"] * 6}, {}, "features: expected numbers, strings, .* got binary"),
        (as_parquet, {"a": [[1]] * 6}, {"features": ("a", "height")}, "expected one column of lists, or columns of"),
        (as_parquet, {}, {"features": "width", "text": "hashed"}, "width: expected text, got int64; leave --text out"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place_and_a_remedy(
    tmp_path: Path, write: Write, change: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, PLAIN | change)
    with pytest.raises(FileError, match=message) as caught:
        read(path, TableColumns(**asked))
    assert str(caught.value).startswith(str(path))


def test_a_shape_that_changes_between_files_is_named(tmp_path: Path) -> None:
    for number, size in enumerate((2, 3)):
        table = {"client": ["a"] * 2, "features": [[1.0] * size] * 2, "label": [0, 1]}
        parquet.write_table(pa.table(table), tmp_path / f"{number}.parquet")
    with pytest.raises(FileError, match=r"1\.parquet: row 0, features: expected inputs of shape \(2,\), as before"):
        read(tmp_path)


def test_files_of_a_folder_need_the_same_columns(tmp_path: Path) -> None:
    parquet.write_table(pa.table(PLAIN), tmp_path / "0.parquet")
    parquet.write_table(pa.table(PLAIN).drop_columns(["width"]), tmp_path / "1.parquet")
    with pytest.raises(FileError, match=r"1\.parquet: width: expected the columns of 0\.parquet"):
        read(tmp_path)


def test_a_truncated_parquet_file_is_reported_as_damaged(tmp_path: Path) -> None:
    path = as_parquet(tmp_path, PLAIN)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(FileError, match=r"table\.parquet: file: expected a complete parquet file.* copy it again"):
        read(path)


def test_text_in_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("client,text,label\na,plain,0\na,caf\xe9,1\n".encode("latin-1"))
    with pytest.raises(FileError, match="line 3: expected text in UTF-8, got the byte 0xe9; save the file"):
        read(path, TableColumns(text="hashed"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the names of the columns, got nothing"),
        ("client,a,a\n", "line 1: expected the names of the columns, got 'client', 'a', 'a'"),
        ("client,a,label\nu,1,0\nu,1\n", "line 3: expected 3 values, as there are columns, got 2"),
        ('client,a,label\nu,1,0\n"u,1,0\n', "line 3: expected values and commas, got unexpected end of data"),
        ("client,a,label\n", "column 'features': expected it, for features"),
    ],
)
def test_a_csv_file_of_another_form_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message):
        read(tmp_path / "table.csv")


def test_lines_in_quotation_marks_and_a_byte_order_mark_are_understood(tmp_path: Path) -> None:
    text = '\ufeffclient,text,label\n"Smith, J.","two\nlines",0\n\n"Smith, J.",more,1\n'
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    assert list(by_client(read(tmp_path / "table.csv", TableColumns(text="hashed")))) == ["Smith, J."]


def test_a_column_of_numbers_that_begins_with_a_gap_is_not_left_out(tmp_path: Path) -> None:
    gap = as_csv(tmp_path, PLAIN | {"height": ["", 1.5, 2.5, 3.5, 4.5, 5.5]})
    with pytest.raises(FileError, match="line 2, height: expected a value in every row"):
        read(gap)


def test_strings_of_bytes_are_text(tmp_path: Path) -> None:
    texts = ("client", "split", "group")
    as_bytes = {name: [value.encode() for value in PLAIN[name]] for name in texts}
    found = read(as_npz(tmp_path, PLAIN | as_bytes))
    assert by_client(found) == by_client(read(as_npz(tmp_path, PLAIN)))
    assert found.groups == ("x", "y")
    path = as_npz(tmp_path, PLAIN | {"client": [b"\xff"] * 6})
    with pytest.raises(FileError, match=r"client: expected an npz archive of arrays, got one .*0xff"):
        read(path)


def test_labels_that_are_numbers_in_one_file_and_names_in_another_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table(PLAIN), tmp_path / "0.parquet")
    parquet.write_table(pa.table(PLAIN | {"label": list("abcabc")}), tmp_path / "1.parquet")
    with pytest.raises(FileError, match=r"1\.parquet: row 0, label: expected a whole number.* got 'a'; use numbers"):
        read(tmp_path)


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    empty = pa.table(PLAIN).slice(0, 0)
    parquet.write_table(empty, tmp_path / "table.parquet")
    with pytest.raises(FileError, match="rows: expected at least one sample, got none"):
        read(tmp_path / "table.parquet")


def test_arrays_of_other_lengths_and_objects_are_refused(tmp_path: Path) -> None:
    path = as_npz(tmp_path, {"client": [1, 2], "x": [1.0], "y": [0, 1]})
    with pytest.raises(FileError, match=r"arrays: expected some of the same length, got client \(2,\), x \(1,\)"):
        read(path)
    np.savez(path, x=np.array([{}]), allow_pickle=True)
    with pytest.raises(FileError, match="x: expected an npz archive of arrays, got one that cannot be read"):
        read(path)


@pytest.mark.parametrize("name", ["nothing.parquet", "table.xlsx", "folder"])
def test_a_path_that_is_no_table_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "table.xlsx").write_text("?")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match=f"{name}: (file|folder): expected"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "value"), [("test_share", 0.0), ("test_share", 1.0), ("shape", ()), ("shape", (2, 0))]
)
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"{name}: expected"):
        TableColumns(**settings)


@pytest.mark.parametrize("write", [as_parquet, as_folder, as_csv])
def test_a_table_with_common_names_is_opened_as_it_is(tmp_path: Path, write: Write) -> None:
    data = open_dataset(write(tmp_path, PLAIN))
    assert data.client_names == ("u1", "u2")
    assert (len(data.train.y), len(data.test.y), data.n_classes) == (4, 2, 3)


def test_population_files_are_opened_as_before(tmp_path: Path) -> None:
    columns = {"x": np.eye(4), "y": [0, 1, 0, 1], "client": ["a", "a", "b", "b"], "test": [True, False] * 2}
    assert open_dataset(as_npz(tmp_path, columns)).client_names == ("a", "b")
    with pytest.raises(FileError, match="expected the arrays x, y, client, test"):
        open_dataset(as_npz(tmp_path, PLAIN))


@pytest.mark.parametrize("name", ["study.toml", "nothing.arrow"])
def test_a_file_of_no_known_kind_is_refused_with_those_that_are_known(tmp_path: Path, name: str) -> None:
    (tmp_path / "study.toml").write_text("")
    with pytest.raises(FileError, match=r"expected a data set: \.arrow or \.feather \(federated files\), \.parquet"):
        open_dataset(tmp_path / name)


def wide(gaps: bool = False) -> dict[str, Any]:
    """Return a table with a narrow and a wide column, and perhaps some gaps."""
    rows = 40
    table: dict[str, Any] = {
        "client": [f"c{row % 4}" for row in range(rows)],
        "narrow": [row % 3 for row in range(rows)],
        "wide": [2500.0 * (row % 40) for row in range(rows)],
        "label": ["no", "yes"] * (rows // 2),
    }
    if gaps:
        table["narrow"][3] = table["narrow"][8] = table["wide"][8] = table["label"][20] = None
    return table


def with_gaps_as_words(table: dict[str, Any], word: str) -> dict[str, Any]:
    return {name: [word if value is None else value for value in values] for name, values in table.items()}


def test_columns_of_a_table_are_standardised_each_by_its_training_samples(tmp_path: Path) -> None:
    columns = collect(table_source(as_csv(tmp_path, wide())))
    train = columns.x[~columns.is_test]
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(train.std(axis=0), 1, atol=1e-6)
    raw = read(as_csv(tmp_path, wide()))
    done = columns.preparation
    assert done.columns == ("narrow", "wide")
    assert done.classes == ("no", "yes")
    assert (done.client, done.label) == ("client", ("label",))
    np.testing.assert_array_equal(done.apply(raw.x), columns.x)  # the same can be done to other samples


def test_a_wide_column_keeps_what_single_precision_would_lose(tmp_path: Path) -> None:
    times = [1_700_000_000 + row for row in range(40)]
    columns = collect(table_source(as_parquet(tmp_path, wide() | {"wide": times})))
    assert len(np.unique(columns.x[:, 1])) == 40


def test_arrays_levels_and_shapes_stay_as_they_are(tmp_path: Path) -> None:
    lists = {"features": [[float(row), 2.0] for row in range(40)]}
    table = {name: values for name, values in wide().items() if name in ("client", "label")}
    kept = collect(table_source(as_parquet(tmp_path, table | lists)))
    assert sorted(kept.x[:, 0].tolist()) == list(range(40))
    assert not kept.preparation.is_standardised
    levels = {"a": np.arange(40, dtype=np.uint8), "b": np.arange(40, dtype=np.uint8)}
    assert collect(table_source(as_parquet(tmp_path, table | levels))).x.dtype == np.uint8
    shaped = collect(table_source(as_csv(tmp_path, wide()), TableColumns(shape=(1, 2))))
    assert shaped.x.max() == 2500 * 39


@pytest.mark.parametrize(("write", "word"), [(as_parquet, None), (as_csv, ""), (as_csv, "NA"), (as_csv, "nan")])
def test_missing_values_are_counted_over_all_rows_and_dropped_or_filled(
    tmp_path: Path, write: Write, word: str | None
) -> None:
    table = wide(gaps=True)
    if word is not None:
        table = with_gaps_as_words(table, word) | {
            "label": ["" if label is None else label for label in table["label"]]  # any other word is a class
        }
    path = write(tmp_path, table)
    with pytest.raises(FileError, match=r"3 of 40 rows have missing values \(narrow: 2, label: 1, wide: 1\)"):
        collect(table_source(path))
    dropped = collect(table_source(path, TableColumns(missing="drop")))
    assert len(dropped.y) == 37
    assert dropped.classes == ("no", "yes")
    filled = collect(table_source(path, TableColumns(missing="mean")))
    assert len(filled.y) == 39  # a label cannot be made up
    assert np.isfinite(filled.x).all()
    assert np.count_nonzero(np.abs(filled.x[:, 0]) < 1e-6) == 2  # gaps are at the mean, which is 0
    (told, *_) = filled.preparation.notes
    assert told.endswith("they were filled with the columns' means, and those without a label left out")
    np.testing.assert_allclose(filled.preparation.apply(np.array([[np.nan, np.nan]])), 0, atol=1e-7)


def test_long_ids_with_gaps_beside_them_stay_what_they_are(tmp_path: Path) -> None:
    ids = [2**60 + row % 4 for row in range(40)]
    ids[5] = None  # type: ignore[call-overload]
    columns = collect(table_source(as_parquet(tmp_path, wide() | {"client": ids}), TableColumns(missing="drop")))
    assert set(columns.clients) == {str(2**60 + row) for row in range(4)}


def test_whole_labels_with_gaps_stay_numbers(tmp_path: Path) -> None:
    labels = [10 if row % 2 else 2 for row in range(40)]
    labels[7] = None  # type: ignore[call-overload]
    columns = collect(table_source(as_parquet(tmp_path, wide() | {"label": labels}), TableColumns(missing="drop")))
    assert len(columns.classes) == 11
    assert set(columns.y.tolist()) == {2, 10}


@pytest.mark.parametrize(
    ("name", "values", "looks"),
    [
        ("order_id", [7, 3] * 20, "an id"),
        ("userId", [7, 3] * 20, "an id"),
        ("created_at", [1.5] * 40, "a time"),
        ("when", [1_700_000_000 - 60 * row for row in range(40)], "a time"),
        ("nr", list(range(1, 41)), "a number of rows"),
        ("voucher", [500 + 7 * row % 41 for row in range(40)], "an id (no two rows have the same)"),
    ],
)
def test_ids_and_times_among_inputs_are_told(tmp_path: Path, name: str, values: list[float], looks: str) -> None:
    table = {"client": wide()["client"], name: values, "narrow": wide()["narrow"], "label": wide()["label"]}
    (note,) = collect(table_source(as_csv(tmp_path, table))).preparation.notes
    assert note.startswith(f"column {name!r} became an input, but looks like {looks}")


def test_columns_that_vary_are_not_taken_for_ids(tmp_path: Path) -> None:
    pay = [(row * 7919) % 10_007 for row in range(40)]  # whole numbers that happen to be different
    table = wide() | {"width": [0.5 * row for row in range(40)], "idea": [row % 7 for row in range(40)], "pay": pay}
    notes = collect(table_source(as_csv(tmp_path, table))).preparation.notes
    assert [note.split("'")[1] for note in notes] == ["wide"]  # which does ascend by whole numbers


def test_numbers_to_be_learned_are_standardised_and_come_back_in_their_units(tmp_path: Path) -> None:
    table = wide() | {"label": [1e5 + 1e3 * row for row in range(40)]}
    path = tmp_path / "homes.arrow"
    write_federated_file(table_source(as_parquet(tmp_path, table), TableColumns(task="regression")), path)
    columns = read_columns(path)
    assert columns.targets is not None
    assert columns.targets.shape == (40, 1)
    train = columns.targets[~columns.is_test]
    assert float(train.mean()) == pytest.approx(0, abs=1e-6)
    assert float(train.std()) == pytest.approx(1)
    found = sorted(columns.preparation.predicted(columns.targets).ravel().tolist())
    assert found == pytest.approx([1e5 + 1e3 * row for row in range(40)])
    data = as_population(columns)
    assert (data.task, data.n_classes) == ("regression", 1)
    inputs, answers = data.inputs(data.train.x_rows), data.answers(data.train.y)
    np.testing.assert_allclose(answers[:, 0], inputs[:, 1], atol=1e-5)  # ``wide`` ascends with the label
    assert validate(path).problems == ()


def test_labels_of_a_sample_are_columns_of_flags_or_names_in_one(tmp_path: Path) -> None:
    flags = {"red": [1, 0] * 20, "tall": ["true", "false", "false", "true"] * 10}
    table = {name: values for name, values in wide().items() if name != "label"}
    several = TableColumns(task="multi-label", label=("red", "tall"), features=("narrow", "wide"))
    by_flags = collect(table_source(as_csv(tmp_path, table | flags), several))
    names = ["red; tall", ";", "red", "tall"] * 10
    named = TableColumns(task="multi-label", label="tags", features=("narrow", "wide"))
    by_names = collect(table_source(as_csv(tmp_path, table | {"tags": names}), named))
    assert by_names.classes == by_flags.classes == ("red", "tall")
    assert by_flags.targets is not None
    assert by_names.targets is not None
    assert by_flags.targets.tolist() == by_names.targets.tolist()


@pytest.mark.parametrize("write", [as_csv, as_parquet])
def test_an_empty_cell_is_no_label_rather_than_none_of_the_labels(tmp_path: Path, write: Write) -> None:
    tags = ["a;b", ";", "", "b"] * 10
    path = write(tmp_path, {name: values for name, values in wide().items() if name != "label"} | {"tags": tags})
    named = TableColumns(task="multi-label", label="tags")
    words = r"10 of 40 rows have missing values \(tags: 10\).*write ; for a sample that has none of the labels"
    with pytest.raises(FileError, match=words):
        collect(table_source(path, named))
    kept = collect(table_source(path, replace(named, missing="drop")))
    assert kept.targets is not None
    assert (kept.targets.sum(axis=1) == 0).sum() == 10


@pytest.mark.parametrize(
    ("asked", "change", "message"),
    [
        ({"task": "regression"}, {"label": ["cheap"] * 40}, "row 0, label: expected a number to be learned"),
        ({"task": "regression"}, {"label": [np.inf] * 40}, "row 0, label: expected a number to be learned"),
        ({"task": "regression"}, {"label": [None] + [1.0] * 39}, r"1 of 40 rows have missing values \(label: 1\)"),
        ({"task": "multi-label", "label": ("narrow", "wide")}, {}, "row 2, narrow: expected 0 or 1, true or false"),
    ],
)
def test_targets_that_cannot_be_used_are_named(
    tmp_path: Path, asked: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    path = as_parquet(tmp_path, wide() | change)
    with pytest.raises(FileError, match=message):
        collect(table_source(path, TableColumns(**asked | {"features": "wide"})))


def with_columns(**more: list[Any]) -> dict[str, Any]:
    return PLAIN | {name: values * 2 for name, values in more.items()}


def notes(path: Path, **asked: Any) -> tuple[str, ...]:
    return collect(table_source(path, TableColumns(**asked))).preparation.notes


@pytest.mark.parametrize("write", [as_csv, as_parquet])
def test_every_column_that_is_no_input_is_named_with_the_reason(tmp_path: Path, write: Write) -> None:
    times = [f"2026-01-0{day}T08:00" for day in (1, 2, 3)]
    when = times if write is as_csv else np.array(times, dtype="datetime64[s]").tolist()
    told = notes(write(tmp_path, with_columns(city=["Rome", "Oslo", "Rome"], when=when)))
    assert told == (
        "column 'city' is no input: it holds text; --categories city makes an input of each of its values",
        "column 'when' is no input: it holds times; make numbers of them first, such as hours or weekdays",
    )
    assert notes(tmp_path / ("table.csv" if write is as_csv else "table.parquet"), features=("height", "width")) == ()


def test_numbers_beside_a_column_of_features_are_named(tmp_path: Path) -> None:
    (told, _) = notes(as_parquet(tmp_path, with_columns(features=[[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])))
    assert told.startswith("column 'height' is no input: 'features' is; name the columns")


@pytest.mark.parametrize("write", [as_csv, as_parquet])
def test_categories_become_inputs_when_asked_and_gaps_in_them_are_gaps(tmp_path: Path, write: Write) -> None:
    gap = "" if write is as_csv else None
    path = write(tmp_path, with_columns(city=["Rome", gap, "Oslo"]))
    with pytest.raises(FileError, match=r"2 of 6 rows have missing values \(city: 2\)"):
        read(path, TableColumns(categories=("city",)))
    made = read(path, TableColumns(categories=("city",), missing="drop"))
    assert made.preparation.columns == ("height", "width", "city=Oslo", "city=Rome")
    assert sorted(made.x.tolist()) == [[0.5, 0, 0, 1], [2.5, 2, 1, 0], [3.5, 3, 0, 1], [5.5, 5, 1, 0]]
    again = through_a_file(path, TableColumns(categories=("city",), missing="mean"), tmp_path / "made.arrow")
    assert again.preparation.categories == (("city", ("Oslo", "Rome")),)
    with pytest.raises(FileError, match=r"column 'town': expected it, for categories.*--categories"):
        read(path, TableColumns(categories=("town",)))


def through_a_file(path: Path, columns: TableColumns, out: Path) -> Columns:
    write_federated_file(table_source(path, columns), out)
    return read_columns(out)


def test_too_many_categories_are_no_categories(tmp_path: Path) -> None:
    rows = 1200
    columns = {
        "client": ["a", "b"] * (rows // 2),
        "label": [0, 1, 1, 0] * (rows // 4),
        "name": list(map(str, range(rows))),
    }
    with pytest.raises(FileError, match="column 'name': expected at most 1,000 categories"):
        table_source(as_parquet(tmp_path, columns), TableColumns(categories=("name",)))


@pytest.mark.parametrize("write", [as_csv, as_parquet, as_npz])
@pytest.mark.parametrize("has_gaps", [False, True])
def test_booleans_are_numbers(tmp_path: Path, write: Write, has_gaps: bool) -> None:
    if write is as_npz and has_gaps:
        return
    flags: list[Any] = [True, "NA" if write is as_csv else None, False] if has_gaps else [True, True, False]
    made = read(write(tmp_path, with_columns(member=flags)), TableColumns(missing="drop"))
    assert made.preparation.columns == ("height", "width", "member")
    assert set(made.x[:, 2].tolist()) == {0.0, 1.0}
    assert len(made.x) == (4 if has_gaps else 6)


def test_decimals_of_parquet_are_numbers(tmp_path: Path) -> None:
    decimals = pa.array([Decimal("1.5"), Decimal("2.5")] * 3)
    assert read(as_parquet(tmp_path, PLAIN | {"price": decimals})).preparation.columns[-1] == "price"


def test_semicolons_between_values_and_decimal_commas_are_understood(tmp_path: Path) -> None:
    plain = read(as_csv(tmp_path, PLAIN))
    text = (tmp_path / "table.csv").read_text(encoding="utf-8").replace(",", ";").replace(".", ",")
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    other = read(tmp_path / "table.csv")
    assert by_client(plain) == by_client(other)
    assert plain.preparation == other.preparation
    (tmp_path / "table.csv").write_text(text.replace("3,5", "3.5"), encoding="utf-8")
    with pytest.raises(FileError, match=r"line 5, height: expected one decimal sign .* got '3\.5' and '0,5'"):
        read(tmp_path / "table.csv")


def test_commas_in_numbers_between_commas_are_refused(tmp_path: Path) -> None:
    path = as_csv(tmp_path, with_columns(pay=['"1,500"', '"2,250"', '"1,750"']))
    words = "column 'pay': expected numbers with a decimal point, got commas, which may stand for thousands; write them"
    with pytest.raises(FileError, match=words):
        read(path)


def test_a_column_that_begins_with_na_is_a_column_of_numbers(tmp_path: Path) -> None:
    made = read(as_csv(tmp_path, PLAIN | {"age": ["NA", 1, 2, 3, 4, 5]}), TableColumns(missing="drop"))
    assert "age" in made.preparation.columns

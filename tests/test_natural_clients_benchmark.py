"""Data sets with natural clients: from small files of the same form, and from the real ones where they are."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from natural_clients import LOADERS, accounts, main, natural_population, reviewers, roles, speech, writers
from pyarrow import parquet

from auxo.datasets.columns import Columns
from auxo.datasets.federated_file import collect
from auxo.datasets.open_dataset import open_dataset
from auxo.datasets.text_features import BY_CHARACTER, hashed_words

REAL = os.environ.get("AUXO_DATA")


def save_writers(folder: Path) -> None:
    """Writers 3 and 8 have 20 digits each, of which the pixels say whose they are; writer 5 has too few."""
    writer = np.repeat([8, 3, 5], [20, 20, 19])
    np.savez(
        folder / "mnist_by_writer.npz",
        x=np.repeat(writer, 4).reshape(-1, 2, 2).astype(np.uint8),
        y=np.arange(len(writer)) % 10,
        writer=writer,
        hsf=np.where(writer == 8, 4, 0),
    )


def owners(columns: Columns) -> list[str]:
    return [columns.clients[number] for number in columns.client]


def test_writers_are_clients_in_two_groups_and_those_with_few_digits_are_left_out(tmp_path: Path) -> None:
    save_writers(tmp_path)
    columns = collect(writers(tmp_path))
    assert columns.clients == ("writer-0003", "writer-0008")
    assert columns.group is not None
    assert [columns.groups[number] for number in columns.group] == ["census staff", "pupils"]
    assert (columns.x[:, 0, 0] == [int(name[-1]) for name in owners(columns)]).all()
    assert columns.x.dtype == np.uint8
    assert columns.is_test.sum() == 12  # three tenths of each


def test_speakers_are_cut_into_parts_and_words_of_two_sources_are_told_apart(tmp_path: Path) -> None:
    kinds = (("audiomnist_mel32.npz", 10), ("dspspeech20_mel32.npz", 20))
    for name, words in kinds:
        y = np.arange(80) % words
        x = np.repeat(y, 4).reshape(-1, 2, 2).astype(np.uint8)
        np.savez(tmp_path / name, x=x, y=y, speaker=np.repeat([1, 2], 40), classes=[f"w{n}" for n in range(words)])
    columns = collect(speech(tmp_path))
    assert len(columns.clients) == 2 * 2 * 8
    assert columns.classes[9:12] == ("digit 9", "w0", "w1")
    assert len(columns.classes) == 30
    assert columns.group is not None
    group = np.array(columns.groups)[columns.group[columns.client]]
    assert (columns.y == columns.x[:, 0, 0] + np.where(group == "commands", 10, 0)).all()
    assert sorted(np.bincount(columns.client).tolist()) == [5] * 32


def save_reviews(folder: Path) -> None:
    columns = {
        "reviewerID": ["r2"] * 5 + ["r1"] * 5 + ["r3"] * 4,
        "reviewText": [f"review {row}" for row in range(13)] + [None],
        "overall": pa.array([1 + row % 5 for row in range(14)], pa.int8()),
    }
    parquet.write_table(pa.table(columns), folder / "amazon_reviews_by_reviewer.parquet")


def test_reviewers_with_five_reviews_are_clients_and_stars_are_labels(tmp_path: Path) -> None:
    save_reviews(tmp_path)
    columns = collect(reviewers(tmp_path))
    assert columns.clients == ("r1", "r2")
    assert columns.classes == ("1", "2", "3", "4", "5")
    assert columns.y.tolist() == [0, 1, 2, 3, 4] * 2
    assert (columns.x[0] == hashed_words("review 5", columns.x.shape[1])).all()


@pytest.mark.parametrize(
    ("load", "file", "client"),
    [(accounts, "congresstweets_by_account.parquet", "user_id"), (roles, "shakespeare_by_role.parquet", "client")],
)
def test_authors_are_clients_and_the_next_character_is_the_label(
    tmp_path: Path, load: Any, file: str, client: str
) -> None:
    text = "To be, or not to be. " * 60
    table = pa.table({client: ["b", "a", "few", "b"], "text": [text, text, "short", None]})
    parquet.write_table(table, tmp_path / file)
    columns = collect(load(tmp_path))
    assert columns.clients == ("a", "b")
    assert columns.x.dtype == np.int32
    for row in np.flatnonzero(columns.client == 0)[20:].tolist():  # past the beginning, windows are full
        before = "".join(BY_CHARACTER.names[token] for token in columns.x[row])
        assert before + columns.classes[columns.y[row]] in text
    own = columns.is_test[columns.client == 0]
    assert own.sum() == 90
    assert own[-90:].all()


@pytest.mark.parametrize("name", LOADERS)
def test_a_folder_without_the_files_is_told_which_is_missing(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        natural_population(name, tmp_path)


def test_the_file_that_is_written_holds_the_population_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_writers(tmp_path)
    out = tmp_path / "made" / "writers.arrow"
    monkeypatch.setattr("sys.argv", ["natural_clients.py", "writers", str(tmp_path), str(out)])
    main()
    assert f"auxo compare writers --population {out}" in capsys.readouterr().out
    read, direct = open_dataset(out), natural_population("writers", tmp_path)
    assert (read.name, read.client_names) == (direct.name, direct.client_names)
    for one, other in ((read.train, direct.train), (read.test, direct.test)):
        np.testing.assert_array_equal(one.y, other.y)
        np.testing.assert_array_equal(read.numbers(one.x_rows), direct.numbers(other.x_rows))


@pytest.mark.slow
@pytest.mark.skipif(REAL is None, reason="the files are not part of Auxo; the variable AUXO_DATA names their folder")
@pytest.mark.parametrize(
    ("name", "clients", "classes"),
    [("writers", 723, 10), ("speech", 752, 30), ("reviewers", 2491, 5), ("accounts", 1158, 94), ("roles", 671, 94)],
)
def test_the_real_files_have_the_clients_and_classes_that_are_known(name: str, clients: int, classes: int) -> None:
    data = natural_population(name, Path(REAL or ""))
    assert (data.n_clients, data.n_classes) == (clients, classes)
    assert np.isfinite(data.inputs(data.train.x_rows[:100])).all()

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from auxo.datasets.client_samples import SampleSource
from auxo.datasets.open_image import open_image, open_image_easy
from auxo.files.errors import FileError
from tests.datasets.made_files import by_client, through_a_federated_file

Row = tuple[str, str, str, int]
HEADER = "client_id,sample_path,label_name,label_id"


def write_images(folder: Path, rows: list[Row], split: str = "train") -> Path:
    """Write FedScale's layout: an image for each row, of its label's colour."""
    (folder / split).mkdir(parents=True, exist_ok=True)
    mapping = folder / "client_data_mapping" / f"{split}.csv"
    mapping.parent.mkdir(exist_ok=True)
    for _, sample, _, label in rows:
        Image.new("RGB", (90, 50), (40 * label, 0, 200)).save(folder / split / sample)
    lines = [HEADER, *(f'{client},{sample},"{name}",{label}' for client, sample, name, label in rows)]
    mapping.write_text("\n".join(lines) + "\n")
    return folder


def rows(labels: dict[str, list[int]]) -> list[Row]:
    """Return rows in which clients take turns, as lists need not be sorted by client."""
    found = [
        (place, (client, f"{client}-{place}.jpg", f"name, {label}", label))
        for client, mine in labels.items()
        for place, label in enumerate(mine)
    ]
    return [row for _, row in sorted(found)]


def error_of(folder: Path) -> str:
    with pytest.raises(FileError) as caught:
        list(open_image(folder).clients())
    return str(caught.value)


def labels_of(source: SampleSource) -> dict[str, list[int]]:
    return {client: samples.y.tolist() for client, samples in by_client(source).items()}


def test_photographers_become_clients_of_a_population(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "openImage", rows({"7": [0, 1, 2], "9": [2, 2]}))
    source = open_image(folder)
    data = through_a_federated_file(source, tmp_path)
    assert source.classes == ("name, 0", "name, 1", "name, 2")
    assert list(data.client_names) == ["7", "9"]
    assert data.features == (64, 64, 3)
    assert data.x.dtype == np.uint8
    assert (data.train.counts() + data.test.counts()).tolist() == [3, 2]


def test_an_image_goes_with_its_label(tmp_path: Path) -> None:
    samples = by_client(open_image(write_images(tmp_path, rows({"7": [0, 3, 2], "9": [1]})), side=16))["7"]
    assert samples.x.shape == (3, 16, 16, 3)
    assert samples.y.tolist() == [0, 3, 2]
    red = samples.x[:, :, :, 0].mean(axis=(1, 2))
    assert np.abs(red - 40 * samples.y).max() < 5  # JPEG is not exact
    assert np.abs(samples.x[:, :, :, 2].astype(int) - 200).max() < 5


def test_grey_images_become_coloured_ones(tmp_path: Path) -> None:
    write_images(tmp_path, rows({"7": [0]}))
    Image.new("L", (30, 30), 77).save(tmp_path / "train" / "7-0.jpg")
    assert by_client(open_image(tmp_path))["7"].x.shape == (1, 64, 64, 3)


def test_many_images_of_a_client_come_in_parts(tmp_path: Path) -> None:
    write_images(tmp_path, rows({"7": [0] * 600}))
    parts = list(open_image(tmp_path, side=4).clients())
    assert [len(part.y) for part in parts] == [512, 88]
    assert {part.client for part in parts} == {"7"}


def test_test_clients_that_are_other_people_are_not_used(tmp_path: Path) -> None:
    write_images(tmp_path, rows({"7": [0, 1]}))
    write_images(tmp_path, rows({"8": [5, 5]}), "test")
    source = open_image(tmp_path)
    assert labels_of(source) == {"7": [0, 1]}
    assert by_client(source)["7"].is_test is None
    assert len(source.classes) == 2


@pytest.mark.parametrize("split", ["test", "val"])
def test_test_samples_of_the_same_clients_are_the_split(tmp_path: Path, split: str) -> None:
    write_images(tmp_path / "d", rows({"7": [0, 1], "9": [1]}))
    write_images(tmp_path / "d", rows({"9": [1, 0], "7": [1]}), split)
    data = through_a_federated_file(open_image(tmp_path / "d"), tmp_path)
    assert data.train.counts().tolist() == [2, 1]
    assert data.test.counts().tolist() == [1, 2]


def test_a_cut_keeps_the_most_frequent_classes_and_numbers_them_anew(tmp_path: Path) -> None:
    # Three of label 4, two each of 1 and 5, one of 0: of equals the lower label stays.
    source = open_image(write_images(tmp_path, rows({"a": [4, 4, 1, 0], "b": [4, 5], "c": [5], "d": [1]})), classes=2)
    assert source.classes == ("name, 1", "name, 4")
    assert labels_of(source) == {"a": [1, 1, 0], "b": [1], "d": [0]}


def test_a_cut_drops_clients_it_leaves_nothing_to_be_scored_with(tmp_path: Path) -> None:
    write_images(tmp_path, rows({"a": [0, 0], "b": [0, 1]}))
    write_images(tmp_path, rows({"a": [0], "b": [1]}), "test")
    assert labels_of(open_image(tmp_path, classes=1)) == {"a": [0, 0, 0]}


def test_the_easy_one_has_sixty_classes_at_most(tmp_path: Path) -> None:
    listing = [("a", "one.jpg", f"name {label}", label) for label in range(63)]
    write_images(tmp_path, [("a", "one.jpg", "name 0", 0)])
    lines = [HEADER, *(",".join(str(entry) for entry in row) for row in (*listing, *listing[3:]))]
    (tmp_path / "client_data_mapping" / "train.csv").write_text("\n".join(lines))
    source = open_image_easy(tmp_path, side=4)
    assert source.classes == tuple(f"name {label}" for label in range(3, 63))
    assert sorted(set(labels_of(source)["a"])) == list(range(60))


def test_no_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="classes: expected at least 1, got 0"):
        open_image(write_images(tmp_path, rows({"a": [0]})), classes=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: expected the columns client_id, sample_path, label_id, got nothing"),
        ("client_id,sample_path\n7,a.jpg\n", "line 1: expected the columns"),
        (HEADER, "line 1: expected at least one sample, got the end of the file"),
        (f"{HEADER}\n7,7-0.jpg,cat,0\n7,7-0.j", "line 3: expected 4 entries, got '7,7-0.j'"),
        (f"{HEADER}\n,7-0.jpg,cat,0\n", "line 2: expected 4 entries"),
        (f"{HEADER}\n7,7-0.jpg,cat,-1\n", "line 2: expected a label_id from 0 to 19999, got '-1'"),
        (f"{HEADER}\n7,7-0.jpg,cat,99999\n", "expected a label_id from 0 to 19999, got '99999'"),
        (f"{HEADER}\n7,7-0.jpg,cat,cat\n", "expected a label_id from 0 to 19999, got 'cat'"),
        (f'{HEADER}\n7,7-0.jpg,"cat,0\n', "line 2: expected values with commas between them"),
        (f"{HEADER}\n7,7-0.jpg,café,0\n".encode("latin-1"), "line 2: expected text in UTF-8, got the byte 0xe9"),
        (f"{HEADER}\n7,../7-0.jpg,cat,0\n", "line 2, ../7-0.jpg: expected a path inside the images' folder"),
        (f"{HEADER}\n\n7,none.jpg,cat,0\n", "line 3, none.jpg: expected an image at"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(tmp_path: Path, text: str | bytes, said: str) -> None:
    write_images(tmp_path, rows({"7": [0]}))
    path = tmp_path / "client_data_mapping" / "train.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    message = error_of(tmp_path)
    assert message.startswith(f"{path}: ")
    assert said in message


@pytest.mark.parametrize("length", [0, 40, 400])
def test_a_damaged_image_is_named_with_its_line(tmp_path: Path, length: int) -> None:
    path = write_images(tmp_path, rows({"7": [0, 1]})) / "train" / "7-1.jpg"
    path.write_bytes(path.read_bytes()[:length])
    assert "line 3, 7-1.jpg: expected an image, got one that cannot be read" in error_of(tmp_path)


def test_a_folder_without_lists_is_refused(tmp_path: Path) -> None:
    assert "expected FedScale's list of samples, got no such file" in error_of(tmp_path)

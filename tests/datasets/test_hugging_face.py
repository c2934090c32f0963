import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Array2D, Audio, ClassLabel, Dataset, Features, Image, List, Value
from flwr_datasets.partitioner import NaturalIdPartitioner
from PIL import Image as Pillow

from auxo.datasets.hugging_face import HUB, HubColumns, from_hugging_face, hub_source, with_owners
from auxo.datasets.log_mel import log_mel
from auxo.datasets.text_features import BY_CHARACTER
from auxo.files.errors import FileError
from tests.datasets.made_files import by_client, through_a_federated_file, tone, write_wav

COLUMNS = HubColumns("client", "x", "y")
CLIENTS = ["b", "a", "b", "a", "b"]


def made(x: list[Any], feature: object, y: list[Any] | None = None, label: object = None) -> Dataset:
    """Return a data set of two clients that take turns."""
    columns = {"client": CLIENTS[: len(x)], "x": x, "y": y if y is not None else [0, 1, 2, 0, 1][: len(x)]}
    types = {"client": Value("string"), "x": feature, "y": label or Value("int64")}
    return Dataset.from_dict(columns, features=Features(types))


def error_of(dataset: Dataset, columns: HubColumns = COLUMNS) -> str:
    with pytest.raises(FileError) as caught:
        list(from_hugging_face(dataset, "made/up", columns).clients())
    message = str(caught.value)
    assert message.startswith("made/up: ")
    return message


def femnist() -> Dataset:
    """Return a data set of the form of flwrlabs/femnist."""
    images = [Pillow.fromarray(np.full((28, 28), level, dtype=np.uint8)) for level in (0, 50, 100, 150, 255)]
    names = [str(number) for number in range(62)]
    types = {
        "image": Image(),
        "writer_id": Value("string"),
        "hsf_id": Value("int64"),
        "character": ClassLabel(names=names),
    }
    columns = {"image": images, "writer_id": CLIENTS, "hsf_id": [0] * 5, "character": [0, 10, 20, 30, 61]}
    return Dataset.from_dict(columns, features=Features(types))


def test_images_by_writer_become_a_population(tmp_path: Path) -> None:
    source = from_hugging_face(femnist(), "flwrlabs/femnist", HUB["flwrlabs/femnist"].columns)
    data = through_a_federated_file(source, tmp_path)
    assert list(data.client_names) == ["a", "b"]
    assert data.n_classes == 62
    assert data.features == (28, 28)
    assert (data.train.counts() + data.test.counts()).tolist() == [2, 3]
    samples = by_client(source)["b"]
    assert samples.y.tolist() == [0, 20, 61]
    assert samples.x[:, 0, 0].tolist() == [0, 100, 255]
    assert samples.x.dtype == np.uint8


def test_roles_become_a_population_and_their_last_samples_are_held_out(tmp_path: Path) -> None:
    windows = [f"{number}" + "x" * 79 for number in range(5)]
    columns = {"character_id": CLIENTS, "x": windows, "y": list("abc §")}
    source = from_hugging_face(Dataset.from_dict(columns), "flwrlabs/shakespeare", HUB["flwrlabs/shakespeare"].columns)
    data = through_a_federated_file(source, tmp_path)
    assert data.has_tokens
    assert data.features == (80,)
    assert source.classes == BY_CHARACTER.names
    samples = by_client(source)["b"]
    assert samples.y.tolist() == BY_CHARACTER.tokens("ac§").tolist()
    assert samples.x[:, 0].tolist() == BY_CHARACTER.tokens("024").tolist()
    assert samples.is_test is not None
    assert samples.is_test.tolist() == [False, False, True]


def recordings(data: bytes, name: str) -> Dataset:
    """Return a data set of the form of google/speech_commands, every recording the same."""
    columns = {"speaker_id": CLIENTS, "audio": [{"bytes": data, "path": name}] * 5, "label": [0, 1, 0, 1, 0]}
    # Recordings are cast afterwards: to encode them needs packages that to decode ours does not.
    types = {
        "speaker_id": Value("string"),
        "audio": {"bytes": Value("binary"), "path": Value("string")},
        "label": ClassLabel(names=["yes", "no"]),
    }
    return Dataset.from_dict(columns, features=Features(types)).cast_column("audio", Audio(sampling_rate=16_000))


def test_recordings_become_spectra_without_further_packages(tmp_path: Path) -> None:
    write_wav(tmp_path / "yes.wav", tone(700))
    dataset = recordings((tmp_path / "yes.wav").read_bytes(), "0a7c2a8d_nohash_0.wav")
    source = from_hugging_face(dataset, "google/speech_commands", HUB["google/speech_commands"].columns)
    data = through_a_federated_file(source, tmp_path)
    assert source.classes == ("yes", "no")
    assert data.features == (32, 32)
    samples = by_client(source)["a"]
    assert np.abs(samples.x[0].astype(np.int64) - log_mel(tone(700).astype(np.float32)))[4:14].max() <= 1


def test_what_is_no_recording_is_refused() -> None:
    said = error_of(recordings(b"RIFF and no more", "a.flac"), HUB["google/speech_commands"].columns)
    assert "row 0, audio: expected audio that can be read, got a.flac: recording: expected a wav file" in said


@pytest.mark.parametrize(
    ("x", "feature", "dtype", "shape"),
    [
        ([[1, 2, 3]] * 5, List(Value("int64")), np.int32, (3,)),
        ([[0.5, 1.5]] * 5, List(Value("float64")), np.float32, (2,)),
        ([[1, 255]] * 5, List(Value("uint8")), np.uint8, (2,)),
        ([[[0.5, 1.5], [2.0, 3.0]]] * 5, List(List(Value("float32"))), np.float32, (2, 2)),
        ([[[1, 2], [3, 4]]] * 5, Array2D((2, 2), "uint8"), np.uint8, (2, 2)),
        ([0.25] * 5, Value("float32"), np.float32, (1,)),
    ],
)
def test_numbers_are_stored_by_their_type(
    tmp_path: Path, x: list[Any], feature: object, dtype: type, shape: tuple[int, ...]
) -> None:
    source = from_hugging_face(made(x, feature), "made/up", COLUMNS)
    assert by_client(source)["b"].x.tolist() == np.array(x[:3]).reshape(3, *shape).tolist()
    data = through_a_federated_file(source, tmp_path)
    assert data.x.dtype == dtype
    assert data.features == shape


@pytest.mark.parametrize(("mode", "shape"), [("1", (4, 4)), ("L", (4, 4)), ("RGB", (4, 4, 3)), ("RGBA", (4, 4, 3))])
def test_images_are_grey_or_have_three_colours(mode: str, shape: tuple[int, ...]) -> None:
    source = from_hugging_face(made([Pillow.new(mode, (4, 4))] * 2, Image()), "made/up", COLUMNS)
    assert by_client(source)["a"].x.shape == (1, *shape)


def test_labels_may_be_texts_numbers_or_truths() -> None:
    features = [[0.5]] * 5
    texts = from_hugging_face(
        made(features, List(Value("float32")), list("qpqpr"), Value("string")), "made/up", COLUMNS
    )
    assert texts.classes == ("p", "q", "r")
    assert by_client(texts)["b"].y.tolist() == [1, 1, 2]
    numbers = from_hugging_face(made(features, List(Value("float32"))), "made/up", COLUMNS)
    assert numbers.classes == ("0", "1", "2")
    truths = made(features, List(Value("float32")), [True, False] * 2 + [True], Value("bool"))
    assert by_client(from_hugging_face(truths, "made/up", COLUMNS))["a"].y.tolist() == [0, 0]


def test_clients_may_be_numbered() -> None:
    dataset = Dataset.from_dict({"client": [7, 8, 7], "x": [[0.5]] * 3, "y": [0, 1, 0]})
    assert {name: len(samples.y) for name, samples in by_client(from_hugging_face(dataset, "n", COLUMNS)).items()} == {
        "7": 2,
        "8": 1,
    }


def test_rows_that_were_selected_and_shuffled_are_the_ones_that_are_read() -> None:
    dataset = made([[0.0], [1.0], [2.0], [3.0], [4.0]], List(Value("float32"))).select([4, 1, 0])
    found = by_client(from_hugging_face(dataset, "made/up", COLUMNS))
    assert {name: samples.x[:, 0].tolist() for name, samples in found.items()} == {"b": [4.0, 0.0], "a": [1.0]}


def test_a_format_that_was_set_makes_no_difference() -> None:
    dataset = femnist().with_format("numpy")
    source = from_hugging_face(dataset, "flwrlabs/femnist", HUB["flwrlabs/femnist"].columns)
    assert by_client(source)["b"].x.shape == (3, 28, 28)


def test_a_partition_of_flower_can_be_converted_too() -> None:
    partitioner = NaturalIdPartitioner(partition_by="writer_id")
    partitioner.dataset = femnist()
    source = from_hugging_face(partitioner.load_partition(0), "femnist", HUB["flwrlabs/femnist"].columns)
    owners = by_client(source)
    assert len(owners) == 1
    assert {name: samples.y.tolist() for name, samples in owners.items()}.items() <= {
        "a": [10, 30],
        "b": [0, 20, 61],
    }.items()


def test_many_rows_of_a_client_come_in_parts() -> None:
    dataset = Dataset.from_dict({"client": ["a"] * 1500, "x": [[float(row)] for row in range(1500)], "y": [0] * 1500})
    parts = list(from_hugging_face(dataset, "made/up", COLUMNS).clients())
    assert [len(part.y) for part in parts] == [1024, 476]
    assert np.concatenate([part.x for part in parts])[:, 0].tolist() == list(range(1500))


NUMBERS = List(Value("float32"))


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (Dataset.from_dict({"client": ["a"], "x": [[0.5]]}), "columns: expected a column 'y', got client, x"),
        (Dataset.from_dict({"client": ["a"], "y": [0]}), "columns: expected a column 'x', got client, y"),
        (Dataset.from_dict({"x": [[0.5]], "y": [0]}), "columns: expected a column 'client', got x, y"),
        (Dataset.from_dict({"client": ["a", None], "x": [[0.5]] * 2, "y": [0, 1]}), "row 1, client: expected a client"),
        (made([[0.5]] * 2, NUMBERS).select([]), "rows: expected at least one, got none"),
        (made([[0.5]] * 2, NUMBERS, [0, -1]), "row 1, y: expected a label from 0 to 99999, got -1"),
        (made([[0.5]] * 2, NUMBERS, [0, 10**9]), "row 1, y: expected a label from 0 to 99999, got 1000000000"),
        (made([[0.5]] * 2, NUMBERS, [0, -1], ClassLabel(names=["p", "q"])), "row 1, y: expected a label from 0 to 1"),
        (made([[0.5]] * 2, NUMBERS, [0, None]), "row 1, y: expected a label, got nothing"),
        (made([[0.5]] * 2, NUMBERS, [0.5, 1.0], Value("float32")), "y: expected whole numbers or texts as labels"),
        (made([[0.5], None], NUMBERS), "row 1, x: expected a value, got nothing"),
        (made([[1], [2], [-3]], List(Value("int64"))), "row 2, x: expected tokens of one shape, got a token outside"),
        (made([[1], [2], [3, 4]], List(Value("int64"))), "row 2, x: expected the same shape in every row, got [2]"),
        (made([[[1.0], [2.0, 3.0]]], List(NUMBERS)), "row 0, x: expected float32 of one shape"),
        (made(["ab", "ab", "abc"], Value("string"), list("abc"), Value("string")), "row 2, x: expected the same shape"),
        (made(["ab"] * 2, Value("string"), ["a", "bc"], Value("string")), "row 1, y: expected one character"),
        (made([{"k": 1}] * 2, {"k": Value("int64")}), "x: expected images, recordings, texts or numbers"),
    ],
)
def test_what_is_wrong_with_a_data_set_is_said(dataset: Dataset, said: str) -> None:
    assert said in error_of(dataset)


def test_images_of_two_sizes_are_refused() -> None:
    images = [Pillow.new("L", (4, 4)), Pillow.new("L", (4, 4)), Pillow.new("L", (4, 5))]
    assert "row 2, x: expected the same shape in every row, got [5, 4] after [4, 4]" in error_of(made(images, Image()))


def test_a_damaged_image_is_refused() -> None:
    file = io.BytesIO()
    Pillow.new("L", (40, 40)).save(file, "PNG")
    damaged = {"bytes": file.getvalue()[:40], "path": None}
    assert "row 0, x: expected image that can be read" in error_of(made([damaged], Image()))


def test_a_name_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(FileError, match="one of flwrlabs/femnist, flwrlabs/shakespeare, google/speech_commands"):
        hub_source("mnist")


def test_rows_that_belong_to_nobody_are_left_out() -> None:
    columns = {"client": ["a", None, "b"], "x": [[0.0], [1.0], [2.0]], "y": [0, 1, 0]}
    dataset = with_owners(Dataset.from_dict(columns), "made/up", COLUMNS)
    found = by_client(from_hugging_face(dataset, "made/up", COLUMNS))
    assert {name: samples.x[:, 0].tolist() for name, samples in found.items()} == {"a": [0.0], "b": [2.0]}


def test_without_a_network_one_is_told_what_to_do(tmp_path: Path) -> None:
    name = "google/speech_commands"
    program = f"""
from auxo.files.errors import FileError
from auxo.datasets.hugging_face import hub_source
try:
    hub_source({name!r})
except FileError as error:
    raise SystemExit(str(error))
"""
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", program], env=offline, capture_output=True, text=True, check=False)  # noqa: S603
    said = run.stderr.strip().splitlines()[-1]
    assert said.startswith(f"{name}: Hugging Face Hub: expected the data set, got ")
    assert "copy the folder that HF_HOME names" in said
    assert run.returncode == 1


def test_without_the_package_one_is_told_how_to_get_it() -> None:
    program = """
import sys
sys.modules["datasets"] = None
from auxo.datasets.hugging_face import hub_source
from auxo.files.errors import FileError
try:
    hub_source("flwrlabs/femnist")
except FileError as error:
    raise SystemExit(str(error))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert 'pip install "auxo[flower]"' in run.stderr.strip().splitlines()[-1]

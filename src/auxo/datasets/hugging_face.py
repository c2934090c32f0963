"""Data sets of Hugging Face and of flwr-datasets, whose every row is a sample of a client.

What is in a column of features decides how it is stored: images and bytes as levels, whole numbers as tokens, other
numbers as they are, texts of one length as tokens of characters, and recordings as log-mel spectra.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from auxo.core.types import IntArray
from auxo.datasets.client_samples import ClientSamples, SampleSource, end_held_out
from auxo.datasets.log_mel import log_mel
from auxo.datasets.speech_commands import read_wav
from auxo.datasets.text_features import BY_CHARACTER
from auxo.files.errors import FileError, file_error
from auxo.population.federated_data import StoredInputs

if TYPE_CHECKING:
    from datasets import Dataset

_AT_ONCE = 1024  # rows that are decoded at once; our choice
_MOST_CLASSES = 100_000  # a larger label is an id, and a model of that width would not fit; our choice


@dataclass(frozen=True)
class HubColumns:
    """The columns of a data set that make it federated."""

    client: str
    features: str
    label: str


@dataclass(frozen=True)
class HubEntry:
    """A data set on the Hub with natural clients."""

    columns: HubColumns
    split: str = "train"
    revision: str | None = None  # None: the newest
    configuration: str | None = None  # None: the only one


HUB: dict[str, HubEntry] = {
    "flwrlabs/femnist": HubEntry(HubColumns("writer_id", "image", "character")),
    "flwrlabs/shakespeare": HubEntry(HubColumns("character_id", "x", "y")),
    # The newest revision is a script, which `datasets` does not run since version 4; this one is the same as Parquet.
    # Its splits are by speaker, as Google's lists are; some of every speaker's recordings are held out instead.
    "google/speech_commands": HubEntry(
        HubColumns("speaker_id", "audio", "label"),
        split="train+validation+test",
        revision="refs/pr/5",
        configuration="v0.02",
    ),
}
"""Data sets on the Hub that `hub_source` knows, by their names there."""


def hub_source(name: str) -> SampleSource:
    """Return a data set of `HUB`; it is downloaded at once, unless it is on this machine already.

    Rows that belong to nobody are left out.
    """
    if name not in HUB:
        raise file_error(name, "name", f"one of {', '.join(HUB)}", "another", "use from_hugging_face for others")
    entry = HUB[name]
    try:
        from datasets import load_dataset  # noqa: PLC0415 - takes long to import
    except ImportError as error:
        raise _without(name, "datasets, of Hugging Face", "flower") from error
    try:
        dataset = load_dataset(name, entry.configuration, revision=entry.revision, split=entry.split)
    except (OSError, RuntimeError, ValueError) as error:  # what the many ways not to reach the Hub have in common
        got = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        remedy = (
            "connect to the network, or download it on another machine and copy the folder that HF_HOME names "
            "(~/.cache/huggingface), or load the files of its publisher instead"
        )
        raise file_error(name, "Hugging Face Hub", "the data set", got, remedy) from error
    return from_hugging_face(with_owners(dataset, name, entry.columns), name, entry.columns)


def with_owners(dataset: "Dataset", name: str, columns: HubColumns) -> "Dataset":
    """Return the rows of a data set that belong to a client; recordings of silence, for one, belong to nobody."""
    is_owned = ~np.asarray(_column(dataset, name, columns.client).is_null())
    return dataset if is_owned.all() else dataset.select(np.flatnonzero(is_owned))


def from_hugging_face(dataset: "Dataset", name: str, columns: HubColumns) -> SampleSource:
    """Return a data set that is loaded already, for one a split of flwr-datasets' ``FederatedDataset``.

    Labels are classes by name (``ClassLabel``), whole numbers from 0, or texts, which are numbered in order; where the
    features are texts, labels are single characters. Some of a client's rows are held out by chance, but of texts the
    last ones.

    Reports and errors call it by ``name``.
    """
    kind = _kind(dataset, name, columns.features)
    if kind == "image" and find_spec("PIL") is None:
        raise _without(name, "Pillow, to read images", "data")
    client = _column(dataset, name, columns.client)
    if client.null_count:
        row = int(np.asarray(client.is_null()).argmax())
        raise _error(name, row, columns.client, "a client", "nothing", "fill it in or drop the row")
    labels, classes = _labels(dataset, name, columns.label, kind)

    def clients() -> Iterator[ClientSamples]:
        features = _features(dataset, columns.features, kind)
        for owner, rows in _rows_by_client(client):
            # Texts are windows that overlap with their neighbours, so it is the last ones that are held out.
            is_test = end_held_out(len(rows)) if kind == "text" else None
            for start in range(0, len(rows), _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                numbers = rows[part].tolist()
                x = _inputs(name, columns.features, kind, numbers, list(features[numbers][columns.features]))
                yield ClientSamples(owner, x, labels[rows[part]], None if is_test is None else is_test[part])

    return SampleSource(name, Path(name), classes, clients, by_column=kind.startswith("float"))


def _without(name: str, package: str, extra: str) -> FileError:
    return file_error(name, "package", package, "no such package", f'run pip install "auxo[{extra}]"')


def _error(name: str, row: int, column: str, *said: str) -> FileError:
    expected, got, remedy = said
    return file_error(name, f"row {row}, {column}", expected, got, remedy)


def _column(dataset: Any, name: str, column: str) -> Any:
    """Return a column as an Arrow array, of the rows that the data set shows in their order."""
    if column not in dataset.column_names:
        expected, got = f"a column {column!r}", ", ".join(dataset.column_names) or "none"
        raise file_error(name, "columns", expected, got, "name the columns that hold client, features and label")
    if len(dataset) == 0:
        raise file_error(name, "rows", "at least one", "none", "check the split")
    return dataset.select_columns([column]).with_format("arrow")[:].column(column).combine_chunks()


def _rows_by_client(client: Any) -> Iterator[tuple[str, IntArray]]:
    coded = client if hasattr(client, "indices") else client.dictionary_encode()
    codes: IntArray = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    names = [str(value) for value in coded.dictionary.to_pylist()]
    starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for number, owner in enumerate(names):
        if starts[number] < starts[number + 1]:
            yield owner, order[starts[number] : starts[number + 1]]


def _kind(dataset: Any, name: str, column: str) -> str:
    """Return what a column of features holds: "image", "audio", "text", or the type of its numbers."""
    if column not in dataset.column_names:
        _column(dataset, name, column)
    feature = dataset.features[column]
    if type(feature).__name__ in ("Image", "Audio"):
        return type(feature).__name__.lower()
    while not hasattr(feature, "dtype") and hasattr(feature, "feature"):
        feature = feature.feature
    kind = str(getattr(feature, "dtype", None))
    if kind in ("string", "large_string"):
        return "text"
    if kind == "uint8" or kind.startswith("float"):
        return kind
    if kind.startswith(("int", "uint")):
        return "tokens"
    expected = "images, recordings, texts or numbers"
    raise file_error(name, column, expected, str(dataset.features[column]), "name another column, or map it first")


def _labels(dataset: Any, name: str, column: str, kind: str) -> tuple[IntArray, tuple[str, ...]]:
    values = _column(dataset, name, column)
    if values.null_count:
        row = int(np.asarray(values.is_null()).argmax())
        raise _error(name, row, column, "a label", "nothing", "fill it in or drop the row")
    names = getattr(dataset.features[column], "names", None)
    type_name = str(values.type)
    if type_name in ("string", "large_string"):
        return _text_labels(name, column, values, kind)
    if not type_name.startswith(("int", "uint", "bool")):
        raise file_error(name, column, "whole numbers or texts as labels", type_name, "map it first")
    labels: IntArray = values.to_numpy(zero_copy_only=False).astype(np.int64)
    most = len(names) if names is not None else _MOST_CLASSES
    wrong = (labels < 0) | (labels >= most)
    if wrong.any():
        row = int(wrong.argmax())
        raise _error(
            name, row, column, f"a label from 0 to {most - 1}", str(labels[row]), "drop the row or number anew"
        )
    return labels, tuple(names) if names is not None else tuple(str(label) for label in range(labels.max() + 1))


def _text_labels(name: str, column: str, values: Any, kind: str) -> tuple[IntArray, tuple[str, ...]]:
    coded = values.dictionary_encode()
    distinct = [str(value) for value in coded.dictionary.to_pylist()]
    codes: IntArray = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if kind != "text":
        classes = tuple(sorted(distinct))
        index = {label: number for number, label in enumerate(classes)}
        return np.array([index[label] for label in distinct])[codes], classes
    for code, label in enumerate(distinct):
        if len(label) != 1:
            row = int((codes == code).argmax())
            raise _error(
                name, row, column, "one character, as the features are texts", repr(label)[:40], "map it first"
            )
    return BY_CHARACTER.tokens("".join(distinct))[codes], BY_CHARACTER.names


def _features(dataset: Any, column: str, kind: str) -> Any:
    alone = dataset.select_columns([column]).with_format(None)
    if kind not in ("image", "audio"):
        return alone
    from datasets import Audio, Image  # noqa: PLC0415 - whoever has a data set has the package

    # Undecoded, so that what cannot be decoded is found in its row; and recordings would need further packages.
    return alone.cast_column(column, Image(decode=False) if kind == "image" else Audio(decode=False))


def _inputs(name: str, column: str, kind: str, rows: list[int], values: Sequence[Any]) -> StoredInputs:
    """Return features as they are stored, and check that they are alike."""
    for row, value in zip(rows, values, strict=True):
        if value is None:
            raise _error(name, row, column, "a value", "nothing", "fill it in or drop the row")
    convert = _CONVERTERS.get(kind, _numbers(kind))
    inputs: list[StoredInputs] = []
    for row, value in zip(rows, values, strict=True):
        try:
            one = convert(value)
        except (FileError, OSError) as error:
            raise _error(name, row, column, f"{kind} that can be read", str(error), "drop the row") from error
        except (ValueError, TypeError, OverflowError) as error:
            raise _error(name, row, column, f"{kind} of one shape", str(error), "bring all to one shape") from error
        if inputs and one.shape != inputs[0].shape:
            got = f"{list(one.shape)} after {list(inputs[0].shape)}"
            raise _error(name, row, column, "the same shape in every row", got, "bring all to one shape")
        inputs.append(one)
    return np.stack(inputs)


def _image(value: dict[str, Any]) -> StoredInputs:
    from PIL import Image  # noqa: PLC0415 - only images need it

    with Image.open(io.BytesIO(_bytes(value))) as image:
        is_grey = image.mode in ("1", "L", "LA")
        return np.asarray(image.convert("L" if is_grey else "RGB"), dtype=np.uint8)


def _bytes(value: dict[str, Any]) -> bytes:
    return value["bytes"] if value.get("bytes") is not None else Path(value["path"]).read_bytes()


_CONVERTERS: dict[str, Callable[[Any], StoredInputs]] = {
    "image": _image,
    "text": lambda value: BY_CHARACTER.tokens(value).astype(np.int32),
    "audio": lambda value: log_mel(read_wav(io.BytesIO(_bytes(value)), str(value.get("path")), "recording")),
}


def _numbers(kind: str) -> Callable[[Any], StoredInputs]:
    target = {"uint8": np.uint8, "tokens": np.int32}.get(kind, np.float32)

    def convert(value: Any) -> StoredInputs:
        found = np.asarray(value)
        if found.dtype == object:
            raise ValueError("lists of different lengths")
        if target is np.int32 and found.size and (found.min() < 0 or found.max() > np.iinfo(np.int32).max):
            raise ValueError(f"a token outside 0 to {np.iinfo(np.int32).max}")
        numbers: StoredInputs = np.atleast_1d(found.astype(target))
        return numbers

    return convert

"""Every data set that can be converted, by name, and what its files must look like."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auxo.datasets.client_samples import SampleSource
from auxo.datasets.tables import table_source
from auxo.registry.import_path import load_callable

TABLE = "table"
"""The loader of users' own tables, which alone takes the names of columns."""


@dataclass(frozen=True)
class Loader:
    """A data set that can be converted."""

    load: Callable[[Path], SampleSource]
    path: str  # what PATH must be, in one line


def _later(import_path: str) -> Callable[[Path], SampleSource]:
    """Return a loader that is imported when it is used: some need packages that are optional and slow to import."""

    def load(path: Path) -> SampleSource:
        loader: Any = load_callable(import_path)
        source: SampleSource = loader(path)
        return source

    return load


def _hub(path: Path) -> SampleSource:
    from auxo.datasets.hugging_face import hub_source  # noqa: PLC0415 - for the same reason

    return hub_source(path.as_posix())


LOADERS: dict[str, Loader] = {
    TABLE: Loader(table_source, "your own .parquet file (or a folder of them), .csv or .npz, one row a sample"),
    "femnist": Loader(
        _later("auxo.datasets.leaf:leaf_femnist"),
        "LEAF's FEMNIST: a JSON file, a folder of them, or one with train and test",
    ),
    "shakespeare": Loader(_later("auxo.datasets.leaf:leaf_shakespeare"), "LEAF's Shakespeare: the same"),
    "speech-commands": Loader(
        _later("auxo.datasets.speech_commands:speech_commands"),
        "Google's Speech Commands: a folder for each word, with .wav files",
    ),
    "open-image": Loader(
        _later("auxo.datasets.open_image:open_image"),
        "FedScale's OpenImage: client_data_mapping and the images in train and test",
    ),
    "open-image-easy": Loader(
        _later("auxo.datasets.open_image:open_image_easy"), "the same; only the 60 most frequent classes are kept"
    ),
    "amazon-reviews": Loader(
        _later("auxo.datasets.amazon_reviews:amazon_reviews"),
        "JSON lines with reviewerID, reviewText and overall; plain or packed; or a folder",
    ),
    "reddit": Loader(
        _later("auxo.datasets.reddit:reddit"), "JSON lines with author and body; plain or packed; or a folder"
    ),
    "hugging-face": Loader(
        _hub, "a name on the Hugging Face Hub: flwrlabs/femnist, flwrlabs/shakespeare, google/speech_commands"
    ),
}
"""Every loader, by name."""

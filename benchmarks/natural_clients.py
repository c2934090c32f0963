"""Clients as they are, from files that are not part of Auxo: writers, speakers, reviewers, accounts and roles.

    python benchmarks/natural_clients.py writers DIR build/writers.arrow
    auxo compare writers --population build/writers.arrow

writes what is in the files of the folder DIR as a federated file, and runs the configuration that comes with Auxo on
it. docs/real-data.md says what the files hold.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet

from auxo.core.rng import stream
from auxo.core.types import IntArray
from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.federated_file import as_population, collect, write_federated_file
from auxo.datasets.text_features import BY_CHARACTER, hashed_words, windows
from auxo.population.federated_data import FederatedData, StoredInputs

_FEWEST_DIGITS = 20  # writers with fewer are left out; our choice
_PARTS = 8  # clients that each speaker is cut into, by chance: few speakers make a small federation; our choice
_SPEECH = ("audiomnist_mel32.npz", "dspspeech20_mel32.npz")
_STARS = ("1", "2", "3", "4", "5")
_FEWEST_REVIEWS = 5
_HASHED = 4096  # places for words and pairs of words; our choice
_WINDOW = 20  # characters that the next one is told from; our choice
_PLACES = 300  # of an author's text that are asked about at most; our choice
_FEWEST_CHARACTERS = 1000  # of an author's text, as in LEAF's Shakespeare
_TEST_SHARE = 0.3  # a client has few samples, and its score should not be chance alone; our choice


def writers(folder: Path) -> SampleSource:
    """Return the digits of MNIST by the person who wrote them, in two groups: census staff and pupils.

    File: mnist_by_writer.npz with x (uint8 images), y, writer and hsf, the part of NIST's collection.
    """
    path = folder / "mnist_by_writer.npz"

    def clients() -> Iterator[ClientSamples]:
        arrays = _arrays(path, ("x", "y", "writer", "hsf"))
        for writer, rows in _by(arrays["writer"]):
            if len(rows) >= _FEWEST_DIGITS:
                group = "pupils" if arrays["hsf"][rows[0]] == 4 else "census staff"
                yield _samples(f"writer-{writer:04d}", arrays["x"][rows], arrays["y"][rows], group)

    return SampleSource("writers", path, tuple("0123456789"), clients, _TEST_SHARE)


def speech(folder: Path) -> SampleSource:
    """Return spoken words of two sources, ten digits and twenty other words; each speaker is cut into parts.

    Files: audiomnist_mel32.npz and dspspeech20_mel32.npz with x (uint8 log-mel spectra), y and speaker.
    """
    paths = [folder / name for name in _SPEECH]

    def clients() -> Iterator[ClientSamples]:
        for group, path, first in (("digits", paths[0], 0), ("commands", paths[1], 10)):
            arrays = _arrays(path, ("x", "y", "speaker"))
            for speaker, rows in _by(arrays["speaker"]):
                shuffled = stream(0, "speech-parts", group, speaker).permutation(rows)
                for part in range(_PARTS):
                    mine = shuffled[part::_PARTS]
                    labels = arrays["y"][mine].astype(np.int64) + first
                    yield _samples(f"{group}-{speaker:02d}-{part}", arrays["x"][mine], labels, group)

    commands = _arrays(paths[1], ("classes",))["classes"] if paths[1].is_file() else np.arange(20).astype(str)
    classes = (*(f"digit {digit}" for digit in range(10)), *(str(name) for name in commands))
    return SampleSource("speech", paths[0] if not paths[0].is_file() else paths[1], classes, clients, _TEST_SHARE)


def reviewers(folder: Path) -> SampleSource:
    """Return reviews of products by reviewer: hashed words, and the stars that were given.

    File: amazon_reviews_by_reviewer.parquet with reviewerID, reviewText and overall, the stars from 1 to 5.
    """
    path = folder / "amazon_reviews_by_reviewer.parquet"

    def clients() -> Iterator[ClientSamples]:
        table = _table(path, ("reviewerID", "reviewText", "overall"))
        stars = np.array(table["overall"], dtype=np.int64)
        for reviewer, rows in _by(np.array(table["reviewerID"])):
            if len(rows) >= _FEWEST_REVIEWS:
                x = np.stack([hashed_words(table["reviewText"][row] or "", _HASHED) for row in rows])
                yield _samples(str(reviewer), x, stars[rows] - 1, None)

    return SampleSource("reviewers", path, _STARS, clients, _TEST_SHARE)


def accounts(folder: Path) -> SampleSource:
    """Return public statements by account: windows of characters, and the character that comes next.

    File: congresstweets_by_account.parquet with user_id, the account, and text.
    """
    path = folder / "congresstweets_by_account.parquet"
    return _next_character("accounts", path, "user_id", "text")


def roles(folder: Path) -> SampleSource:
    """Return Shakespeare's plays by role: windows of characters, and the character that comes next.

    File: shakespeare_by_role.parquet with client, a play and a role in it, and text.
    """
    path = folder / "shakespeare_by_role.parquet"
    return _next_character("roles", path, "client", "text")


def _next_character(name: str, path: Path, client: str, text: str) -> SampleSource:
    def clients() -> Iterator[ClientSamples]:
        table = _table(path, (client, text))
        for author, rows in _by(np.array(table[client])):
            whole = "\n".join(table[text][row] or "" for row in rows)
            if len(whole) < _FEWEST_CHARACTERS:
                continue
            tokens = BY_CHARACTER.tokens(whole)
            rng = stream(0, "places", name, str(author))
            places = np.sort(rng.permutation(len(tokens))[:_PLACES])
            x, y = windows(tokens, _WINDOW, places)
            # The end of a text is held out rather than places at random, whose windows overlap with others.
            is_test = np.arange(len(y)) >= len(y) - round(_TEST_SHARE * len(y))
            yield ClientSamples(str(author), x, y, is_test)

    return SampleSource(name, path, BY_CHARACTER.names, clients)


def _samples(client: str, x: StoredInputs, y: NDArray[np.integer[Any]], group: str | None) -> ClientSamples:
    return ClientSamples(client, x, y.astype(np.int64), group=group)


def _by(names: NDArray[np.generic]) -> Iterator[tuple[Any, IntArray]]:
    """Yield every name in sorted order, and the rows in which it stands."""
    distinct, where = np.unique(names, return_inverse=True)
    order = np.argsort(where, kind="stable")
    starts = np.searchsorted(where[order], np.arange(len(distinct) + 1))
    for number, name in enumerate(distinct.tolist()):
        yield name, order[starts[number] : starts[number + 1]]


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in names}


def _table(path: Path, names: tuple[str, ...]) -> dict[str, list[Any]]:
    table = parquet.read_table(path, columns=list(names))
    return {name: table.column(name).to_pylist() for name in names}


LOADERS: Mapping[str, Callable[[Path], SampleSource]] = {
    "writers": writers,
    "speech": speech,
    "reviewers": reviewers,
    "accounts": accounts,
    "roles": roles,
}
"""What makes clients of the files in a folder, by the name of the data set."""


def natural_population(name: str, folder: Path) -> FederatedData:
    """Return the clients of a data set, with inputs as they are."""
    source = LOADERS[name](folder)
    return as_population(collect(source), source.path)


def main() -> None:
    """Write a federated file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=LOADERS, help="the data set")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder with its files")
    parser.add_argument("out", type=Path, metavar="OUT.arrow", help="the federated file to write")
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    write_federated_file(LOADERS[asked.name](asked.folder), asked.out)
    print(f"wrote {asked.out}; try: auxo compare {asked.name} --population {asked.out}")


if __name__ == "__main__":
    main()

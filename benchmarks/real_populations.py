"""Real clients for the benchmarks, from files outside the project: writers of digits and two sources of speech."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from auxo.core.rng import stream
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_of

_TEST_SHARE = 0.3
_FEWEST_SAMPLES = 20  # writers with fewer are left out
_SPOKEN = 100  # samples of a speaker that is a client
_PARTS = 8  # pseudo-clients that each speaker is cut into, at random


@lru_cache(maxsize=1)
def writers_population(folder: Path) -> FederatedData | None:
    """Return MNIST by its true writers, two natural groups, on 64 principal components; None without the file."""
    path = folder / "mnist_by_writer.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as file:
        writer, counts = np.unique(file["writer"], return_counts=True)
        kept = np.isin(file["writer"], writer[counts >= _FEWEST_SAMPLES])
        client = file["writer"][kept].astype(np.int64)
        test = _test_samples(client)
        return population_of(
            x=_components(file["x"][kept].reshape(len(client), -1) / 255.0, ~test, 64),
            y=file["y"][kept].astype(np.int64),
            client=client,
            test=test,
            group=(file["hsf"][kept] == 4).astype(np.int64),
            name="writers",
        )


@lru_cache(maxsize=1)
def few_writers_population(folder: Path, writers: int = 100) -> FederatedData | None:
    """Return the writers with the most digits, nobody's group beside them; None without the file."""
    path = folder / "mnist_by_writer.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as file:
        writer, counts = np.unique(file["writer"], return_counts=True)
        kept = np.isin(file["writer"], writer[np.argsort(-counts, kind="stable")[:writers]])
        client = file["writer"][kept].astype(np.int64)
        test = _test_samples(client)
        return population_of(
            x=_components(file["x"][kept].reshape(len(client), -1) / 255.0, ~test, 64),
            y=file["y"][kept].astype(np.int64),
            client=client,
            test=test,
            name="few writers",
        )


@lru_cache(maxsize=1)
def speakers_population(folder: Path) -> FederatedData | None:
    """Return the speakers of both sources as clients of few samples, on 24 principal components; None without files.

    Words are numbered modulo ten: those of the second source share the digits' outputs, two words each.
    """
    read = _speech(folder)
    if read is None:
        return None
    x, y, group, speaker = read
    some = [
        stream(0, "speakers", int(number)).permutation(np.flatnonzero(speaker == number))[:_SPOKEN]
        for number in np.unique(speaker)
    ]
    kept = np.concatenate(some)
    test = _test_samples(speaker[kept])
    return population_of(
        x=_components(x[kept], ~test, 24),
        y=y[kept] % 10,
        client=speaker[kept],
        test=test,
        group=group[kept],
        name="speakers",
    )


@lru_cache(maxsize=2)
def source_population(folder: Path, source: int) -> FederatedData | None:
    """Return the speakers of one source as clients, nobody's group beside them; None without files.

    The first are 60 speakers of digits, on 24 components; the others 34 of twenty words, on 40.
    """
    read = _speech(folder)
    if read is None:
        return None
    x, y, group, speaker = read
    mine = np.flatnonzero(group == source)
    some = [
        stream(0, "source", int(number)).permutation(mine[speaker[mine] == number])[: (_SPOKEN, 120)[source]]
        for number in np.unique(speaker[mine])
    ]
    kept = np.concatenate(some)
    test = _test_samples(speaker[kept])
    return population_of(
        x=_components(x[kept], ~test, (24, 40)[source]),
        y=y[kept] - 10 * source,
        client=speaker[kept],
        test=test,
        name=("spoken digits", "spoken words")[source],
    )


@lru_cache(maxsize=1)
def speech_population(folder: Path) -> FederatedData | None:
    """Return words of two sources, each speaker cut into parts, on 96 principal components; None without files."""
    read = _speech(folder)
    if read is None:
        return None
    x, y, group, speaker = read
    part = np.zeros(len(y), dtype=np.int64)
    for number in np.unique(speaker):
        mine = stream(0, "speech parts", int(number)).permutation(np.flatnonzero(speaker == number))
        part[mine] = np.arange(len(mine)) % _PARTS
    client = speaker * _PARTS + part
    test = _test_samples(client)
    return population_of(x=_components(x, ~test, 96), y=y, client=client, test=test, group=group, name="speech")


def _speech(folder: Path) -> tuple[FloatArray, IntArray, IntArray, IntArray] | None:
    """Return spectra, words, sources and speakers of both sources, a row for each sample; None without files."""
    paths = (folder / "audiomnist_mel32.npz", folder / "dspspeech20_mel32.npz")
    if not all(path.is_file() for path in paths):
        return None
    with np.load(paths[0], allow_pickle=False) as digits, np.load(paths[1], allow_pickle=False) as words:
        x = np.concatenate([digits["x"], words["x"]]).reshape(-1, 32 * 32) / 255.0
        y = np.concatenate([digits["y"].astype(np.int64), words["y"].astype(np.int64) + 10])
        group = np.repeat([0, 1], [len(digits["y"]), len(words["y"])])
        speaker = np.concatenate([digits["speaker"], words["speaker"]]).astype(np.int64) + 1000 * group
    return x, y, group, speaker


def _test_samples(client: IntArray) -> BoolArray:
    """Return which samples are held out: three tenths of each client's, at least 4."""
    test = np.zeros(len(client), dtype=np.bool_)
    for number in np.unique(client):
        mine = stream(0, "held out", int(number)).permutation(np.flatnonzero(client == number))
        test[mine[: max(4, int(_TEST_SHARE * len(mine)))]] = True
    return test


def _components(x: FloatArray, train: BoolArray, count: int) -> Float32Array:
    """Return the principal components of the training samples, scaled to about one."""
    fitted = PCA(count, random_state=0).fit(x[train][:20_000])
    components = fitted.transform(x)
    scaled: Float32Array = (components / components[train].std(axis=0).mean()).astype(np.float32)
    return scaled

"""Small files of the layouts in which data sets are published, and the road from them to a population."""

import bz2
import gzip
import json
import wave
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.federated_file import as_population, read_columns, write_federated_file
from auxo.population.federated_data import FederatedData

Users = dict[str, tuple[list[object], list[object]]]


def through_a_federated_file(source: SampleSource, folder: Path) -> FederatedData:
    """Return the population that a source becomes: written, read, and put in order."""
    path = folder / "made.arrow"
    write_federated_file(source, path)
    return as_population(read_columns(path), path)


def by_client(source: SampleSource) -> dict[str, ClientSamples]:
    """Return the samples of each client; each must come in one part."""
    found = {}
    for samples in source.clients():
        assert samples.client not in found
        found[samples.client] = samples
    return found


def leaf_text(users: Users, /, **changes: object) -> str:
    """Return LEAF's JSON for users' x and y, with some of its keys changed."""
    whole = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }
    return json.dumps({**whole, **changes})


def write_wav(path: Path, signal: NDArray[np.float64], rate: int = 16_000, channels: int = 1) -> None:
    """Write a recording of 16 bits, from -1 to 1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as wav:
        wav.setnchannels(channels)
        wav.setsampwidth(2)
        wav.setframerate(rate)
        wav.writeframes(np.rint(signal * 32767).astype("<i2").tobytes())


def tone(hertz: float, seconds: float = 1.0) -> NDArray[np.float64]:
    """Return a pure tone at half of the loudest."""
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(16_000 * seconds)) / 16_000)


def write_json_lines(path: Path, lines: Iterable[dict[str, object]]) -> None:
    """Write JSON lines, packed as the path's ending says."""
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".bz2":
        data = bz2.compress(data)
    path.write_bytes(data)

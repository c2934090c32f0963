"""The stamp of a run: with what, on what and when it was made; a file of its own, because no two are equal."""

import hashlib
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.experiments.sameness import version_of
from auxo.population.federated_data import FederatedData

_HASHED_AT_ONCE = 1 << 24  # bytes; our choice
_MOST_HASHED = 1 << 30  # bytes of inputs that are hashed as a whole; of more, parts that are spread evenly; our choice
_PACKAGES = ("auxo", "numpy", "torch", "scipy", "scikit-learn", "safetensors")


@dataclass(frozen=True)
class Stamp:
    """What a result may depend on beyond its configuration, and what it was made from."""

    date: str  # when the run began, ISO 8601 in UTC
    command: tuple[str, ...]  # the command line, or the script, that made it
    python: str
    versions: dict[str, str]  # of packages
    processor: str
    system: str
    population: str
    clients: int
    data_sha256: str  # of samples, labels, who has them, and how inputs were prepared
    hashed: str  # what of the data the hash covers


def make_stamp(data: FederatedData, command: Sequence[str] | None = None) -> Stamp:
    """Return the stamp of a run that begins now; the command is this process's own if None."""
    digest, covers = data_hash(data)
    return Stamp(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=tuple(sys.argv if command is None else command),
        python=platform.python_version(),
        versions={name: version_of(name) or "not installed" for name in _PACKAGES},
        processor=_processor(),
        system=platform.platform(),
        population=data.name,
        clients=data.n_clients,
        data_sha256=digest,
        hashed=covers,
    )


def data_hash(data: FederatedData) -> tuple[str, str]:
    """Return a hash of a population, equal for equal data wherever they are kept, and what of them it covers."""
    digest = hashlib.sha256()
    digest.update(f"{data.n_classes} {data.x.dtype.name} {data.x.shape} {data.scaling} {data.preparation}".encode())
    for name in data.client_names:
        digest.update(name.encode() + b"\0")
    for split in (data.train, data.test):
        for column in (split.x_rows, split.y, split.offsets):
            digest.update(np.ascontiguousarray(column).data)
    parts, covers = _parts(data.x)
    for part in parts:
        digest.update(np.ascontiguousarray(data.x[part]).data)
    return digest.hexdigest(), covers


def _parts(x: NDArray[Any]) -> tuple[list[slice], str]:
    """Return rows of the inputs, some at a time: all of them, or of many some that are spread evenly."""
    row = max(1, x.nbytes // max(1, len(x)))
    at_once = max(1, _HASHED_AT_ONCE // row)
    parts = [slice(first, first + at_once) for first in range(0, len(x), at_once)]
    if x.nbytes <= _MOST_HASHED:
        return parts, "everything"
    kept = _MOST_HASHED // _HASHED_AT_ONCE
    places = np.linspace(0, len(parts) - 1, kept).round().astype(int)
    return [parts[place] for place in places], f"{_MOST_HASHED >> 20} MiB of the inputs, spread evenly, and all else"


def _processor() -> str:
    """Return the processor's name as its maker gives it, where the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()

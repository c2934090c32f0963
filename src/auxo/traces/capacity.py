"""Published tables of phones' training times and bandwidths, as speeds of devices.

The table of training times has a row for each phone model that was measured: ``model`` and ``resnet_ms``, milliseconds
to train a ResNet on one sample; zero means that it was not measured. The table of bandwidths (MobiPerf) has
``model``, ``network``, ``down_kbps_mean`` and ``n``, the number of measurements.
"""

from collections import Counter
from pathlib import Path

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import FloatArray
from auxo.files.errors import file_error
from auxo.simulation.devices import SyntheticDevices
from auxo.traces.trace import Speeds, check_traced
from auxo.traces.trace_file import arrow

_S_PER_MS = 1e-3
_BPS_PER_KBPS = 1e3


def read_capacity(latency: Path, bandwidth: Path | None = None, seed: int = 0) -> Speeds:
    """Return a device for each row of the table of training times that was measured.

    Bandwidth is not in that table, so each device is given one by chance: from the distribution published for mobile
    populations, which `SyntheticDevices` has, or from the means on WiFi in a table of bandwidths. Such a table is of
    those who cared to measure, and several times faster than a population; that is why it is not the default. Upload
    is the same part of download as there.
    """
    models, latency_ms = _read(latency, "model", "resnet_ms")
    rows = np.flatnonzero(np.isfinite(latency_ms) & (latency_ms != 0))
    if not len(rows):
        raise file_error(latency, "resnet_ms", "at least one time that is not zero", "none", "check the file")
    drawn = SyntheticDevices().draw(len(rows), seed)
    download_bps, upload_bps = drawn.download_bps, drawn.upload_bps
    if bandwidth is not None:
        measured_bps = _wifi_bps(bandwidth)
        download_bps = measured_bps[stream(seed, "capacity", "bandwidth").integers(0, len(measured_bps), len(rows))]
        upload_bps = SyntheticDevices().upload_fraction * download_bps
    names = _once_each([models[row] for row in rows.tolist()])
    speeds = Speeds(names, _S_PER_MS * latency_ms[rows], download_bps, upload_bps)
    check_traced(latency, speeds, rows)
    return speeds


def _wifi_bps(path: Path) -> FloatArray:
    networks, mean_kbps = _read(path, "network", "down_kbps_mean")
    is_wifi = np.array([text.lower() == "wifi" for text in networks], dtype=np.bool_)
    measured = _BPS_PER_KBPS * mean_kbps[is_wifi & (mean_kbps > 0) & (mean_kbps < np.inf)]
    if not len(measured):
        raise file_error(path, "network", "at least one row on WiFi with a bandwidth", "none", "check the file")
    return measured


def _once_each(names: list[str]) -> tuple[str, ...]:
    """Return names of which none occurs twice: a phone model that was measured again gets a number."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(numbered)


def _read(path: Path, texts: str, numbers: str) -> tuple[tuple[str, ...], FloatArray]:
    """Return one column of texts and one of numbers, row aligned."""
    pa = arrow(path)
    from pyarrow import parquet  # noqa: PLC0415 - an optional dependency

    try:
        table = parquet.read_table(path)
    except FileNotFoundError as error:
        raise file_error(path, "file", "a parquet table", "no such file", "check the path") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        got = f"one that cannot be read ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        raise file_error(path, "file", "a parquet table", got, "get the file again") from error
    for name in (texts, numbers):
        if name not in table.column_names:
            got = ", ".join(table.column_names)
            raise file_error(path, name, f"the columns {texts} and {numbers}", got, "check that it is the right file")
    kind = table.schema.field(numbers).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise file_error(path, numbers, "numbers", str(kind), "check that it is the right file")
    values = [float("nan") if value is None else float(value) for value in table.column(numbers).to_pylist()]
    return tuple(str(text) for text in table.column(texts).to_pylist()), np.array(values, dtype=np.float64)

"""How fast each client computes and communicates, as columns over the population."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol, final

import numpy as np

from auxo.core.rng import stream
from auxo.core.settings import NonNegativeFloat, PositiveFloat, checked
from auxo.core.types import FloatArray, IntArray

_BITS_PER_BYTE = 8
_FAST_INFERENCE_S, _SLOW_INFERENCE_S = 0.015, 0.199  # 5th and 95th percentile for one sample, forward pass only
# Of the logarithm of compute time: the 5th and 95th percentiles are 2 x 1.645 sigma apart.
_COMPUTE_SIGMA = math.log(_SLOW_INFERENCE_S / _FAST_INFERENCE_S) / (2 * NormalDist().inv_cdf(0.95))
_MEDIAN_DOWNLOAD_BPS, _SLOW_DOWNLOAD_BPS, _SLOW_SHARE = 6.1e6, 3.0e6, 0.26  # and the share of clients that have less
# Of the logarithm of bandwidth: P(bandwidth < slow) = Phi(log(slow / median) / sigma) = share, solved for sigma.
_DOWNLOAD_SIGMA = math.log(_SLOW_DOWNLOAD_BPS / _MEDIAN_DOWNLOAD_BPS) / NormalDist().inv_cdf(_SLOW_SHARE)
_PASSES_OF_TRAINING = 3  # forwards, and backwards, which takes twice as long: a loss alone takes a third (FedScale)


@final
@dataclass(frozen=True)
class Work:
    """What each participant of a round has to do, which takes time; row aligned."""

    trained: IntArray  # samples passed through training, every epoch counted
    compared: IntArray  # samples whose loss is worked out besides, once for each model they are tried with
    downloads: IntArray | FloatArray  # models, or parts of one
    uploads: IntArray | FloatArray | None = None  # updates, or parts of one; None: one each

    @staticmethod
    def plain(trained: IntArray) -> "Work":
        """Return that each downloads one model and trains it."""
        return Work(trained, np.zeros_like(trained), np.ones_like(trained))


@dataclass(frozen=True)
class Devices:
    """The speed of every client's device; row ``c`` belongs to client ``c``."""

    compute_s_per_sample: FloatArray  # (clients,) one training step's time for one sample
    download_bps: FloatArray  # (clients,) bit/s
    upload_bps: FloatArray  # (clients,) bit/s

    def __post_init__(self) -> None:
        columns = {
            "compute_s_per_sample": self.compute_s_per_sample,
            "download_bps": self.download_bps,
            "upload_bps": self.upload_bps,
        }
        for name, column in columns.items():
            if column.shape != (len(self.compute_s_per_sample),):
                raise ValueError(
                    f"{name}: expected one value for each of {len(self.compute_s_per_sample)} clients, "
                    f"got shape {column.shape}"
                )
            wrong = ~((column > 0) & (column < math.inf))
            if wrong.any():
                row = int(wrong.argmax())
                raise ValueError(f"{name}: expected positive finite values, got {column[row]} for client row {row}")

    @property
    def n_clients(self) -> int:
        """Return the number of clients."""
        return len(self.compute_s_per_sample)


class DeviceSource(Protocol):
    """Where devices come from: a distribution, or a trace of measured ones."""

    def draw(self, n_clients: int, seed: int) -> Devices:
        """Return a device for each client; the same arguments give the same devices."""
        ...


@final
@dataclass(frozen=True)
@checked
class SyntheticDevices:
    """Log-normal devices fitted to figures published for mobile populations (FedScale's traces).

    A client's device is the same whatever the size of the population. Compute and bandwidth are independent.
    With the defaults and ``spread`` 1, 90 % of devices infer a sample in 15 to 199 ms, the median download is
    6.1 Mbit/s and 26 % of devices have less than 3 Mbit/s.
    """

    # 0: every device is the median one; 1: as published; scales the sigma of the logarithms.
    spread: NonNegativeFloat = 1.0
    # A forward and a backward pass cost this many forward passes, as FedScale has it.
    training_factor: PositiveFloat = 3.0
    upload_fraction: PositiveFloat = 0.5  # upload over download; our own choice, FedScale has one bandwidth for both

    def draw(self, n_clients: int, seed: int) -> Devices:
        """Return a device for each client."""
        check_n_clients(n_clients)
        # One stream for each column, so that more clients do not change the devices of the first ones.
        compute = stream(seed, "devices", "compute").standard_normal(n_clients)
        bandwidth = stream(seed, "devices", "bandwidth").standard_normal(n_clients)
        download_bps = _MEDIAN_DOWNLOAD_BPS * np.exp(self.spread * _DOWNLOAD_SIGMA * bandwidth)
        # The two percentiles lie symmetrically about the median of the logarithm: it is their geometric mean.
        median_s = self.training_factor * math.sqrt(_FAST_INFERENCE_S * _SLOW_INFERENCE_S)
        return Devices(
            compute_s_per_sample=median_s * np.exp(self.spread * _COMPUTE_SIGMA * compute),
            download_bps=download_bps,
            upload_bps=self.upload_fraction * download_bps,
        )


@final
@dataclass(frozen=True)
@checked
class EqualDevices:
    """The same device for every client; by default about the median of `SyntheticDevices`."""

    compute_s_per_sample: PositiveFloat = 0.164
    download_bps: PositiveFloat = 6.1e6
    upload_bps: PositiveFloat = 3.05e6

    def draw(self, n_clients: int, seed: int) -> Devices:
        """Return the same device for each client, whatever the seed."""
        check_n_clients(n_clients)
        return Devices(
            compute_s_per_sample=np.full(n_clients, self.compute_s_per_sample),
            download_bps=np.full(n_clients, self.download_bps),
            upload_bps=np.full(n_clients, self.upload_bps),
        )


def samples_of_steps(samples: IntArray, steps: int, batch_size: int) -> IntArray:
    """Return how many samples go through so many steps of SGD, by how many each participant has.

    The last batch of a pass over its samples may be a small one.

    >>> samples_of_steps(np.array([4, 10, 1, 0]), steps=5, batch_size=4)
    array([20, 18,  5,  0])
    """
    a_pass = np.maximum(-(-samples // batch_size), 1)
    return np.asarray(steps // a_pass * samples + np.minimum(steps % a_pass * batch_size, samples))


def durations_s(devices: Devices, rows: IntArray, work: Work, model_bytes: int) -> FloatArray:
    """Return how long each participant takes to download its models, train and upload its update.

    Args:
        devices: the population's devices.
        rows: (participants,) client rows; a client may occur more than once.
        work: what each has to do.
        model_bytes: size of a model, and of an update, on the wire.
    """
    for name in ("trained", "compared", "downloads"):
        values: IntArray | FloatArray = getattr(work, name)
        if rows.shape != values.shape:
            raise ValueError(f"{name}: expected one value for each of {len(rows)} participants, got {len(values)}")
        if values.size and values.min() < 0:
            raise ValueError(f"{name}: expected values >= 0, got {values.min()}")
    uploads = np.ones(len(rows)) if work.uploads is None else work.uploads
    if uploads.shape != rows.shape or not (uploads >= 0).all():
        raise ValueError(f"uploads: expected a number >= 0 for each of {len(rows)} participants, got {uploads}")
    if rows.size and not 0 <= rows.min() <= rows.max() < devices.n_clients:
        raise ValueError(f"rows: expected values in [0, {devices.n_clients}), got {rows.min()} to {rows.max()}")
    if model_bytes < 0:
        raise ValueError(f"model_bytes: expected a size >= 0, got {model_bytes}")
    model_bits = _BITS_PER_BYTE * model_bytes
    passes = work.trained + work.compared / _PASSES_OF_TRAINING
    compute_s: FloatArray = devices.compute_s_per_sample[rows] * passes
    download_s: FloatArray = work.downloads * model_bits / devices.download_bps[rows]
    return compute_s + download_s + uploads * uploads_s(devices, rows, model_bytes)


def uploads_s(devices: Devices, rows: IntArray, model_bytes: int) -> FloatArray:
    """Return how long a whole update takes each of these clients to send."""
    return np.asarray(_BITS_PER_BYTE * model_bytes / devices.upload_bps[rows])


def check_n_clients(n_clients: int) -> None:
    """Raise a ValueError if there is nobody to draw for."""
    if n_clients < 1:
        raise ValueError(f"n_clients: expected at least 1, got {n_clients}")

"""Assigns each client a device of a trace, so that a population of any size can be simulated."""

import hashlib
import math

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import IntArray


def assign_devices(devices: tuple[str, ...], n_clients: int, seed: int) -> IntArray:
    """Return the row of each client's device: all devices in a random order, again and again in another one.

    More clients do not change the devices of the first ones. Two lists of the same names give each client the same
    device, so that a device's habits and its speed stay together; lists of other names are drawn independently.
    """
    if n_clients < 1:
        raise ValueError(f"n_clients: expected at least 1, got {n_clients}")
    if not devices:
        raise ValueError("devices: expected at least one, got none")
    which = hashlib.blake2b("\0".join(devices).encode(), digest_size=8).hexdigest()
    turns = math.ceil(n_clients / len(devices))
    # Row after row, so that a turn is the same whatever the number of turns.
    orders = np.argsort(stream(seed, "trace-device", which).random((turns, len(devices))), axis=1, kind="stable")
    return orders.ravel()[:n_clients]

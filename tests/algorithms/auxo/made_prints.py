"""Fingerprints of made-up clients with planted groups, as a pool has them."""

from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo.pooling import are_in_first_half
from auxo.algorithms.auxo.views import Prints
from auxo.core.fingerprint import Fingerprint, unit_rows
from auxo.core.layers import Layer
from auxo.core.rng import stream
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

CLASSES, FEATURES, SAMPLES = 6, 8, 60
LAYERS = (Layer((CLASSES, FEATURES)), Layer((CLASSES,)))


@dataclass(frozen=True)
class Seen:
    """Updates of one round, and the groups that nobody may know."""

    prints: Prints  # without what they have in common
    blocks: IntArray
    first_half: BoolArray
    groups: IntArray


def gradient(x: FloatArray, y: IntArray) -> Float32Array:
    """Return the first step of softmax regression from zero weights, flat."""
    wrong = np.eye(CLASSES)[y] - 1 / CLASSES
    return np.concatenate([(wrong.T @ x / len(x)).ravel(), wrong.mean(axis=0)]).astype(np.float32)


def turns(rng: np.random.Generator, groups: int) -> FloatArray:
    """Return a rotation of the inputs for each group."""
    return np.stack([np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0] for _ in range(groups)])


def seen(kind: str, groups: int, clients: int = 400, seed: int = 0) -> Seen:
    """Return updates of clients in so many groups of the same size.

    Args:
        kind: "classes": groups have classes of their own; "turned": they see inputs turned, and every client has class
            frequencies of its own; "units": likewise with inputs in other units; "shifted": likewise with other means.
        groups: how many.
        clients: how many.
        seed: of all that is drawn.
    """
    rng = stream(seed, "seen", kind)
    means = 3 * unit_rows(rng.standard_normal((CLASSES, FEATURES)))
    group = np.arange(clients) % groups
    rotation, units = turns(rng, groups), np.exp(1.2 * rng.standard_normal((groups, FEATURES)))
    shifts = 3 * unit_rows(rng.standard_normal((groups, FEATURES)))
    updates = []
    for one in group:
        usual = np.full(CLASSES, 0.7)
        if kind == "classes":
            usual = np.where(np.arange(CLASSES) % groups == one, 20.5, 0.5)
        y = rng.choice(CLASSES, SAMPLES, p=rng.dirichlet(usual))
        x = means[y] + rng.standard_normal((SAMPLES, FEATURES))
        if kind == "turned":
            x = x @ rotation[one]
        if kind == "units":
            x = x * units[one]
        if kind == "shifted":
            x = x + shifts[one]
        updates.append(gradient(x, y))
    return of_updates(np.stack(updates), group)


def of_updates(updates: Float32Array, groups: IntArray) -> Seen:
    """Return fingerprints of updates of the same model, without what they have in common."""
    fingerprint = Fingerprint(updates.shape[1], layers=LAYERS)
    prints = Prints(
        np.stack([fingerprint.of(one) for one in updates]),
        np.stack([fingerprint.outputs(one) for one in updates]),
        np.stack([fingerprint.inputs(one) for one in updates]),
    )
    return Seen(prints.less(prints.mean()), fingerprint.blocks, are_in_first_half(np.arange(len(updates))), groups)

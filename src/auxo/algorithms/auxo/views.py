"""Views of updates: what clusters are looked for in.

As they are, updates show groups that differ in their classes or in what classes mean. How often a client has each class
sets the direction of its update more than anything else, and where every client has frequencies of its own K-means
finds those, and not groups whose inputs look different. The biases of a classifier's last layer move by just these
frequencies, less what the model expected, so they tell how much of an update is due to them: a second view is without
that. Groups whose inputs come in other units are invisible to directions: a third view is how much of an update's
energy falls on each input. Of hundreds of classes a client has few, and the units of all others hold nothing but noise,
which unit by unit counts as much: a last view is class frequencies alone.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from auxo.core.clustering import cluster_space, near_centres
from auxo.core.fingerprint import unit_rows
from auxo.core.types import BoolArray, FloatArray, IntArray

_UPDATES_AN_OUTPUT = 8  # with fewer the regression would fit chance; our choice
_RIDGE = 1e-5  # of the outputs' mean variance: they sum to a constant, so one direction of them has none

ViewName = Literal["plain", "without frequencies", "input energies", "frequencies"]


@dataclass(frozen=True)
class Prints:
    """Fingerprints of some updates, a row each; see `Fingerprint`."""

    directions: FloatArray  # (updates, width)
    outputs: FloatArray  # (updates, outputs) how their last layer's biases moved
    inputs: FloatArray  # (updates, inputs) how much of their energy falls on each input

    def take(self, rows: IntArray | BoolArray) -> "Prints":
        """Return some of them."""
        return Prints(self.directions[rows], self.outputs[rows], self.inputs[rows])

    def mean(self) -> "Prints":
        """Return what they have in common, in one row."""
        return Prints(*(one.mean(axis=0, keepdims=True) for one in (self.directions, self.outputs, self.inputs)))

    def less(self, common: "Prints") -> "Prints":
        """Return them without what they have in common: early in training it drowns all differences."""
        return Prints(self.directions - common.directions, self.outputs - common.outputs, self.inputs - common.inputs)


@dataclass(frozen=True)
class View:
    """How updates are seen; nothing in it belongs to a client."""

    name: ViewName = "plain"
    explained: FloatArray | None = None  # (outputs, width) that class frequencies add to a direction; None: nothing
    scale: float = 1.0  # of the energies, so that they are about one long

    def points(self, prints: Prints, blocks: IntArray | None) -> FloatArray:
        """Return (updates, axes) fingerprints, without what they have in common, as they are seen."""
        if self.name == "input energies":
            return prints.inputs / self.scale
        if self.name == "frequencies":
            return unit_rows(prints.outputs - prints.outputs.mean(axis=1, keepdims=True))
        seen = prints.directions
        if self.explained is not None:
            seen = seen - prints.outputs @ self.explained
        return cluster_space(seen, blocks, np.zeros(seen.shape[1]))

    def nearness(self, points: FloatArray, centres: FloatArray) -> FloatArray:
        """Return (points, clusters) how near points are to centres, from -1 to 1; NaN where a cluster has none."""
        if self.name != "input energies":
            return near_centres(points, centres)
        there = (centres**2).sum(axis=1) > 0
        squares = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        return np.where(there[None, :], np.clip(1 - squares / 2, -1.0, 1.0), np.nan)


def views_of(prints: Prints) -> tuple[View, ...]:
    """Return the views that there are of pooled fingerprints, each round's without what its updates had in common."""
    lengths = np.sqrt((prints.inputs**2).sum(axis=1))
    energies = (View("input energies", scale=float(lengths.mean())),) if lengths.any() else ()
    frequencies = (View("frequencies"),) if prints.outputs.any() and prints.outputs.shape[1] > 1 else ()
    return (View(), *_without_frequencies(prints), *energies, *frequencies)


def _without_frequencies(prints: Prints) -> tuple[View, ...]:
    """Return the view without what a least-squares fit on the outputs explains; none where there is too little to fit.

    Of many outputs, as many as the updates can bear take part: those that clients differ in most.
    """
    updates, n_outputs = prints.outputs.shape
    most = updates // _UPDATES_AN_OUTPUT
    if min(n_outputs, most) < 2:
        return ()
    widest = np.sort(np.argsort(-(prints.outputs**2).sum(axis=0), kind="stable")[:most])
    outputs = prints.outputs[:, widest]
    moments = outputs.T @ outputs
    ridge = _RIDGE * float(np.trace(moments)) / len(widest)
    if ridge <= 0:
        return ()
    explained = np.zeros((n_outputs, prints.directions.shape[1]))
    explained[widest] = np.linalg.solve(moments + ridge * np.eye(len(widest)), outputs.T @ prints.directions)
    return (View("without frequencies", explained),)

"""Views of updates: what clusters are looked for in.

As they are, updates show groups that differ in their classes or in what classes mean. How often a client has each class
sets the direction of its update more than anything else, and where every client has frequencies of its own K-means
finds those, and not groups whose inputs look different. The biases of a classifier's last layer move by just these
frequencies, less what the model expected, so they tell how much of an update is due to them: a second view is without
that. Groups whose inputs come in other units are invisible to directions: a third view is how much of an update's
energy falls on each input. So are those whose inputs are shifted, for a shift turns an update one way or the other as
the client has more or less of a class than was expected: a fourth view is what its inputs are on average. Of hundreds
of classes a client has few, and the units of all others hold nothing but noise, which unit by unit counts as much: a
last view is class frequencies alone.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from auxo.core.clustering import cluster_space, near_centres
from auxo.core.fingerprint import unit_rows
from auxo.core.types import BoolArray, FloatArray, IntArray

_UPDATES_AN_OUTPUT = 8  # with fewer the regression would fit chance; our choice
_RIDGE = 1e-5  # of the outputs' mean variance: they sum to a constant, so one direction of them has none

ViewName = Literal["plain", "without frequencies", "input energies", "input means", "frequencies"]
_OF_INPUTS: tuple[ViewName, ...] = ("input energies", "input means")
_FARTHEST = 2.0  # of clients' means from what is common, in usual ones; who has few errors tells them badly; our choice


@dataclass(frozen=True)
class Prints:
    """Fingerprints of some updates, a row each; see `Fingerprint`."""

    directions: FloatArray  # (updates, width)
    outputs: FloatArray  # (updates, outputs) how their last layer's biases moved
    inputs: FloatArray  # (updates, 2 * inputs) how much of their energy falls on each input, and inputs' means

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
    explained: FloatArray | None = None  # (outputs, axes) that class frequencies add to what is seen; None: nothing
    scale: float = 1.0  # of what is told of inputs, so that it is about one long

    @property
    def is_of_inputs(self) -> bool:
        """Return whether it shows what inputs are like, and not the directions of updates."""
        return self.name in _OF_INPUTS

    def points(self, prints: Prints, blocks: IntArray | None) -> FloatArray:
        """Return (updates, axes) fingerprints, without what they have in common, as they are seen."""
        seen = self._seen(prints)
        if self.name == "frequencies":
            return unit_rows(seen - seen.mean(axis=1, keepdims=True))
        if not self.is_of_inputs:
            return cluster_space(seen, blocks, np.zeros(seen.shape[1]))
        seen = seen / self.scale
        return seen / np.maximum(_lengths(seen)[:, None] / _FARTHEST, 1.0) if self.name == "input means" else seen

    def scaled(self, prints: Prints) -> "View":
        """Return it with the scale by which what these tell of inputs is about one long; 0: they tell nothing."""
        return replace(self, scale=float(np.median(_lengths(self._seen(prints)))))

    def _seen(self, prints: Prints) -> FloatArray:
        if self.name == "frequencies":
            return prints.outputs
        seen = _half(self.name, prints) if self.is_of_inputs else prints.directions
        return seen if self.explained is None else seen - prints.outputs @ self.explained

    def nearness(self, points: FloatArray, centres: FloatArray) -> FloatArray:
        """Return (points, clusters) how near points are to centres, from -1 to 1; NaN where a cluster has none."""
        if not self.is_of_inputs:
            return near_centres(points, centres)
        there = (centres**2).sum(axis=1) > 0
        squares = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        return np.where(there[None, :], np.clip(1 - squares / 2, -1.0, 1.0), np.nan)


def views_of(prints: Prints) -> tuple[View, ...]:
    """Return the views that there are of pooled fingerprints, each round's without what its updates had in common."""
    explained = _by_frequencies(prints.outputs, prints.directions)
    without = () if explained is None else (View("without frequencies", explained),)
    frequencies = (View("frequencies"),) if prints.outputs.any() and prints.outputs.shape[1] > 1 else ()
    return (View(), *without, *_of_inputs(prints), *frequencies)


def _of_inputs(prints: Prints) -> tuple[View, ...]:
    """Return the views of inputs; of their means without what class frequencies explain: classes have means, too."""
    means = View("input means", _by_frequencies(prints.outputs, _half("input means", prints)))
    views = (one.scaled(prints) for one in (View("input energies"), means))
    return tuple(one for one in views if one.scale > 0)


def _half(name: ViewName, prints: Prints) -> FloatArray:
    """Return (updates, inputs) what a view of inputs is of."""
    n_inputs = prints.inputs.shape[1] // 2
    return prints.inputs[:, :n_inputs] if name == "input energies" else prints.inputs[:, n_inputs:]


def _lengths(rows: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((rows**2).sum(axis=1)))


def _by_frequencies(outputs: FloatArray, seen: FloatArray) -> FloatArray | None:
    """Return (outputs, axes) what a least-squares fit on the outputs explains; None where there is too little to fit.

    Of many outputs, as many as the updates can bear take part: those that clients differ in most.
    """
    updates, n_outputs = outputs.shape
    most = updates // _UPDATES_AN_OUTPUT
    if min(n_outputs, most) < 2:
        return None
    widest = np.sort(np.argsort(-(outputs**2).sum(axis=0), kind="stable")[:most])
    some = outputs[:, widest]
    moments = some.T @ some
    ridge = _RIDGE * float(np.trace(moments)) / len(widest)
    if ridge <= 0:
        return None
    explained = np.zeros((n_outputs, seen.shape[1]))
    explained[widest] = np.linalg.solve(moments + ridge * np.eye(len(widest)), some.T @ seen)
    return explained

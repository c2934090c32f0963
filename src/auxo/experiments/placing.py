"""Clients that never trained find their cohort: they walk down the tree and try a few models on their own samples.

At each partition a client tries a model for each child, and goes where its loss is least. A leaf stands for itself; a
cohort that was partitioned further is stood for by the mean of its leaves' models, by their members. Where
its samples cannot tell two children apart the client follows both. In a tree of depth d with two children everywhere
that is about 2 d models instead of 2 to the d, and each is tried on a few samples only.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import NOWHERE
from auxo.core.types import ROOT, BoolArray, CohortId, Float32Array, FloatArray, IntArray
from auxo.experiments.evaluation import by_sample
from auxo.population.federated_data import FederatedData, Samples
from auxo.simulation.devices import Devices, Work, durations_s
from auxo.training.trainer import Trainer

MOST_SAMPLES = 100
"""Samples of a client that each model is tried on at most; our choice."""

_CANNOT_TELL = 1.0  # standard errors of the mean difference in loss within which both children are followed; our choice
_SURE = 2.0  # standard errors that a margin must be above zero; our choice
_BYTES_PER_PARAMETER = 4


@dataclass(frozen=True)
class Placed:
    """Where clients belong, and what it took to find out; row aligned."""

    cohort: tuple[CohortId, ...]  # a leaf each
    loss: FloatArray  # (clients,) mean under the leaf's model, on the samples that were tried; NaN: nothing was tried
    margin: FloatArray  # (clients,) by how much the loss of the next best leaf that was tried is larger; NaN: no other
    models: IntArray  # (clients,) models that were downloaded and tried
    samples: IntArray  # (clients,) that each of these was tried on
    rival: tuple[CohortId | None, ...]  # the next best leaf that was tried; None: no other
    losses: FloatArray  # (clients, leaves) mean under each leaf's model; NaN: it was not tried
    is_sure: BoolArray  # (clients,) no other leaf was tried, or the margin is beyond the chance of so few samples

    def device_s(self, devices: Devices, n_params: int) -> FloatArray:
        """Return how long each client's device was busy with it; nothing is uploaded but a name."""
        work = Work(np.zeros_like(self.samples), self.models * self.samples, self.models)
        rows, model_bytes = np.arange(len(self.samples)), n_params * _BYTES_PER_PARAMETER
        # An update is part of every duration; here none is sent.
        upload_s = 8 * model_bytes / devices.upload_bps[rows]
        return durations_s(devices, rows, work, model_bytes) - upload_s


def place_newcomers(
    tree: CohortTree,
    models: Mapping[CohortId, Float32Array],
    trainer: Trainer,
    data: FederatedData,
    most_samples: int = MOST_SAMPLES,
) -> Placed:
    """Return the cohort of each client of ``data``, by their training samples; their order decides nothing.

    Each model is tried on ``most_samples`` of a client: the first, whose order is random in every population.

    Raises:
        ValueError: a client has no training samples, or ``most_samples`` is no positive number.
    """
    if most_samples < 1:
        raise ValueError(f"most_samples: expected at least 1, got {most_samples}")
    counts = np.minimum(data.train.counts(), most_samples)
    if not counts.all():
        name = data.client_names[int((counts == 0).argmax())]
        raise ValueError(f"train: expected samples with labels of every client, got none of {name!r}; leave it out")
    offsets = np.concatenate([[0], np.cumsum(counts)])
    first = np.arange(offsets[-1]) + np.repeat(data.train.offsets[:-1] - offsets[:-1], counts)
    tried = Samples(data.train.x_rows[first], data.train.y[first], offsets)
    return _Walk(tree, models, trainer, data, tried).down()


@dataclass(frozen=True)
class _Walk:
    tree: CohortTree
    models: Mapping[CohortId, Float32Array]
    trainer: Trainer
    data: FederatedData
    tried: Samples  # of data.train, those that models are tried on

    def down(self) -> Placed:
        counts, cohorts = self.tried.counts(), len(self.tree.cohorts)
        n = len(counts)
        is_here = np.zeros((n, cohorts), dtype=np.bool_)
        is_here[:, self.tree.index[ROOT]] = True
        losses = np.full((n, cohorts), np.nan)
        kept = np.full((cohorts, counts.sum()), np.nan, dtype=np.float32)  # of every sample, leaves only
        for branch in self.tree.branches:  # a cohort's own partition comes before those of its children
            clients = np.flatnonzero(is_here[:, self.tree.index[branch.cohort]])
            if len(clients) == 0:
                continue
            children = np.array([self.tree.index[child] for child in branch.children])
            of_sample = np.stack([self._losses(self._model(child), clients) for child in branch.children])
            owner = np.repeat(np.arange(len(clients)), counts[clients])
            here = _means(of_sample, owner, counts[clients])
            losses[np.ix_(clients, children)] = here
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
                kept[np.ix_(children, self.tried.positions(clients))] = of_sample
            is_here[np.ix_(clients, children)] = _worth_following(of_sample, here, owner, counts[clients])
        tried = (~np.isnan(losses)).sum(axis=1)
        best, rival = self._best_leaf(losses, is_here)
        names, rows, alone = self.tree.cohorts, np.arange(n), rival == NOWHERE
        loss = losses[rows, best]
        with np.errstate(invalid="ignore"):  # models that have all diverged tell nothing
            margin, error = np.where(alone, np.nan, losses[rows, rival] - loss), self._error(kept, best, rival)
        return Placed(
            cohort=tuple(names[place] for place in best),
            loss=loss,
            margin=margin,
            models=tried,
            samples=np.where(tried > 0, counts, 0),
            rival=tuple(None if place == NOWHERE else names[place] for place in rival),
            losses=losses[:, [self.tree.index[leaf] for leaf in self.tree.leaves]],
            is_sure=(alone & ~np.isinf(loss)) | (margin > _SURE * error),
        )

    def _error(self, kept: Float32Array, best: IntArray, rival: IntArray) -> FloatArray:
        """Return the standard error of each client's margin; infinite for a single sample."""
        counts = self.tried.counts()
        owner, samples = np.repeat(np.arange(len(counts)), counts), np.arange(kept.shape[1])
        further = kept[rival[owner], samples].astype(np.float64) - kept[best[owner], samples]
        mean = _means(further[np.newaxis], owner, counts)[:, 0]
        squares = _means(np.square(further - mean[owner])[np.newaxis], owner, counts)[:, 0]
        return np.where(counts > 1, np.sqrt(squares / np.maximum(counts - 1, 1)), np.inf)

    def _best_leaf(self, losses: FloatArray, is_here: BoolArray) -> tuple[IntArray, IntArray]:
        """Return the leaf with the least loss among those that a client has come to, and the next best or NOWHERE."""
        if len(self.tree.leaves) == 1:
            return np.zeros(len(losses), dtype=np.int64), np.full(len(losses), NOWHERE)
        leaves = np.where(self.tree.is_leaf & ~np.isnan(losses), losses, np.inf)
        reached = np.where(is_here, leaves, np.inf)
        places = np.flatnonzero(self.tree.is_leaf)  # a leaf, even where all models have diverged
        best = places[reached[:, places].argmin(axis=1)]
        others = leaves.copy()
        others[np.arange(len(losses)), best] = np.inf
        return best, np.where(np.isinf(others.min(axis=1)), NOWHERE, others.argmin(axis=1))

    def _model(self, cohort: CohortId) -> Float32Array:
        """Return the model that stands for a cohort."""
        leaves = self.tree.leaves_of(cohort)
        if leaves == (cohort,):
            return self.models[cohort]
        shares = np.array([self._share(leaf, cohort) for leaf in leaves])
        stacked = np.stack([self.models[leaf] for leaf in leaves]).astype(np.float64)
        return np.asarray(np.average(stacked, axis=0, weights=shares), dtype=np.float32)

    def _share(self, leaf: CohortId, cohort: CohortId) -> float:
        """Return a leaf's share of the members of a cohort above it."""
        share = 1.0
        for branch in self.tree.branches:
            for child, weight in zip(branch.children, branch.weights, strict=True):
                if self.tree.is_below(leaf, child) and child != cohort and self.tree.is_below(child, cohort):
                    share *= weight / sum(branch.weights)
        return share

    def _losses(self, weights: Float32Array, clients: IntArray) -> FloatArray:
        """Return the loss of each tried sample of these clients; a model that has diverged is nobody's choice."""
        losses = by_sample(self.trainer.losses, weights, self.data, self.tried, self.tried.positions(clients))
        return np.nan_to_num(losses, nan=np.inf, posinf=np.inf)


def _worth_following(of_sample: FloatArray, means: FloatArray, owner: IntArray, counts: IntArray) -> BoolArray:
    """Return which children a client goes on to: the best, and those that its samples cannot tell from it.

    Of the losses ``of_sample``, (children, samples), each client's ``means`` are (clients, children).
    """
    best = means.argmin(axis=1)
    with np.errstate(invalid="ignore"):  # the difference of two infinite losses tells nothing, and is no reason
        further = of_sample - of_sample[best[owner], np.arange(len(owner))]
        mean = _means(further, owner, counts)
        squares = _means(np.square(further - mean[owner].T), owner, counts)
    error = np.sqrt(squares / np.maximum(counts - 1, 1)[:, np.newaxis])
    follows = mean <= _CANNOT_TELL * error
    follows &= np.isfinite(error)
    follows[np.arange(len(best)), best] = True
    return np.asarray(follows)


def _means(of_sample: FloatArray, owner: IntArray, counts: IntArray) -> FloatArray:
    """Return the mean over each client's samples of each row, (clients, rows)."""
    sums = [np.bincount(owner, weights=row, minlength=len(counts)) for row in of_sample]
    return np.stack(sums, axis=1) / counts[:, np.newaxis]

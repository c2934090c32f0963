"""Sorting: in cohorts that were parted by their inputs, a client's update goes on saying where the client belongs.

Directions of updates hang on the model that was trained, and say little once cohorts have models of their own: there
clients compare models (`auxo.core.lost_clients`). How much of an update's energy falls on each input hangs on the
inputs, whatever the model. Where that has told cohorts apart it tells more than a comparison: who has few samples, and
classes of its own, likes many models about as much. Only a cluster that has become a cohort of its own speaks: one that
nobody missed may be of those who send noise, and what is left to learn late in training looks more and more like that.
"""

from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo.views import Prints, View
from auxo.core.cohort_algorithm import Closing
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray

_NOWHERE = -1
_FEWEST_MEMBERS = 5  # by whom sorting is tested in a round; our choice
_AGREE = 0.95  # share of the members whom it has to send where they are; our choice


@dataclass(frozen=True)
class Sorting:
    """Where a partition has sent clusters; nothing in it belongs to a client."""

    cohort: CohortId  # that was parted
    view: View
    centres: FloatArray  # (clusters, axes)
    common: Prints  # what participants shared in the round in which they were parted
    blocks: IntArray  # (width,) of the fingerprints
    first: int  # label of the first cluster: the tree has the child that each label leads to
    speaks: BoolArray  # (clusters,) its branch became a child; the label of another leads where its judges would go

    def places(self, closing: Closing, prints: Prints, members: BoolArray) -> IntArray:
        """Return the place, among the models that were offered, of the cohort that each update belongs to; -1: no word.

        It says nothing in a round whose members it would send elsewhere, and nothing of a cohort that has been parted.

        Args:
            closing: the round, of one of the children.
            prints: of its answers.
            members: (answers,) who has come because it belongs here.
        """
        nearness = self.view.nearness(self.view.points(prints.less(self.common), self.blocks), self.centres)
        (parted,) = (branch for branch in closing.tree.branches if branch.cohort == self.cohort)
        offered = closing.participants.offered
        place_of = np.array([offered.index(one) if one in offered else _NOWHERE for one in parted.children])
        near = np.where(np.isnan(nearness), -np.inf, nearness)
        nearest = near.argmax(axis=1)
        places = place_of[np.array(parted.routes)[self.first + nearest]]
        # Who is far from all of them, or has shown nothing of its inputs, is not told apart.
        places = np.where((near.max(axis=1) > -1.0) & prints.inputs.any(axis=1), places, _NOWHERE)
        here = places[members] == offered.index(closing.cohort)
        agrees = len(here) >= _FEWEST_MEMBERS and here.mean() >= _AGREE
        return np.where(agrees & self.speaks[nearest], places, _NOWHERE)

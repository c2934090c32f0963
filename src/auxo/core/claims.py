"""What a round's participants bring along from their own records, as their requests claim it (section 5.1)."""

from dataclasses import dataclass

import numpy as np

from auxo.core.affinity import FOLDS, Requests
from auxo.core.types import BoolArray, CohortId, IntArray


@dataclass(frozen=True)
class Claims:
    """One row for each participant; it is forgotten when the round closes."""

    vouched: BoolArray  # came by their own request, not by a draw
    known: BoolArray  # their own record ranks this cohort first with a positive reward
    label: IntArray  # cluster index in this cohort from all earlier visits; -1: none
    label_by_fold: IntArray  # (rows, FOLDS)
    generation: IntArray

    @staticmethod
    def of(requests: Requests, vouched: BoolArray, cohort: CohortId) -> "Claims":
        """Take from requests what concerns ``cohort``; a label for another cohort says nothing here."""
        position = requests.tree.index.get(cohort, -1)
        here = (requests.cohort == position) & (position >= 0)
        return Claims(
            vouched=vouched,
            known=vouched & requests.ranked_first & ((requests.reward > 0) | ~here),
            label=np.where(here, requests.cluster, -1),
            label_by_fold=np.where(here[:, None], requests.cluster_by_fold, -1),
            generation=np.where(here, requests.generation, -1),
        )

    def take(self, rows: IntArray) -> "Claims":
        """Return the claims in ``rows``, in that order."""
        return Claims(
            vouched=self.vouched[rows],
            known=self.known[rows],
            label=self.label[rows],
            label_by_fold=self.label_by_fold[rows],
            generation=self.generation[rows],
        )

    def members_first(self) -> IntArray:
        """Return the rows with those known to the cohort at the front: newcomers are compared with them."""
        return np.argsort(~self.known, kind="stable")

    def held_out_label(self, fold: IntArray) -> IntArray:
        """Return the label from samples that the participant does not train on in this round; -1: none."""
        rows = np.arange(len(fold))
        other = self.label_by_fold[rows, np.where(fold >= 0, FOLDS - 1 - fold, 0)]
        return np.where(fold >= 0, other, -1)

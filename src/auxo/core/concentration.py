"""How much of a cohort's round may be on nobody's word but the clients' own.

Where claims are signed (`auxo.core.proofs`) the server knows whom it has observed to fit a cohort. All others,
newcomers and those who claim what they cannot prove, may be many: a seventh of all clients is most of a cohort that has
a twentieth of them. So they have a share of a cohort's round and no more, as participants, and as those who move its
model without being like its members. Where the proved are too few to fill their part nobody is kept out.
"""

import numpy as np

from auxo.core.types import BoolArray, IntArray

MOST_UNPROVED = 1 / 3
"""Share of a cohort's round that participants without a proof may have; our choice.

If all of them send the opposite of what members send, and no longer updates, the model still moves by a third of a
step in the right direction. Honest newcomers are seldom more: measured, see docs/security.md.
"""


def beside(most: float) -> float:
    """Return how many may stand beside one, if they are to be at most this share of all.

    >>> beside(0.5), beside(0.75)
    (1.0, 3.0)
    """
    return most / (1 - most) if most < 1 else float("inf")


class Allowance:
    """Counts who moves a model, so that a share of them at most does so on its own word."""

    def __init__(self, most: float) -> None:
        self._beside, self._others, self._granted = beside(most), 0, 0

    def counts(self) -> None:
        """Take note of somebody who needs no allowance."""
        self._others += 1

    def grant(self) -> bool:
        """Return whether one more may be let through on its own word, and take note of it if so."""
        if self._granted + 1 > self._beside * self._others:
            return False
        self._granted += 1
        return True


def places_for(unproved: BoolArray, wanted: int, most: float) -> int | None:
    """Return how many of a round's places go to those without a proof; None: chance gives them no more than they may.

    >>> places_for(np.array([True] * 60 + [False] * 40), 30, 0.5), places_for(np.array([True, False, False]), 2, 0.5)
    (15, None)
    """
    count, others = int(unproved.sum()), int((~unproved).sum())
    if len(unproved) <= wanted or count <= most * len(unproved):
        return None
    return max(int(most * wanted), wanted - others)


def in_places(chosen: IntArray, others: IntArray) -> IntArray:
    """Return two selections as one, in the order of the check-ins."""
    return np.sort(np.concatenate((chosen, others)))

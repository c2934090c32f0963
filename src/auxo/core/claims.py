"""What a round's participants bring along from their own records, as their requests claim it (section 5.1)."""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.asking import Asks
from auxo.core.cohort_algorithm import Closing, Opening, Plan
from auxo.core.gathering import Gathered
from auxo.core.own_state import own
from auxo.core.proofs import LED, PROVED
from auxo.core.rewards import RewardSettings, instant_rewards
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray

_FEWEST_PROVED = 2  # members that others are held to where claims are signed; our choice


@dataclass(frozen=True)
class Claims:
    """One row for each participant; it is forgotten when the round closes."""

    vouched: BoolArray  # came by their own request, not by a draw
    known: BoolArray  # their own record ranks this cohort first with a positive reward, which is proved where it can be
    label: IntArray  # cluster index in this cohort from all earlier visits; -1: none
    generation: IntArray

    @staticmethod
    def of(requests: Requests, vouched: BoolArray, cohort: CohortId) -> "Claims":
        """Take from requests what concerns ``cohort``; a label for another cohort says nothing here."""
        position = requests.tree.index.get(cohort, -1)
        here = (requests.cohort == position) & (position >= 0)
        unproved = unproved_of(requests, vouched)
        # Where claims are signed the proof is of the reward, and what the client says that it is does not count.
        rewarded = (requests.reward > 0) | ~here if unproved is None else ~unproved
        return Claims(
            vouched=vouched,
            known=vouched & requests.ranked_first & rewarded,
            label=np.where(here, requests.cluster, -1),
            generation=np.where(here, requests.generation, -1),
        )

    def take(self, rows: IntArray) -> "Claims":
        """Return the claims in ``rows``, in that order."""
        return Claims(
            vouched=self.vouched[rows],
            known=self.known[rows],
            label=self.label[rows],
            generation=self.generation[rows],
        )


def unproved_of(requests: Requests, vouched: BoolArray) -> BoolArray | None:
    """Return who has no proof of belonging where it was matched to; None: nobody signs, and everybody's word counts."""
    return None if requests.proof is None else ~(vouched & (requests.proof == PROVED))


def on_own_word(requests: Requests, vouched: BoolArray) -> BoolArray | None:
    """Return who is where it was matched to on nobody's word but its own; None: nobody signs."""
    return None if requests.proof is None else ~(vouched & (requests.proof >= LED))


def plan_members_first(opening: Opening, hears_late: bool = False) -> Plan:
    """Return a plan that keeps what participants claim, those known to the cohort first: others are compared with them.

    All train on all their samples.

    Args:
        opening: the round.
        hears_late: see `Plan`.
    """
    claims = Claims.of(opening.selected.requests, opening.vouched, opening.cohort)
    rows = np.argsort(~claims.known, kind="stable")
    return Plan(rows, (opening.cohort,), Asks.plain(len(rows)), hears_late, claims.take(rows))


def claims_of(closing: Closing, gathered: Gathered) -> Claims:
    """Return what the participants with a valid update have claimed, in the order of ``gathered``."""
    return own(Claims, closing.participants.notes).take(gathered.rows)


def round_rewards(closing: Closing, gathered: Gathered, settings: RewardSettings) -> FloatArray:
    """Return the instant rewards of a round's participants; NaN while the cohort is the only one.

    Where claims are signed, rewards are what proofs are made of. A single member cannot vouch for others there, and
    they cannot for each other while it is there.
    """
    nothing = np.full(len(gathered.rows), np.nan)
    if closing.outlook.cohorts == 1:
        return nothing
    known = claims_of(closing, gathered).known & ~gathered.late
    if closing.unproved is not None and known.sum() == 1:
        return nothing
    return instant_rewards(gathered.directions, known, held_to(closing, settings), gathered.lengths)


def held_to(closing: Closing, settings: RewardSettings) -> RewardSettings:
    """Return how others are held to known members: two will do where it is proved that they are, and by medians."""
    return settings if closing.unproved is None else replace(settings, min_known=_FEWEST_PROVED, robust=True)

"""Lost clients: participants that compare the leaves' models on their own samples, and train the best.

After a partition a client may be in the wrong cohort, and a newcomer is anywhere. Those whose cohort has not yet been
confirmed by comparisons are offered all leaves' models, the cohort's own first. Who likes another better trains that
one, and is told where it belongs. Its update moves nothing, or is credited to the other cohort. Not in the paper.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.asking import LEAST_LOSS
from auxo.core.cohort_algorithm import Affinities, Closing, Opening, Outcome, Plan, stepped
from auxo.core.concentration import Allowance
from auxo.core.gathering import Admission, Belongs, Examined, Gathered
from auxo.core.types import BoolArray, FloatArray, IntArray

_OWN = 0  # place of the cohort's own model among the offered
# Share of its loss by which another model has to be better for a client that has reason to be in its cohort: less is
# chance while models have hardly parted, and for who has few samples. Our choice.
_MARGIN = 0.05


def compare_leaves(opening: Opening, plan: Plan, confirmations: int) -> Plan:
    """Return a plan in which those compare models whose cohort fewer comparisons than this have named.

    Args:
        opening: the round.
        plan: for the cohort's own model.
        confirmations: of a client that has trained a few times; 0: nobody compares.
    """
    if confirmations == 0 or len(opening.tree.leaves) == 1:
        return plan
    requests = opening.selected.requests
    position = requests.tree.index.get(opening.cohort, -1)
    here = (requests.cohort == position) & (position >= 0)  # what is said of another cohort confirms nothing here
    wanted = _wanted(requests.participations[plan.rows], confirmations)
    compares = np.where(here, requests.confirmed, 0)[plan.rows] < wanted
    # Who comes by its label, which named this cohort when it was made, has been compared with others already.
    compares &= here[plan.rows] | ~opening.vouched[plan.rows]
    if not compares.any():
        return plan
    others = (leaf for leaf in opening.tree.leaves if leaf != opening.cohort)
    margin = np.where(opening.vouched[plan.rows], _MARGIN, 0.0)
    asks = replace(plan.asks, model=np.where(compares, LEAST_LOSS, plan.asks.model), margin=margin)
    return replace(plan, offered=(opening.cohort, *others), asks=asks)


def _wanted(participations: IntArray, confirmations: int) -> FloatArray:
    """Return how many comparisons must have named a client's cohort: another when it has trained twice as often.

    While cohorts are new their models have hardly parted, and who has few samples errs; once they have trained twice as
    long they are worth another look.
    """
    return np.maximum(confirmations, np.floor(np.log2(np.maximum(participations, 1))))


@dataclass(frozen=True)
class OfOwnModel:
    """Admits those who have found a model to be better than all others, and lets another decide about the rest."""

    otherwise: Admission
    has_found: BoolArray  # (participants, offered) compares, and would train this model only if it were the best
    credits: bool  # who has trained another leaf's model moves that one
    unproved: BoolArray | None = None  # (participants,) on whose own word it would be; None: everybody's word counts
    allowance: Allowance | None = None  # for these

    def place(self, row: int, examined: Examined, model: int) -> int | tuple[int, ...] | Belongs | None:
        """Return which of the cohort's models an update may move."""
        if _OWN < model < self.has_found.shape[1]:  # other numbers are of models that the cohort holds itself
            return model if self.credits and self.has_found[row, model] else None
        moved = self.otherwise.place(row, examined, model)
        if self.unproved is None or self.allowance is None or not self.unproved[row]:
            if self.allowance is not None:
                self.allowance.counts()
            return model if moved is None and self.has_found[row, _OWN] else moved
        if moved is None and self.has_found[row, _OWN] and self.allowance.grant():
            return model
        return moved


def of_own_model(closing: Closing, otherwise: Admission, *, crediting: bool = False) -> Admission:
    """Return who decides in a round in which some may have compared models; ``otherwise`` where nobody has.

    With ``crediting`` who has trained another leaf's model moves that one, where updates are averaged.
    """
    compared = closing.participants.asks.model == LEAST_LOSS
    if not compared.any():
        return otherwise
    has_found = compared[:, None] & _is_unlike_others(closing)[None, :]
    allowance = None if closing.unproved is None else Allowance(closing.most_unproved)
    return OfOwnModel(otherwise, has_found, crediting and closing.averages, closing.unproved, allowance)


def own_answers(closing: Closing, gathered: Gathered) -> Gathered:
    """Return the answers of those who have trained the cohort's own models; others' updates cannot be compared."""
    mine = _is_own(closing, gathered)
    if mine.all():
        return gathered
    return gathered.take(mine)


def all_have_left(
    closing: Closing, gathered: Gathered, aggregator: Aggregator, clusters: int, generation: int
) -> Outcome | None:
    """Return the outcome of a round that nobody has trained the cohort's model in, because all preferred others.

    They have to hear of it, or they would come again and again. None: nobody has been there in time.
    """
    if not (~gathered.late & ~_is_own(closing, gathered)).any():
        return None
    n = len(own_answers(closing, gathered).rows)
    nothing = Affinities(np.full(n, np.nan), np.full((n, clusters), np.nan), generation)
    return Outcome(stepped(closing, gathered, aggregator), affinities=nothing)


def tell_places(closing: Closing, gathered: Gathered, outcome: Outcome, found: IntArray | None = None) -> Outcome:
    """Return the outcome of `own_answers` as one of all: with no reward for those who left, and where they belong.

    Where the best models are alike, as after a partition, a comparison has said nothing.

    Args:
        closing: the round.
        gathered: its answers.
        outcome: of those who have trained the cohort's own models.
        found: (answers,) place of the model that each of those who compare belongs to, whatever it has chosen; -1, or
            None: what it has chosen says it.
    """
    said = outcome.affinities
    compared = (closing.participants.asks.model == LEAST_LOSS)[gathered.rows]
    if said is None or not compared.any():
        return outcome
    mine = _is_own(closing, gathered)
    tells = compared & _is_unlike_others(closing)[np.where(compared, gathered.model, _OWN)]
    placed = np.where(tells, gathered.model, -1)
    if found is not None:
        placed = np.where(compared & (found >= 0), found, placed)
    told = Affinities(
        instant_reward=_spread(said.instant_reward, mine),
        similarity=_spread(said.similarity, mine),
        generation=said.generation,
        placed=placed,
        observed=None if said.observed is None else _spread(said.observed, mine),
    )
    return replace(outcome, affinities=told)


def _is_own(closing: Closing, gathered: Gathered) -> BoolArray:
    return np.asarray((gathered.model == _OWN) | (gathered.model >= len(closing.models)))


def _spread(values: FloatArray, mine: BoolArray) -> FloatArray:
    column = np.full((len(mine), *values.shape[1:]), np.nan)
    column[mine] = values
    return column


def _is_unlike_others(closing: Closing) -> BoolArray:
    """Return, for each of the offered models, whether it is none of the others."""
    unlike = np.ones(len(closing.models), dtype=np.bool_)
    for (one, mine), (other, theirs) in combinations(enumerate(closing.models), 2):
        if np.array_equal(mine, theirs):
            unlike[[one, other]] = False
    return unlike

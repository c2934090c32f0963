"""A pool of sketches: what a cohort gathers where updates must not show what clients are like (`auxo.core.words`).

Each client is asked once, and who comes again is not asked again: the same question, the same answer. So the pool
grows by clients, and is looked at when there are as many sketches as their noise asks for, and again at half as many
more, or when hardly anybody is left who has not been asked.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo.judges import seals
from auxo.algorithms.auxo.noisy_centres import needed, noisy_centres, same_length
from auxo.algorithms.auxo.settings import SketchSettings
from auxo.core.asking import Asks
from auxo.core.cohort_algorithm import Closing, Opening, Plan
from auxo.core.gathering import Gathered
from auxo.core.types import CohortId, Float32Array, FloatArray, IntArray
from auxo.core.words import Words, width_of

_OWN = 0
_FEW_LEFT = 0.25  # share of a round's participants who have not been asked, below which the pool is as full as it gets


@dataclass(frozen=True)
class SketchedRound:
    """A round's sketches, and marks by which the clients are known again (`auxo.algorithms.auxo.judges`)."""

    sketches: Float32Array  # (participants, width)
    seals: IntArray


@dataclass(frozen=True)
class SketchPool:
    """A cohort that trains its model and gathers sketches, unless it rests. All of it is lost without harm."""

    question: int = 1  # number of the one that is asked now, its ancestors' included; labels are of its generation
    rests_until: int = 0  # round after which it asks
    needs: int = 0  # sketches before the next look; 0: as many as their noise asks for
    rounds: tuple[SketchedRound, ...] = ()

    @property
    def generation(self) -> int:
        """Return what labels are of: the question."""
        return self.question

    @property
    def asked(self) -> IntArray:
        """Return the marks of those who have said theirs."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(one.seals for one in self.rounds)])

    def plan(self, opening: Opening, plan: Plan, settings: SketchSettings) -> Plan:
        """Return who is asked for a sketch: who trains the cohort's own model, and has not been asked before."""
        if opening.state.round < self.rests_until:
            return plan
        clients = opening.selected.clients[plan.rows]
        fresh = ~np.isin(seals(clients, self.question, opening.secret), self.asked) & (plan.asks.model == _OWN)
        word = Words(question_of(opening.cohort, self.question), self.question, settings.width, sketch=settings.epsilon)
        return replace(plan, asks=asked_words(plan.asks, tuple(word if one else None for one in fresh.tolist())))

    def after(self, closing: Closing, gathered: Gathered, settings: SketchSettings) -> "SketchPool":
        """Return it with a round's sketches, late ones included: they are of the same model."""
        was_asked = np.array([one is not None for one in words_asked_of(closing, gathered.rows)], dtype=np.bool_)
        here = np.flatnonzero((gathered.model == _OWN) & was_asked)
        # The order in which participants were selected decides nothing.
        here = here[np.argsort(closing.participants.clients[gathered.rows[here]], kind="stable")]
        sketches = gathered.words.of_width(width_of(closing.models[_OWN].size, settings.width))[here]
        is_said = np.isfinite(sketches).all(axis=1)
        here, sketches = here[is_said], sketches[is_said]
        if len(here) == 0 or len(self.asked) >= settings.pool_most:
            return self
        marks = seals(closing.participants.clients[gathered.rows[here]], self.question, closing.secret)
        return replace(self, rounds=(*self.rounds, SketchedRound(sketches.astype(np.float32), marks)))

    def is_full(self, participants: int, settings: SketchSettings) -> bool:
        """Return whether there is enough to look at; ``participants`` were there in the last round."""
        if not self.rounds:
            return False
        held = len(self.asked)
        return held >= (self.needs or needed(self._sketches)) or self.is_drained(participants, settings)

    def is_drained(self, participants: int, settings: SketchSettings) -> bool:
        """Return whether there will hardly be more: few are left who have not been asked, or there is no room."""
        fresh = len(self.rounds[-1].seals) if self.rounds else 0
        return len(self.asked) >= settings.pool_most or (len(self.rounds) > 1 and fresh < _FEW_LEFT * participants)

    def look(self, most: int, rng: np.random.Generator) -> FloatArray | None:
        """Return (clusters, width) centres to publish; None: there is nothing but noise."""
        centred = [one - one.mean(axis=0) for one in self._by_round if len(one) > 1]
        if not centred:
            return None
        found = noisy_centres(np.concatenate(centred), most, rng)
        return None if found is None else self._sketches.mean(axis=0) + found

    @property
    def _by_round(self) -> list[FloatArray]:
        ends = np.cumsum([len(one.seals) for one in self.rounds])[:-1]
        return np.split(self._sketches, ends)

    @property
    def _sketches(self) -> FloatArray:
        return same_length(np.concatenate([one.sketches for one in self.rounds]).astype(np.float64))

    def looked(self) -> "SketchPool":
        """Return it after a look that has shown nothing: noise hides less in half as many again."""
        return replace(self, needs=3 * len(self.asked) // 2)

    def rested(self, number: int) -> "SketchPool":
        """Return it after a trial or all that could be asked, in the round of this number; it asks something new later.

        The longer it has found nothing the less there is to be found, and every question costs clients something.
        """
        return SketchPool(self.question + 1, rests_until=2 * number)


def question_of(cohort: CohortId, number: int) -> str:
    """Return what a cohort's question is called: the same text is the same question."""
    return f"{cohort}#{number}"


def asked_words(asks: Asks, words: tuple[Words | None, ...]) -> Asks:
    """Return asks with words; none where nobody is asked for any."""
    return replace(asks, words=words if any(one is not None for one in words) else ())


def words_asked_of(closing: Closing, rows: IntArray) -> list[Words | None]:
    """Return the words that some of a round's participants were asked for."""
    words = closing.participants.asks.words
    return [words[row] if words else None for row in rows.tolist()]

"""Oort: participants whose samples teach most and who are fast enough, and some whom nobody knows yet.

Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided Participant Selection", OSDI 2021,
section 4 and Algorithm 1; where the text leaves something open, the authors' code decides (SymbioticLab/Oort,
oort/oort.py), whose defaults these are.

What is used as a sample's loss: the one at the model that the participant was sent, before it trains, by one forward
pass over its samples, which is charged. The authors' code takes losses as they fall off in the first local epoch, when
the model has already moved; those of the model that was sent are the same whatever the local training is, and every
trainer can work them out. Where a participant says its mean loss only, that stands for the root of the mean square:
it is never larger.
"""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState, own
from auxo.core.selectors.client_table import ClientTable
from auxo.core.settings import Bounds, Fraction, NonNegativeFloat, NonNegativeInt, PositiveInt, checked, setting
from auxo.core.turnout import Turnout
from auxo.core.types import FloatArray, IntArray

_LEAST_RANGE = 1e-4  # of utilities that scores are stretched to; as in the authors' code
_ALMOST_LEAST = 0.999  # of the least utility, which is so worth a little; as in the authors' code
_UNCERTAINTY = 0.1  # weight of how long ago a client took part; section 4.3 and the authors' code
_FLAT, _SHARP = 0.1, 5.0  # relative changes of utility that the pacer acts on; as in the authors' code
_MOST_LOSS = 1e100  # so that squares stay finite; whoever says more is clipped anyway
_EVERYBODY = 100.0  # percentile that stands for no preference in speed

_Percentile = Annotated[float, Bounds(gt=0, le=_EVERYBODY)]


@dataclass(frozen=True)
class OortMemory:
    """What Oort knows of a cohort's clients: a table keyed by client, and where its pacer stands."""

    table: ClientTable = field(default_factory=ClientTable.empty)
    rounds: int = 0  # learnt so far, those of the cohort's ancestors included
    threshold: float = 0.0  # percentile of the known clients' times beyond which a client is slow
    exploited: tuple[float, ...] = ()  # mean utility of the exploited in the last rounds, the newest at the end


@dataclass(frozen=True)
@checked
class Oort:
    """Selects by utility and speed; remembers every client that has taken part (`ClientTable`, 64 bytes each)."""

    exploration: Fraction = setting(0.9, "Share of a round that goes to clients nobody knows, before the first decay.")
    exploration_decay: Fraction = setting(0.95, "What every round leaves of that share.")
    exploration_least: Fraction = setting(0.2, "The least that is left of it while there are such clients.")
    threshold: _Percentile = setting(
        10.0, "Percentile of known clients' times that a round should last at first; 100: no client is too slow."
    )
    penalty: NonNegativeFloat = setting(2.0, "Exponent of (round's time / client's time) for clients that are slower.")
    pacer_rounds: PositiveInt = setting(20, "Rounds after which the pacer looks at the utility it has got.")
    pacer_step: _Percentile = setting(5.0, "What the pacer moves the percentile by: up when utility is flat.")
    clip: Fraction = setting(0.98, "Quantile of utilities that no client's counts beyond, against outliers.")
    cut_off: Fraction = setting(
        0.7, "Candidates have at least this share of the score of the first that would be left."
    )
    blacklist_after: NonNegativeInt = setting(0, "Turns after which a client is taken last only; 0: never.")
    blacklist_share: Fraction = setting(0.3, "Known clients of whom that can be said at the same time, at most.")

    own_states = (OortMemory,)
    asks_for_loss = True

    def begin(self, parent: OwnState | None = None) -> OwnState:
        """Return nobody; or all that is known of the clients of the cohort that was partitioned."""
        return OortMemory(threshold=self.threshold) if parent is None else own(OortMemory, parent)

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        """Return known clients drawn by their scores, and some whom nobody knows.

        Of the latter nothing is known before they take part, neither their samples nor their speed, so that all have
        the same chance. Blacklisted clients are taken where there is nobody else.
        """
        known = own(OortMemory, memory)
        if wanted >= len(rows):
            return rows.copy()
        places = known.table.places(candidates.clients[rows])
        barred = np.isin(places, self.blacklist(known.table)) & (places >= 0)
        newcomers, usable = np.flatnonzero(places < 0), np.flatnonzero((places >= 0) & ~barred)
        exploration = self.exploration_in(known.rounds + 1) if len(newcomers) else 0.0
        exploit = min(int(wanted * (1 - exploration)), len(usable))
        scores = self.scores(known, places[usable])
        exploited = usable[_drawn(scores, self.candidates(scores, exploit), exploit, rng)]
        explored = rng.permutation(newcomers)[: wanted - exploit]
        left = np.setdiff1d(usable, exploited, assume_unique=True)
        # Whoever is left fills up; the barred come last.
        others = np.concatenate([rng.permutation(left), rng.permutation(np.flatnonzero(barred))])
        filled = others[: wanted - len(exploited) - len(explored)]
        return np.sort(rows[np.concatenate([exploited, explored, filled])])

    def exploration_in(self, number: int) -> float:
        """Return the share of a round, counted from 1, that goes to clients nobody knows."""
        return max(self.exploration * self.exploration_decay**number, self.exploration_least)

    def preferred_s(self, memory: OortMemory) -> float:
        """Return how long a round should last: longer than that, and a client is slow; inf: none is."""
        times = memory.table.usual_s[np.isfinite(memory.table.usual_s)]
        if memory.threshold >= _EVERYBODY or len(times) == 0:
            return float("inf")
        return _ranked(times, min(int(len(times) * memory.threshold / _EVERYBODY), len(times) - 1))

    def scores(self, memory: OortMemory, places: IntArray) -> FloatArray:
        """Return the score of each of these rows of the table: statistical utility with age, times system utility.

        Utilities are stretched to about 0 to 1 between the least and the largest of these clients, and clipped. One
        whose utility is nothing may come out below 0, and has then no chance but to fill up.
        """
        table, now = memory.table, memory.rounds + 1
        utility = table.utility[places]
        positive = utility[utility > 0]
        if len(positive) == 0:
            positive = np.ones(1)
        least = _ALMOST_LEAST * float(positive.min())
        spread = max(float(positive.max()) - least, _LEAST_RANGE)
        clip = _ranked(positive, min(int(len(positive) * self.clip), len(positive) - 1))
        scores = (np.minimum(utility, clip) - least) / spread
        scores += np.sqrt(_UNCERTAINTY * np.log(now) / np.maximum(table.last_round[places], 1))
        slow_s, took_s = self.preferred_s(memory), table.usual_s[places]
        too_slow = took_s > slow_s  # not where nobody knows
        scores[too_slow] *= (slow_s / took_s[too_slow]) ** self.penalty
        return np.maximum(scores, 0.0)

    def candidates(self, scores: FloatArray, exploit: int) -> IntArray:
        """Return whose scores are not far below that of the first who would be left if the best were taken."""
        if exploit == 0:
            return np.zeros(0, dtype=np.int64)
        best_left = _ranked(-scores, min(exploit, len(scores) - 1))
        return np.flatnonzero(scores >= -best_left * self.cut_off)

    def blacklist(self, table: ClientTable) -> IntArray:
        """Return the rows of the clients that have had the most turns: those above the limit, but not too many."""
        if self.blacklist_after == 0:
            return np.zeros(0, dtype=np.int64)
        over = np.flatnonzero(table.turns > self.blacklist_after)
        most_first = over[np.argsort(-table.turns[over], kind="stable")]
        return most_first[: int(self.blacklist_share * len(table))]

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        """Return the table after a round, and the pacer's next percentile.

        Who was too late to be heard counts with the mean utility of those that were heard, as in the authors' code.
        Who failed is known to have had a turn, and keeps its utility; a newcomer who failed stays one.
        """
        before = own(OortMemory, memory)
        number, was_known = before.rounds + 1, before.table.places(turnout.clients) >= 0
        heard = np.flatnonzero(was_known | ~turnout.failed)
        table = before.table.with_rows_for(turnout.clients[heard])
        rows = table.places(turnout.clients[heard])
        utility = self._utility(turnout, before.table)
        exploited = utility[turnout.answered & was_known]
        times, failed = turnout.times, turnout.failed[heard]
        gain = turnout.length * turnout.examples
        after = table.put(
            rows,
            utility=np.where(failed, table.utility[rows], utility[heard]),
            usual_s=_newer(times.usual_s[heard], table.usual_s[rows]),
            epoch_s=_newer(times.epoch_s[heard], table.epoch_s[rows]),
            upload_s=_newer(times.upload_s[heard], table.upload_s[rows]),
            gain=_newer(gain[heard], table.gain[rows]),
            last_round=np.full(len(rows), number, dtype=np.int64),
            turns=table.turns[rows] + 1,
        )
        history = (*before.exploited, float(exploited.mean()) if len(exploited) else 0.0)[-2 * self.pacer_rounds :]
        return OortMemory(after, number, self.paced(before.threshold, history, number), history)

    def paced(self, threshold: float, exploited: tuple[float, ...], number: int) -> float:
        """Return the percentile after round ``number``: once in a while it moves with the utility that came of it.

        Args:
            threshold: the percentile up to now.
            exploited: mean utility of the exploited in the last rounds, the newest at the end.
            number: of the round that has closed, from 1.
        """
        if number < 2 * self.pacer_rounds or number % self.pacer_rounds:
            return threshold
        last, now = sum(exploited[: -self.pacer_rounds]), sum(exploited[-self.pacer_rounds :])
        if abs(now - last) <= _FLAT * last:
            return min(_EVERYBODY, threshold + self.pacer_step)
        if abs(now - last) >= _SHARP * last:
            return max(self.pacer_step, threshold - self.pacer_step)
        return threshold

    def _utility(self, turnout: Turnout, table: ClientTable) -> FloatArray:
        """Return the statistical utility of each row, where there is no loss to go by the mean of the others."""
        utility = statistical_utility(turnout)
        said = utility[np.isfinite(utility)]
        usual = said.mean() if len(said) else table.utility.mean() if len(table) else 1.0
        return np.where(np.isfinite(utility), utility, usual)


def statistical_utility(turnout: Turnout) -> FloatArray:
    """Return |B| sqrt(1/|B| sum of loss^2) of each row, B its samples; NaN without a loss, or with one below 0."""
    loss = np.clip(turnout.loss, -1.0, _MOST_LOSS)
    squares = np.where(np.isfinite(turnout.squared_loss), turnout.squared_loss, loss**2)
    squares[~turnout.answered | (turnout.loss < 0) | (squares < 0)] = np.nan
    return np.asarray(turnout.examples * np.sqrt(squares))


def _drawn(scores: FloatArray, candidates: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return so many of the candidates, one after another by chances in proportion to their scores."""
    with np.errstate(divide="ignore"):  # a score of 0 comes last
        # The largest of scores' logarithms with Gumbel noise are such a draw without replacement.
        keys = np.log(scores[candidates]) + rng.gumbel(size=len(candidates))
    return candidates[np.argsort(-keys, kind="stable")[:count]]


def _ranked(values: FloatArray, rank: int) -> float:
    """Return the value of a rank, the least being 0."""
    return float(np.partition(values, rank)[rank])


def _newer(now: FloatArray, before: FloatArray) -> FloatArray:
    return np.where(np.isfinite(now), now, before)

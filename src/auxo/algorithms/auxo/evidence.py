"""Evidence that a partition pays: bets on what judges gain, which may be looked at at any time.

A judge says the losses of the cohort's own model and of every branch's on two halves of its samples. By one half it
chooses, as it will once a partition is made; by the other it is judged. Its gain is the loss of the one model that
would serve all best less that of its choice: a branch that is merely ahead for everybody is no reason to part. If
parting does not pay, no bet on gains can be expected to win: the chance that a stake ever grows to a thousand times
itself is one in a thousand, however often one looks (Ville's inequality; Waudby-Smith and Ramdas, Estimating means of
bounded random variables by betting, 2024). So a trial may end as soon as it is sure. That holds as far as nobody loses
more than anybody has gained or lost before: rare and far larger harm is not seen by few judges. They choose by samples
of their own, so that it could only come of halves that have nothing to do with each other.

Where clients are many, judges are a sample of them. Each is heard once, and the stake is bet on one after another.
Where everybody takes part the clients are all there is, and what is sampled is what they have held out: then each look
is a test of its own over all of them, and looks share the chance of an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from auxo.core.folds import FIFTHS
from auxo.core.types import BoolArray, FloatArray, IntArray

OWN = 0
"""Place of the cohort's own model among those that are judged; branches follow."""

BETS = np.array([0.1, 0.3, 0.6, 0.95])  # parts of the stake that are bet, side by side; our choice
_CLEARLY = 0.02  # share of a loss, where errors are not told; our choice, as that of `TrialSettings.min_gain`
_DEVIATIONS = 3.0  # of their mean, by which gains have to be clear of zero; our choice
_FEWEST = 60  # judges who tell which models are missed; our choice
_MOST_LOSS = 1e6  # in usual ones: more is as bad as can be
MOST_LOG = 600.0  # of a stake: more is as good as sure, and e to it is still a number
_ALL_LOOKS = 6 / np.pi**2  # over the squares of whole numbers sums to one
_ABOUT_ONE = 0.999  # a chance from which on a bet on all gains is taken to be lost by half: there its sum cancels out

STEEP = 1.0
"""How fast losses usually fall early in training, see `Evidence.steepness`; our choice."""

_STEEP_BY = 0.5  # by how much that differs, and from one trial to the next; our choice
_LEAST_ERROR = 0.01  # of a median loss, in parts of it; our choice
_OF_MEDIAN = 1.2533  # its standard error, in those of a mean of what is normal
_MAD_TO_STD = 1.4826  # of what is normal
_FAR_OFF = 3.0  # deviations of what judges gain, beyond which one is off; our choice
_LEAST_SPREAD = 0.05  # of gains, in usual losses: where most gain nothing a little more is nothing unusual; our choice

_TO_LEARN = 80.0  # numbers that a model has to learn, see `Evidence.price`; our choice
_NATS = (0.25, 1.0)  # what usual losses are taken to be at least and at most, in units that nobody tells; our choice

_ROUNDING = 1e-6  # part of a mean: what differs by less does not tell by how much it could

COMPANY = 2
"""Judges who would choose a model that becomes a cohort: one client is no federation; our choice."""

LOOKS = 3
"""Of a trial where everybody judges, at each of which a third of the stake is bet."""


@dataclass(frozen=True)
class Said:
    """What judges have said of models on trial, one row each."""

    seals: IntArray  # (rows,) by which judges are known again, see `auxo.algorithms.auxo.judges`
    rounds: IntArray  # (rows,) of the trial in which each was heard
    samples: FloatArray  # (rows,) that each is judged by
    losses: FloatArray  # (rows, models) by which each is judged
    scores: FloatArray  # (rows, models) likewise, larger is better; NaN: not said
    other_losses: FloatArray  # (rows, models) by which each chooses; infinite for models that it cannot have
    other_scores: FloatArray  # (rows, models) likewise
    errors: FloatArray  # (rows, models) squared standard errors of ``losses`` less that of the own model; NaN: not said
    both: BoolArray  # (rows,) whether the halves may change places: neither was trained on by itself
    kept_out: BoolArray  # (rows,) judged by the part that this trial keeps out, and not by the same samples in each
    far: BoolArray  # (rows,) has far to go from the cohort's own model, as the length of its update shows

    @staticmethod
    def none(models: int) -> "Said":
        """Return that nobody has been heard."""
        nobody, nothing = np.zeros(0, dtype=np.int64), np.zeros((0, models))
        unsaid = (nothing,) * 5
        nobodys = np.zeros(0, dtype=np.bool_)
        return Said(nobody, nobody, np.zeros(0), *unsaid, both=nobodys, kept_out=nobodys, far=nobodys)

    def take(self, rows: IntArray | BoolArray) -> "Said":
        """Return what some of them have said."""
        return Said(*(column[rows] for column in self._columns))

    def and_of(self, more: "Said") -> "Said":
        """Return this and what others have said; of a judge that is heard again the last counts."""
        kept = self.take(~np.isin(self.seals, more.seals))
        return Said(*(np.concatenate(two) for two in zip(kept._columns, more._columns, strict=True)))

    @property
    def _columns(self) -> tuple["NDArray[Any]", ...]:
        return (
            self.seals, self.rounds, self.samples, self.losses, self.scores, self.other_losses, self.other_scores,
            self.errors, self.both, self.kept_out, self.far,
        )  # fmt: skip

    def gains(self, usual: float, models: IntArray, single: int) -> FloatArray:
        """Return what each gains by its choice among ``models`` over a single one for all, in parts of the usual loss.

        Nobody gains or loses more than one of them, so that a few can neither win nor hide everything.
        """
        aside = self._aside(single)
        one_way = _gains(self.other_losses, self.losses, usual, models, single, aside)
        other_way = _gains(self.losses, self.other_losses, usual, models, single, aside)
        return np.where(self.both, (one_way + other_way) / 2, one_way)

    def error(self, usual: float, models: IntArray, single: int) -> float:
        """Return the standard error of the mean gain as far as it hangs on the samples that are judged by; NaN: unsaid.

        Errors are of what models are apart from the cohort's own: two others are at most as far apart as both together.
        """
        chosen = _unless_single(self.other_losses, models, single, self._aside(single))
        mine, rows = np.sqrt(self.errors), np.arange(len(chosen))
        apart = np.where(chosen == single, 0.0, mine[rows, chosen] + mine[:, single])
        return float(np.sqrt((apart**2).sum()) / len(rows) / usual)

    def better_scores(self, models: IntArray, single: int) -> FloatArray:
        """Return by how much each one's score is better by its choice; NaN where it has told none."""
        aside = self._aside(single)
        one_way = _better(self.other_losses, self.scores, models, single, aside)
        other_way = _better(self.losses, self.other_scores, models, single, aside)
        return np.where(self.both, (one_way + other_way) / 2, one_way)

    def _aside(self, single: int) -> FloatArray:
        """Return (rows, models) by how much another model's loss has to be less for a judge to leave the one for all.

        That is a standard error of what they differ by, as well as it is known; else a share of the loss. Those for
        whom many models are about as good would choose by chance, lose by it, and hide what a few others gain.
        """
        # Errors are of the samples that it is judged by; those that it chooses by are four times as many, or as many.
        mine = np.sqrt(self.errors / np.where(self.both, 1, FIFTHS - 1)[:, None])
        known = np.maximum(mine, mine[:, [single]])  # both are of what a model differs by from the cohort's own
        least = _CLEARLY * self.other_losses[:, [single]]
        return np.where(np.isfinite(known), known, np.where(np.isfinite(least), least, 0.0))

    def best_single(self, usual: float) -> int:
        """Return the one model that would serve them best if all had the same; nobody's word counts for more than one.

        A judge that says a huge loss of the best one would else have all others seem to gain over another.
        """
        losses = np.minimum(_or_infinite(self.losses) / usual, _MOST_LOSS)
        return int(np.clip(losses - losses[:, [OWN]], -1.0, 1.0).mean(axis=0).argmin())


@dataclass(frozen=True)
class Evidence:
    """What has been heard in a trial, and what it comes to; nothing in it tells who has said it."""

    said: Said
    candidates: tuple[IntArray, ...]  # of each the places of the models that one chooses among, the own one first
    everybody: bool  # the clients are all there is: a look is a test of its own
    log_stakes: FloatArray  # (candidates, models, bets) on gains over each model, if all had the same
    widest: FloatArray  # (candidates, models) the most that anybody has gained or lost so; 0: nobody has been heard
    usual: float = 0.0  # loss of the cohort's own model when judges were heard last
    single: int = OWN  # the one model that would serve best if all had the same, by then
    looks: int = 0
    won: float = 0.0  # where everybody judges: what the parts of the stake have come to that were bet at looks so far
    stake: float = 1.0  # what former trials have left of it
    liars: float = 0.0  # share of judges whose word is not believed: who gain most, and who lose most, see `believed`
    steep: float = STEEP  # what is known of the steepness beforehand
    begun: int = 0  # steps that the own model had made when the trial began
    clients: float = 0.0  # that the cohort is taken to have; 0: nobody has counted
    course: FloatArray = field(default_factory=lambda: np.zeros((0, 4)))  # (rounds, 4) see `_usual_of`

    @staticmethod
    def begin(  # noqa: PLR0913 - one for each thing that is known beforehand
        branches: Sequence[int],
        *,
        everybody: bool,
        stake: float = 1.0,
        liars: float = 0.0,
        steep: float = STEEP,
        begun: int = 0,
        clients: float = 0.0,
    ) -> "Evidence":
        """Return that of a trial of candidates with so many branches each."""
        ends = np.cumsum(branches)
        places = tuple(np.array([OWN, *range(1 + end - n, 1 + end)]) for n, end in zip(branches, ends, strict=True))
        models = 1 + int(ends[-1])
        room = (len(branches), models)
        log_stakes, widest = np.zeros((*room, len(BETS))), np.zeros(room)
        return Evidence(
            Said.none(models),
            places,
            everybody,
            log_stakes,
            widest,
            stake=stake,
            liars=liars,
            steep=steep,
            begun=begun,
            clients=clients,
        )

    def after(self, more: Said, *, is_look: bool) -> "Evidence":
        """Return the evidence after a round's judges have been heard."""
        if len(more.seals) == 0:
            return self
        now = float(np.median(more.losses[:, OWN]))
        usual = self.usual or now  # of an earlier round where there is one: what is bet on must not set its own scale
        if usual <= 0:  # there is nothing left to gain
            return self
        course = np.concatenate([self.course, _usual_of(more)])
        heard = replace(self, said=self.said.and_of(more), usual=now or usual, course=course)
        heard = replace(heard, single=heard.recent.best_single(usual))
        if self.everybody:
            if not is_look or self.looks == LOOKS:
                return heard
            return replace(heard, won=heard.won + heard._bet(), looks=self.looks + 1)
        # Which single model is best nobody knows beforehand: parting has to pay over each of them.
        singles = range(more.losses.shape[1])
        gains = np.array([[more.gains(usual, models, one) for one in singles] for models in self.candidates])
        gains = believed(gains, self.liars, more.far)
        # Where all gain about as little, a bet that has to survive the loss of everything wins next to nothing. So it
        # is on gains in parts of the largest that was heard before: what is bet on must not set its own scale.
        scale = np.where(self.widest > 0, self.widest, 1.0)[:, :, None]
        won = np.log1p(BETS[:, None] * np.clip(gains / scale, -1.0, 1.0)[:, :, None, :]).sum(axis=3)
        return replace(
            heard,
            log_stakes=np.minimum(self.log_stakes + won, MOST_LOG),
            widest=np.maximum(self.widest, np.abs(gains).max(axis=2)),
        )

    @property
    def recent(self) -> Said:
        """Return what tells of the models as they are: the later half, unless that were too few."""
        heard = len(self.said.seals)
        if heard == 0:
            return self.said
        if not self.everybody:
            return self.said.take(np.arange(max(0, min(heard // 2, heard - _FEWEST)), heard))
        return self.said.take(self.said.rounds > self.said.rounds.max() // 2)

    @property
    def gains(self) -> FloatArray:
        """Return what judges gain by their choice among each candidate's models, in parts of the usual loss."""
        if len(self.said.seals) == 0:
            return np.zeros(len(self.candidates))
        return np.array([self.gains_of(self.recent, models).mean() for models in self.candidates])

    def gains_of(self, heard: Said, models: IntArray) -> FloatArray:
        """Return what judges gain by their choice among models, as far as they are believed."""
        return believed(heard.gains(self.usual, models, self.single), self.liars, heard.far)

    @property
    def by_gain(self) -> tuple[int, ...]:
        """Return the candidates, the one first by which judges gain most."""
        return tuple(np.argsort(-self.gains, kind="stable").tolist())

    @property
    def leading(self) -> int:
        """Return the candidate by which judges gain most."""
        return self.by_gain[0]

    def is_sure(self, candidate: int, alpha: float) -> bool:
        """Return whether judges gain, with a chance of at most ``alpha`` in a whole trial that they do not."""
        if not self.everybody:
            has_won = min(_mean_of_exp(one) for one in self.log_stakes[candidate]) >= 1 / alpha
            return bool(has_won) and self._is_clear(candidate)
        return (self.stake if self.is_fresh else 1.0) * self.won / LOOKS >= 1 / alpha

    def _bet(self) -> float:
        """Return what a bet comes to that is made on the gains of everybody as they are now, before anybody looks.

        What is sampled is what clients have held out. Bets side by side: as if gains of samples were within one usual
        loss (Hoeffding), which few clients with much to gain win; on one client after another; by how much clients
        differ; and by how much their samples do, if they say so. The last two win for small gains of many.
        """
        heard = self.recent
        models = self.candidates[self.leading]
        gains = self.gains_of(heard, models)
        # As good as so many samples of one client would be.
        samples = len(gains) * len(heard.seals) / float((1 / np.maximum(heard.samples, 1.0)).sum())
        of_samples = samples * (BETS * gains.mean() - BETS**2 / 2)
        of_clients = np.log1p(BETS[:, None] * gains[None, :]).sum(axis=1)
        spread = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
        # Of samples there are more than of clients; a quarter of them, because losses have heavy tails.
        free = max(len(gains) - 1, int(heard.samples.sum()) // 4)
        errors = ((spread, len(gains) - 1), (heard.error(self.usual, models, self.single), free))
        by_errors = [_calibrated(_chance(gains.mean(), *error)) for error in errors]
        return float(np.mean([_mean_of_exp(of_samples), _mean_of_exp(of_clients), *by_errors]))

    @property
    def left(self) -> float:
        """Return what a trial that is over leaves of the stake; as before where the next bets on the same samples.

        A trial that was given up early has had few looks because they were bad: the others count as much as these, at
        the most for what was staked.
        """
        if not self.is_fresh:
            return 1.0
        others = min(1.0, self.won / self.looks) if self.looks else 1.0
        return self.stake * (self.won + (LOOKS - self.looks) * others) / LOOKS

    @property
    def is_fresh(self) -> bool:
        """Return whether all judge by samples that no other of five trials is judged by."""
        return bool(self.said.kept_out.all())

    def _is_clear(self, candidate: int) -> bool:
        """Return whether the mean gain of all judges is clear of zero: stakes count no harm beyond the largest before.

        Else a few who lose very much by a partition could hide behind many who gain a little.
        """
        return _is_clear(self.gains_of(self.said, self.candidates[candidate]))

    def has_fewer_errors(self, models: IntArray) -> bool:
        """Return whether judges do better by their choice among models, not only with a smaller loss, if they tell.

        A smaller loss may be calibration alone: who knows which classes its clients have most has more of the others
        wrong. It must not be worse lately, and over all who are a sample of others it must be clear that it is better:
        what is only level now falls behind once fewer samples behind each model show.
        """
        lately, ever = (self._better(heard, models) for heard in (self.recent, self.said))
        return len(lately) == 0 or (bool(lately.mean() > 0) and (self.everybody or _is_clear(ever)))

    def _better(self, heard: Said, models: IntArray) -> FloatArray:
        better = heard.better_scores(models, self.single)
        told = np.isfinite(better)
        return believed(better[told], self.liars, heard.far[told])

    @property
    def steepness(self) -> float:
        """Return how fast the own model's loss falls as it trains: by its e-th part in e times as many rounds, if 1.

        That is minus the slope of its logarithm over that of the rounds. It is taken to be about what it was in the
        trial before until enough is heard: late in training a trial's rounds are few beside those that lie behind it.
        """
        told = self.course[self.course[:, 1] > 0]
        round_of, usual, spread, judges = told.T
        if not (judges > 1).any():
            return self.steep
        # A few judges may differ by next to nothing in one round, and a single one does: rounds tell it together.
        apart = _OF_MEDIAN * float(np.median((spread / usual)[judges > 1]))
        weights = np.maximum(apart / np.sqrt(judges), _LEAST_ERROR) ** -2.0
        x, y = np.log(self.begun + 1 + round_of), np.log(usual)
        from_mean = x - np.average(x, weights=weights)
        known, before = float((weights * from_mean**2).sum()), 1 / _STEEP_BY**2
        return max(0.0, (self.steep * before - float((weights * from_mean * y).sum())) / (known + before))

    @property
    def price(self) -> float:
        """Return what each branch beyond the first has to bring, in parts of the usual loss, by how few samples are.

        A model errs by as many nats as it has numbers to learn, over twice the samples that it learns them from
        (Akaike). So models that have parts of all samples err, weighted by these, as many times as much as there are
        models. That does not show yet in what new branches lose, for they have hardly moved.
        """
        heard = self.recent
        if len(heard.seals) == 0 or not self.clients or self.usual <= 0:
            return 0.0
        # Judged is by a half of a client's samples where halves may change places, else by a fifth. How many these are
        # judges say themselves: of a few who say too many the median takes no notice.
        samples = self.clients * max(1.0, float(np.median(heard.samples * np.where(heard.both, 2, FIFTHS))))
        return _TO_LEARN / 2 / (samples * float(np.clip(self.usual, *_NATS)))

    def is_hopeless(self, needed: float) -> bool:
        """Return whether judges gain less than is needed by every candidate, even with a deviation more."""
        gains = np.stack([self.gains_of(self.recent, models) for models in self.candidates])
        heard = gains.shape[1]
        if heard == 0:
            return True
        return heard > 1 and bool((gains.mean(axis=1) + gains.std(axis=1) / np.sqrt(heard) < needed).all())

    def fewest(self, candidate: int, spare: float = 0.05) -> IntArray:
        """Return the fewest of a candidate's models that serve judges as well as all of them, two at least.

        One after another goes whom they do not miss: beyond a deviation, by its price, or by more than ``spare`` of all
        they gain. So does what fewer than `COMPANY` would choose.
        """
        heard, kept = self.recent, self.candidates[candidate]
        all_gains = heard.gains(self.usual, kept, self.single)
        while len(kept) > 2:
            missed = [all_gains - heard.gains(self.usual, kept[kept != one], self.single) for one in kept]
            means = np.array([one.mean() for one in missed])
            beyond = means - np.array([one.std() / np.sqrt(len(one)) for one in missed])
            least, too_little = int(beyond.argmin()), means <= self.price
            chosen = how_many_choose(choices(heard.other_losses, kept), kept)
            if chosen.min() < COMPANY:
                least = int(chosen.argmin())
            elif too_little.any():
                least = int(np.where(too_little, beyond, np.inf).argmin())
            elif beyond[least] > 0 and means[least] > spare * all_gains.mean():
                break
            kept = np.delete(kept, least)
        return kept

    def can_do_with(self, candidate: int, kept: IntArray) -> bool:
        """Return whether each branch that is not kept is known to bring less than half of its due, or not its price.

        Its due is a part of the gain by how many choose it: of equal parts a minority would always bring too little.
        """
        heard, models = self.recent, self.candidates[candidate]
        gains = heard.gains(self.usual, kept, self.single)
        half = heard.gains(self.usual, models, self.single).mean() / 2
        shares = how_many_choose(choices(heard.other_losses, models), models) / len(heard.seals)
        for one, share in zip(models.tolist(), shares.tolist(), strict=True):
            if one == OWN or one in kept or share == 0:
                continue
            more = heard.gains(self.usual, np.sort(np.append(kept, one)), self.single) - gains
            known = more.mean() + more.std() / np.sqrt(len(more)) < half * share
            if not known and more.mean() > self.price:
                return False
        return True


def _usual_of(said: Said) -> FloatArray:
    """Return the round, the median loss of the own model in it, how far judges are apart and how many, in one row."""
    losses = said.losses[:, OWN]
    middle = np.median(losses)
    return np.array([[said.rounds[0], middle, _MAD_TO_STD * np.median(np.abs(losses - middle)), len(losses)]])


def _is_clear(values: FloatArray) -> bool:
    """Return whether their mean is clearly more than zero.

    Where few gain much and nobody loses, as by a minority's model, a mean is surer than its deviation says; where most
    gain all there is and a few nothing, less so. Skewness is taken out by a cubic that grows with the mean (Hall, On
    the removal of skewness by transformation, 1992): a correction of second order would turn down who gains most.
    """
    n = len(values)
    if n < 2 or values.mean() <= 0:
        return False
    mean, variance = float(values.mean()), float(values.var())
    if variance <= (_ROUNDING * mean) ** 2:
        return True
    skewness = float(((values - mean) ** 3).mean()) / variance**1.5
    in_spreads = mean / np.sqrt(variance)
    straight = in_spreads + skewness * in_spreads**2 / 3 + skewness**2 * in_spreads**3 / 27 + skewness / (6 * n)
    return bool(straight > _DEVIATIONS / np.sqrt(n))


def _chance(mean: float, error: float, free: int) -> float:
    """Return the chance of so large a mean gain if nobody gained, with an error of so many degrees (Student)."""
    return float(stats.t.sf(mean / error, free)) if error > _ROUNDING * abs(mean) and free > 0 else 1.0


def _calibrated(chance: float) -> float:
    """Return what a bet against no gain comes to whose chance is so small: on average one, if nobody gains.

    It is the mean of all bets ``k * chance ** (k - 1)`` with k between 0 and 1.
    """
    least = max(chance, float(np.exp(-MOST_LOG)))
    log = np.log(least)
    return 0.5 if least > _ABOUT_ONE else float((1 - least + least * log) / (least * log**2))


def believed(values: FloatArray, liars: float, far: BoolArray) -> FloatArray:
    """Return values along the last axis; of up to this share at either end, what is far off is taken to be as for most.

    That is beyond some deviations from the median, as the median deviation from it tells them. A group that is smaller
    than the share gains as liars say that they do. But there is one thing that these do not get by words: the model of
    all does not serve it, so that it has far to go, and its updates are long. The far are believed.
    """
    plain = values[..., ~far]
    if liars == 0 or plain.shape[-1] == 0:
        return values
    middle = np.median(plain, axis=-1, keepdims=True)
    spread = _MAD_TO_STD * np.median(np.abs(plain - middle), axis=-1, keepdims=True)
    rank, cut = plain.argsort(axis=-1).argsort(axis=-1), int(np.ceil(liars * plain.shape[-1]))
    at_an_end = (rank < cut) | (rank >= plain.shape[-1] - cut)
    is_off = np.abs(plain - middle) > _FAR_OFF * np.maximum(spread, _LEAST_SPREAD)
    heard = values.copy()
    heard[..., ~far] = np.where(at_an_end & is_off, middle, plain)
    return heard


def share_of(alpha: float, number: int) -> float:
    """Return the chance of an error that the trial of this number has, from 1 on, of that of all of them together."""
    return float(alpha * _ALL_LOOKS / number**2)


def choices(other_losses: FloatArray, models: IntArray | None = None) -> IntArray:
    """Return the model that each judge chooses, among ``models`` or all of them."""
    places = np.arange(other_losses.shape[1]) if models is None else models
    return np.asarray(places[other_losses[:, places].argmin(axis=1)])


def how_many_choose(chosen: IntArray, models: IntArray) -> IntArray:
    """Return how many have chosen each of these models."""
    return np.asarray(np.bincount(np.searchsorted(models, chosen), minlength=len(models)))


def _gains(
    by: FloatArray, on: FloatArray, usual: float, models: IntArray, single: int, aside: FloatArray
) -> FloatArray:
    losses = np.minimum(_or_infinite(on) / usual, _MOST_LOSS)  # or two that have diverged differ
    gains: FloatArray = losses[:, single] - losses[np.arange(len(on)), _unless_single(by, models, single, aside)]
    return np.clip(gains, -1.0, 1.0)


def _better(by: FloatArray, scores: FloatArray, models: IntArray, single: int, aside: FloatArray) -> FloatArray:
    return np.asarray(scores[np.arange(len(scores)), _unless_single(by, models, single, aside)] - scores[:, single])


def _unless_single(by: FloatArray, models: IntArray, single: int, aside: FloatArray) -> IntArray:
    """Return what judges choose who leave the one model for all only for a clearly better one, see `Said._aside`."""
    if single in models:
        by = np.where(np.arange(by.shape[1]) == single, by, by + aside)
    return choices(by, models)


def _or_infinite(losses: FloatArray) -> FloatArray:
    return np.where(np.isnan(losses), np.inf, losses)


def _mean_of_exp(logs: FloatArray) -> float:
    return float(np.exp(np.minimum(logs, MOST_LOG)).mean())

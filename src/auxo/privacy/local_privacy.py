"""Local privacy as a client mod: everything that leaves a client is charged, made coarse, left out, or free.

The adversary is a curious server that sees every message and knows who takes part: nothing is amplified by sampling.
What is said of each field of an answer and of a request stands in `ANSWERED` and `REQUESTED`; a field that nobody has
thought of does not leave.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.asking import Answer, Ask, Device, Failure, Losses, Part, chosen_models
from auxo.core.client_mod import Do
from auxo.core.folds import size_of
from auxo.core.sample_clipping import ClipsSamples, SampleClipping
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.core.words import Words
from auxo.privacy.accounting import Exponential, Gaussian, RandomisedResponse, Release
from auxo.privacy.accounts import Account, OnDevice, Simulated, Visit
from auxo.privacy.mechanisms import exponential, gaussian, randomised_response
from auxo.privacy.private_words import price_of, private_word, release_of, wanted_words, with_word
from auxo.privacy.terms import Terms

ANSWERED: Mapping[str, str] = {
    "update": "charged: clipped, with Gaussian noise; at sample level the noise is in its training",
    "examples": "1 for everybody; at sample level the number, which replacing a sample does not change",
    "model": "charged: one of those offered by randomised response, at sample level by the exponential mechanism; "
    "chosen before training, for the update shows it, too. Without a share of the budget nobody compares",
    "loss": "left out",
    "squared_loss": "left out",
    "judged": "left out: some sixty numbers",
    "judged_by": "left out: the size of the data",
    "centres": "refused: who is asked for centres of its samples says nothing",
    "on_all": "free: what the app can do, not what the samples are",
    "took_s": "left out: the size of the data",
    "training_s": "left out: the size of the data",
    "sketch": "charged: PrivUnit, once for each question, and the same again where it is asked again",
    "label": "charged: randomised response, likewise; requests that follow it are made of feedback",
    "gain": "charged: the piecewise mechanism, likewise; no other loss leaves",
}
"""What becomes of each field of an answer."""

_FEEDBACK = "free: made of feedback, which the server worked out from what it has"
REQUESTED: Mapping[str, str] = {
    "tree": _FEEDBACK,
    "cohort": _FEEDBACK,
    "cluster": _FEEDBACK,
    "generation": _FEEDBACK,
    "reward": _FEEDBACK,
    "ranked_first": _FEEDBACK,
    "supported": _FEEDBACK,
    "confirmed": _FEEDBACK + "; a wish to compare once more is drawn, and not worked out from samples",
    "participations": "free: the server knows who takes part",
    "proof": "free: the server's own word on a token that it has signed",
}
"""What becomes of each field of a request."""


@dataclass(frozen=True)
class LocalPrivacy:
    """Keeps the terms of a promise for all that a client says.

    Args:
        terms: how much noise, of what, and the budget; `terms_of` works them out.
        account: `OnDevice` for real clients, `Simulated` for simulations. Only the latter has a seed.
    """

    terms: Terms
    account: Account

    answers_only = True
    """Nothing may leave the client beside answers and requests: see `auxo.core.client_mod.AnswersOnly`."""

    def __post_init__(self) -> None:
        account = self.account
        if isinstance(account, OnDevice) and account.ledger.promise != self.terms.promise:
            raise ValueError(
                f"account: expected a ledger for {self.terms.promise} level, as the terms promise, got one for "
                f"{account.ledger.promise} level; the two do not add up"
            )

    @staticmethod
    def simulated(terms: Terms, seed: int) -> "LocalPrivacy":
        """Return the mod of simulated clients, whose noise follows from a seed."""
        return LocalPrivacy(terms, Simulated(seed, terms.participations if terms.budget is not None else None))

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        """Return requests as they are, field by field: another field would be missing here, and fail."""
        return Requests(
            tree=requests.tree,
            cohort=requests.cohort,
            cluster=requests.cluster,
            generation=requests.generation,
            reward=requests.reward,
            ranked_first=requests.ranked_first,
            supported=requests.supported,
            confirmed=requests.confirmed,
            participations=requests.participations,
        )

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield private answers, and a failure of who has no budget left.

        Raises:
            ValueError: sample level is promised, and the device cannot train so.
        """
        at_level = self._at_level(device)
        visits = [Visit(at_level, row, self._quiet(ask)) for row, ask in enumerate(asks)]
        before = {visit.row: kept for visit in visits if (kept := self.account.said(visit)) is not None}
        refused = {visit.row: words for visit in visits if visit.row not in before and (words := self._refusal(visit))}
        able = [visit for visit in visits if visit.row not in refused]
        some = at_level if len(able) == len(visits) else _Some(at_level, [visit.row for visit in able])
        said = self._choices(able, some, before)
        answers = iter(do([ask for ask, _ in said], some)) if able else iter(())
        for visit in visits:
            if visit.row in refused:
                yield Failure(refused[visit.row])
                continue
            answer, (_, choice) = next(answers), said.pop(0)
            if isinstance(answer, Answer):
                private = before.get(visit.row) or self._private(visit, answer, choice)
                answer = self._with_words(visit, answer, private)
            yield answer
        if able:
            next(answers, None)  # what is inside comes to its end, too

    def _private(self, visit: Visit, answer: Answer, choice: int | None) -> Answer | Failure:
        """Return what may leave in place of an answer, once it is paid for."""
        terms = self.terms
        refusal = self.account.charge(visit, self._releases(visit, choice is not None), terms.budget)
        if refusal:
            return Failure(refusal)
        update, examples = answer.update, answer.examples
        if terms.promise == "client":
            normals = self.account.draws(visit, "update").normal(len(update))
            update, examples = gaussian(update, terms.clip, terms.noise, normals), 1
        private = Answer(update, examples, answer.model if choice is None else choice, on_all=answer.on_all)
        self.account.remember(visit, private)
        return private

    def _with_words(self, visit: Visit, clean: Answer, private: Answer | Failure) -> Answer | Failure:
        """Return a private answer with the words that are asked for, as they were said before or once paid for.

        Who has no budget left for a word leaves it out.
        """
        words = visit.ask.words
        if words is None or isinstance(private, Failure):
            return private
        for name in wanted_words(words):
            said = self.account.word(visit, name)
            if said is None and not self.account.charge(visit, {release_of(name, words): 1}, self.terms.budget):
                said = private_word(name, clean, words, self.account.draws(visit, name).rng)
                if said is not None:
                    self.account.remember_word(visit, name, said)
            private = with_word(private, name, said)
        return private

    def _quiet(self, ask: Ask) -> Ask:
        """Return an ask without what would not leave in any case; for a gain models are judged, on the client alone."""
        words = ask.words if ask.words is not None and self._answers(ask.words) else None
        judges = ask.judges if words is not None and words.gain is not None else ()
        return replace(ask, judges=judges, reports_loss=False, words=words)

    def _answers(self, words: Words) -> bool:
        """Return whether the price is one that a client pays: of no question too many, and no word for nothing."""
        terms, prices = self.terms, [getattr(words, name) for name in wanted_words(words)]
        is_due = words.seed <= terms.questions and all(price > 0 for price in prices)
        return is_due and price_of(words) <= terms.question_epsilon

    def _refusal(self, visit: Visit) -> str:
        if visit.ask.centres is not None:
            return "privacy: expected to be asked for an update, got an ask for centres of samples, which have no noise"
        if visit.ask.pre_training is not None and self.terms.promise == "sample":
            return "privacy: expected to be asked for one training at sample level, got one before another"
        return self.account.refusal(visit, self._releases(visit, self._chooses(visit)), self.terms.budget)

    def _chooses(self, visit: Visit) -> bool:
        return self.terms.choice_epsilon > 0 and visit.ask.named(visit.device.models) is None

    def _releases(self, visit: Visit, chose: bool) -> dict[Release, int]:
        """Return what an answer consists of."""
        terms, times = self.terms, 1
        if terms.promise == "sample" and isinstance(visit.device, ClipsSamples):
            times = max(1, visit.device.passes(visit.row, visit.ask))
        releases: dict[Release, int] = {Gaussian(terms.multiplier): times}
        if chose and terms.promise == "sample":
            releases[Exponential(terms.choice_epsilon)] = 1
        elif chose:
            releases[RandomisedResponse(terms.choice_epsilon, len(visit.ask.offered(visit.device.models)))] = 1
        return releases

    def _choices(
        self, visits: Sequence[Visit], device: Device, before: Mapping[int, Answer]
    ) -> list[tuple[Ask, int | None]]:
        """Return what each is to do, told which model to train, and the model that it says it has chosen, if any.

        Who repeats itself trains the model that it has named.
        """
        asks = [visit.ask for visit in visits]
        looks = [row for row, visit in enumerate(visits) if visit.ask.named(device.models) is None]
        said: list[tuple[Ask, int | None]] = [(ask, None) for ask in asks]
        is_silent = self.terms.choice_epsilon == 0
        best: list[int | None] = [] if is_silent or self.terms.promise == "sample" else chosen_models(asks, device)
        for row in looks:
            visit, offered = visits[row], asks[row].offered(device.models)
            choice: int | None = None
            if visit.row in before:
                choice = before[visit.row].model
            elif not is_silent and self.terms.promise == "sample":
                choice = offered[self._exponential(visit, offered)]
            elif not is_silent and (clean := best[row]) is not None:
                rng = self.account.draws(visit, "model").rng
                choice = offered[
                    randomised_response(offered.index(clean), len(offered), self.terms.choice_epsilon, rng)
                ]
            said[row] = (replace(asks[row], model=choice or 0, pre_training=None), choice)
        return said

    def _exponential(self, visit: Visit, offered: Sequence[int]) -> int:
        """Return the place of one of the models: those with small losses are more likely."""
        terms, device, row, ask = self.terms, visit.device, visit.row, visit.ask
        losses = [device.losses(model, [row], [ask], "trained") for model in offered]
        means = np.array([terms.loss_bound if one is None else float(one.mean[0]) for one in losses])
        means[0] *= 1 - min(max(ask.margin, 0.0), 1.0)  # whatever is asked, one sample counts for no more
        fold = np.array(-1 if ask.fold is None else ask.fold)
        samples = max(1, int(size_of(fold, device.samples[row])))
        rng = self.account.draws(visit, "model").rng
        return exponential(-means, terms.loss_bound / samples, terms.choice_epsilon, rng)

    def _at_level(self, device: Device) -> Device:
        """Return the device, which at sample level trains so that no sample shows."""
        terms = self.terms
        if terms.promise == "client":
            return device
        samples = SampleClipping(terms.clip, terms.noise, terms.loss_bound)
        clipping = device.clipping(samples) if isinstance(device, ClipsSamples) else None
        if clipping is None:
            raise ValueError(
                "privacy: expected training that clips the gradient of each sample, which sample level needs, got one "
                'that cannot; promise "client" level there. In simulations every model of Auxo can'
            )
        return clipping


@dataclass(frozen=True)
class _Some:
    """Some of the participants of a batch."""

    device: Device
    rows: Sequence[int]

    @property
    def clients(self) -> IntArray:
        return self.device.clients[list(self.rows)]

    @property
    def visits(self) -> IntArray:
        return self.device.visits[list(self.rows)]

    @property
    def samples(self) -> IntArray:
        return self.device.samples[list(self.rows)]

    @property
    def models(self) -> int:
        return self.device.models

    def model(self, place: int) -> Float32Array:
        return self.device.model(place)

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses | None:
        return self.device.losses(model, self._of(rows), asks, part)

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> FloatArray | None:
        return self.device.scores(model, self._of(rows), asks, part)

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:
        return self.device.train(model, self._of(rows), asks)

    def _of(self, rows: Sequence[int]) -> list[int]:
        return [self.rows[row] for row in rows]

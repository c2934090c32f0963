"""What a participant is asked, what it answers, and the one way to do it, wherever its samples are.

A device knows how to work out losses and how to train. What is done in which order is here, for many participants at
once, because a simulation trains them together; a device on its own is a batch of one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from auxo.core.folds import FOLD_NUMBERS, kept_out_by
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.core.words import Words, gain_of, label_of, sketch_of

LEAST_LOSS = -1
"""In place of a model: the participant trains whichever of the offered ones has the least loss on its samples."""

NEAREST = -2
"""In place of a model: the participant pre-trains first, and then trains the offered one that this leads to."""

MOST_STEPS = 10_000
"""Steps of SGD that may be asked for: the order of samples is drawn in advance; our choice."""

CHOOSES_BY = 1
"""Half that judges who train on everything choose by; they are then asked the other way round, too."""

_FEWEST_FOR_ERROR = 3  # samples that tell how much samples differ; our choice

Part = Literal["trained", "kept out", "others"]
"""Samples of a client: those it trains on; those it judges models by, which its training has not seen; and the rest.

A choice among models that has seen the samples it is judged by would find groups where there is nothing but chance: so
judges are taken to choose by the rest.
"""


@dataclass(frozen=True)
class PreTraining:
    """What participants whose model is `NEAREST` do before they train: a few steps from one model.

    They train the offered model whose reference points most in the direction of the update that this gives.
    """

    steps: int  # of SGD
    model: int  # of the round, that they start from
    references: tuple[int, ...]  # places among the round's models of an update for each of those that are offered


@dataclass(frozen=True)
class Ask:
    """What one participant is asked to do; models are named by their place among those that it may get."""

    fold: int | None = None  # part of its samples to train on, see `auxo.core.folds`; None: all of them
    model: int = 0  # that it trains; or `LEAST_LOSS` or `NEAREST`
    choices: int | None = None  # of so many models it takes the best; None: of all of them
    judges: tuple[int, ...] = ()  # models to judge, by samples that it does not train on
    reports_loss: bool = False  # say the mean loss at the model that is trained, before training
    work: float = 1.0  # times the usual passes over its samples
    skipped: tuple[int, ...] = ()  # places of the model's tensors that need not be sent; in the update they are 0
    steps: int | None = None  # of SGD, in place of passes over its samples; None: these
    centres: int | None = None  # of its samples that it sends, and then it does nothing else
    pre_training: PreTraining | None = None  # where ``model`` is `NEAREST`: what it does to find the one it trains
    margin: float = 0.0  # share of the first model's loss by which another has to be better to be taken
    words: Words | None = None  # that it says of itself, in place of losses where it judges; None: none

    def named(self, models: int) -> int | None:
        """Return the model that it trains without a look at its samples, as an only one of so many; None: it looks."""
        if self.model >= 0:
            return self.model
        return 0 if len(self.offered(models)) == 1 else None

    def offered(self, models: int) -> range:
        """Return the places of the models that it may train, of so many."""
        end = models if self.choices is None else min(models, self.choices)
        return range(self.model, self.model + 1) if self.model >= 0 else range(end)

    def needed(self, models: int, first: int = 0) -> tuple[tuple[int, ...], "Ask"]:
        """Return the places of the models that it needs, of so many, and what is asked in the numbers of these alone.

        The first of them is the one that is trained by who cannot compare: ``first``, if it is among those offered.

        >>> Ask(model=2, judges=(1, 2)).needed(4)  # doctest: +ELLIPSIS
        ((2, 1), Ask(fold=None, model=0, choices=1, judges=(1, 0), ...))
        """
        offered = sorted(self.offered(models), key=lambda place: place != first)
        places = list(dict.fromkeys((*offered, *self.judges)))
        model = 0 if len(offered) == 1 else self.model
        judges = tuple(places.index(one) for one in self.judges)
        return tuple(places), replace(self, model=model, choices=len(offered), judges=judges)

    def half(self, part: Part) -> int | None:
        """Return the number of a part of the samples, see `auxo.core.folds`; None: all of them.

        >>> [Ask(fold=None).half(part) for part in ("trained", "kept out", "others")]
        [None, 0, 1]
        """
        if part == "trained":
            return self.fold
        others = CHOOSES_BY if self.fold is None else self.fold
        return others if part == "others" else kept_out_by(others)


@dataclass(frozen=True)
class Asks:
    """What a round's participants are asked to do, one row each."""

    fold: IntArray  # part of its samples that each trains on, see `auxo.core.folds`; -1: all of them
    # Which of the round's models each trains; `LEAST_LOSS` or `NEAREST` of those that are offered.
    model: IntArray
    judges: IntArray | None = None  # (rows, most) models that each judges; -1: no more
    epochs: IntArray | None = None  # passes over its samples that the selector asks of each; None: the usual ones
    skipped: BoolArray | None = None  # (rows, tensors of the model) that each does not send; None: all are sent
    reports_loss: bool = False  # all say their loss
    steps: int | None = None  # of SGD that all do in place of epochs over their samples; None: these
    pre_training: PreTraining | None = None  # of those whose model is `NEAREST`
    centres: int | None = None  # of their samples that all send instead of training; None: they train
    margin: FloatArray | None = None  # see `Ask`, of each; None: none
    words: tuple[Words | None, ...] = ()  # see `Ask`, of each; (): of nobody

    @staticmethod
    def plain(n: int) -> "Asks":
        """Return that so many train the first model on all their samples."""
        return Asks(np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64))

    def of(self, row: int, choices: int, usual_epochs: int = 1) -> Ask:
        """Return what one participant is asked.

        Args:
            row: whose.
            choices: the first so many models are offered; those on trial follow.
            usual_epochs: of those whom the selector asks for nothing else.
        """
        fold, model = int(self.fold[row]), int(self.model[row])
        return Ask(
            None if fold < 0 else fold,
            model,
            choices,
            () if self.judges is None else tuple(one for one in self.judges[row].tolist() if one >= 0),
            self.reports_loss,
            1.0 if self.epochs is None else float(self.epochs[row] / usual_epochs),
            () if self.skipped is None else tuple(np.flatnonzero(self.skipped[row]).tolist()),
            self.steps,
            self.centres,
            self.pre_training if model == NEAREST else None,
            0.0 if self.margin is None else float(self.margin[row]),
            self.words[row] if self.words else None,
        )

    def compared(self, offered: int) -> IntArray:
        """Return how many models each looks at to find the one it trains, of so many that are offered; 1: none."""
        return np.where(self.model == LEAST_LOSS, offered, 1)

    def check(self, n: int, offered: int, models: int) -> None:
        """Raise a ValueError unless so many can do what they are asked, with so many models, the first ones offered."""
        if len(self.fold) != n or len(self.model) != n:
            raise ValueError(f"asks.fold, model: expected {n} entries each, got {len(self.fold)} and {len(self.model)}")
        if not np.isin(self.fold, range(-1, FOLD_NUMBERS)).all():
            raise ValueError(
                f"asks.fold: expected 0 to {FOLD_NUMBERS - 1}, or -1 for all samples, "
                f"got {np.unique(self.fold).tolist()}"
            )
        known = [*range(models), LEAST_LOSS] + [NEAREST] * (self.pre_training is not None)
        if not np.isin(self.model, known).all():
            raise ValueError(
                f"asks.model: expected places among the {models} models of the round, or LEAST_LOSS, or NEAREST with "
                f"pre-training, got {np.unique(self.model).tolist()}"
            )
        if self.judges is not None and (
            len(self.judges) != n or (self.judges.size and not -1 <= self.judges.min() <= self.judges.max() < models)
        ):
            raise ValueError(
                f"asks.judges: expected {n} rows of places among the {models} models of the round, or -1, got "
                f"{len(self.judges)} rows of {np.unique(self.judges).tolist()}"
            )
        if self.words and len(self.words) != n:
            raise ValueError(f"asks.words: expected {n} entries or none, got {len(self.words)}")
        self._check_steps(offered, models)

    def _check_steps(self, offered: int, models: int) -> None:
        first = self.pre_training
        for name, steps in (("steps", self.steps), ("pre_training.steps", None if first is None else first.steps)):
            if steps is not None and not 1 <= steps <= MOST_STEPS:
                raise ValueError(f"asks.{name}: expected a number from 1 to {MOST_STEPS}, got {steps}")
        if self.centres is not None and self.centres < 1:
            raise ValueError(f"asks.centres: expected at least 1, got {self.centres}")
        if first is None:
            return
        if len(first.references) != offered or not all(0 <= one < models for one in (first.model, *first.references)):
            raise ValueError(
                f"asks.pre_training: expected places among the {models} models of the round, with a reference for each "
                f"of the {offered} offered, got {first}"
            )


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one model; a score is what the task is measured by, such as accuracy; larger is better."""

    loss: float  # mean over the samples that it judges by
    score: float | None = None  # of the same; None: not worked out
    other_loss: float | None = None  # mean over its other samples, by which it would choose; None: not worked out
    other_score: float | None = None  # of the same
    error: float | None = None  # squared standard error of ``loss`` less that of the first model; None: not worked out


@dataclass(frozen=True)
class Answer:
    """All that a participant says of what it has done."""

    update: Float32Array  # (parameters,) new weights minus old, flattened
    examples: int  # all the client's samples, also where it was asked to train on half of them
    model: int | None = None  # that it has trained; None: the first, as it was asked to or could not compare
    loss: float | None = None  # mean over the samples it trained on, at that model before; None: nobody asked
    squared_loss: float | None = None  # mean of the squares of the same losses; None: not worked out
    judged: tuple[Judgement, ...] = ()  # of the models that it was asked to judge, in that order; (): it has not
    judged_by: int | None = None  # samples that it judges by; None: it does not say
    centres: FloatArray | None = None  # (centres, width) of its samples, in place of an update; None: nobody asked
    on_all: bool = False  # it has trained on all its samples, although it was asked for one half
    took_s: float | None = None  # seconds from the ask to the answer; None: nobody has measured
    training_s: float | None = None  # of these, local training; None: nobody has measured
    sketch: tuple[float, ...] = ()  # of its update, see `Words`, and so below; (): nobody asked
    label: int | None = None
    gain: float | None = None


@dataclass(frozen=True)
class Failure:
    """A participant that gives no answer; a value, because a client's failure is nobody's exception."""

    reason: str


@dataclass(frozen=True)
class Losses:
    """Of some participants' samples at one model."""

    mean: FloatArray
    mean_square: FloatArray | None = None  # None: not worked out
    samples: IntArray | None = None  # behind each; None: nobody says
    each: Sequence[FloatArray] | None = None  # of each row's samples, or of parts of them of one size; None: not told


class Device(Protocol):
    """Where participants' samples are: works out losses, and trains. Rows are those of the batch of asks.

    What it gives for a row has the same bits whatever other rows are asked for.
    """

    @property
    def clients(self) -> IntArray:
        """Return who the participants are, one for each row: rows of a simulated population, or numbers of ids."""
        ...

    @property
    def visits(self) -> IntArray:
        """Return how often each has taken part before: what is random at a client is named by both."""
        ...

    @property
    def samples(self) -> IntArray:
        """Return how many samples each has; 0: nobody knows."""
        ...

    @property
    def models(self) -> int:
        """Return the number of models that there are."""
        ...

    def model(self, place: int) -> Float32Array:
        """Return a model, flattened; only those who pre-train ask for it."""
        ...

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses | None:
        """Return the losses of a part of each row's samples; None: it cannot tell."""
        ...

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> FloatArray | None:
        """Return the mean scores likewise."""
        ...

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:
        """Yield, in order, what training from a model gives: the update, the examples, and losses it has come by.

        Who is asked for centres of its samples gives these.
        """
        ...


def do(asks: Sequence[Ask], device: Device) -> Iterator[Answer | Failure]:
    """Yield the answer to each ask, in order: a participant chooses a model, judges others, trains, tells its loss.

    It judges before it trains, for an app may keep some of what it has learnt. A loss that it reports is the one that
    comes with its choice or its training; where none does, it is worked out afterwards. A model that has diverged is
    nobody's choice, and of equals the first is taken; where losses cannot be told, the first model is trained. A client
    with a single sample, which would be both halves, judges nothing.
    """
    is_plain = all(
        one.named(device.models) == 0 and not one.reports_loss and not one.judges and one.words is None for one in asks
    )
    if is_plain or any(one.centres is not None for one in asks):  # centres are asked of all or of nobody
        yield from device.train(0, range(len(asks)), asks)
        return
    look = _Look(asks, device)
    choices, losses = _chosen(look)
    judged = _judged(look)
    answers = _trained(look, choices)
    _report(look, choices, answers, losses)
    for row, ask in enumerate(asks):
        answer, choice = answers[row], choices[row]
        if isinstance(answer, Failure):
            yield answer
            continue
        square = look.squares.get((row, ask.fold, choice or 0), answer.squared_loss)
        model = None if ask.named(device.models) == 0 else choice  # as where nobody in the batch is asked for more
        said = judged.get(row, ())
        by = look.judged_by.get(row) if said else None
        answer = replace(answer, model=model, loss=losses.get(row), squared_loss=square, judged=said, judged_by=by)
        yield answer if ask.words is None else _with_words(answer, ask.words)


def _with_words(answer: Answer, words: Words) -> Answer:
    """Return an answer with the words that are asked for; who says a gain tells no losses of what it has judged."""
    sketch = sketch_of(answer.update, words)
    label = None if words.label is None else label_of(sketch, words.centres)
    gain = None
    if words.gain is not None:
        others = [one.other_loss for one in answer.judged if one.other_loss is not None]
        losses = [one.loss for one in answer.judged]
        gain = gain_of(losses, others or None, words.reference, label)
        answer = replace(answer, judged=(), judged_by=None)
    return replace(answer, sketch=() if words.sketch is None else tuple(sketch.tolist()), label=label, gain=gain)


def chosen_models(asks: Sequence[Ask], device: Device) -> list[int | None]:
    """Return the model that each would train, as `do` finds it; None where that takes losses that nobody can tell."""
    return _chosen(_Look(asks, device))[0]


class _Look:
    """What a batch of participants finds when it looks at its samples, model by model."""

    def __init__(self, asks: Sequence[Ask], device: Device) -> None:
        self.asks, self.device = asks, device
        self.squares: dict[tuple[int, int | None, int], float] = {}  # mean squared losses, by row, half and model
        self.judged_by: dict[int, int] = {}  # samples, by row
        self.each: dict[tuple[int, int], FloatArray] = {}  # losses of samples that are judged by, by row and model

    def losses(self, wanted: Mapping[int, Sequence[int]], part: Part) -> dict[int, list[float]]:
        """Return the mean losses of rows at the models that each wants; nothing of a row that cannot tell them all."""

        def told(model: int, rows: Sequence[int]) -> FloatArray | None:
            some = [self.asks[row] for row in rows]
            found = self.device.losses(model, rows, some, part)
            if found is not None and found.mean_square is not None:
                keys = [(row, ask.half(part), model) for row, ask in zip(rows, some, strict=True)]
                self.squares.update(zip(keys, found.mean_square.tolist(), strict=True))
            if found is not None and found.samples is not None and part == "kept out":
                self.judged_by.update(zip(rows, found.samples.tolist(), strict=True))
            if found is not None and found.each is not None and part == "kept out":
                self.each.update(zip([(row, model) for row in rows], found.each, strict=True))
            return None if found is None else found.mean

        return _means(wanted, told)

    def error(self, row: int, first: int, model: int) -> float | None:
        """Return the squared standard error of a model's mean loss less the first one's; None: it cannot be told.

        Samples that are hard for one model are hard for the other: what they differ by has a far smaller error than
        either. A model that has diverged has none.
        """
        one, other = self.each.get((row, first)), self.each.get((row, model))
        if one is None or other is None or len(one) < _FEWEST_FOR_ERROR:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            error = float((other - one).var(ddof=1)) / len(one)
        return error if np.isfinite(error) else None

    def scores(self, wanted: Mapping[int, Sequence[int]], part: Part) -> dict[int, list[float]]:
        """Return the mean scores likewise."""
        return _means(
            wanted, lambda model, rows: self.device.scores(model, rows, [self.asks[row] for row in rows], part)
        )


def _means(
    wanted: Mapping[int, Sequence[int]], told: Callable[[int, Sequence[int]], FloatArray | None]
) -> dict[int, list[float]]:
    found: dict[tuple[int, int], float] = {}
    for model in sorted({one for models in wanted.values() for one in models}):
        rows = [row for row, models in wanted.items() if model in models]
        means = told(model, rows)
        if means is not None:
            found.update(zip([(row, model) for row in rows], means.tolist(), strict=True))
    return {
        row: [found[row, model] for model in models]
        for row, models in wanted.items()
        if all((row, model) in found for model in models)
    }


def _chosen(look: _Look) -> tuple[list[int | None], dict[int, float]]:
    """Return the model that each trains, None where it cannot tell the best, and the losses of those who compared."""
    models, nearest = look.device.models, _nearest(look)
    choices = [nearest.get(row, ask.named(models)) for row, ask in enumerate(look.asks)]
    offered = {row: look.asks[row].offered(models) for row, choice in enumerate(choices) if choice is None}
    compared = look.losses(offered, "trained")
    best = {row: _least(found, look.asks[row].margin) for row, found in compared.items()}
    stay = _would_stay(look, {row: (offered[row][0], offered[row][one]) for row, one in best.items() if one > 0})
    losses = {}
    for row, found in compared.items():
        taken = 0 if row in stay else best[row]
        choices[row] = offered[row][taken]
        if np.isfinite(found[taken]):
            losses[row] = found[taken]
    return choices, losses


def _least(losses: Sequence[float], margin: float) -> int:
    """Return the place of the least loss, if that is by so much less than the first; a NaN is none."""
    by = np.nan_to_num(losses, nan=np.inf)
    by[0] *= 1 - margin
    return int(np.argmin(by))


def _would_stay(look: _Look, models: Mapping[int, tuple[int, int]]) -> set[int]:
    """Return the rows that have reason to keep the first of two models, and find the other better by chance alone.

    That is where it is not better on both halves of their samples. By all of them, who has few samples and classes of
    its own leaves in one case of ten for a model that is no better, and then trains it.
    """
    wary = {row: two for row, two in models.items() if look.asks[row].margin > 0 and look.asks[row].fold is None}
    parts: tuple[Part, ...] = ("kept out", "others")
    halves = [look.losses(wary, part) for part in parts]
    return {row for half in halves for row, two in half.items() if _least(two, look.asks[row].margin) == 0}


def _nearest(look: _Look) -> dict[int, int]:
    """Return, for each row that pre-trains, the model whose reference is nearest to what comes of that."""
    rows: dict[PreTraining, list[int]] = {}
    for row, ask in enumerate(look.asks):
        if ask.model == NEAREST and ask.pre_training is not None:
            rows.setdefault(ask.pre_training, []).append(row)
    nearest = {}
    for first, some in rows.items():
        references = np.stack([look.device.model(place) for place in first.references]).astype(np.float64)
        lengths = np.linalg.norm(references, axis=1)
        before = [Ask(look.asks[row].fold, steps=first.steps) for row in some]
        for row, answer in zip(some, look.device.train(first.model, some, before), strict=True):
            if isinstance(answer, Failure):
                continue
            # All angles are to the same update, whose length does not matter.
            along = references @ answer.update.astype(np.float64)
            cosines = np.divide(along, lengths, out=np.full(len(lengths), -np.inf), where=lengths > 0)
            nearest[row] = int(np.argmax(np.nan_to_num(cosines, nan=-np.inf)))
    return nearest


def _judged(look: _Look) -> dict[int, tuple[Judgement, ...]]:
    """Return what judges say of the models that they were asked about."""
    samples = look.device.samples.tolist()
    wanted = {row: ask.judges for row, ask in enumerate(look.asks) if ask.judges and samples[row] != 1}
    kept_out, scores = look.losses(wanted, "kept out"), look.scores(wanted, "kept out")
    others, other_scores = look.losses(wanted, "others"), look.scores(wanted, "others")
    judged = {}
    for row, found in kept_out.items():
        columns = [told.get(row, [None] * len(found)) for told in (scores, others, other_scores)]
        errors = [look.error(row, wanted[row][0], model) for model in wanted[row]]
        judged[row] = tuple(Judgement(*said) for said in zip(found, *columns, errors, strict=True))
    return judged


def _trained(look: _Look, choices: Sequence[int | None]) -> dict[int, Answer | Failure]:
    """Return what the training of each row gives, from the model that it has chosen."""
    answers: dict[int, Answer | Failure] = {}
    for model in sorted({choice or 0 for choice in choices}):
        rows = [row for row, choice in enumerate(choices) if (choice or 0) == model]
        answers.update(zip(rows, look.device.train(model, rows, [look.asks[row] for row in rows]), strict=True))
    return answers


def _report(
    look: _Look, choices: Sequence[int | None], answers: Mapping[int, Answer | Failure], losses: dict[int, float]
) -> None:
    """Add, to the losses of those who compared, those that came with training or are asked for; finite ones only."""
    for row, answer in answers.items():
        if row not in losses and isinstance(answer, Answer) and answer.loss is not None:
            losses[row] = answer.loss
    missing = {
        row: [choices[row] or 0]
        for row, answer in answers.items()
        if look.asks[row].reports_loss and row not in losses and isinstance(answer, Answer)
    }
    losses.update({row: found for row, (found,) in look.losses(missing, "trained").items()})
    for row in [row for row, loss in losses.items() if not np.isfinite(loss)]:
        del losses[row]

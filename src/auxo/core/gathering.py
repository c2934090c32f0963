"""A round's answers as they arrive: checked, fingerprinted, and added up for each model; no update is kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from auxo.core.aggregators import Accumulator, Report, WeightedMean
from auxo.core.asking import Answer
from auxo.core.fingerprint import Fingerprint
from auxo.core.rewards import relative_length
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.core.usual_updates import FEWEST_TIMES, Move, UsualOnly, UsualUpdates
from auxo.core.validation import Reason, check_update
from auxo.core.words import SaidWords

_NOTHING = np.zeros(0, dtype=np.float32)  # in place of an update, which is not kept
_TOLD_NOTHING = np.zeros(0)  # in place of what layers tell, which nobody wants to know


@dataclass(frozen=True)
class Examined:
    """A valid answer with all that a round wants to know about its update; only the update itself is not kept."""

    answer: Answer
    direction: FloatArray  # the fingerprint
    length: float  # relative to the root of the examples
    outputs: FloatArray = field(default_factory=lambda: np.zeros(0))  # see `Fingerprint.outputs`
    inputs: FloatArray = field(default_factory=lambda: np.zeros(0))  # see `Fingerprint.inputs`


@dataclass(frozen=True)
class Returned:
    """One participant's answer as it arrives, or what an engine has found that has already examined it.

    The update and the examples of an answer are whatever came over the wire. An update need only last until the next
    answer is asked for.
    """

    row: int  # in Participants
    answer: Answer | Examined | Reason
    late: bool = False  # finished after the round had closed: fingerprinted, not aggregated
    reply: object = None  # see `Report`


class Admission(Protocol):
    """Decides, answer by answer, who may move which model."""

    def place(self, row: int, examined: Examined, model: int) -> "int | tuple[int, ...] | Belongs | None":
        """Return which model the update of a participant that is in time moves: most often the one it has trained.

        Several: it moves all of them. None: it moves none.
        """
        ...


@dataclass(frozen=True)
class Belongs:
    """A participant has trained one model, and belongs to another."""

    model: int
    update: Float32Array | None = None  # (parameters,) moves that model: what it came to, minus it; None: nothing does


@runtime_checkable
class KeepsUpdates(Protocol):
    """An admission of a round whose updates `close` wants to see: they are kept, participants x parameters of them."""

    @property
    def keeps_updates(self) -> bool:
        """Return whether it does."""
        ...


@dataclass(frozen=True)
class AdmitAll:
    """Every valid update that is in time is aggregated."""

    def place(self, row: int, examined: Examined, model: int) -> int | None:
        """Return the model that was trained."""
        return model


@dataclass(frozen=True)
class AdmitNone:
    """No update moves a model; the round is for what they tell."""

    keeps_updates: bool = False  # see `KeepsUpdates`

    def place(self, row: int, examined: Examined, model: int) -> int | None:
        """Return that none is moved."""
        return None


@dataclass(frozen=True)
class ByDirections:
    """What another decides, in a round that wants to know which way updates go, and nothing of single layers.

    What these tell is most of what it takes to examine a small update.
    """

    decides: Admission

    def place(self, row: int, examined: Examined, model: int) -> "int | tuple[int, ...] | Belongs | None":
        """Return what it decides."""
        return self.decides.place(row, examined, model)


@dataclass(frozen=True)
class Judged:
    """What a round's judges say, (answers, most asked) in the order asked; NaN where nothing was said."""

    samples: FloatArray  # (answers,) that each judges by; NaN: it does not say

    loss: FloatArray  # see `Judgement`, and so below
    score: FloatArray
    other_loss: FloatArray
    other_score: FloatArray
    error: FloatArray

    @staticmethod
    def of(answers: Sequence[Answer]) -> "Judged":
        """Return what is said in these answers."""
        said = np.full((5, len(answers), max((len(one.judged) for one in answers), default=0)), np.nan)
        for row, answer in enumerate(answers):
            for place, one in enumerate(answer.judged):
                numbers = (one.loss, one.score, one.other_loss, one.other_score, one.error)
                said[:, row, place] = [np.nan if number is None else number for number in numbers]
        by = np.array([np.nan if one.judged_by is None else one.judged_by for one in answers], dtype=np.float64)
        return Judged(by, *said)

    def take(self, mine: BoolArray) -> "Judged":
        """Return what some of them say."""
        columns = (self.samples, self.loss, self.score, self.other_loss, self.other_score, self.error)
        return Judged(*(column[mine] for column in columns))


@dataclass(frozen=True)
class Gathered:
    """A round's answers after the last has come: a vector to move each model by, and the fingerprints."""

    movements: tuple[FloatArray | None, ...]  # for each model that was offered; None: nobody has trained it
    rows: IntArray  # participants with a valid update, late ones included
    late: BoolArray
    model: IntArray  # (len(rows),) which of the models each has trained
    losses: FloatArray  # (len(rows),) mean loss at that model before training; NaN where nobody asked
    directions: FloatArray  # (len(rows), width)
    blocks: IntArray  # (width,) of the fingerprint: which entries of a direction were scaled together
    lengths: FloatArray  # (len(rows),) relative to the root of the examples
    examples: IntArray  # (len(rows),) samples behind each update
    aggregated: IntArray  # participants whose update moves a model
    misfits: int  # valid and in time, but not admitted
    rejected: tuple[tuple[int, Reason], ...]  # (row, reason)
    squared_losses: FloatArray | None = None  # (len(rows),) mean of the squares behind ``losses``; NaN: not known
    unusual: tuple[
        tuple[int, Reason], ...
    ] = ()  # valid, in time and admitted, but too far beyond what is usual to count
    capped: tuple[int, ...] = ()  # rows whose updates count for fewer examples than they claim
    usual: UsualUpdates = field(default_factory=UsualUpdates)  # after this round
    outputs: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (len(rows), outputs) of the last layer
    inputs: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (len(rows), 2 * inputs) of the first layer
    judged: Judged = field(default_factory=lambda: Judged.of(()))  # (len(rows), most asked)
    placed: IntArray | None = None  # (len(rows),) which model each moves or belongs to; -1: none
    centres: tuple[FloatArray | None, ...] = ()  # (len(rows),) of samples, where participants were asked for them
    updates: Float32Array | None = None  # (len(rows), parameters) where the admission keeps them, see `KeepsUpdates`
    weights: tuple[float, ...] = ()  # of what is behind each movement that is a mean; 0: it is none
    words: SaidWords = field(default_factory=SaidWords.none)  # (len(rows),)

    def take(self, mine: BoolArray) -> "Gathered":
        """Return what some of the participants with a valid update have answered; what moves models stays as it is."""
        return replace(
            self,
            rows=self.rows[mine],
            late=self.late[mine],
            model=self.model[mine],
            losses=self.losses[mine],
            squared_losses=None if self.squared_losses is None else self.squared_losses[mine],
            judged=self.judged.take(mine),
            directions=self.directions[mine],
            outputs=self.outputs[mine],
            inputs=self.inputs[mine],
            lengths=self.lengths[mine],
            examples=self.examples[mine],
            placed=None if self.placed is None else self.placed[mine],
            centres=tuple(one for one, is_mine in zip(self.centres, mine.tolist(), strict=False) if is_mine),
            updates=None if self.updates is None else self.updates[mine],
            words=self.words.take(mine) if self.words.sketches else self.words,
        )

    @property
    def used(self) -> int:
        """Return the number of updates that move a model."""
        return len(self.aggregated)

    @property
    def dispersion(self) -> float:
        """Return how heterogeneous the updates are: mean squared distance of directions to their mean."""
        return dispersion(self.directions)


def examine(answer: Answer, fingerprint: Fingerprint, *, reads_layers: bool = True) -> Examined | Reason:
    """Return an answer with all that a round wants to know about its update, or the reason why it is refused."""
    checked = check_update(answer.update, answer.examples, fingerprint.n_params)
    if not isinstance(checked, tuple):
        return checked
    values, count = checked
    if values is not answer.update or count is not answer.examples:
        answer = replace(answer, update=values, examples=count)
    told = (fingerprint.outputs(values), fingerprint.inputs(values)) if reads_layers else ()
    return Examined(answer, fingerprint.of(values), relative_length(values, count), *told)


def gather(  # noqa: PLR0913, PLR0915, PLR0917 - a stream, where it goes, and what bounds it
    returned: Iterator[Returned],
    fingerprint: Fingerprint,
    admission: Admission,
    sums: Sequence[Accumulator],
    usual: UsualUpdates | None = None,
    most: float = FEWEST_TIMES,
    unproved: BoolArray | None = None,
) -> Gathered:
    """Take a stream of answers to its end, with a sum for each model that was offered.

    ``usual`` is what the cohort's last rounds brought; None: nothing is known of any. ``most`` times its examples are
    what one update counts for at most. Of the ``unproved`` among the participants each counts for what is usual, in
    length and in examples, and none of them says what that is; None: everybody is alike.
    """
    usual = usual or UsualUpdates()
    rows: list[int] = []
    late: list[bool] = []
    answers: list[Answer] = []  # without their updates
    kept: list[Float32Array] | None = [] if isinstance(admission, KeepsUpdates) and admission.keeps_updates else None
    reads_layers = not isinstance(admission, ByDirections)
    directions: list[FloatArray] = []
    outputs: list[FloatArray] = []
    inputs: list[FloatArray] = []
    lengths: list[float] = []
    placed: list[int] = []
    moves: list[tuple[int, float, int]] = []  # row, length and examples of what moves a model
    proved: list[tuple[int, float, int]] = []  # of these, by who may say what is usual
    misfits = 0
    rejected: list[tuple[int, Reason]] = []

    def move(one: Move) -> None:
        moves.append((one.row, one.length, one.report.examples))
        if not one.bounded:
            proved.append(moves[-1])
        for model in one.models:
            sums[model].add(one.update, one.report)

    usual_only = UsualOnly(usual, move, most)
    for one in returned:
        examined = one.answer
        if isinstance(examined, Answer):
            examined = examine(examined, fingerprint, reads_layers=reads_layers)
        if not isinstance(examined, Examined):
            rejected.append((one.row, examined))
            continue
        answer = examined.answer
        trained = answer.model or 0
        rows.append(one.row)
        late.append(one.late)
        answers.append(replace(answer, update=_NOTHING))
        if kept is not None:
            kept.append(answer.update.copy())
        directions.append(examined.direction)
        outputs.append(examined.outputs if reads_layers else _TOLD_NOTHING)
        inputs.append(examined.inputs if reads_layers else _TOLD_NOTHING)
        length = examined.length * float(np.sqrt(answer.examples))
        if length > usual_only.longest:  # or the lengths of all others would seem nothing beside it
            examined = replace(examined, length=examined.length * usual_only.longest / length)
        lengths.append(examined.length)
        if one.late:
            placed.append(-1)
            continue
        moved = admission.place(one.row, examined, trained)
        moved, update = (moved.model, moved.update) if isinstance(moved, Belongs) else (moved, answer.update)
        models = () if moved is None else moved if isinstance(moved, tuple) else (moved,)
        placed.append(models[0] if models else -1)
        if not models or update is None:
            misfits += 1
            continue
        if update is not answer.update:
            length = float(np.linalg.norm(update.astype(np.float64)))
        report, bounded = (
            Report(answer.examples, answer.loss, one.reply),
            unproved is not None and bool(unproved[one.row]),
        )
        usual_only.offer(Move(one.row, models, update, report, length, bounded))
    usual_only.finish()
    said = proved or ([] if usual.lengths else moves)
    return Gathered(
        movements=tuple(one.result() for one in sums),
        rows=np.array(rows, dtype=np.int64),
        late=np.array(late, dtype=np.bool_),
        model=np.array([one.model or 0 for one in answers], dtype=np.int64),
        losses=_known([one.loss for one in answers]),
        squared_losses=_known([one.squared_loss for one in answers]),
        judged=Judged.of(answers),
        directions=np.array(directions).reshape(len(rows), fingerprint.width),
        blocks=fingerprint.blocks,
        lengths=np.array(lengths, dtype=np.float64),
        examples=np.array([one.examples for one in answers], dtype=np.int64),
        aggregated=np.array([row for row, _, _ in moves], dtype=np.int64),
        misfits=misfits,
        rejected=tuple(rejected),
        unusual=tuple(usual_only.refused),
        capped=tuple(usual_only.capped),
        outputs=np.array(outputs).reshape(len(rows), -1 if rows else 0),
        inputs=np.array(inputs).reshape(len(rows), -1 if rows else 0),
        usual=usual.after([length for _, length, _ in said], [count for _, _, count in said]),
        placed=np.array(placed, dtype=np.int64),
        centres=tuple(one.centres for one in answers),
        updates=None if kept is None else np.array(kept, dtype=np.float32).reshape(len(rows), fingerprint.n_params),
        weights=tuple(one.weight if isinstance(one, WeightedMean) else 0.0 for one in sums),
        words=SaidWords.of(
            [one.sketch for one in answers], [one.label for one in answers], [one.gain for one in answers]
        ),
    )


def _known(values: Sequence[float | None]) -> FloatArray:
    """Return the values, NaN where there is none."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def dispersion(directions: FloatArray) -> float:
    """Return the mean squared distance of directions to their mean; 0 without any."""
    if len(directions) == 0:
        return 0.0
    return float(((directions - directions.mean(axis=0)) ** 2).sum(axis=1).mean())

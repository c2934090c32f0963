"""A round's answers as they arrive: checked, fingerprinted, and added up for each model; no update is kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from auxo.core.aggregators import Accumulator, Report
from auxo.core.fingerprint import Fingerprint
from auxo.core.rewards import relative_length
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.core.usual_updates import Move, UsualOnly, UsualUpdates
from auxo.core.validation import Reason, check_update


@dataclass(frozen=True)
class Examined:
    """A valid update with all that a round wants to know about it; only the update itself is not kept."""

    update: Float32Array
    report: Report
    direction: FloatArray  # the fingerprint
    length: float  # relative to the root of the examples
    outputs: FloatArray = field(default_factory=lambda: np.zeros(0))  # see `Fingerprint.outputs`


@dataclass(frozen=True)
class Returned:
    """One participant's answer as it arrives; ``update`` and ``examples`` are whatever came over the wire.

    An update need only last until the next answer is asked for.
    """

    row: int  # in Participants
    update: object
    examples: object
    late: bool = False  # finished after the round had closed: fingerprinted, not aggregated
    model: int = 0  # which of the models it was offered it has trained
    loss: float | None = None  # at that model, before training; None where nobody asked
    held_out: tuple[float, ...] = ()  # on samples it has not trained on, at the models it was asked about
    held_out_scores: tuple[float, ...] = ()  # of these samples, likewise
    held_in: tuple[float, ...] = ()  # losses of its other samples, likewise
    held_in_scores: tuple[float, ...] = ()  # and their scores
    squared_loss: float | None = None  # mean of the squares of the losses that ``loss`` is the mean of
    centres: FloatArray | None = None  # of its samples, where it was asked for those
    reply: object = None  # see `Report`
    examined: Examined | Reason | None = None  # by an engine that has already done so; None: to be examined here


class Admission(Protocol):
    """Decides, answer by answer, who may move which model."""

    def place(self, row: int, examined: Examined, model: int) -> "int | Belongs | None":
        """Return which model the update of a participant that is in time moves: most often the one it has trained.

        None: it moves none.
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
class Gathered:
    """A round's answers after the last has come: a vector to move each model by, and the fingerprints."""

    movements: tuple[FloatArray | None, ...]  # for each model that was offered; None: nobody has trained it
    rows: IntArray  # participants with a valid update, late ones included
    late: BoolArray
    model: IntArray  # (len(rows),) which of the models each has trained
    losses: FloatArray  # (len(rows),) mean loss at that model before training; NaN where nobody asked
    held_out: FloatArray  # (len(rows), most asked) losses on samples not trained on, in the order asked; NaN: none
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
    usual: UsualUpdates = field(default_factory=UsualUpdates)  # after this round
    outputs: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (len(rows), outputs) of the last layer
    held_out_scores: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # as ``held_out``; larger is better
    held_in: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # as ``held_out``, on the other samples
    held_in_scores: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # likewise
    placed: IntArray | None = None  # (len(rows),) which model each moves or belongs to; -1: none
    centres: tuple[FloatArray | None, ...] = ()  # (len(rows),) of samples, where participants were asked for them
    updates: Float32Array | None = None  # (len(rows), parameters) where the admission keeps them, see `KeepsUpdates`

    def take(self, mine: BoolArray) -> "Gathered":
        """Return what some of the participants with a valid update have answered; what moves models stays as it is."""
        return replace(
            self,
            rows=self.rows[mine],
            late=self.late[mine],
            model=self.model[mine],
            losses=self.losses[mine],
            squared_losses=None if self.squared_losses is None else self.squared_losses[mine],
            held_out=self.held_out[mine],
            held_out_scores=self.held_out_scores[mine],
            held_in=self.held_in[mine],
            held_in_scores=self.held_in_scores[mine],
            directions=self.directions[mine],
            outputs=self.outputs[mine],
            lengths=self.lengths[mine],
            examples=self.examples[mine],
            placed=None if self.placed is None else self.placed[mine],
            centres=tuple(one for one, is_mine in zip(self.centres, mine.tolist(), strict=False) if is_mine),
            updates=None if self.updates is None else self.updates[mine],
        )

    @property
    def used(self) -> int:
        """Return the number of updates that move a model."""
        return len(self.aggregated)

    @property
    def dispersion(self) -> float:
        """Return how heterogeneous the updates are: mean squared distance of directions to their mean."""
        return dispersion(self.directions)


class SaysOfUpdate(Protocol):
    """What an answer says besides its update and its examples; see `Report`."""

    @property
    def loss(self) -> float | None: ...  # noqa: D102 - see `Report`, and so below

    @property
    def held_out(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def held_out_scores(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def held_in(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def held_in_scores(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def squared_loss(self) -> float | None: ...  # noqa: D102

    @property
    def centres(self) -> FloatArray | None: ...  # noqa: D102


def examine(update: object, examples: object, said: SaysOfUpdate, fingerprint: Fingerprint) -> Examined | Reason:
    """Return an update with all that a round wants to know about it, or the reason why it is refused."""
    checked = check_update(update, examples, fingerprint.n_params)
    if not isinstance(checked, tuple):
        return checked
    values, count = checked
    report = Report(
        examples=count,
        loss=said.loss,
        held_out=said.held_out,
        held_out_scores=said.held_out_scores,
        held_in=said.held_in,
        held_in_scores=said.held_in_scores,
        squared_loss=said.squared_loss,
        centres=said.centres,
    )
    length = relative_length(values, count)
    return Examined(values, report, fingerprint.of(values), length, fingerprint.outputs(values))


def gather(
    returned: Iterator[Returned],
    fingerprint: Fingerprint,
    admission: Admission,
    sums: Sequence[Accumulator],
    usual: UsualUpdates | None = None,
) -> Gathered:
    """Take a stream of answers to its end, with a sum for each model that was offered.

    ``usual`` is what the cohort's last rounds brought; None: nothing is known of any.
    """
    usual = usual or UsualUpdates()
    rows: list[int] = []
    late: list[bool] = []
    trained: list[int] = []
    reports: list[Report] = []
    kept: list[Float32Array] | None = [] if isinstance(admission, KeepsUpdates) and admission.keeps_updates else None
    directions: list[FloatArray] = []
    outputs: list[FloatArray] = []
    lengths: list[float] = []
    placed: list[int] = []
    moves: list[tuple[int, float, int]] = []  # row, length and examples of what moves a model
    misfits = 0
    rejected: list[tuple[int, Reason]] = []

    def move(one: Move) -> None:
        moves.append((one.row, one.length, one.report.examples))
        sums[one.model].add(one.update, one.report)

    usual_only = UsualOnly(usual, move)
    for answer in returned:
        examined = answer.examined or examine(answer.update, answer.examples, answer, fingerprint)
        if not isinstance(examined, Examined):
            rejected.append((answer.row, examined))
            continue
        if answer.reply is not None:
            examined = replace(examined, report=replace(examined.report, reply=answer.reply))
        rows.append(answer.row)
        late.append(answer.late)
        trained.append(answer.model)
        reports.append(examined.report)
        if kept is not None:
            kept.append(examined.update.copy())
        directions.append(examined.direction)
        outputs.append(examined.outputs)
        length = examined.length * float(np.sqrt(examined.report.examples))
        if length > usual_only.longest:  # or the lengths of all others would seem nothing beside it
            examined = replace(examined, length=examined.length * usual_only.longest / length)
        lengths.append(examined.length)
        if answer.late:
            placed.append(-1)
            continue
        moved = admission.place(answer.row, examined, answer.model)
        model, update = (moved.model, moved.update) if isinstance(moved, Belongs) else (moved, examined.update)
        placed.append(-1 if model is None else model)
        if model is None or update is None:
            misfits += 1
            continue
        if update is not examined.update:
            length = float(np.linalg.norm(update.astype(np.float64)))
        usual_only.offer(Move(answer.row, model, update, examined.report, length))
    usual_only.finish()
    return Gathered(
        movements=tuple(one.result() for one in sums),
        rows=np.array(rows, dtype=np.int64),
        late=np.array(late, dtype=np.bool_),
        model=np.array(trained, dtype=np.int64),
        losses=_known([one.loss for one in reports]),
        squared_losses=_known([one.squared_loss for one in reports]),
        held_out=_filled([one.held_out for one in reports]),
        held_out_scores=_filled([one.held_out_scores for one in reports]),
        held_in=_filled([one.held_in for one in reports]),
        held_in_scores=_filled([one.held_in_scores for one in reports]),
        directions=np.array(directions).reshape(len(rows), fingerprint.width),
        blocks=fingerprint.blocks,
        lengths=np.array(lengths, dtype=np.float64),
        examples=np.array([one.examples for one in reports], dtype=np.int64),
        aggregated=np.array([row for row, _, _ in moves], dtype=np.int64),
        misfits=misfits,
        rejected=tuple(rejected),
        unusual=tuple(usual_only.refused),
        outputs=np.array(outputs).reshape(len(rows), -1 if rows else 0),
        usual=usual.after([length for _, length, _ in moves], [count for _, _, count in moves]),
        placed=np.array(placed, dtype=np.int64),
        centres=tuple(one.centres for one in reports),
        updates=None if kept is None else np.array(kept, dtype=np.float32).reshape(len(rows), fingerprint.n_params),
    )


def _known(values: Sequence[float | None]) -> FloatArray:
    """Return the values, NaN where there is none."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _filled(rows: Sequence[tuple[float, ...]]) -> FloatArray:
    """Return rows of different lengths as one array, NaN where a row has nothing."""
    filled = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return filled


def dispersion(directions: FloatArray) -> float:
    """Return the mean squared distance of directions to their mean; 0 without any."""
    if len(directions) == 0:
        return 0.0
    return float(((directions - directions.mean(axis=0)) ** 2).sum(axis=1).mean())

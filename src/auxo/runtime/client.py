"""The client half on a device: one affinity record, a check-in before training, feedback after it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from auxo.core.affinity import (
    FOLDS,
    AffinityRecords,
    AffinitySettings,
    FeedbackColumns,
    Requests,
    learn,
    request,
)
from auxo.core.asking import Answer, Ask, Device, Failure, Losses, Part, do
from auxo.core.client_mod import ClientMod, said_through, through
from auxo.core.cohort_tree import CohortTree
from auxo.core.folds import part_of
from auxo.core.proofs import observe
from auxo.core.rng import stream
from auxo.core.types import ClientId, CohortId, Float32Array, FloatArray, IntArray
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn, Task, TaskFailure, TaskResult
from auxo.runtime.client_numbers import client_number, plain_id
from auxo.runtime.flat_arrays import flat_update

Model = TypeVar("Model")

_LARGEST = 1.0 + 1e-6  # reward or cosine, with what rounding may add


@dataclass(frozen=True)
class ClientRecord:
    """All that a device keeps between check-ins."""

    affinity: AffinityRecords | None = None  # one row; None before the first feedback
    check_ins: int = 0  # so far; names the random stream of the next
    federation: str = ""  # whose feedback it has had; "": nobody's, or of one that does not say
    rounds: Mapping[CohortId, int] = field(default_factory=dict)  # the last of each cohort that it has had feedback to
    token: str = ""  # the last that it was given
    observed: AffinityRecords | None = None  # one row, what the token says; None: the server signs nothing

    def __post_init__(self) -> None:
        if self.affinity is not None and len(self.affinity.heard) != 1:
            raise ValueError(f"affinity: expected the record of 1 client, got {len(self.affinity.heard)}")


def check_in_of(client: ClientId, asked: Requests) -> CheckIn:
    """Return the check-in of a client that asks so, in one row."""
    wish = None
    if asked.cohort[0] >= 0:
        wish = AffinityRequest(
            cohort=asked.tree.cohorts[int(asked.cohort[0])],
            reward=float(asked.reward[0]),
            cluster=int(asked.cluster[0]),
            generation=int(asked.generation[0]),
            ranked_first=bool(asked.ranked_first[0]),
            confirmed=int(asked.confirmed[0]),
        )
    return CheckIn(client, wish, int(asked.participations[0]))


_PARTS = 32  # of what a client judges by, which tell how much its samples differ; our choice


def feedback_columns(feedback: AffinityFeedback) -> FeedbackColumns:
    """Return feedback to a client, in one row."""
    return FeedbackColumns(
        cohort=feedback.cohort,
        tree=feedback.tree,
        instant_reward=np.array([np.nan if feedback.instant_reward is None else feedback.instant_reward]),
        similarity=np.array([[np.nan if value is None else value for value in feedback.similarity]], dtype=float),
        fold=np.array([-1 if feedback.fold is None else feedback.fold]),
        generation=feedback.generation,
        placed=None if feedback.placed is None else np.array([feedback.tree.index[feedback.placed]]),
    )


class Column(Protocol):
    """Something of each of a client's samples: an array, a tensor or a list of their inputs, labels or numbers."""

    def __len__(self) -> int: ...

    def __getitem__(self, some: slice) -> object: ...


class OneClient:
    """What a device with the samples of one client begins with, which does a task."""

    client: "Client"
    task: Task

    @property
    def clients(self) -> IntArray:
        """Return the client's number."""
        return np.array([client_number(self.client.client)], dtype=np.int64)

    @property
    def visits(self) -> IntArray:
        """Return how often it has taken part."""
        return np.array([self.client.participations])

    @property
    def samples(self) -> IntArray:
        """Return that nobody knows how many samples it has."""
        return np.zeros(1, dtype=np.int64)

    @property
    def models(self) -> int:
        """Return the number of models that the task names."""
        return len(self.task.models)


@dataclass(frozen=True)
class _OwnDevice(OneClient):
    """A device with the samples of one client, and functions of its owner."""

    client: "Client"
    task: Task
    weights: Callable[[CohortId], object]
    loss: Callable[..., float]
    training: Callable[..., object]
    columns: Sequence[Column]
    score: Callable[..., float] | None
    validation: Sequence[Column]
    clock: Callable[[], float] | None
    _fetched: dict[int, object] = field(default_factory=dict)

    @property
    def samples(self) -> IntArray:
        """Return how many samples it has."""
        return np.array([len(self.columns[0])])

    def model(self, place: int) -> Float32Array:
        """Return a model as a flat array."""
        return flat_update(self._model(place))

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses | None:
        """Return the mean loss of a part of the samples; of what it judges by that of some parts of one size, too."""
        found = self._mean(self.loss, model, asks[0], part)
        if found is None or part != "kept out":
            return None if found is None else Losses(found)
        by = list(self.validation) or self._some(asks[0].half(part))
        samples = len(by[0])
        size = max(1, samples // _PARTS)
        starts = range(0, samples - size + 1, size)
        each = [float(self.loss(self._model(model), *(column[at : at + size] for column in by))) for at in starts]
        return Losses(found, samples=np.array([samples]), each=[np.array(each)])

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> FloatArray | None:
        """Return the mean score likewise."""
        return None if self.score is None else self._mean(self.score, model, asks[0], part)

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer]:
        """Yield what the owner's training gives."""
        begun = self._now()
        update = flat_update(self.training(self._model(model), *self._some(asks[0].fold)))
        took_s = None if self.clock is None else self._now() - begun
        yield Answer(update, len(self.columns[0]), training_s=took_s)

    def do(self, asks: Sequence[Ask], device: Device) -> Iterator[Answer | Failure]:
        """Yield the answer, with how long it took."""
        begun = self._now()
        for answer in do(asks, device):
            yield (
                answer
                if isinstance(answer, Failure) or self.clock is None
                else replace(answer, took_s=self._now() - begun)
            )

    def _now(self) -> float:
        return 0.0 if self.clock is None else self.clock()

    def _model(self, place: int) -> object:
        if place not in self._fetched:  # it may have to be downloaded
            self._fetched[place] = self.weights(self.task.models[place])
        return self._fetched[place]

    def _mean(self, function: Callable[..., float], model: int, ask: Ask, part: Part) -> FloatArray | None:
        if self.validation and part == "others":
            return None
        some = self.validation if self.validation and part == "kept out" else self._some(ask.half(part))
        return np.array([float(function(self._model(model), *some))])

    def _some(self, fold: int | None) -> list[Column]:
        """Return a part of the samples, see `auxo.core.folds`; None: all of them."""
        if fold is None:
            return list(self.columns)
        mine = part_of(fold, len(self.columns[0]))
        return [_taken(column, mine) for column in self.columns]


def _taken(column: Column, rows: IntArray) -> Column:
    """Return some samples of a column: of a table by its rows, of a list one by one."""
    by_row: Any = getattr(column, "iloc", column)
    some: Column = by_row[rows] if hasattr(column, "shape") else [by_row[row] for row in rows.tolist()]
    return some


class Client:
    """A device's side of Auxo; it runs the same code as a simulated population, over one row.

    >>> Client(7).check_in()
    CheckIn(client=7, request=None, participations=0)
    """

    def __init__(
        self,
        client: ClientId,
        *,
        seed: int = 0,
        settings: AffinitySettings | None = None,
        mods: Sequence[ClientMod] = (),
    ) -> None:
        """Make a client without a record.

        Args:
            client: its id in the federation: a number of up to 64 bits, or a name.
            seed: of its exploration; mixed with the id, so all clients may share one.
            settings: how it weighs and explores cohorts: the server's, or it will claim what the server has not signed.
            mods: that all pass through what it says, the first as the last.

        Raises:
            ValueError: the id is nothing that a client can be called.
        """
        name = plain_id(client)
        if name is None:
            raise ValueError(
                f"client: expected a number of up to 64 bits or a name of 1 to 1024 characters, got {client!r:.80}"
            )
        self.client = name
        self._seed = seed
        self._settings = settings or AffinitySettings()
        self._mods = tuple(mods)
        self._record = ClientRecord()

    def check_in(self, *, explore: bool = True) -> CheckIn:
        """Return what to send when the device is ready to train, or, without exploring, to ask whose model to use."""
        self._record = replace(self._record, check_ins=self._record.check_ins + 1)
        affinity, asked = self._record.affinity, Requests.silent(CohortTree(), np.zeros(1, dtype=np.int64))
        if affinity is not None:
            rng = stream(self._seed, "client", self.client, self._record.check_ins) if explore else None
            asked = self._as_signed(request(affinity, self._settings, rng))
        number = np.array([client_number(self.client)], dtype=np.int64)
        check_in = check_in_of(self.client, said_through(self._mods, number, asked))
        if check_in.request is None or not self._record.token:
            return check_in
        return replace(check_in, request=replace(check_in.request, token=self._record.token))

    def do(  # noqa: PLR0913 - by name, all that is rare
        self,
        task: Task,
        weights: Callable[[CohortId], Model],
        loss: Callable[..., float],
        train: Callable[..., object],
        *samples: Column,
        score: Callable[..., float] | None = None,
        validation: Sequence[Column] = (),
        clock: Callable[[], float] | None = None,
    ) -> TaskResult | TaskFailure:
        """Do a task with the device's own samples, and return what to send.

        Args:
            task: of this client. ``task.ask.work`` says how many times its usual passes over its samples it makes, and
                ``task.ask.skipped`` which tensors of its update it need not send.
            weights: gives a model by its name: `Server.weights`, or a download.
            loss: ``loss(model, *samples)`` is the mean loss of samples.
            train: ``train(model, *samples)`` is new weights minus old, after training on samples: an array or a torch
                tensor, or one for each tensor of the model.
            samples: all that the device has, in columns of one length that can be sliced, such as ``x, y``; or an array
                of their numbers. Their order must stay the same from task to task.
            score: ``score(model, *samples)`` is what the task is measured by, such as accuracy; larger is better. A
                partition that lowers the loss and not this is not made then.
            validation: the same columns of samples that the client never trains on: it judges models by these.
            clock: tells seconds, such as `time.monotonic`, for selectors that prefer the fast.

        Raises:
            ValueError: the task is another client's, there are no samples, or training gives no update.
        """
        if task.client != self.client:
            raise ValueError(f"task.client: expected {self.client}, got {task.client}; give it to its client")
        if not samples or any(len(column) != len(samples[0]) for column in samples):
            raise ValueError(f"samples: expected columns of one length, got {[len(column) for column in samples]}")
        device = _OwnDevice(
            client=self,
            task=task,
            weights=weights,
            loss=loss,
            training=train,
            columns=samples,
            score=score,
            validation=validation,
            clock=clock,
        )
        (answer,) = through(self._mods, device.do)([task.ask], device)
        if isinstance(answer, Failure):
            return TaskFailure(self.client, task.cohort, task.round, answer.reason)
        return TaskResult(self.client, task.cohort, task.round, answer)

    @property
    def participations(self) -> int:
        """Return how often it has taken part and had feedback."""
        return 0 if self._record.affinity is None else int(self._record.affinity.participations[0])

    def receive(self, feedback: AffinityFeedback) -> None:
        """Learn from the feedback to the last task; one that has been delivered before changes nothing.

        Raises:
            ValueError: the feedback is for another client, of another federation than the record, older than a
                partition the client has heard of, or holds what cannot be; nothing was learnt.
        """
        self._check_sender(feedback)
        if feedback.round and feedback.round <= self._record.rounds.get(feedback.cohort, 0):
            return
        affinity = self._record.affinity or AffinityRecords.empty(1, len(feedback.similarity))
        self._check(feedback, affinity)
        columns = feedback_columns(feedback)
        self._record = replace(
            self._record,
            affinity=learn(affinity, columns, self._settings),
            federation=feedback.federation,
            rounds={**self._record.rounds, feedback.cohort: feedback.round},
            token=feedback.token or self._record.token,
            observed=self._observed(feedback, columns),
        )

    def _observed(self, feedback: AffinityFeedback, columns: FeedbackColumns) -> AffinityRecords | None:
        """Return what a new token says: the server has made it of the one that this client has brought along."""
        if not feedback.token:
            return self._record.observed
        before = self._record.observed or AffinityRecords.empty(1, len(feedback.similarity))
        return observe(before, columns, self._settings)

    def _as_signed(self, asked: Requests) -> Requests:
        """Return a request that claims the reward which the token says, and not what this client has made of it."""
        observed, place = self._record.observed, int(asked.cohort[0])
        if observed is None or place < 0:
            return asked
        known = place < len(observed.tree.cohorts)
        return replace(asked, reward=observed.reward[:, place] if known else np.zeros(1))

    def record_to_bytes(self) -> bytes:
        """Return the record for the device to keep."""
        return to_bytes(self._record)

    def record_from_bytes(self, data: bytes) -> None:
        """Take up a record that was kept; losing it is no harm beyond having to explore again.

        Raises:
            CodecError: the bytes are damaged or not a record.
        """
        self._record = from_bytes(ClientRecord, data)

    def _check_sender(self, feedback: AffinityFeedback) -> None:
        if feedback.client != self.client:
            raise ValueError(
                f"feedback.client: expected {self.client}, got {feedback.client}; deliver it to its client"
            )
        if self._record.affinity is not None and feedback.federation != self._record.federation:
            raise ValueError(
                f"feedback.federation: expected {self._record.federation!r} as in the record, got "
                f"{feedback.federation!r:.80}; leave it, or make a new Client to join another federation"
            )

    def _check(self, feedback: AffinityFeedback, affinity: AffinityRecords) -> None:
        said = (feedback.instant_reward, *feedback.similarity)
        if not all(value is None or -_LARGEST <= value <= _LARGEST for value in said):
            raise ValueError(
                f"feedback.instant_reward, similarity: expected numbers from -1 to 1, or None, got {said!r:.80}; "
                "pass on what the server gave"
            )
        if feedback.cohort not in feedback.tree.index:
            raise ValueError(
                f"feedback.cohort: {feedback.cohort} is not in feedback.tree; pass on what the server gave"
            )
        if feedback.placed is not None and feedback.placed not in feedback.tree.index:
            raise ValueError(
                f"feedback.placed: {feedback.placed} is not in feedback.tree; pass on what the server gave"
            )
        if feedback.fold not in (None, *range(FOLDS)):
            raise ValueError(f"feedback.fold: expected None or a number below {FOLDS}, got {feedback.fold}")
        clusters = affinity.similarity.shape[-1]
        if clusters == 0 or len(feedback.similarity) != clusters:
            raise ValueError(
                f"feedback.similarity: expected {clusters or 'at least 1'} as in the record, "
                f"got {len(feedback.similarity)}; make a new Client to join another run"
            )
        known = affinity.tree.branches
        if feedback.tree.branches[: len(known)] != known:
            raise ValueError(
                f"feedback.tree: expected a later state of {affinity.tree.cohorts}, got {feedback.tree.cohorts}, of "
                "another run or of an earlier time; leave it, or make a new Client to join another run"
            )

"""The client half for a Flower app: a drop-in `ClientApp`, and a mod for apps that cannot change the class.

It keeps the node's affinity record, answers check-ins, and lets the app's own functions do all the work: ``train`` as
ever, ``evaluate`` to compare and to judge models. It needs numpy and flwr, and of Auxo what a client needs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MessageType, Metadata, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common.constant import ErrorCode

from auxo.core.asking import Answer, Ask, Failure, Losses, Part
from auxo.core.client_mod import ClientMod, is_sealed, through
from auxo.core.types import CohortId, Float32Array, FloatArray, IntArray
from auxo.flower.affinity_file import keep_client, load_client, note_cohort
from auxo.flower.legacy import how_to_migrate
from auxo.flower.logs import LOG
from auxo.flower.model_arrays import ModelArrays, is_thin, whole_arrays
from auxo.flower.wire import (
    APART,
    CHECK_IN_ACTION,
    FOR_REPORT,
    HALF,
    MODEL_TRIED,
    NO_UPDATE,
    AskedOfNode,
    message_of,
    say,
    say_here,
    take_asked,
)
from auxo.protocol.messages import Task, TaskResult
from auxo.runtime.client import Client, OneClient

LOSSES = ("eval_loss", "val_loss", "test_loss", "loss", "eval-loss", "val-loss", "test-loss")
"""Metrics of an app's evaluation that are taken for its mean loss, the first that is there."""

SCORES = ("eval_accuracy", "val_accuracy", "test_accuracy", "accuracy", "eval_acc", "val_acc", "test_acc")
"""Metrics that are taken for its score, where there is one: a partition has to better it as well as the loss."""

_FAILED = "the app gives no reply, or an error"
_PRIVATE = "this client is private: it answers check-ins and tasks of Auxo, and evaluates nothing for the server"
_CHECK_IN = f"{MessageType.QUERY}.{CHECK_IN_ACTION}"
_LOCAL_DP = "LocalDpMod"
_HIDING = ("secaggplus_mod", "secagg_mod")
_EXAMPLES = "num-examples"  # what Flower's strategies call them
_PARTS = 3  # of the samples of an evaluation, one of them for the report; our choice
_MOST = 2**53  # examples: a float knows every one of them


@dataclass(frozen=True)
class NodeHalf:
    """What a node does besides its app's work."""

    halves: bool = False  # the app trains on the half of its samples that its config names
    losses: tuple[str, ...] = LOSSES
    mods: tuple[ClientMod, ...] = ()
    thirds: bool = False  # the app keeps a third of its evaluation samples for the report, as its config names it
    _said: set[str] = field(default_factory=set)  # that has been logged

    def answer(self, message: Message, context: Context, train: ClientAppCallable, app: ClientAppCallable) -> Message:
        """Return the reply to a message: the app's own, with ours beside it.

        Args:
            message: of the server; one without anything of ours goes to the app as it is.
            context: of the node.
            train: handles the message once ours is out of it.
            app: handles evaluations.
        """
        if not message.has_content():
            return _refused(message, _PRIVATE) if self.is_sealed else train(message, context)
        asked = take_asked(message)
        if self.is_sealed and not self._passes_mods(message, asked):
            return _refused(message, _PRIVATE)
        is_report = self.thirds and message.metadata.message_type == MessageType.EVALUATE
        if is_report:
            message.content = RecordDict({**message.content})
            _name(message.content, FOR_REPORT, 1)
        reply = self._answer(message, context, asked, train, app)
        returned: object = reply  # by the app, which may have forgotten to: that is for Flower to say
        if is_report and isinstance(returned, Message):
            reply.metadata.group_id += APART
        return reply

    @property
    def is_sealed(self) -> bool:
        """Return whether nothing may leave the node that has not passed through its mods."""
        return is_sealed(self.mods)

    def _passes_mods(self, message: Message, asked: AskedOfNode | None) -> bool:
        """Return whether all of the reply to a message does: a check-in, or what is said of a task."""
        return asked is not None and (message.metadata.message_type == _CHECK_IN or asked.task is not None)

    def _answer(
        self,
        message: Message,
        context: Context,
        asked: AskedOfNode | None,
        train: ClientAppCallable,
        app: ClientAppCallable,
    ) -> Message:
        if asked is None:
            return self._here(train(message, context))
        node_id = message.metadata.dst_node_id
        client = load_client(context, node_id, asked.federation, asked.settings, self.mods)
        if asked.cohort is not None:
            note_cohort(context, asked.cohort)
        learnt = self._learn(client, asked)
        if learnt:
            keep_client(context, client, asked.federation, to_file=True)
        done, trouble = None, ""
        if message.metadata.message_type == _CHECK_IN:
            reply = Message(RecordDict(), reply_to=message)
        elif asked.task is None:
            reply = train(message, context)
        else:
            device = _AppDevice(self, client, message, context, asked.task, asked, train, app)
            reply, done = self._do(device)
            trouble = device.trouble
        returned: object = self._here(reply, trouble)  # as above
        if isinstance(returned, Message) and not reply.has_error():
            say(reply, client.check_in(), done)
            keep_client(context, client, asked.federation, to_file=False)
        return reply

    def _here(self, reply: Message, trouble: str = "") -> Message:
        """Return a reply of the app that says who has answered, and what keeps it from judging models."""
        returned: object = reply  # as above
        if isinstance(returned, Message) and not reply.has_error():
            is_evaluation = reply.metadata.message_type == MessageType.EVALUATE
            words = self.trouble_in(reply) if is_evaluation else trouble
            say_here(reply, "" if self.is_sealed else words)
        return reply

    def _learn(self, client: Client, asked: AskedOfNode) -> bool:
        if asked.feedback is None:
            return False
        try:
            client.receive(asked.feedback)
        except ValueError as error:
            LOG.warning("feedback was left out: %s", error)
            return False
        return True

    def _do(self, device: "_AppDevice") -> tuple[Message, TaskResult | None]:
        """Return the app's reply to a task as it leaves the node, and what is said beside it."""
        task = device.task
        (answer,) = through(self.mods)([task.ask], device)
        if isinstance(answer, Failure):
            return device.failed(answer.reason), None
        return device.sent(answer), TaskResult(device.client.client, task.cohort, task.round, answer)

    def trouble_in(self, reply: Message) -> str:
        """Return why the reply of an evaluation judges no model; nothing: it names a loss."""
        records = reply.content.metric_records.values()
        if any(_first(record, self.losses) is not None for record in records):
            return ""
        names = [name for record in records for name in record]
        likely = [name for name in names if "loss" in name.lower()] or [one for one in names if one != _EXAMPLES]
        return (
            f"the app's evaluation names no loss: it gives {', '.join(names) or 'no metrics'}, and looked for were "
            f"{', '.join(self.losses)}; name the metric that is the mean loss, as in "
            f"AuxoClientApp(losses=({(likely or ['mse'])[0]!r},))"
        )

    def log_once(self, trouble: str) -> None:
        """Log the first time that this client can judge no models."""
        if not self._said:
            self._said.add(trouble)
            LOG.warning("this client judges no models: %s", trouble)


@dataclass(frozen=True)
class _Tried:
    """What the app's evaluation says of a model."""

    loss: float
    score: float | None
    examples: int | None  # that it is the mean of; None: it does not say


@dataclass
class _AppDevice(OneClient):
    """A node whose app trains and evaluates."""

    half: NodeHalf
    client: Client
    message: Message
    context: Context
    task: Task
    asked: AskedOfNode
    app_train: ClientAppCallable
    app: ClientAppCallable
    _key: str = field(default="", init=False)  # of the app's arrays
    _content: RecordDict = field(init=False)
    _tries: dict[tuple[int, int | None], _Tried | None] = field(default_factory=dict, init=False)
    _trained: "_Trained | None" = field(default=None, init=False)
    trouble: str = field(default="", init=False)  # why this client can judge no models, once that is seen

    def __post_init__(self) -> None:
        self._content = self.message.content
        if len(self._content.array_records) == 1:
            (self._key,) = self._content.array_records

    def model(self, place: int) -> Float32Array:
        """Return a model as a flat array.

        Raises:
            KeyError: it did not come with the message.
        """
        arrays = self._arrays(place)
        if arrays is None:
            raise KeyError(f"{self.task.models[place]}: no such model came with the message")
        return ModelArrays.of(arrays).flat(arrays).astype(np.float32)

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses | None:
        """Return the loss that the app's evaluation names; by halves only where the app honours them."""
        found = self._tried(model, asks[0], part)
        if found is None:
            return None
        return Losses(np.array([found.loss]), samples=None if found.examples is None else np.array([found.examples]))

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> FloatArray | None:
        """Return the score likewise, where the evaluation tells one."""
        found = self._tried(model, asks[0], part)
        return None if found is None or found.score is None else np.array([found.score])

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:
        """Yield what the app's training gives; its update is worked out only where a mod may look at it."""
        begin, half = self._arrays(model), asks[0].fold if self.half.halves and self._key else None
        on_all = asks[0].fold is not None and half is None
        if begin is not None:
            self.message.content = RecordDict({**self._content, self._key: begin})
        if half is not None:
            _name(self.message.content, HALF, half % 2)  # which samples are in it is the app's to say
        try:
            reply = self.app_train(self.message, self.context)
        except Exception:  # the app's own code, and what it says of its samples does not leave a node that is sealed
            if not self.half.is_sealed:
                raise
            LOG.exception("the app's training failed")
            yield Failure(_FAILED)
            return
        self._trained = _Trained(reply)
        returned: object = reply
        if not isinstance(returned, Message) or reply.has_error():
            yield Failure(_FAILED)
            return
        if not self.half.mods and asks[0].words is None:
            yield Answer(NO_UPDATE, 0, on_all=on_all)
            return
        self._trained = _Trained.of(reply, begin)
        if self._trained.answer is None and not self.half.mods:
            yield Answer(NO_UPDATE, 0, on_all=on_all)  # of which there are no words
            return
        if self._trained.answer is None:
            yield Failure("client_mods: expected a reply with the arrays of the model, and num-examples, got another")
            return
        yield replace(self._trained.answer, on_all=on_all)

    def failed(self, reason: str) -> Message:
        """Return the app's reply where it says so itself, else an error."""
        if self._trained is not None and self._trained.answer is None and not self.half.is_sealed:
            returned: object = self._trained.reply
            if not isinstance(returned, Message) or returned.has_error():
                return self._trained.reply
        return _refused(self.message, reason)

    def sent(self, answer: Answer) -> Message:
        """Return the app's reply with the update and the examples of an answer."""
        assert self._trained is not None  # noqa: S101 - there is an answer
        return self._trained.with_answer(answer) if not self.half.is_sealed else self._trained.only(answer)

    def _arrays(self, place: int) -> ArrayRecord | None:
        """Return a model's arrays: the first is in the app's own record; None: it did not come."""
        if not self._key:
            return None
        own, name = self._content.array_records[self._key], self.task.models[place]
        if place == 0 or name not in self.asked.models:
            return own if place == 0 else None
        if is_thin(self.asked.models[name]):  # it is what the server has made the same of
            self.asked.models[name] = whole_arrays(ModelArrays.of(own), self.asked.models[name], own)
        return self.asked.models[name]

    def _tried(self, model: int, ask: Ask, part: Part) -> _Tried | None:
        """Return what the app's evaluation, which has samples that the app does not train on, finds of a model."""
        if not self.half.halves and part == "others":
            return None
        half = ask.half(part) if self.half.halves else None
        if (model, half) not in self._tries:
            arrays = self._arrays(model)
            found = None if arrays is None else self._try(self.task.models[model], arrays, half)
            if isinstance(found, str):
                self.trouble, found = found, None
                self.half.log_once(self.trouble)
            self._tries[model, half] = found
        return self._tries[model, half]

    def _try(self, name: CohortId, arrays: ArrayRecord, half: int | None) -> _Tried | str:
        """Return what the app's own evaluation finds of a model, or why it finds nothing."""
        config = self.asked.evaluate.copy()
        content = RecordDict({self._key: arrays, **dict.fromkeys(self._content.config_records, config)})
        _name(content, MODEL_TRIED, name)
        if half is not None:
            _name(content, HALF, half % 2)
        elif self.half.thirds:
            _name(content, FOR_REPORT, 0)
        old = self.message.metadata
        metadata = Metadata(
            old.run_id, old.message_id, old.src_node_id, old.dst_node_id, "", old.group_id, old.created_at, old.ttl,
            MessageType.EVALUATE,
        )  # fmt: skip
        try:
            reply = self.app(message_of(content, metadata), self.context)
        except Exception as error:  # noqa: BLE001 - the app's own code; without an answer it only judges nothing
            return f"the app's evaluation failed: {error!r:.300}"
        if reply.has_error():
            return f"the app's evaluation gave an error: {reply.error.reason!r:.300}"
        for record in reply.content.metric_records.values():
            loss, score = _first(record, self.half.losses), _first(record, SCORES)
            if loss is not None:
                examples = _first(record, (_EXAMPLES,))
                return _Tried(loss, score, None if examples is None or not examples >= 1 else int(min(examples, _MOST)))
        return self.half.trouble_in(reply)


@dataclass(frozen=True)
class _Trained:
    """The app's reply to its training, and what mods find in it."""

    reply: Message
    answer: Answer | None = None  # None: nobody looks, or there is none
    before: FloatArray | None = None  # the model that it began from
    begin: ArrayRecord | None = None  # the same as it came

    @staticmethod
    def of(reply: Message, begin: ArrayRecord | None) -> "_Trained":
        """Return a reply with its update and examples, if it has the arrays of the model that it began from."""
        after = list(reply.content.array_records.values())
        examples = next((math.ceil(count) for _, count in _counts(reply)), None)
        if begin is None or len(after) != 1 or examples is None:
            return _Trained(reply)
        model = ModelArrays.of(begin)
        floats = model.floats(after[0])
        if floats is None:
            return _Trained(reply)
        before = model.flat(begin)
        update = model.flat32([new - old for new, old in zip(floats, model.floats(begin) or [], strict=True)])
        return _Trained(reply, Answer(update, examples), before, begin)

    def with_answer(self, answer: Answer) -> Message:
        """Return the reply, with what the mods have made of its update and its examples."""
        if self.answer is None or self.before is None:
            return self.reply
        if answer.update is not self.answer.update:
            ((key, arrays),) = self.reply.content.array_records.items()
            self.reply.content[key] = ModelArrays.of(arrays).record(self.before + answer.update, arrays)
        for record, _ in _counts(self.reply):
            record[_EXAMPLES] = answer.examples
        return self.reply

    def only(self, answer: Answer) -> Message:
        """Return the reply with nothing in it but an answer: whole numbers among the arrays are those that came."""
        assert self.before is not None  # noqa: S101 - a node with mods has looked
        assert self.begin is not None  # noqa: S101
        (key,) = self.reply.content.array_records
        arrays = ModelArrays.of(self.begin).record(self.before + answer.update, self.begin)
        counted = {name for name, one in self.reply.content.metric_records.items() if _EXAMPLES in one}
        metrics = {name: MetricRecord({_EXAMPLES: answer.examples}) for name in counted}
        self.reply.content = RecordDict({key: arrays, **metrics})
        return self.reply


def _counts(reply: Message) -> list[tuple[MetricRecord, float]]:
    """Return the records of a reply that name its examples, and how many."""
    records = reply.content.metric_records.values()
    return [(one, count) for one in records if isinstance(count := one.get(_EXAMPLES), int | float)]


class AuxoClientApp(ClientApp):
    """Flower's `ClientApp` with Auxo's client half around it; register ``train`` and ``evaluate`` as ever.

    The node's mods run inside: they find what they would find without Auxo. The app's evaluation, which has samples
    that the app does not train on, is what compares and judges models: its reply's metrics have to name a loss.

    Args:
        client_fn: none: it is of Flower's older API.
        mods: see `ClientApp`.
        halves: the app honours ``auxo-half`` in its config, in training and in evaluation: see `half_of`. Then clients
            whose evaluation has no samples of its own can judge models by the half that they do not train on.
        thirds: the app honours ``auxo-report`` in its config in evaluation: see `third_of`. Then a third of its samples
            decides nothing, and is what metrics are of; otherwise the same samples do both, and gains look too good.
        losses: names of the metric that is the mean loss, in the order in which they are looked for.
        client_mods: see `ClientMod`; they stand around all mods of Flower's, which see messages and not answers. What
            the app's metrics say besides ``num-examples`` is the app's own, and does not pass through them; with
            `auxo.privacy.local_privacy.LocalPrivacy` it does not leave, and evaluations are refused.

    Raises:
        TypeError: there is a ``client_fn``; the message says how to move on from it.
        ValueError: a mod hides updates from the server.
    """

    def __init__(
        self,
        client_fn: None = None,
        mods: list[Mod] | None = None,
        *,
        halves: bool = False,
        thirds: bool = False,
        losses: tuple[str, ...] = LOSSES,
        client_mods: Sequence[ClientMod] = (),
    ) -> None:
        given: object = client_fn  # by somebody who has not looked at its type
        if given is not None:
            raise TypeError(how_to_migrate("client_fn"))
        _refuse_hiding(mods or [])
        _warn_of_local_dp(mods or [], client_mods)
        super().__init__(None, mods)
        self._half = NodeHalf(halves, losses, tuple(client_mods), thirds)

    def __call__(self, message: Message, context: Context) -> Message:
        """Handle a message of the server."""
        return self._half.answer(message, context, super().__call__, super().__call__)


class AuxoMod:
    """The client half as a mod, for an app whose class cannot be changed. It has to be the first, and to know the app.

    >>> mod = AuxoMod()
    >>> app = mod.of(ClientApp(mods=[mod]))
    """

    def __init__(
        self,
        *,
        halves: bool = False,
        thirds: bool = False,
        losses: tuple[str, ...] = LOSSES,
        client_mods: Sequence[ClientMod] = (),
    ) -> None:
        """Make a mod; the arguments are those of `AuxoClientApp`."""
        self._half = NodeHalf(halves, losses, tuple(client_mods), thirds)
        self._app: ClientApp | None = None

    def of(self, app: ClientApp) -> ClientApp:
        """Return the app, whose evaluation is now used, and which answers check-ins by query.

        Raises:
            TypeError: it has a ``client_fn``; the message says how to move on from it.
        """
        if app._call is not None:  # nothing else tells that it has a client_fn
            raise TypeError(how_to_migrate("client_fn"))
        _warn_of_local_dp(getattr(app, "_mods", []), self._half.mods)
        self._app = app

        @app.query(CHECK_IN_ACTION)
        def check_in(message: Message, context: Context) -> Message:  # reached through the mod, which has answered
            return Message(RecordDict(), reply_to=message)

        return app

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Handle a message of the server."""
        return self._half.answer(message, context, call_next, self._app or _no_app)


def half_of(message: Message, n_samples: int) -> slice:
    """Return which of an app's training samples to use for a message, as an index; all unless a half is named."""
    half = _named(message, HALF)
    if half is None or n_samples < 2:
        return slice(0, None, 1)
    return slice(1, None, 2) if half == 1 else slice(0, None, 2)


def third_of(message: Message, n_samples: int) -> IntArray:
    """Return which of an app's evaluation samples to use for a message, as places; all of them unless a part is named.

    A third of them is for the report alone; by the others models are chosen and judged. Two or one are not parted.
    """
    part, places = _named(message, FOR_REPORT), np.arange(n_samples)
    return places if part is None or n_samples < _PARTS else places[(places % _PARTS == _PARTS - 1) == (part == 1)]


def _named(message: Message, key: str) -> int | None:
    """Return which part of its samples a message tells an app to use: 0, 1, or None for all of them."""
    found = [record[key] for record in message.content.config_records.values() if key in record]
    return int(str(found[0])) if found and found[0] in (0, 1) else None


def _first(record: MetricRecord, names: tuple[str, ...]) -> float | None:
    """Return the first of some metrics that is a number."""
    return next((float(value) for name in names if isinstance(value := record.get(name), int | float)), None)


def _name(content: RecordDict, key: str, part: int | str) -> None:
    """Say in the app's own config what part of its samples to use, or on what model; others may share it: a copy."""
    records = content.config_records
    name = next(iter(records), "config")
    content[name] = ConfigRecord({**records.get(name, {}), key: part})


def _refused(message: Message, reason: str) -> Message:
    return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)


def _warn_of_local_dp(mods: list[Mod], client_mods: Sequence[ClientMod]) -> None:
    if any(type(mod).__name__ == _LOCAL_DP for mod in mods) and not is_sealed(client_mods):
        LOG.warning(
            "mods: %s has noise for the update alone: the model that this client chooses, its losses, its number of "
            "examples and the app's metrics leave it as they are, and no visits are counted. For a promise about all "
            "that leaves, give AuxoClientApp(client_mods=[LocalPrivacy(...)]) (auxo.privacy)",
            _LOCAL_DP,
        )


def _refuse_hiding(mods: list[Mod]) -> None:
    for mod in mods:
        if getattr(mod, "__name__", "") in _HIDING:
            raise ValueError(
                f"mods: expected none that hides updates from the server, got {getattr(mod, '__name__', mod)}; Auxo "
                "compares clients by their updates, which secure aggregation keeps from it: leave one of the two out"
            )


def _no_app(message: Message, context: Context) -> Message:
    raise RuntimeError("the mod does not know the app: write app = mod.of(ClientApp(mods=[mod]))")

"""The client half for a Flower app: a drop-in `ClientApp`, and a mod for apps that cannot change the class.

It keeps the node's affinity record, answers check-ins, and lets the app's own functions do all the work: ``train`` as
ever, ``evaluate`` to compare and to judge models. It needs numpy and flwr, and of Auxo what a client needs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, Metadata, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable, Mod

from auxo.core.folds import chosen_by, kept_out
from auxo.core.types import CohortId
from auxo.flower.affinity_file import keep_client, load_client
from auxo.flower.logs import LOG
from auxo.flower.wire import CHECK_IN_ACTION, HALF, Answer, Asked, message_of, say, take_asked
from auxo.protocol.messages import Task
from auxo.runtime.client import Client

LOSSES = ("eval_loss", "val_loss", "test_loss", "loss", "eval-loss", "val-loss", "test-loss")
"""Metrics of an app's evaluation that are taken for its mean loss, the first that is there."""

SCORES = ("eval_accuracy", "val_accuracy", "test_accuracy", "accuracy", "eval_acc", "val_acc", "test_acc")
"""Metrics that are taken for its score, where there is one: a partition has to better it as well as the loss."""

_CHECK_IN = f"{MessageType.QUERY}.{CHECK_IN_ACTION}"
_HIDING = ("secaggplus_mod", "secagg_mod")


@dataclass(frozen=True)
class _Tried:
    """What the app's evaluation says of a model."""

    loss: float
    score: float | None


@dataclass(frozen=True)
class ClientHalf:
    """What a node does besides its app's work."""

    halves: bool = False  # the app trains on the half of its samples that its config names
    losses: tuple[str, ...] = LOSSES
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
            return train(message, context)
        asked = take_asked(message)
        if asked is None:
            return train(message, context)
        node_id = message.metadata.dst_node_id
        client = load_client(context, node_id, asked.federation, asked.settings)
        learnt = self._learn(client, asked)
        if learnt:
            keep_client(context, client, asked.federation, to_file=True)
        if message.metadata.message_type == _CHECK_IN:
            reply, done = Message(RecordDict(), reply_to=message), None
        elif asked.task is None:
            reply, done = train(message, context), None
        else:
            reply, done = self._train(message, context, asked.task, asked, train, app)
        returned: object = reply  # by the app, which may have forgotten to: that is for Flower to say
        if isinstance(returned, Message) and not reply.has_error():
            say(reply, client.check_in(), done)
            keep_client(context, client, asked.federation, to_file=False)
        return reply

    def _learn(self, client: Client, asked: Asked) -> bool:
        if asked.feedback is None:
            return False
        try:
            client.receive(asked.feedback)
        except ValueError as error:
            LOG.warning("feedback was left out: %s", error)
            return False
        return True

    def _train(
        self,
        message: Message,
        context: Context,
        task: Task,
        asked: Asked,
        train: ClientAppCallable,
        app: ClientAppCallable,
    ) -> tuple[Message, Answer]:
        content = message.content
        if len(content.array_records) != 1:
            return train(message, context), Answer(task.cohort, task.round, on_all=task.fold is not None)
        ((key, own),) = content.array_records.items()
        mine = task.cohort if task.cohort in task.offered else task.offered[0]
        models = {**asked.models, mine: own}
        half = task.fold if self.halves else None
        trained: CohortId | None = None

        def tried(name: CohortId, part: int | None) -> _Tried | None:
            arrays = models.get(name)
            return None if arrays is None else self._try(message, context, (key, arrays, asked.evaluate), part, app)

        if len(task.offered) > 1:
            losses = {name: found.loss for name in task.offered if (found := tried(name, half)) is not None}
            if len(losses) == len(task.offered):
                trained = min(losses, key=lambda name: losses[name])
        judged = [tried(name, kept_out(task.fold) if self.halves else None) for name in task.held_out]
        chosen = [tried(name, chosen_by(task.fold)) for name in task.held_out] if self.halves else []
        others = [value for value in chosen if value is not None]
        other_scores = [value.score for value in others if value.score is not None]
        is_whole_there = len(others) == len(judged)
        said = [value for value in judged if value is not None]
        scores = [value.score for value in said if value.score is not None]
        is_whole = bool(task.held_out) and len(said) == len(judged)
        begin = models[mine if trained is None else trained]
        message.content = RecordDict({**content, key: begin})
        if half is not None:
            _name_half(message.content, half)
        reply = train(message, context)
        answer = Answer(
            cohort=task.cohort,
            round=task.round,
            trained=trained,
            held_out=tuple(value.loss for value in said) if is_whole else None,
            held_out_scores=tuple(scores) if is_whole and len(scores) == len(said) else None,
            held_in=tuple(value.loss for value in others) if is_whole and is_whole_there else None,
            held_in_scores=tuple(other_scores)
            if is_whole and is_whole_there and len(other_scores) == len(judged)
            else None,
            on_all=task.fold is not None and half is None,
        )
        return reply, answer

    def _try(
        self,
        message: Message,
        context: Context,
        given: tuple[str, ArrayRecord, ConfigRecord],
        half: int | None,
        app: ClientAppCallable,
    ) -> _Tried | None:
        """Return what the app's own evaluation finds of a model; None: there is none, or it names no loss."""
        key, arrays, evaluate = given
        config = evaluate.copy()
        content = RecordDict({key: arrays, **dict.fromkeys(message.content.config_records, config)})
        if half is not None:
            _name_half(content, half)
        old = message.metadata
        metadata = Metadata(
            old.run_id, old.message_id, old.src_node_id, old.dst_node_id, "", old.group_id, old.created_at, old.ttl,
            MessageType.EVALUATE,
        )  # fmt: skip
        try:
            reply = app(message_of(content, metadata), context)
        except Exception as error:  # noqa: BLE001 - the app's own code; without an answer it only judges nothing
            self._log_once("evaluate", f"the app's evaluation failed, so this client judges no models: {error!r:.300}")
            return None
        if reply.has_error():
            self._log_once("evaluate", f"the app's evaluation gave an error: {reply.error.reason!r:.300}")
            return None
        for record in reply.content.metric_records.values():
            loss, score = _first(record, self.losses), _first(record, SCORES)
            if loss is not None:
                return _Tried(loss, score)
        self._log_once("loss", f"the app's evaluation names no loss (looked for {', '.join(self.losses)})")
        return None

    def _log_once(self, what: str, words: str) -> None:
        if what not in self._said:
            self._said.add(what)
            LOG.warning("%s", words)


class AuxoClientApp(ClientApp):
    """Flower's `ClientApp` with Auxo's client half around it; register ``train`` and ``evaluate`` as ever.

    The node's mods run inside: they find what they would find without Auxo. The app's evaluation, which has samples
    that the app does not train on, is what compares and judges models: its reply's metrics have to name a loss.

    Args:
        client_fn: see `ClientApp`.
        mods: see `ClientApp`.
        halves: the app honours ``auxo-half`` in its config, in training and in evaluation: see `half_of`. Then clients
            whose evaluation has no samples of its own can judge models by the half that they do not train on.
        losses: names of the metric that is the mean loss, in the order in which they are looked for.

    Raises:
        ValueError: a mod hides updates from the server.
    """

    def __init__(
        self,
        client_fn: Callable[[Context], object] | None = None,
        mods: list[Mod] | None = None,
        *,
        halves: bool = False,
        losses: tuple[str, ...] = LOSSES,
    ) -> None:
        _refuse_hiding(mods or [])
        super().__init__(client_fn, mods)  # type: ignore[arg-type]  # a legacy client, which Flower checks itself
        self._half = ClientHalf(halves, losses)

    def __call__(self, message: Message, context: Context) -> Message:
        """Handle a message of the server."""
        return self._half.answer(message, context, super().__call__, super().__call__)


class AuxoMod:
    """The client half as a mod, for an app whose class cannot be changed. It has to be the first, and to know the app.

    >>> mod = AuxoMod()
    >>> app = mod.of(ClientApp(mods=[mod]))
    """

    def __init__(self, *, halves: bool = False, losses: tuple[str, ...] = LOSSES) -> None:
        """Make a mod; the arguments are those of `AuxoClientApp`."""
        self._half = ClientHalf(halves, losses)
        self._app: ClientApp | None = None

    def of(self, app: ClientApp) -> ClientApp:
        """Return the app, whose evaluation is now used, and which answers check-ins by query."""
        self._app = app

        @app.query(CHECK_IN_ACTION)
        def check_in(message: Message, context: Context) -> Message:  # reached through the mod, which has answered
            return Message(RecordDict(), reply_to=message)

        return app

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Handle a message of the server."""
        return self._half.answer(message, context, call_next, self._app or _no_app)


def half_of(message: Message, n_samples: int) -> slice:
    """Return which of an app's training samples to use for a message, as an index; all of them unless a half is named.

    >>> half_of(Message(RecordDict({"config": ConfigRecord({HALF: 1})}), reply_to=_any_message()), 5)
    slice(1, None, 2)
    """
    halves = [record[HALF] for record in message.content.config_records.values() if HALF in record]
    if not halves or halves[0] not in (0, 1) or n_samples < 2:
        return slice(0, None, 1)
    return slice(1, None, 2) if halves[0] == 1 else slice(0, None, 2)


def _first(record: MetricRecord, names: tuple[str, ...]) -> float | None:
    """Return the first of some metrics that is a number."""
    return next((float(value) for name in names if isinstance(value := record.get(name), int | float)), None)


def _name_half(content: RecordDict, half: int) -> None:
    """Name a half in the app's own config, which is copied: other messages may share it."""
    records = content.config_records
    name = next(iter(records), "config")
    content[name] = ConfigRecord({**records.get(name, {}), HALF: half})


def _refuse_hiding(mods: list[Mod]) -> None:
    for mod in mods:
        if getattr(mod, "__name__", "") in _HIDING:
            raise ValueError(
                f"mods: expected none that hides updates from the server, got {getattr(mod, '__name__', mod)}; Auxo "
                "compares clients by their updates, which secure aggregation keeps from it: leave one of the two out"
            )


def _no_app(message: Message, context: Context) -> Message:
    raise RuntimeError("the mod does not know the app: write app = mod.of(ClientApp(mods=[mod]))")


def _any_message() -> Message:
    metadata = Metadata(1, "1", 1, 2, "", "", 0.0, 1e12, MessageType.TRAIN)
    return message_of(RecordDict(), metadata)

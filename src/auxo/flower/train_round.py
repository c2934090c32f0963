"""How a cohort trains: its strategy samples, the server opens the round, and the replies close it.

Tasks become messages that the strategy has configured, and replies become results.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from auxo.core.asking import Answer
from auxo.core.types import CohortId
from auxo.flower.failing import RunFailed, why_hopeless
from auxo.flower.foreign_step import (
    ForeignReply,
    StrategyEntry,
    configures_nothing,
    examples_in,
    fewest_nodes,
    weighting_key,
)
from auxo.flower.model_arrays import ModelArrays, Updates, thin_arrays, update_between, whole_arrays
from auxo.flower.narrator import Narrator
from auxo.flower.post import Exchange, Post, Reply
from auxo.flower.run_state import RunState
from auxo.flower.subset_grid import SubsetGrid, TooFewNodes
from auxo.flower.wire import NO_UPDATE, Letterhead, Trying, ask, give
from auxo.protocol.messages import AffinityFeedback, Task, TaskFailure, TaskResult
from auxo.runtime.checked_in import CheckedIn

R = TypeVar("R", ArrayRecord, MetricRecord)


def configured(
    entry: StrategyEntry, number: int, config: ConfigRecord, grid: Grid, nodes: Sequence[int]
) -> dict[int, Message]:
    """Return the messages that a strategy makes for a round, by node.

    Raises:
        TooFewNodes: it waits for more nodes.
    """
    if len(nodes) < fewest_nodes(entry.strategy, "train"):
        raise TooFewNodes(
            f"the strategy waits for {fewest_nodes(entry.strategy, 'train')} nodes, and {len(nodes)} are there for it"
        )
    messages = entry.strategy.configure_train(number, entry.arrays, config.copy(), SubsetGrid(grid, nodes))
    entry.round = number
    return {message.metadata.dst_node_id: message for message in messages}


@dataclass
class TrainRound:
    """A round between its messages and its replies."""

    tasks: dict[int, Task]  # by node
    models: dict[CohortId, ArrayRecord]  # all that somebody was sent, as it has them
    thin: dict[CohortId, ArrayRecord] = field(default_factory=dict)  # in place of these on the way, see `thin_arrays`
    messages: list[Message] = field(default_factory=list)
    _alike: dict[tuple[int, Task], RecordDict] = field(default_factory=dict)

    def add(
        self,
        node: int,
        made: Message,
        head: Letterhead,
        feedback: AffinityFeedback | None,
        evaluate: ConfigRecord,
    ) -> None:
        """Add the message to a node; ``made`` is what the base has made for it, or for another node like it."""
        content, group = made.content, made.metadata.group_id
        task = self.tasks[node]
        alike = (id(content), replace(task, client=0))
        if alike not in self._alike:  # whoever is asked the same is sent the same, which then is serialised once
            beside = {name: self.thin.get(name, self.models[name]) for name in task.models[1:]}
            config = ConfigRecord({**evaluate, "server-round": task.round})
            self._alike[alike] = ask(content, head, task, Trying(beside, config) if beside or task.ask.judges else None)
        message = Message(self._alike[alike], node, "train", group_id=group)
        give(message, feedback)
        self.messages.append(message)

    def results(
        self, replies: Mapping[int, Reply], model: ModelArrays, weight: str, updates: Updates
    ) -> tuple[list[TaskResult | TaskFailure], dict[int | str, object]]:
        """Return what the replies say, and each with the arrays that it began from, for the strategy.

        The results' updates are in ``updates``: they last until those of another round are made there.
        """
        forms = {node: _form(reply.message, weight) for node, reply in replies.items()}
        usual = Counter(form for form in forms.values() if form is not None).most_common(1)
        starts = {name: model.floats(arrays) for name, arrays in self.models.items()}
        results: list[TaskResult | TaskFailure] = []
        whole: dict[int | str, object] = {}
        for node, task in self.tasks.items():
            reply = replies.get(node)
            if reply is None or reply.message.has_error():
                reason = "no reply in time" if reply is None else str(reply.message.error.reason)
                results.append(TaskFailure(node, task.cohort, task.round, reason))
                continue
            said = reply.said.result or _silent(task)
            trained = said.answer.model or 0
            begun = task.models[trained if 0 <= trained < len(task.models) else 0]
            fits = usual and forms[node] == usual[0][0]
            after = model.floats(_records(reply.message, ArrayRecord)[0][1]) if fits else None
            before, update = starts.get(begun), NO_UPDATE
            if after is not None and before is not None:
                update = update_between(before, after, updates.room(len(results)))
            answer = replace(said.answer, update=update, examples=examples_in(reply.message, weight))
            results.append(replace(said, client=node, answer=answer))
            whole[node] = ForeignReply(reply.message, self.models[begun])
        return results, whole


@dataclass(frozen=True)
class NotOpened:
    """A strategy has sampled nobody."""

    why: str


@dataclass
class GridRounds:
    """Opens and closes rounds over the grid."""

    state: RunState
    post: Post
    narrator: Narrator
    config: ConfigRecord
    evaluate_config: ConfigRecord  # for nodes that try models
    timeout_s: float
    _rounds: dict[CohortId, TrainRound] = field(default_factory=dict)  # that are open
    _updates: Updates = field(init=False)

    def __post_init__(self) -> None:
        self._updates = Updates(self.state.model.n_params)

    def open(self, cohort: CohortId, here: CheckedIn, nodes: list[int]) -> Exchange | NotOpened:
        """Open a round of a cohort among those who are there for it; ``nodes`` are all that are free."""
        server = self.state.server
        number = server.round(cohort) + 1
        self.narrator.round_opens(cohort, number)
        sampled, why = self._sampled(cohort, number, [int(one.client) for one in here])
        tasks = {int(task.client): task for task in server.open_round(cohort, here, chosen=list(sampled))}
        if not tasks:
            return NotOpened(why)
        names = {name for task in tasks.values() for name in task.models}
        training = self._sent(cohort, tasks, {name: self.state.arrays(name) for name in names})
        branches = self.state.branches(cohort)  # each is moved by replies, also where it was sent to nobody
        made = {name: self._branch_messages(name, number, training, nodes) for name in branches}
        head = self.state.head
        for node, task in tasks.items():
            messages = made.get(task.models[0], sampled)
            made_for = messages[node] if node in messages else next(iter(messages.values()))
            training.add(node, made_for, head, self.state.mailbox.feedback_for(node), self.evaluate_config)
        self._rounds[cohort] = training
        return self.post.send("train", cohort, number, training.messages, self.timeout_s)

    def _sent(self, cohort: CohortId, tasks: dict[int, Task], models: dict[CohortId, ArrayRecord]) -> TrainRound:
        """Return a round in which other cohorts' models go out thin, and are what comes of that."""
        model, others = self.state.model, models.keys() & set(self.state.server.cohorts) - {cohort}
        # Who trains a branch on trial has that in its message, and not the model that the others differ from.
        if any(task.models[0] != cohort for task in tasks.values() if others.intersection(task.models)):
            return TrainRound(tasks, models)
        thin = {name: thin_arrays(model, models[name], models[cohort]) for name in others}
        arrive = {name: whole_arrays(model, sent, models[cohort]) for name, sent in thin.items()}
        return TrainRound(tasks, {**models, **arrive}, thin)

    def _sampled(self, cohort: CohortId, number: int, nodes: list[int]) -> tuple[dict[int, Message], str]:
        """Return the messages that the strategy makes for those whom it samples; if for none, why."""
        entry = self.state.entry_for(cohort, self.state.server.share(cohort))
        try:
            messages = configured(entry, number, self.config, self.post.grid, nodes)
        except TooFewNodes as few:
            return {}, str(few)
        return messages, f"{len(nodes)} nodes are there for it, and the strategy takes none"

    def _branch_messages(
        self, name: CohortId, number: int, training: TrainRound, nodes: list[int]
    ) -> dict[int, Message]:
        """Return the messages of a branch on trial: it is shown all nodes of the round, or it might wait for more."""
        mine = sum(task.models[0] == name for task in training.tasks.values())
        entry = self.state.entry_for(name, mine) if mine else self.state.entry(name)
        if not mine and configures_nothing(entry.strategy):
            entry.round = number
            return {}
        return configured(entry, number, self.config, self.post.grid, nodes)

    def close(self, exchange: Exchange) -> bool:
        """Close the round of an exchange; return whether anything came of it.

        Raises:
            RunFailed: nothing has ever come of any round, and nothing would of another.
        """
        state, cohort = self.state, exchange.cohort
        training, before = self._rounds.pop(cohort), state.server.tree
        weight = weighting_key(state.entry(cohort).strategy)
        results, replies = training.results(exchange.replies, state.model, weight, self._updates)
        self.narrator.nodes_fail(exchange, results)
        self.narrator.hears(exchange)
        self.narrator.judges(training.tasks, exchange)
        with self.narrator.warnings_in_log():
            feedback = state.server.close_round(cohort, results, replies)
        state.mailbox.keep(feedback)
        closed = state.server.closed
        assert closed is not None  # noqa: S101 - a round has just closed
        self.narrator.round_closes(exchange, closed, before)
        if closed.outcome is not None:
            after, result = state.table.of(closed.outcome.states[0].server.own), state.result(cohort)
            result.arrays = after.arrays
            if after.metrics is not None:
                result.train_metrics_clientapp[exchange.round] = after.metrics
                self.narrator.measures(cohort, exchange.round, "training", after.metrics)
        elif (
            not state.has_trained and (hopeless := why_hopeless(exchange, state.server.rejections, weight)) is not None
        ):
            raise RunFailed(hopeless)
        state.forget_unused()
        return closed.outcome is not None


def _silent(task: Task) -> TaskResult:
    """Return what the reply of a node comes to that says nothing of ours."""
    on_all = task.ask.fold is not None
    return TaskResult(task.client, task.cohort, task.round, Answer(NO_UPDATE, 0, on_all=on_all))


def _records(message: Message, kind: type[R]) -> list[tuple[str, R]]:
    """Return a message's records of a kind; Flower's own views of them are dear, and made anew each time."""
    return [(name, record) for name, record in message.content.items() if isinstance(record, kind)]


def _form(message: Message, weight: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return what a strategy wants to be the same in all replies; None: it would refuse this one by itself."""
    if message.has_error():
        return None
    arrays, metrics = _records(message, ArrayRecord), _records(message, MetricRecord)
    if len(arrays) != 1 or len(metrics) != 1:
        return None
    ((name, record),) = metrics
    if not isinstance(record.get(weight), int | float):
        return None
    kinds = []
    for key, value in sorted(record.items()):
        numbers = value if isinstance(value, list) else [value]
        if not all(math.isfinite(number) for number in numbers):
            return None
        kinds.append(f"{key}[{len(value)}]" if isinstance(value, list) else key)
    return arrays[0][0], name, tuple(kinds)

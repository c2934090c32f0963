"""One round of a cohort: tasks become messages that the base strategy has configured, replies become results."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from auxo.core.asking import Answer
from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.turnout import Turnout
from auxo.core.types import CohortId, IntArray
from auxo.flower.foreign_step import Entry, ForeignReply, fewest_nodes
from auxo.flower.logs import LOG
from auxo.flower.model_arrays import ModelArrays, Updates, update_between
from auxo.flower.post import Reply
from auxo.flower.subset_grid import SubsetGrid, TooFewNodes
from auxo.flower.wire import NO_UPDATE, Letterhead, Trying, ask, give
from auxo.protocol.messages import AffinityFeedback, Task, TaskFailure, TaskResult

R = TypeVar("R", ArrayRecord, MetricRecord)


@dataclass(frozen=True)
class BaseSampling:
    """A selector: the base strategy samples among the nodes that are there for its cohort."""

    sample: Callable[[IntArray], Sequence[int]]  # numbers of clients that are there -> those whom the base takes

    own_states = ()

    def begin(self, parent: OwnState | None = None) -> OwnState:
        """Return nothing: what a strategy remembers is its own."""
        return NOTHING

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        """Return whom the base has sampled, in its order, up to the cohort's share."""
        clients = candidates.clients[rows]
        row_of = dict(zip(clients.tolist(), rows.tolist(), strict=True))
        taken = [row_of[number] for number in self.sample(clients) if number in row_of]
        return np.array(list(dict.fromkeys(taken))[:wanted], dtype=np.int64)

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        """Return what it was given: nothing."""
        return memory


def configured(entry: Entry, number: int, config: ConfigRecord, grid: Grid, nodes: Sequence[int]) -> dict[int, Message]:
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
    models: dict[CohortId, ArrayRecord]  # all that somebody was sent
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
            beside = {name: self.models[name] for name in task.models[1:]}
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
        if not usual and any(not reply.message.has_error() for reply in replies.values()):
            LOG.warning(
                "no reply can be used: each needs one ArrayRecord, and one MetricRecord of finite numbers with %r in "
                "it, by which the strategy weighs",
                weight,
            )
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
            answer = replace(said.answer, update=update, examples=_examples(reply.message, weight))
            results.append(replace(said, client=node, answer=answer))
            whole[node] = ForeignReply(reply.message, self.models[begun])
        return results, whole


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


def _examples(message: Message, weight: str) -> int:
    """Return how many examples are behind a reply; 0, which is refused, where it does not say."""
    for _, record in _records(message, MetricRecord):
        value = record.get(weight)
        if isinstance(value, int | float) and math.isfinite(value):
            return math.ceil(value)  # Flower lets weights be any number
    return 0

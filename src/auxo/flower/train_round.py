"""One round of a cohort: tasks become messages that the base strategy has configured, replies become results."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from auxo.core.types import CohortId
from auxo.flower.foreign_step import Entry, ForeignReply, fewest_nodes
from auxo.flower.logs import LOG
from auxo.flower.model_arrays import ModelArrays, Updates, update_between
from auxo.flower.post import Reply
from auxo.flower.subset_grid import SubsetGrid, TooFewNodes
from auxo.flower.wire import Letterhead, Trying, ask, give
from auxo.protocol.messages import AffinityFeedback, Task, TaskFailure, TaskResult

R = TypeVar("R", ArrayRecord, MetricRecord)

_NO_UPDATE = np.zeros(0, dtype=np.float32)  # of the wrong shape for any model, and so refused with its reason


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
            mine = own_model(task)
            beside = {name: self.models[name] for name in (*task.offered, *task.held_out) if name != mine}
            tries = len(task.offered) > 1 or bool(task.held_out)
            config = ConfigRecord({**evaluate, "server-round": task.round})
            self._alike[alike] = ask(content, head, task, Trying(beside, config) if tries else None)
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
            answer = reply.said.answer
            trained = answer.trained if answer is not None else None
            begun = trained if trained in task.offered else own_model(task)
            fits = usual and forms[node] == usual[0][0]
            after = model.floats(_records(reply.message, ArrayRecord)[0][1]) if fits else None
            before, update = starts.get(begun), _NO_UPDATE
            if after is not None and before is not None:
                update = update_between(before, after, updates.room(len(results)))
            results.append(
                TaskResult(
                    client=node,
                    cohort=task.cohort if answer is None else answer.cohort,
                    round=task.round if answer is None else answer.round,
                    update=update,
                    examples=_examples(reply.message, weight),
                    trained=trained,
                    held_out=None if answer is None else answer.held_out,
                    held_out_scores=None if answer is None else answer.held_out_scores,
                    held_in=None if answer is None else answer.held_in,
                    held_in_scores=None if answer is None else answer.held_in_scores,
                    on_all=answer.on_all if answer is not None else task.fold is not None,
                )
            )
            whole[node] = ForeignReply(reply.message, self.models[begun])
        return results, whole


def own_model(task: Task) -> CohortId:
    """Return the model that is in a task's message as the app's own arrays."""
    return task.cohort if task.cohort in task.offered else task.offered[0]


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

"""What rides on Flower's messages: one config record beside the app's own, and the models a client is to compare.

A message to a node carries a task, feedback, or both; a reply carries the node's check-in and what it did. Each is the
JSON that `auxo.protocol.codec` makes of a frozen dataclass, and nothing else is read from it. Whatever came malformed
counts as nothing said. Only numpy and flwr are needed here, for a client imports it.

Flower moves every record of a message as an object of its own, in requests of its own, and what several messages share
once. So all that is asked of several nodes is in one record that they share, and what is for one node alone, or from
it, is in the metadata of its message: after the app's own ``group_id``, a text that Flower hands on as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, Metadata, RecordDict

from auxo.core.affinity import AffinitySettings
from auxo.core.asking import Answer
from auxo.core.types import CohortId, Float32Array
from auxo.protocol.codec import CodecError, from_parts, to_parts
from auxo.protocol.messages import AffinityFeedback, CheckIn, Task, TaskResult

KEY = "auxo"
"""Name of the record in a message, in its reply, and in a context's state."""

CHECK_IN_ACTION = "auxo"
"""Of the query that asks a node to check in."""

EVALUATE_CONFIG = "auxo.evaluate"
"""Name of the config record that a client gives its own evaluation, where it is to try models."""

HALF = "auxo-half"
"""In an app's own config: the half of its samples (0 or 1) that it is to use; absent: all of them."""

FOR_REPORT = "auxo-report"
"""In an app's own config: 1 to evaluate on the third of its samples that is kept for the report, 0 on the others."""

FEEDBACK, CHECK_IN, ANSWER = " auxo<", " auxo>", " auxo="
"""Before ours in the group id of a message to a node, and of a reply, which has both of the others in this order."""

APART = " auxo/3"
"""At the end of the group id of an evaluation's reply: by its samples nothing is decided."""

_MODEL = "auxo.model."  # before the name of a model that rides beside the app's own arrays
_LONGEST = 1_000_000  # characters of a text that is read at all; our choice: a tree of thousands of cohorts has fewer
T = TypeVar("T")

NO_UPDATE = np.zeros(0, dtype=np.float32)
"""Where an answer's update rides elsewhere; of the wrong shape for any model, and so refused with its reason."""


@dataclass(frozen=True)
class AskedOfNode:
    """What a node finds in a message."""

    federation: str
    settings: AffinitySettings
    task: Task | None
    feedback: AffinityFeedback | None
    models: dict[CohortId, ArrayRecord]  # beside the app's own arrays
    evaluate: ConfigRecord  # for the app's own evaluation of them
    cohort: CohortId | None  # whose model it was sent; None: nobody says


@dataclass(frozen=True)
class Letterhead:
    """What all messages of a federation bear."""

    federation: str
    settings: str  # how clients weigh and explore cohorts, as `AffinitySettings` in JSON

    @staticmethod
    def of(federation: str, settings: AffinitySettings) -> "Letterhead":
        """Return it for a federation."""
        return Letterhead(federation, to_parts(settings)[0])


@dataclass(frozen=True)
class Trying:
    """Models that a node is to try besides the one that it is sent, and the config for that."""

    models: dict[CohortId, ArrayRecord]
    evaluate: ConfigRecord


@dataclass(frozen=True)
class SaidByNode:
    """What a server finds in a reply."""

    check_in: CheckIn | None
    result: TaskResult | None  # its update and its examples are in the app's own reply
    is_apart: bool = False  # an evaluation, by samples that choose no model and judge none


def ask(
    content: RecordDict,
    head: Letterhead,
    task: Task | None = None,
    trying: Trying | None = None,
    cohort: CohortId | None = None,
) -> RecordDict:
    """Return a message's content with ours beside it; arrays are shared with what was given. A task says its cohort."""
    record = ConfigRecord({"federation": head.federation, "affinity": head.settings})
    if cohort is not None:
        record["cohort"] = cohort
    if task is not None:
        record["task"] = _task_text(replace(task, client=0))  # the message says whose it is
    if trying is None:
        return RecordDict({**content, KEY: record})
    beside = {f"{_MODEL}{name}": arrays for name, arrays in trying.models.items()}
    return RecordDict({**content, KEY: record, EVALUATE_CONFIG: trying.evaluate, **beside})


def give(message: Message, feedback: AffinityFeedback | None) -> None:
    """Put feedback, which is for one node alone, into the message to it."""
    if feedback is not None:
        message.metadata.group_id += f"{FEEDBACK}{to_parts(feedback)[0]}"


def take_asked(message: Message) -> AskedOfNode | None:
    """Take ours out of a message, so that the app finds what it always finds; None: there was nothing of ours."""
    content = message.content
    record = content.config_records.get(KEY)
    names = [name for name in content.array_records if name.startswith(_MODEL)]
    feedback = _taken(message, FEEDBACK)
    if record is None:
        return None
    models = {CohortId(name.removeprefix(_MODEL)): content.array_records[name] for name in names}
    evaluate = content.config_records.get(EVALUATE_CONFIG)
    ours = {KEY, EVALUATE_CONFIG, *names}
    message.content = RecordDict({name: kept for name, kept in content.items() if name not in ours})
    federation, cohort, task = record.get("federation"), record.get("cohort"), _read(Task, record.get("task"))
    said = CohortId(cohort) if isinstance(cohort, str) else None
    return AskedOfNode(
        federation if isinstance(federation, str) else "",
        _read(AffinitySettings, record.get("affinity")) or AffinitySettings(),
        task,
        _read(AffinityFeedback, feedback),
        models,
        ConfigRecord() if evaluate is None else evaluate,
        said if task is None else task.cohort,
    )


def message_of(content: RecordDict, metadata: Metadata) -> Message:
    """Return a message with the metadata of another one."""
    message: Message = Message(content=content, metadata=metadata)  # type: ignore[call-overload]  # not in its overloads
    return message


def say(reply: Message, check_in: CheckIn, result: TaskResult | None) -> None:
    """Put ours into a reply; nothing where there is nothing to say. The app's own has the update and the examples."""
    said = None if result is None else replace(result, answer=replace(result.answer, update=NO_UPDATE, examples=0))
    is_plain = said is None or said.answer == Answer(NO_UPDATE, 0)
    if is_plain and check_in == CheckIn(check_in.client):
        return
    reply.metadata.group_id += f"{CHECK_IN}{to_parts(check_in)[0]}"
    if said is not None:
        reply.metadata.group_id += f"{ANSWER}{to_parts(said)[0]}"


def take_said(reply: Message) -> SaidByNode:
    """Take ours out of a reply, so that a strategy finds what it always finds."""
    is_apart = reply.metadata.group_id.endswith(APART)
    reply.metadata.group_id = reply.metadata.group_id.removesuffix(APART)
    answer, check_in = _taken(reply, ANSWER), _taken(reply, CHECK_IN)
    _taken(reply, FEEDBACK)  # an app that is none of ours has left it there
    result = _read(TaskResult, answer, {"TaskResult.answer.update": NO_UPDATE})
    return SaidByNode(_read(CheckIn, check_in), result, is_apart)


def _taken(message: Message, mark: str) -> str:
    """Return what follows a mark in a message's group id, and leave only what is before it."""
    before, _, text = message.metadata.group_id.partition(mark)
    message.metadata.group_id = before
    return text


def _read(kind: type[T], text: object, arrays: Mapping[str, Float32Array] | None = None) -> T | None:
    """Return what a text says; None: nothing, or nothing of that kind."""
    if not isinstance(text, str) or not text or len(text) > _LONGEST:
        return None
    try:
        return from_parts(kind, text, arrays or {})
    except (CodecError, RecursionError):
        return None


@lru_cache(maxsize=1024)
def _task_text(task: Task) -> str:
    return to_parts(task)[0]


def says_something(feedback: AffinityFeedback) -> bool:
    """Return whether feedback is worth a message of its own: before there are clusters it is the same for all."""
    said = (feedback.instant_reward, feedback.placed, *feedback.similarity)
    return bool(feedback.tree.branches) or any(value is not None for value in said)

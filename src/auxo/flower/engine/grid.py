"""A Grid whose nodes are in this process, or in workers of it: Flower's messages without its network."""

import gc
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from flwr.app import Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from auxo.core.settings import PositiveInt, checked
from auxo.flower.engine.crew import Crew
from auxo.flower.engine.nodes import RUN_ID, SimulatedNodes, error_reply
from auxo.flower.engine.wire import own_message

_LOOK_AGAIN_S = 0.05  # that a pull waits for a first reply, in place of the sleep of whoever pulls; our choice


@dataclass
@checked
class InProcessGrid(Grid):
    """Delivers messages to simulated nodes; use as a context manager.

    With one worker, nodes run here, when their replies are pulled. With more, each is a process with one core. A node
    has at most one message at a time, and keeps its state between messages. Replies come in the order of the messages.
    Nodes in ``absent`` are not there: they are not listed, and what is sent to them comes back as an error.
    """

    nodes: SimulatedNodes
    workers: PositiveInt = 1
    absent: set[int] = field(default_factory=set)
    pull_interval: float = 0.001  # seconds that whoever pulls in a loop should sleep: a pull waits by itself
    _run: Run = field(default_factory=lambda: Run.create_empty(RUN_ID), init=False)
    _crew: Crew | None = field(default=None, init=False)
    _sent: dict[str, Message] = field(default_factory=dict, init=False)  # by id, not run yet; with one worker
    _replies: dict[str, Message] = field(default_factory=dict, init=False)  # by id of the message, not pulled
    _messages: int = field(default=0, init=False)
    _before: dict[str, int | None] = field(default_factory=dict, init=False)
    _has_frozen: bool = field(default=False, init=False)

    def __enter__(self) -> Self:
        """Start the workers."""
        # What has been imported stays: to look through it for garbage, again and again, costs a tenth of a round here,
        # and each worker a copy of its memory.
        if gc.isenabled() and gc.get_freeze_count() == 0:
            gc.collect()
            gc.freeze()
            self._has_frozen = True
        if self.workers > 1:
            self._crew = Crew(self.nodes, self.workers)
            self._crew.start()
        # Flower's messages ask the process who it is.
        self._before = {name: getattr(TaskIdentity, name) for name in ("_task_id", "_run_id", "_node_id")}
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = RUN_ID, RUN_ID, SUPERLINK_NODE_ID
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the workers."""
        for name, value in self._before.items():
            setattr(TaskIdentity, name, value)
        if self._crew is not None:
            self._crew.stop()
            self._crew = None
        if self._has_frozen:
            gc.unfreeze()
            self._has_frozen = False

    def set_run(self, run: Run) -> None:
        """Take note of the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """Return the run; there is only one."""
        return Run(**vars(self._run))

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a new message; Flower calls this deprecated."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are there."""
        return [node for node in self.nodes.ids if node not in self.absent]

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return the nodes that are there, as Flower describes them."""
        return [NodeInfo(node_id=node, status="online") for node in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages, and return their ids."""
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there, in the order of the ids; a moment is waited for a first one."""
        wanted = list(message_ids)
        self._collect(wanted, _LOOK_AGAIN_S)
        return self._taken(wanted)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages, and return the replies that come in time, in the order of the messages."""
        wanted = list(self.push_messages(messages))
        until = None if timeout is None else time.monotonic() + timeout
        while any(number not in self._replies for number in wanted):
            left = _LOOK_AGAIN_S if until is None else min(_LOOK_AGAIN_S, until - time.monotonic())
            if left <= 0:
                break
            self._collect(wanted, left)
        return self._taken(wanted)

    def _push(self, message: Message) -> str:
        self._messages += 1
        number = message.metadata.__dict__["_message_id"] = str(self._messages)
        node = message.metadata.dst_node_id
        if node in self.absent or node not in self.nodes.ids:
            self._keep(number, error_reply(message, ErrorCode.NODE_UNAVAILABLE, "Node Unavailable: it is not there."))
        elif self._crew is None:
            self._sent[number] = message
        else:
            self._crew.give(message)
        return number

    def _collect(self, wanted: list[str], timeout_s: float) -> None:
        if self._crew is None:
            for number in wanted:
                if number in self._sent:
                    self._keep(number, self._answered(self._sent.pop(number)))
            return
        if all(number in self._replies for number in wanted):
            timeout_s = 0.0
        for reply in self._crew.replies(timeout_s):
            self._keep(reply.metadata.reply_to_message_id, reply)

    def _answered(self, message: Message) -> Message:
        TaskIdentity.node_id = message.metadata.dst_node_id
        try:
            return self.nodes.answer(own_message(message))
        finally:
            TaskIdentity.node_id = SUPERLINK_NODE_ID

    def _keep(self, number: str, reply: Message) -> None:
        reply.metadata.__dict__["_message_id"] = f"reply-to-{number}"
        self._replies[number] = reply

    def _taken(self, wanted: list[str]) -> list[Message]:
        return [self._replies.pop(number) for number in wanted if number in self._replies]

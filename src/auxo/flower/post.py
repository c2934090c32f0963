"""Messages in flight: at most one to a node, replies by the message that they answer, everything else left out.

Flower's simulation loses a node's state when two messages are under way to it at the same time, and a node that is slow
in answering is not asked again before it has.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flwr.app import Message
from flwr.serverapp import Grid

from auxo.core.types import CohortId
from auxo.flower.logs import LOG
from auxo.flower.wire import SaidByNode, says_something, take_said
from auxo.protocol.messages import AffinityFeedback, CheckIn

MessageKind = Literal["train", "evaluate", "check-in"]


@dataclass(frozen=True)
class Reply:
    """A node's reply, ours taken out of it."""

    message: Message
    said: SaidByNode


@dataclass
class Exchange:
    """Messages that were sent together, and what has come back."""

    kind: MessageKind
    cohort: CohortId  # a check-in is nobody's, and has the root's
    round: int
    nodes: tuple[int, ...]
    deadline_s: float
    began_s: float
    replies: dict[int, Reply] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)  # nodes to which nothing could be sent

    def is_over(self, now_s: float) -> bool:
        """Return whether all have answered, or there is no more time."""
        return len(self.replies) + len(self.lost) >= len(self.nodes) or now_s >= self.deadline_s


@dataclass(frozen=True)
class _Flying:
    node: int
    exchange: Exchange
    given_up_s: float  # from when on the node may be asked again without having answered


@dataclass
class Post:
    """Sends and collects over one grid."""

    grid: Grid
    _flying: dict[str, _Flying] = field(default_factory=dict)

    @property
    def busy(self) -> set[int]:
        """Return the nodes that have a message to answer."""
        return {one.node for one in self._flying.values()}

    def free(self) -> list[int]:
        """Return the nodes that are there and have nothing to answer, in the grid's order."""
        busy = self.busy
        return [node for node in self.grid.get_node_ids() if node not in busy]

    def send(
        self, kind: MessageKind, cohort: CohortId, number: int, messages: Sequence[Message], timeout_s: float
    ) -> Exchange:
        """Send messages, one to a node; a second one to the same node is left out."""
        now, busy = time.monotonic(), self.busy
        chosen: dict[int, Message] = {}
        for message in messages:
            node = message.metadata.dst_node_id
            if node not in busy and node not in chosen:
                chosen[node] = message
        exchange = Exchange(kind, cohort, number, tuple(chosen), now + timeout_s, now)
        ids: Iterable[str | None] = self.grid.push_messages(list(chosen.values())) if chosen else []
        pushed = dict(zip(chosen, ids, strict=False))
        for node in chosen:
            if name := pushed.get(node):
                # Who has not answered long after the deadline may have lost the message with its memory.
                self._flying[name] = _Flying(node, exchange, now + 2 * timeout_s)
            else:
                exchange.lost.add(node)
        if exchange.lost:
            LOG.warning("%d of %d messages could not be sent", len(exchange.lost), len(chosen))
        return exchange

    def collect(self) -> list[tuple[Exchange, int, Reply]]:
        """Return what has come since the last call; late replies as well, which their exchange no longer waits for."""
        if not self._flying:
            return []
        found = []
        for message in self.grid.pull_messages(list(self._flying)):
            name = message.metadata.reply_to_message_id
            flying = self._flying.get(name)
            is_theirs = message.has_error() or flying is None or message.metadata.src_node_id == flying.node
            if flying is None or not is_theirs:
                LOG.warning("a reply to no message of ours was left out: from node %s", message.metadata.src_node_id)
                continue
            del self._flying[name]
            reply = Reply(message, SaidByNode(None, None) if message.has_error() else take_said(message))
            flying.exchange.replies.setdefault(flying.node, reply)
            found.append((flying.exchange, flying.node, reply))
        now = time.monotonic()
        self._flying = {name: one for name, one in self._flying.items() if now < one.given_up_s}
        return found


@dataclass
class Mailbox:
    """What the server remembers of nodes between two messages: a table that grows with them, and is checkpointed.

    All of it may be lost, and any reply brings it back.
    """

    check_ins: dict[int, CheckIn] = field(default_factory=dict)  # the last of each node
    feedback: dict[int, AffinityFeedback] = field(default_factory=dict)  # that waits for the next message

    def hear(self, node: int, said: SaidByNode) -> None:
        """Keep the check-in of a node, if there is one; the reply says whose it is."""
        if said.check_in is not None:
            self.check_ins[node] = CheckIn(node, said.check_in.request, said.check_in.participations)

    def of(self, nodes: Iterable[int]) -> list[CheckIn]:
        """Return the last check-ins of nodes; who has sent none asks for nothing."""
        return [self.check_ins.get(node, CheckIn(node)) for node in nodes]

    def keep(self, feedback: Iterable[AffinityFeedback]) -> None:
        """Keep what is worth saying until each client's next message."""
        self.feedback.update({int(one.client): one for one in feedback if says_something(one)})

    def feedback_for(self, node: int) -> AffinityFeedback | None:
        """Return what is to be said to a node, and forget it."""
        return self.feedback.pop(node, None)

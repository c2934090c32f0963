"""Who is there: the nodes that are free, asked first where requests are to be fresh."""

from dataclasses import dataclass
from typing import Literal

from flwr.app import Message, RecordDict

from auxo.core.types import ROOT
from auxo.flower.failing import OF_THE_APP
from auxo.flower.narrator import Narrator
from auxo.flower.post import Exchange, Post
from auxo.flower.run_state import RunState
from auxo.flower.wire import CHECK_IN_ACTION, ask, give

CheckInBy = Literal["piggyback", "query"]


@dataclass
class RollCall:
    """Looks for nodes that can take part in a round."""

    state: RunState
    post: Post
    narrator: Narrator
    by: CheckInBy  # requests ride on replies, or nodes are asked before each round
    timeout_s: float
    asking: Exchange | None = None

    def there(self, now_s: float) -> list[int] | None:
        """Return the nodes that are there; None: they are still being asked."""
        if self.by == "piggyback":
            return self.post.free()
        if self.asking is None:
            self.asking = self.post.send("check-in", ROOT, 0, self._queries(), self.timeout_s)
            return None
        if not self.asking.is_over(now_s):
            return None
        exchange, self.asking = self.asking, None
        failed = {node: reply.message.error for node, reply in exchange.replies.items() if reply.message.has_error()}
        raised = [node for node, error in failed.items() if error.code in OF_THE_APP]
        if raised:
            self.narrator.asks_in_vain(raised, str(failed[raised[0]].reason))
        busy = self.post.busy
        return [node for node in exchange.replies if node not in busy and node not in failed]

    def _queries(self) -> list[Message]:
        content = ask(RecordDict(), self.state.head)
        messages = [Message(content, node, f"query.{CHECK_IN_ACTION}") for node in self.post.free()]
        for message in messages:
            give(message, self.state.mailbox.feedback_for(message.metadata.dst_node_id))
        return messages

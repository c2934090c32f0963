"""What the server remembers of nodes between two messages; all of it may be lost, and any reply brings it back."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from auxo.flower.wire import Said, says_something
from auxo.protocol.messages import AffinityFeedback, CheckIn


@dataclass
class Mailbox:
    """Every node's last check-in, and the feedback that waits for its next message."""

    check_ins: dict[int, CheckIn] = field(default_factory=dict)
    feedback: dict[int, AffinityFeedback] = field(default_factory=dict)

    def hear(self, node: int, said: Said) -> None:
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

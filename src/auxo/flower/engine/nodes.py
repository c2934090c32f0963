"""The simulated nodes: their numbers, what each is told about itself, and how a ClientApp runs for one."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from auxo.flower.logs import LOG

ConfigValue = bool | int | float | str
NodeConfig = Callable[[int], Mapping[str, ConfigValue]]

RUN_ID = 1
FIRST_NODE = 1000  # Flower's own are random; these are the same in every run


def partitions(nodes: int) -> NodeConfig:
    """Return what Flower's simulation tells each node: its partition, and how many there are."""
    return lambda partition: {"partition-id": partition, "num-partitions": nodes}


@dataclass
class SimulatedNodes:
    """Runs a ClientApp for any node; each node keeps its own state between messages."""

    app: ClientAppCallable
    count: int
    node_config: NodeConfig
    run_config: Mapping[str, ConfigValue]
    _contexts: dict[int, Context] = field(default_factory=dict, init=False)
    _told: set[tuple[str, ...]] = field(default_factory=set, init=False)  # errors whose traceback was logged

    @property
    def ids(self) -> range:
        """Return the numbers of all nodes."""
        return range(FIRST_NODE, FIRST_NODE + self.count)

    def answer(self, message: Message) -> Message:
        """Return the reply of the node that a message is for; if its app raises, an error, as in Flower."""
        context = self.context(message.metadata.dst_node_id)
        kept = RecordDict(dict(context.state))
        try:
            reply: object = self.app(message, context)
            if not isinstance(reply, Message):
                raise TypeError(f"expected the ClientApp to return a Message, got {type(reply).__name__}")
            return reply
        except Exception as error:  # noqa: BLE001 - the app is the user's, and its failure is the node's reply
            context.state = kept  # Flower keeps the state of before
            self._log_once(message.metadata.dst_node_id, error)
            return error_reply(message, ErrorCode.CLIENT_APP_RAISED_EXCEPTION, f"{type(error)}:<'{error}'>")

    def _log_once(self, node: int, error: Exception) -> None:
        """Log an error's traceback, the first time that there is one of its kind at its place."""
        frames = traceback.extract_tb(error.__traceback__)
        kind = (type(error).__name__, *(f"{frame.filename}:{frame.lineno}" for frame in frames[-1:]))
        if kind not in self._told:
            self._told.add(kind)
            LOG.error("the ClientApp of node %d raised an exception", node, exc_info=error)

    def has_state(self, node: int) -> bool:
        """Return whether a node has something to remember."""
        return node in self._contexts and len(self._contexts[node].state) > 0

    def context(self, node: int) -> Context:
        """Return what a node's app sees beside messages; made when it is first needed."""
        if node not in self._contexts:
            config = dict(self.node_config(node - FIRST_NODE))
            self._contexts[node] = Context(RUN_ID, node, config, RecordDict(), dict(self.run_config))
        return self._contexts[node]


def error_reply(message: Message, code: int, reason: str) -> Message:
    """Return a reply that says what went wrong."""
    return Message(Error(code=code, reason=reason), reply_to=message)

"""A grid in this process for tests: the app answers when its reply is asked for; nothing is lost, nothing waits."""

from collections.abc import Callable, Iterable, Mapping

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity


class LocalGrid(Grid):
    """Nodes whose contexts last as long as the grid; ``change`` may tamper with replies."""

    pull_interval = 0.01

    def __init__(
        self,
        app: ClientApp,
        nodes: int,
        *,
        change: Callable[[Message], Iterable[Message]] = lambda reply: [reply],
        is_online: Callable[[int], bool] = lambda node: True,
        run_config: Mapping[str, bool | float | int | str] | None = None,
    ) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.app, self.change, self.is_online = app, change, is_online
        self.contexts = {
            100 + place: Context(1, 100 + place, {"partition-id": place}, RecordDict(), dict(run_config or {}))
            for place in range(nodes)
        }
        self.waiting: dict[str, Message] = {}
        self.most_in_flight = 0
        self.sent = 0
        self.pulled = 0  # rounds of asking for replies

    def set_run(self, run: Run) -> None: ...

    @property
    def run(self) -> Run:
        return Run.create_empty(1)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        return [node for node in self.contexts if self.is_online(node)]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            self.sent += 1
            name = str(self.sent)
            message.metadata.__dict__["_message_id"] = name
            self.waiting[name] = message
            names.append(name)
        nodes = [message.metadata.dst_node_id for message in self.waiting.values()]
        self.most_in_flight = max([self.most_in_flight, *(nodes.count(node) for node in set(nodes))])
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        self.pulled += 1
        replies: list[Message] = []
        for name in message_ids:
            message = self.waiting.pop(name, None)
            if message is not None:
                replies += self.change(self._answer(message))
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        message.content = RecordDict(dict(message.content))  # a message over a wire is nobody else's
        try:
            return self.app(message, self.contexts[message.metadata.dst_node_id])
        except Exception as error:  # noqa: BLE001 - as Flower does
            return Message(Error(code=2, reason=repr(error)), reply_to=message)

"""A grid that shows a strategy the nodes of its cohort only, and refuses to let it wait for more."""

from collections.abc import Iterable, Sequence

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run

_MOST_LOOKS = 3  # a strategy looks once or twice; whoever looks again waits for nodes to appear


class TooFewNodes(RuntimeError):  # noqa: N818 - it says what is the case
    """A strategy would wait for more nodes than its cohort has now; the cohort tries again later."""


class SubsetGrid(Grid):
    """One cohort's view of the grid."""

    def __init__(self, grid: Grid, nodes: Sequence[int]) -> None:
        self._grid, self._nodes, self._looks = grid, list(nodes), 0

    def set_run(self, run: Run) -> None:
        """Refuse: the run is the federation's."""
        raise RuntimeError("a strategy inside AuxoStrategy cannot change the grid's run")

    @property
    def run(self) -> Run:
        """Return the run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message; deprecated by Flower."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are there for the cohort.

        Raises:
            TooFewNodes: the strategy keeps asking. Flower's own would ask for ever.
        """
        self._looks += 1
        if self._looks > _MOST_LOOKS:
            raise TooFewNodes(
                f"the strategy waits for more nodes than the {len(self._nodes)} that are there for the cohort"
            )
        return list(self._nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Pass messages on."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pass replies on."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Pass an exchange on."""
        return self._grid.send_and_receive(messages, timeout=timeout)

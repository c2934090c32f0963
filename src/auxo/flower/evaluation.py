"""How a cohort's model is evaluated: by its strategy, on nodes that use it, and by the user's own function."""

from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from auxo.core.types import CohortId
from auxo.flower.foreign_step import StrategyEntry, fewest_nodes, never_evaluates
from auxo.flower.logs import LOG
from auxo.flower.narrator import Narrator
from auxo.flower.post import Exchange, Post
from auxo.flower.run_state import RunState
from auxo.flower.subset_grid import SubsetGrid, TooFewNodes
from auxo.flower.wire import ask, give

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


@dataclass(frozen=True)
class Evaluation:
    """Evaluates models after rounds."""

    state: RunState
    post: Post
    narrator: Narrator
    config: ConfigRecord
    timeout_s: float
    centrally: Evaluate | None

    def open(self, cohort: CohortId, number: int) -> Exchange | None:
        """Let the strategy evaluate on the nodes that use the cohort's model; None: it does on none."""
        entry = self.state.entry(cohort)
        if never_evaluates(entry.strategy):
            return None
        here = self.state.mailbox.of(self.post.free())
        placed = self.state.server.match(here, everybody=True)
        mine = [int(one.client) for one in placed.get(cohort, [])]
        messages = self._configured(cohort, number, entry, mine)
        if not messages:
            return None
        given = [message.content for message in messages]
        with_ours = {id(content): content for content in given}  # what the base gives to several is serialised once
        with_ours = {number: ask(content, self.state.head, cohort=cohort) for number, content in with_ours.items()}
        for message, content in zip(messages, given, strict=True):
            node = message.metadata.dst_node_id
            feedback = self.state.mailbox.feedback_for(node)
            if feedback is not None or node in self.state.mailbox.check_ins:
                message.content = with_ours[id(content)]
                give(message, feedback)
        return self.post.send("evaluate", cohort, number, messages, self.timeout_s)

    def _configured(self, cohort: CohortId, number: int, entry: StrategyEntry, nodes: list[int]) -> list[Message]:
        if len(nodes) < max(1, fewest_nodes(entry.strategy, "evaluate")):
            return []
        grid = SubsetGrid(self.post.grid, nodes)
        try:
            return list(entry.strategy.configure_evaluate(number, entry.arrays, self.config.copy(), grid))
        except TooFewNodes as few:
            LOG.info("cohort %s is not evaluated: %s", cohort, few)
            return []

    def close(self, exchange: Exchange) -> None:
        """Let the strategy make metrics of the replies."""
        cohort, number = exchange.cohort, exchange.round
        replies = [reply.message for reply in exchange.replies.values() if not reply.message.has_error()]
        try:
            strategy = self.state.entry(cohort).strategy
            metrics = strategy.aggregate_evaluate(number, replies) if replies else None
        except Exception as error:  # noqa: BLE001 - whatever a strategy raises costs the metrics, not the run
            LOG.warning("cohort %s, round %d: evaluation came to nothing: %s", cohort, number, error)
            metrics = None
        if metrics is not None:
            self.state.result(cohort).evaluate_metrics_clientapp[number] = metrics
            self.narrator.measures(cohort, number, "evaluation", metrics)
            self.narrator.is_apart = all(reply.said.is_apart for reply in exchange.replies.values())

    def by_the_user(self, cohort: CohortId, number: int) -> None:
        """Evaluate by the user's own function, if there is one."""
        metrics = None if self.centrally is None else self.centrally(number, self.state.arrays(cohort))
        if metrics is not None:
            self.state.result(cohort).evaluate_metrics_serverapp[number] = metrics
            self.narrator.measures(cohort, number, "server", metrics)

"""How a cohort's model is evaluated: by its strategy, on nodes that use it, and by the user's own function."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from auxo.core.types import CohortId
from auxo.flower.foreign_step import StrategyEntry, fewest_nodes, never_evaluates, weighting_key
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
        self.narrator.hears(exchange)
        strategy = self.state.entry(cohort).strategy
        answered = {node: one.message for node, one in exchange.replies.items() if not one.message.has_error()}
        alike = _alike(answered, weighting_key(strategy))
        if left_out := [str(node) for node in answered if node not in alike]:
            words = "cohort %s, round %d: metrics of nodes %s are left out: unlike those of most, or of no examples"
            LOG.warning(words, cohort, number, ", ".join(left_out))
        metrics = strategy.aggregate_evaluate(number, list(alike.values())) if alike else None
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


def _alike(replies: Mapping[int, Message], weight: str) -> dict[int, Message]:
    """Return the replies whose metrics are like those of most, so that no single node can make a strategy fail."""
    forms = {node: _form(reply, weight) for node, reply in replies.items()}
    usual = Counter(form for form in forms.values() if form is not None).most_common(1)
    return {node: reply for node, reply in replies.items() if usual and forms[node] == usual[0][0]}


def _form(reply: Message, weight: str) -> tuple[tuple[str, str, int | None], ...] | None:
    """Return what metrics a reply has; None: it counts for no number of examples that can be."""
    form = []
    for record, metrics in sorted(reply.content.items()):
        for name, value in sorted(metrics.items()) if isinstance(metrics, MetricRecord) else ():
            if name == weight and not (isinstance(value, int | float) and 0 < value < math.inf):
                return None
            form.append((record, name, len(value) if isinstance(value, list) else None))
    return tuple(form)

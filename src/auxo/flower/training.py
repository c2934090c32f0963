"""How a cohort trains: its strategy samples, the server opens the round, and the replies close it."""

from dataclasses import dataclass, field

from flwr.app import ConfigRecord, Message

from auxo.core.types import CohortId
from auxo.flower.foreign_step import weighting_key
from auxo.flower.model_arrays import Updates
from auxo.flower.narrator import Narrator, warnings_in_log
from auxo.flower.post import Exchange, Post
from auxo.flower.run_state import RunState
from auxo.flower.subset_grid import TooFewNodes
from auxo.flower.train_round import TrainRound, configured, own_model
from auxo.runtime.checked_in import CheckedIn


@dataclass(frozen=True)
class NotOpened:
    """A strategy has sampled nobody."""

    why: str


@dataclass
class Training:
    """Opens and closes rounds over the grid."""

    state: RunState
    post: Post
    narrator: Narrator
    config: ConfigRecord
    evaluate_config: ConfigRecord  # for nodes that try models
    timeout_s: float
    _rounds: dict[CohortId, TrainRound] = field(default_factory=dict)  # that are open
    _updates: Updates = field(init=False)

    def __post_init__(self) -> None:
        self._updates = Updates(self.state.model.n_params)

    def open(self, cohort: CohortId, here: CheckedIn, nodes: list[int]) -> Exchange | NotOpened:
        """Open a round of a cohort among those who are there for it; ``nodes`` are all that are free."""
        server = self.state.server
        number = server.round(cohort) + 1
        sampled, why = self._sampled(cohort, number, [int(one.client) for one in here])
        tasks = {int(task.client): task for task in server.open_round(cohort, here, chosen=list(sampled))}
        if not tasks:
            return NotOpened(why)
        names = {name for task in tasks.values() for name in (*task.offered, *task.held_out)}
        training = TrainRound(tasks, {name: self.state.arrays(name) for name in names})
        branches = {own_model(task) for task in tasks.values()} - {cohort}
        made = {name: self._branch_messages(name, number, training, nodes) for name in branches}
        head = self.state.head
        for node, task in tasks.items():
            messages = made.get(own_model(task), sampled)
            made_for = messages[node] if node in messages else next(iter(messages.values()))
            training.add(node, made_for, head, self.state.mailbox.feedback_for(node), self.evaluate_config)
        self._rounds[cohort] = training
        return self.post.send("train", cohort, number, training.messages, self.timeout_s)

    def _sampled(self, cohort: CohortId, number: int, nodes: list[int]) -> tuple[dict[int, Message], str]:
        """Return the messages that the strategy makes for those whom it samples; if for none, why."""
        entry = self.state.entry_for(cohort, self.state.server.share(cohort))
        try:
            messages = configured(entry, number, self.config, self.post.grid, nodes)
        except TooFewNodes as few:
            return {}, str(few)
        return messages, f"{len(nodes)} nodes are there for it, and the strategy takes none"

    def _branch_messages(
        self, name: CohortId, number: int, training: TrainRound, nodes: list[int]
    ) -> dict[int, Message]:
        """Return the messages of a branch on trial: it is shown all nodes of the round, or it might wait for more."""
        mine = sum(own_model(task) == name for task in training.tasks.values())
        return configured(self.state.entry_for(name, mine), number, self.config, self.post.grid, nodes)

    def close(self, exchange: Exchange) -> bool:
        """Close the round of an exchange; return whether anything came of it."""
        state, cohort = self.state, exchange.cohort
        training, before = self._rounds.pop(cohort), state.server.tree
        weight = weighting_key(state.entry(cohort).strategy)
        results, replies = training.results(exchange.replies, state.model, weight, self._updates)
        self.narrator.nodes_fail(exchange, results)
        self.narrator.judges(training.tasks, exchange.replies)
        with warnings_in_log():
            feedback = state.server.close_round(cohort, results, replies)
        state.mailbox.keep(feedback)
        self.narrator.round_closes(exchange, before)
        outcome = None if state.server.closed is None else state.server.closed.outcome
        if outcome is not None:
            after, result = state.table.of(outcome.states[0].server.own), state.result(cohort)
            result.arrays = after.arrays
            if after.metrics is not None:
                result.train_metrics_clientapp[exchange.round] = after.metrics
                self.narrator.measures(cohort, exchange.round, "training", after.metrics)
        state.forget_unused()
        return outcome is not None

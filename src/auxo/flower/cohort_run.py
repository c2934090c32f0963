"""Cohorts that train over one grid, each at its own pace: what `AuxoStrategy.start` runs.

Rounds open and close by `Server`, as everywhere else. This is the loop: which cohort may open a round, which exchange
is over, and when there is no more time. What is done then is in `train_round` and `evaluation`, what is said of it in
`narrator`, and what is left of it in `run_state`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flwr.serverapp import Grid

from auxo.core.types import CohortId
from auxo.flower.evaluation import Evaluation
from auxo.flower.failing import RunFailed
from auxo.flower.narrator import Narrator
from auxo.flower.post import Exchange, MessageKind, Post
from auxo.flower.result import AuxoResult, collected
from auxo.flower.roll_call import RollCall
from auxo.flower.run_state import RunState
from auxo.flower.stopping import Stopping
from auxo.flower.train_round import GridRounds, NotOpened
from auxo.flower.waiting import Waiting

_FAR_NAP_S = 3.0  # between looks over a network, as Flower's own strategies look
_LAST_S = 20.0  # that nodes which are still at work may take to answer when all rounds are over; our choice
_PATIENCE = 0.5  # of the time that the last exchange took, until the first look for replies; our choice


@dataclass(frozen=True)
class Limits:
    """When a run ends, and how often it looks."""

    rounds: int  # of each cohort, its ancestors' included
    timeout_s: float
    nap_s: float
    is_far: bool = False  # the grid is over a network, where each look costs the server's processor

    @staticmethod
    def over(grid: Grid, rounds: int, timeout_s: float) -> "Limits":
        """Return those over a grid, which may say how often it can be asked; Flower's own over a network does not."""
        nap_s = getattr(grid, "pull_interval", None)
        if isinstance(nap_s, int | float) and nap_s > 0:
            return Limits(rounds, timeout_s, float(nap_s))
        return Limits(rounds, timeout_s, _FAR_NAP_S, is_far=True)


@dataclass
class CohortRun:
    """A run between its start and its end."""

    state: RunState
    post: Post
    roll_call: RollCall
    training: GridRounds
    evaluation: Evaluation
    narrator: Narrator
    limits: Limits
    stopping: Stopping
    on_round: Callable[[], None]  # a round has closed: a moment to write a checkpoint
    _waiting: Waiting = field(init=False)
    _took_s: dict[tuple[CohortId, MessageKind], float] = field(default_factory=dict)  # the last exchange of a kind
    _given_up: list[str] = field(default_factory=list)  # cohorts, and why
    _exchanges: dict[CohortId, Exchange] = field(default_factory=dict)  # of cohorts that train or evaluate

    def __post_init__(self) -> None:
        self._waiting = Waiting(self.limits.nap_s)

    def run(self) -> AuxoResult:
        """Train until every cohort has had its rounds, or cannot go on.

        Raises:
            RunFailed: none has ever trained a round, and all were given up.
        """
        server = self.state.server
        for cohort in server.cohorts:
            if server.round(cohort) == 0:
                self.evaluation.by_the_user(cohort, 0)
        while not self._is_over():
            if not self.stopping.is_told:
                self._open_idle()
            time.sleep(self.limits.nap_s)
            if self._is_time_to_look():
                self._collect()
            self._close_what_is_over()
        self._let_nodes_finish()
        if self.limits.rounds > 0 and not (self.state.has_trained or self.stopping.is_told):
            raise RunFailed(f"nothing was trained: {'; '.join(self._given_up) or 'the log says why'}")
        for cohort in server.tree.leaves:
            self.state.result(cohort).arrays = self.state.arrays(cohort)
        members = self.state.members(self.post.grid.get_node_ids())
        strategies = {leaf: self.state.entry(leaf).strategy for leaf in server.tree.leaves}
        largest = max(server.cohorts, key=server.share)
        result = collected(self.state.history, server.tree, largest, strategies, members)
        self.narrator.run_ends(result, will_go_on=self.stopping.is_told)
        return result

    def _is_over(self) -> bool:
        if self.stopping.is_told and (self.stopping.is_over or not self._exchanges):
            return True
        return not self._exchanges and all(self._is_done(cohort) for cohort in self.state.server.cohorts)

    def _let_nodes_finish(self) -> None:
        """Wait a moment for nodes that were too late for their round.

        When a run ends while a SuperNode takes a message of it, the message's ClientApp waits for the rest of it in
        vain, in Flower 1.41 for up to two hours, before any code of an app is loaded. What is sent should be answered.
        """
        until_s = time.monotonic() + min(_LAST_S, self.limits.timeout_s)
        while self.limits.is_far and not self.stopping.is_told and time.monotonic() < until_s:
            if self.post.busy.isdisjoint(self.post.grid.get_node_ids()):
                return
            time.sleep(self.limits.nap_s)
            self._collect()

    def _is_done(self, cohort: CohortId) -> bool:
        return cohort in self.state.ended or self.state.server.round(cohort) >= self.limits.rounds

    def _is_time_to_look(self) -> bool:
        """Return whether replies can be expected by what the last exchange of a kind took: to look in vain is dear."""
        open_now = [one for one in (*self._exchanges.values(), self.roll_call.asking) if one is not None]
        if not (self.limits.is_far and open_now) or self.stopping.is_told:
            return True
        now_s = time.monotonic()
        return any(now_s - one.began_s >= _PATIENCE * self._took_s.get((one.cohort, one.kind), 0.0) for one in open_now)

    def _collect(self) -> None:
        """Take in what nodes have answered."""
        for exchange, node, reply in self.post.collect():
            self.state.mailbox.hear(node, reply.said)
            if exchange is not self._exchanges.get(exchange.cohort) and exchange is not self.roll_call.asking:
                self.narrator.answers_late(node, exchange)

    def _close_what_is_over(self) -> None:
        now_s = time.monotonic()
        over = [cohort for cohort, exchange in self._exchanges.items() if exchange.is_over(now_s)]
        for cohort in over:
            exchange = self._exchanges.pop(cohort)
            self._took_s[cohort, exchange.kind] = now_s - exchange.began_s
            if exchange.kind == "train":
                self._close_training(exchange)
            else:
                self.evaluation.close(exchange)
                self._finish_round(cohort, exchange.round)

    def _close_training(self, exchange: Exchange) -> None:
        cohort = exchange.cohort
        if not self.training.close(exchange):
            self._wait(cohort, "a round came to nothing")
            return
        if self._waiting.go_on(cohort):
            self.narrator.goes_on(cohort)
        if cohort not in self.state.server.tree.leaves:
            self.narrator.parts(cohort)
            self.on_round()
            return
        evaluating = self.evaluation.open(cohort, exchange.round)
        if evaluating is None:
            self._finish_round(cohort, exchange.round)
        else:
            self._exchanges[cohort] = evaluating

    def _finish_round(self, cohort: CohortId, number: int) -> None:
        if cohort in self.state.server.tree.leaves:
            self.evaluation.by_the_user(cohort, number)
            if self.state.server.round(cohort) >= self.limits.rounds:
                self._end(cohort)
        self.on_round()

    def _open_idle(self) -> None:
        """Open rounds of cohorts that have none, among the nodes that are free."""
        now_s = time.monotonic()
        idle = [
            cohort
            for cohort in self.state.server.cohorts
            if cohort not in self._exchanges and not self._is_done(cohort) and self._waiting.may_try(cohort, now_s)
        ]
        nodes = self.roll_call.there(now_s) if idle else None
        if nodes is None:
            return
        with self.narrator.warnings_in_log():
            matched = self.state.server.match(self.state.mailbox.of(nodes))
        for cohort in idle:
            if cohort not in matched:  # the server has given it up
                self._end(cohort)
                continue
            opened = self.training.open(cohort, matched[cohort], nodes)
            if isinstance(opened, NotOpened):
                self._wait(cohort, opened.why)
            else:
                self._exchanges[cohort] = opened

    def _wait(self, cohort: CohortId, why: str) -> None:
        """Let a cohort try again later; one for which no other could make room has a time limit."""
        is_new = cohort not in self._waiting
        waited_s = self._waiting.wait(cohort, time.monotonic())
        if is_new:
            self.narrator.waits(cohort, why)
        cohorts = self.state.server.cohorts
        others = [one for one in cohorts if one not in self._waiting and not self._is_done(one)]
        if waited_s >= self.limits.timeout_s and not others:
            self._given_up.append(self.narrator.gives_up(cohort, waited_s, why))
            self._end(cohort)

    def _end(self, cohort: CohortId) -> None:
        self.state.ended.add(cohort)
        self.narrator.ends(cohort)

"""Cohorts that train over one grid, each at its own pace: what `AuxoStrategy.start` runs.

Rounds open and close by `Server`, as everywhere else. This is the loop: which cohort may open a round, which exchange
is over, and when there is no more time. What is done then is in `train_round` and `evaluation`, what is said of it in
`narrator`, and what is left of it in `run_state`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from auxo.core.types import CohortId
from auxo.flower.evaluation import Evaluation
from auxo.flower.narrator import Narrator, warnings_in_log
from auxo.flower.post import Exchange, Post
from auxo.flower.result import AuxoResult, collected
from auxo.flower.roll_call import RollCall
from auxo.flower.run_state import RunState
from auxo.flower.stopping import Stopping
from auxo.flower.train_round import GridRounds, NotOpened
from auxo.flower.waiting import Waiting

_SHORTEST_NAP_S = 0.005


@dataclass(frozen=True)
class Limits:
    """When a run ends, and how often it looks."""

    rounds: int  # of each cohort, its ancestors' included
    timeout_s: float
    nap_s: float


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
    _exchanges: dict[CohortId, Exchange] = field(default_factory=dict)  # of cohorts that train or evaluate

    def __post_init__(self) -> None:
        self._waiting = Waiting(self.limits.nap_s)

    def run(self) -> AuxoResult:
        """Train until every cohort has had its rounds, or cannot go on."""
        server = self.state.server
        for cohort in server.cohorts:
            if server.round(cohort) == 0:
                self.evaluation.by_the_user(cohort, 0)
        nap_s = _SHORTEST_NAP_S
        while not self._is_over():
            moved = self._collect() | self._close_what_is_over()
            if not self.stopping.is_told:
                moved |= self._open_idle()
            nap_s = _SHORTEST_NAP_S if moved else min(2 * nap_s, self.limits.nap_s)
            if not moved:
                time.sleep(nap_s)
        for cohort in server.tree.leaves:
            self.state.result(cohort).arrays = self.state.arrays(cohort)
        members = self.state.members(self.post.grid.get_node_ids())
        self.narrator.run_ends(members)
        strategies = {leaf: self.state.entry(leaf).strategy for leaf in server.tree.leaves}
        largest = max(server.cohorts, key=server.share)
        return collected(self.state.history, server.tree, largest, strategies, members)

    def _is_over(self) -> bool:
        if self.stopping.is_told and (self.stopping.is_over or not self._exchanges):
            return True
        return not self._exchanges and all(self._is_done(cohort) for cohort in self.state.server.cohorts)

    def _is_done(self, cohort: CohortId) -> bool:
        return cohort in self.state.ended or self.state.server.round(cohort) >= self.limits.rounds

    def _collect(self) -> bool:
        """Take in what nodes have answered."""
        found = self.post.collect()
        for exchange, node, reply in found:
            self.state.mailbox.hear(node, reply.said)
            if exchange is not self._exchanges.get(exchange.cohort) and exchange is not self.roll_call.asking:
                self.narrator.answers_late(node, exchange)
        return bool(found)

    def _close_what_is_over(self) -> bool:
        now_s = time.monotonic()
        over = [cohort for cohort, exchange in self._exchanges.items() if exchange.is_over(now_s)]
        for cohort in over:
            exchange = self._exchanges.pop(cohort)
            if exchange.kind == "train":
                self._close_training(exchange)
            else:
                self.evaluation.close(exchange)
                self._finish_round(cohort, exchange.round)
        return bool(over)

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

    def _open_idle(self) -> bool:
        """Open rounds of cohorts that have none, among the nodes that are free; return whether something has begun."""
        now_s = time.monotonic()
        idle = [
            cohort
            for cohort in self.state.server.cohorts
            if cohort not in self._exchanges and not self._is_done(cohort) and self._waiting.may_try(cohort, now_s)
        ]
        nodes = self.roll_call.there(now_s) if idle else None
        if nodes is None:
            return False
        with warnings_in_log():
            matched = self.state.server.match(self.state.mailbox.of(nodes))
        has_begun = False
        for cohort in idle:
            if cohort not in matched:  # the server has given it up
                self._end(cohort)
                has_begun = True
                continue
            opened = self.training.open(cohort, matched[cohort], nodes)
            if isinstance(opened, NotOpened):
                self._wait(cohort, opened.why)
            else:
                self._exchanges[cohort] = opened
                has_begun = True
        return has_begun

    def _wait(self, cohort: CohortId, why: str) -> None:
        """Let a cohort try again later; one for which no other could make room has a time limit."""
        is_new = cohort not in self._waiting
        waited_s = self._waiting.wait(cohort, time.monotonic())
        if is_new:
            self.narrator.waits(cohort, why)
        cohorts = self.state.server.cohorts
        others = [one for one in cohorts if one not in self._waiting and not self._is_done(one)]
        if waited_s >= self.limits.timeout_s and not others:
            self.narrator.gives_up(cohort, waited_s)
            self._end(cohort)

    def _end(self, cohort: CohortId) -> None:
        self.state.ended.add(cohort)
        self.narrator.ends(cohort)

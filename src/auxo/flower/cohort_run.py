"""Cohorts that train over one grid, each at its own pace: what `AuxoStrategy.start` runs.

Rounds open and close by `Server`, as everywhere else. This is the transport: which nodes are free, which messages are
under way, what has come back, and when there is no more time.
"""

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import Result

from auxo.core.cohort_algorithm import held_by
from auxo.core.cohort_tree import CohortTree
from auxo.core.own_state import NOTHING
from auxo.core.types import ROOT, CohortId, IntArray
from auxo.flower.foreign_step import CohortSeen, Kept, StrategyTable, fewest_nodes, never_evaluates, weighting_key
from auxo.flower.logs import LOG
from auxo.flower.model_arrays import ModelArrays, Updates
from auxo.flower.post import Exchange, Post, Reply
from auxo.flower.result import AuxoResult, collected
from auxo.flower.stopping import Stopping
from auxo.flower.subset_grid import SubsetGrid, TooFewNodes
from auxo.flower.train_round import TrainRound, configured
from auxo.flower.wire import CHECK_IN_ACTION, Letterhead, ask, give, says_something
from auxo.protocol.events import CohortEnded, EmptyRound, Event, Measured
from auxo.protocol.messages import AffinityFeedback, CheckIn, TaskFailure, TaskResult
from auxo.runtime.client_numbers import client_number
from auxo.runtime.closing import Closed
from auxo.runtime.round_events import RoundEnd, children_made, round_events
from auxo.runtime.server import Server

CheckInBy = Literal["piggyback", "query"]
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]

_SHORTEST_NAP_S = 0.005
_LONGEST_WAIT_S = 30.0  # between attempts to open a round of a cohort that has too few nodes


@dataclass(frozen=True)
class Work:
    """What a run is to do."""

    rounds: int
    timeout_s: float
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: Evaluate | None
    check_in: CheckInBy


@dataclass
class Mailbox:
    """What the server remembers of nodes between two messages; all of it may be lost, and any reply brings it back."""

    check_ins: dict[int, CheckIn] = field(default_factory=dict)  # the last of each node
    feedback: dict[int, AffinityFeedback] = field(default_factory=dict)  # that waits for the next message


@dataclass
class _Waits:
    """A cohort that could not open its round."""

    until_s: float
    pause_s: float
    since_s: float


@dataclass
class CohortRun:
    """A run between its start and its end."""

    server: Server
    table: StrategyTable
    model: ModelArrays
    post: Post
    work: Work
    head: Letterhead
    on_event: Callable[[Event], None]
    on_round: Callable[[], None]  # a round has closed: a moment to write a checkpoint
    nap_s: float
    elapsed_s: float = 0.0  # before this process
    mailbox: Mailbox = field(default_factory=Mailbox)
    history: dict[str, Result] = field(default_factory=dict)
    ended: set[CohortId] = field(default_factory=set)
    stopping: Stopping = field(default_factory=Stopping)
    _began_s: float = field(default_factory=time.monotonic)
    _exchanges: dict[CohortId, Exchange] = field(default_factory=dict)  # of cohorts
    _rounds: dict[CohortId, TrainRound] = field(default_factory=dict)
    _checking_in: Exchange | None = None
    _waits: dict[CohortId, _Waits] = field(default_factory=dict)
    _sampled: dict[int, Message] = field(default_factory=dict)  # by the base, for the round that is being opened
    _opening: CohortId = ROOT
    _too_few: str = ""
    _nodes: dict[int, int] = field(default_factory=dict)  # by client number
    _told: set[str] = field(default_factory=set)
    _on_trial: set[CohortId] = field(default_factory=set)  # cohorts whose branches train models of their own
    _updates: Updates = field(init=False)

    def __post_init__(self) -> None:
        self._updates = Updates(self.model.n_params)

    def run(self) -> AuxoResult:
        """Train until every cohort has had its rounds, or cannot go on."""
        for cohort in self.server.cohorts:
            if self.work.evaluate_fn is not None and self.server.round(cohort) == 0:
                self._evaluate_centrally(cohort, 0)
        nap = _SHORTEST_NAP_S
        while not self._is_over():
            moved = self._collect() | self._close_what_is_over()
            if not self.stopping.is_told:
                moved |= self._open_idle()
            nap = _SHORTEST_NAP_S if moved else min(2 * nap, self.nap_s)
            if not moved:
                time.sleep(nap)
        for cohort in self.server.tree.leaves:
            self._result(cohort).arrays = self._arrays(cohort)
        for cohort in sorted(self._on_trial):
            LOG.info(
                "the run has ended while a partition of cohort %s was on trial; more rounds decide: start again with "
                "the same directory, or with more rounds",
                cohort,
            )
        largest = max(self.server.cohorts, key=self.server.share)
        return collected(self.history, self.server.tree, largest)

    def go_on(self) -> None:
        """Speak for the federation that the server has taken up."""
        self.head = replace(self.head, federation=self.server.federation)

    @property
    def clock_s(self) -> float:
        """Return the seconds since the run began, earlier processes included."""
        return self.elapsed_s + time.monotonic() - self._began_s

    def sample(self, clients: IntArray) -> Sequence[int]:
        """Return whom the base takes of clients that are there for the cohort whose round is being opened."""
        nodes = [self._nodes[number] for number in clients.tolist()]
        cohort, number = self._opening, self.server.round(self._opening) + 1
        seen = CohortSeen(cohort, self.server.share(cohort))
        try:
            entry = self.table.made_for(self.server.kept_beside(cohort), seen)
            self._sampled = configured(entry, number, self.work.train_config, self.post.grid, nodes)
        except TooFewNodes as few:
            self._sampled, self._too_few = {}, str(few)
        return [found for node in self._sampled if (found := client_number(node)) is not None]

    def _is_over(self) -> bool:
        if self.stopping.is_told and (self.stopping.is_over or not self._exchanges):
            return True
        return not self._exchanges and all(self._is_done(cohort) for cohort in self.server.cohorts)

    def _is_done(self, cohort: CohortId) -> bool:
        return cohort in self.ended or self.server.round(cohort) >= self.work.rounds

    def _collect(self) -> bool:
        found = self.post.collect()
        for exchange, node, reply in found:
            if reply.said.check_in is not None:
                self.mailbox.check_ins[node] = CheckIn(
                    node, reply.said.check_in.request, reply.said.check_in.participations
                )
            current = self._exchanges.get(exchange.cohort)
            if exchange is not current and exchange is not self._checking_in:
                LOG.info("node %d answered round %d of cohort %s too late", node, exchange.round, exchange.cohort)
        return bool(found)

    def _close_what_is_over(self) -> bool:
        now = time.monotonic()
        over = [cohort for cohort, exchange in self._exchanges.items() if exchange.is_over(now)]
        for cohort in over:
            exchange = self._exchanges.pop(cohort)
            if exchange.kind == "train":
                self._close(cohort, exchange)
            else:
                self._close_evaluation(cohort, exchange)
        return bool(over)

    def _open_idle(self) -> bool:
        """Open rounds of cohorts that have none, among the nodes that are free."""
        now = time.monotonic()
        idle = [
            cohort
            for cohort in self.server.cohorts
            if cohort not in self._exchanges
            and not self._is_done(cohort)
            and (cohort not in self._waits or now >= self._waits[cohort].until_s)
        ]
        if not idle:
            return False
        if self.work.check_in == "query":
            nodes = self._checked_in(now)
            if nodes is None:
                return False
        else:
            nodes = self.post.free()
        with warnings.catch_warnings(record=True) as words:
            warnings.simplefilter("always")
            matched = self.server.match([self.mailbox.check_ins.get(node, CheckIn(node)) for node in nodes])
        _log_all(words)
        self._nodes = {found: node for node in nodes if (found := client_number(node)) is not None}
        opened = [self._open(cohort, matched.get(cohort)) for cohort in idle]
        return any(opened)

    def _checked_in(self, now: float) -> list[int] | None:
        """Return the nodes that have just checked in; None: they are still being asked."""
        if self._checking_in is None:
            content = ask(RecordDict(), self.head)
            messages = [Message(content, node, f"query.{CHECK_IN_ACTION}") for node in self.post.free()]
            for message in messages:
                give(message, self._feedback_for(message.metadata.dst_node_id))
            self._checking_in = self.post.send("check-in", ROOT, 0, messages, self.work.timeout_s)
            return None
        if not self._checking_in.is_over(now):
            return None
        exchange, self._checking_in = self._checking_in, None
        busy = self.post.busy
        return [node for node, reply in exchange.replies.items() if node not in busy and not reply.message.has_error()]

    def _open(self, cohort: CohortId, check_ins: Sequence[CheckIn] | None) -> bool:
        if check_ins is None:  # the server has given it up
            self._end(cohort)
            return True
        self._opening, self._sampled, self._too_few = cohort, {}, ""
        tasks = {int(task.client): task for task in self.server.open_round(cohort, check_ins)}
        if not tasks:
            self._wait(cohort, self._too_few or f"{len(check_ins)} nodes are there for it, and the strategy takes none")
            return False
        number = self.server.round(cohort) + 1
        names = {name for task in tasks.values() for name in task.models}
        training = TrainRound(tasks, {name: self._arrays(name) for name in names})
        branches = {task.models[0] for task in tasks.values()} - {cohort}
        made = {name: self._branch_messages(name, number, training) for name in branches}
        for node, task in tasks.items():
            messages = made.get(task.models[0], self._sampled)
            made_for = messages[node] if node in messages else next(iter(messages.values()))
            training.add(node, made_for, self.head, self._feedback_for(node), self.work.evaluate_config)
        self._rounds[cohort] = training
        self._exchanges[cohort] = self.post.send("train", cohort, number, training.messages, self.work.timeout_s)
        return True

    def _branch_messages(self, name: CohortId, number: int, training: TrainRound) -> dict[int, Message]:
        """Return the messages of a branch on trial: it is shown all nodes of the round, or it might wait for more."""
        mine = sum(task.models[0] == name for task in training.tasks.values())
        entry = self.table.made_for(self.server.kept_beside(name), CohortSeen(name, mine))
        return configured(entry, number, self.work.train_config, self.post.grid, list(self._nodes.values()))

    def _arrays(self, name: CohortId) -> ArrayRecord:
        kept = self.server.kept_beside(name)
        if kept != NOTHING:
            return self.table.of(kept).arrays
        like = self.table.of(self.server.kept_beside(CohortId(name.partition("~")[0]))).arrays
        return self.model.record(self.server.weights(name), like)

    def _feedback_for(self, node: int) -> AffinityFeedback | None:
        return self.mailbox.feedback.pop(node, None)

    def _wait(self, cohort: CohortId, why: str) -> None:
        now = time.monotonic()
        before = self._waits.get(cohort)
        pause = min(_LONGEST_WAIT_S, self.nap_s if before is None else 2 * before.pause_s)
        since = now if before is None else before.since_s
        self._waits[cohort] = _Waits(now + pause, pause, since)
        number = self.server.round(cohort) + 1
        if before is None:
            LOG.info("cohort %s waits: %s", cohort, why)
            self.on_event(EmptyRound(self.clock_s, cohort, number, why))
        others = [one for one in self.server.cohorts if one not in self._waits and not self._is_done(one)]
        if now - since >= self.work.timeout_s and not others:
            LOG.warning("cohort %s is given up: nothing came of it for %.0f s, no other trains", cohort, now - since)
            self._end(cohort)

    def _end(self, cohort: CohortId) -> None:
        self.ended.add(cohort)
        self.on_event(CohortEnded(self.clock_s, cohort, self.server.round(cohort)))

    def _close(self, cohort: CohortId, exchange: Exchange) -> None:
        training, before = self._rounds.pop(cohort), self.server.tree
        entry = self.table.of(self.server.kept_beside(cohort))
        weight = weighting_key(entry.strategy)
        results, replies = training.results(exchange.replies, self.model, weight, self._updates)
        self._say_who_failed(cohort, exchange.round, results)
        self._say_how_judged(training, exchange.replies)
        with warnings.catch_warnings(record=True) as words:
            warnings.simplefilter("always")
            feedback = self.server.close_round(cohort, results, replies)
        _log_all(words)
        self.mailbox.feedback.update({int(one.client): one for one in feedback if says_something(one)})
        closed = self.server.closed
        assert closed is not None  # noqa: S101 - a round has just closed
        self._tell_round(cohort, exchange, closed, before)
        self._say_what_is_tried(cohort, exchange.round)
        if closed.outcome is None:
            self._wait(cohort, "a round came to nothing")
            self._forget_unused()
            return
        if self._waits.pop(cohort, None) is not None:
            LOG.info("cohort %s goes on", cohort)
        after = self.table.of(closed.outcome.states[0].server.own)
        result = self._result(cohort)
        result.arrays = after.arrays
        if after.metrics is not None:
            result.train_metrics_clientapp[exchange.round] = after.metrics
            self._tell_metrics(cohort, exchange.round, "training", after.metrics)
            LOG.info("cohort %s, round %d: %s", cohort, exchange.round, after.metrics)
        self._forget_unused()
        if cohort in self.server.tree.leaves:
            self._open_evaluation(cohort, exchange.round)
        else:
            LOG.info("cohort %s is partitioned into %s", cohort, ", ".join(self.server.tree.leaves_of(cohort)))
            self._finish_round(cohort, exchange.round)

    def _tell_round(self, cohort: CohortId, exchange: Exchange, closed: Closed, before: CohortTree) -> None:
        end = RoundEnd(
            cohort=cohort,
            round=exchange.round,
            time_s=self.clock_s,
            duration_s=time.monotonic() - exchange.began_s,
            asked=len(exchange.nodes),
            late=0,  # who answers too late is not waited for
        )
        rejected = [(str(one.client), one.reason) for one in self.server.rejections]
        shares = {child: self.server.share(child) for child in children_made(before, self.server.tree)}
        for event in round_events(closed, end, rejected, shares):
            self.on_event(event)

    def _open_evaluation(self, cohort: CohortId, number: int) -> None:
        """Let the base evaluate on the nodes that use the cohort's model."""
        entry = self.table.of(self.server.kept_beside(cohort))
        if never_evaluates(entry.strategy):
            self._finish_round(cohort, number)
            return
        nodes = self.post.free()
        placed = self.server.match([self.mailbox.check_ins.get(node, CheckIn(node)) for node in nodes], everybody=True)
        mine = [int(one.client) for one in placed.get(cohort, [])]
        messages: list[Message] = []
        if len(mine) >= max(1, fewest_nodes(entry.strategy, "evaluate")):
            grid = SubsetGrid(self.post.grid, mine)
            try:
                config = self.work.evaluate_config.copy()
                messages = list(entry.strategy.configure_evaluate(number, entry.arrays, config, grid))
            except TooFewNodes as few:
                LOG.info("cohort %s is not evaluated: %s", cohort, few)
        if not messages:
            self._finish_round(cohort, number)
            return
        given = [message.content for message in messages]
        with_ours = {id(content): content for content in given}  # what the base gives to several is serialised once
        with_ours = {number: ask(content, self.head) for number, content in with_ours.items()}
        for message, content in zip(messages, given, strict=True):
            node = message.metadata.dst_node_id
            feedback = self._feedback_for(node)
            if feedback is not None or node in self.mailbox.check_ins:
                message.content = with_ours[id(content)]
                give(message, feedback)
        self._exchanges[cohort] = self.post.send("evaluate", cohort, number, messages, self.work.timeout_s)

    def _close_evaluation(self, cohort: CohortId, exchange: Exchange) -> None:
        entry = self.table.of(self.server.kept_beside(cohort))
        replies = [reply.message for reply in exchange.replies.values() if not reply.message.has_error()]
        try:
            metrics = entry.strategy.aggregate_evaluate(exchange.round, replies) if replies else None
        except Exception as error:  # noqa: BLE001 - whatever a strategy raises costs the metrics, not the run
            LOG.warning("cohort %s, round %d: evaluation came to nothing: %s", cohort, exchange.round, error)
            metrics = None
        if metrics is not None:
            self._result(cohort).evaluate_metrics_clientapp[exchange.round] = metrics
            self._tell_metrics(cohort, exchange.round, "evaluation", metrics)
            LOG.info("cohort %s, round %d: %s", cohort, exchange.round, metrics)
        self._finish_round(cohort, exchange.round)

    def _finish_round(self, cohort: CohortId, number: int) -> None:
        if cohort in self.server.tree.leaves:
            if self.work.evaluate_fn is not None:
                self._evaluate_centrally(cohort, number)
            if self.server.round(cohort) >= self.work.rounds:
                self._end(cohort)
        self.on_round()

    def _evaluate_centrally(self, cohort: CohortId, number: int) -> None:
        assert self.work.evaluate_fn is not None  # noqa: S101 - the caller has looked
        metrics = self.work.evaluate_fn(number, self._arrays(cohort))
        if metrics is not None:
            self._result(cohort).evaluate_metrics_serverapp[number] = metrics
            self._tell_metrics(cohort, number, "server", metrics)

    def _tell_metrics(self, cohort: CohortId, number: int, source: str, metrics: MetricRecord) -> None:
        told = {
            name: float(value)
            for name, value in metrics.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        if told:
            self.on_event(Measured(self.clock_s, cohort, number, source, tuple(told), tuple(told.values())))

    def _result(self, cohort: CohortId) -> Result:
        return self.history.setdefault(cohort, Result())

    def _forget_unused(self) -> None:
        self.table.keep_only(kept_by(self.server))

    def _say_who_failed(self, cohort: CohortId, number: int, results: Sequence[TaskResult | TaskFailure]) -> None:
        reasons = Counter(one.reason for one in results if isinstance(one, TaskFailure))
        if reasons:
            ((most, _),) = reasons.most_common(1)
            LOG.warning(
                "cohort %s, round %d: %d of %d nodes failed, most often by: %.300s",
                cohort,
                number,
                reasons.total(),
                len(results),
                most,
            )

    def _say_what_is_tried(self, cohort: CohortId, number: int) -> None:
        """Say when a partition is tried, and when nothing came of it: for many rounds nothing else is to be seen."""
        states = self.server.record.state.cohorts
        is_tried = cohort in self.server.tree.leaves and bool(held_by((states[cohort],))[0])
        if is_tried and cohort not in self._on_trial:
            LOG.info("cohort %s, round %d: a partition is on trial, in models of its own", cohort, number)
            self._on_trial.add(cohort)
        elif not is_tried and cohort in self._on_trial:
            if cohort in self.server.tree.leaves:
                LOG.info("cohort %s: a partition did not pay on held-out samples, and is undone", cohort)
            self._on_trial.discard(cohort)

    def _say_how_judged(self, training: TrainRound, replies: Mapping[int, Reply]) -> None:
        """Say once how clients judge models, which decides about partitions."""
        answers = [reply.said.result.answer for reply in replies.values() if reply.said.result is not None]
        asked = [node for node, task in training.tasks.items() if task.ask.judges and node in replies]
        judged = [one for one in answers if one.judged]
        if judged and any(one.on_all for one in answers):
            self._tell(
                "clients train on all their samples, for the app does not honour halves; models are judged by what its "
                "own evaluation says of them, so that it must not use samples that it trains on"
            )
        if asked and not judged:
            self._tell(
                "no client says how models do: is the app an AuxoClientApp, and does its evaluation name a loss? "
                "Without that no cohort is ever partitioned"
            )

    def _tell(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            LOG.info("%s", words)


def kept_by(server: Server) -> list[Kept]:
    """Return which strategies the models of a server go by."""
    states = server.record.state.cohorts.values()
    servers = [one for state in states for one in (state.server, *held_by((state,))[0])]
    return [one.own for one in servers if isinstance(one.own, Kept)]


def _log_all(words: Sequence[warnings.WarningMessage]) -> None:
    for one in words:
        LOG.warning("%s", one.message)

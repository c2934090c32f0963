"""What is said of a run while it goes on: sentences in the log, and events for its record."""

import logging
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from flwr.app import MetricRecord

from auxo.core.cohort_tree import CohortTree
from auxo.core.types import CohortId
from auxo.flower.legacy import why_old
from auxo.flower.logs import LOG
from auxo.flower.post import Exchange
from auxo.flower.result import AuxoResult
from auxo.flower.run_state import RunState
from auxo.protocol.events import CohortEnded, CohortMembers, EmptyRound, Event, Measured
from auxo.protocol.messages import Task, TaskFailure, TaskResult
from auxo.protocol.notes import NO_EVALUATION, NO_JUDGEMENT, TrialsSeen, renamed
from auxo.runtime.closing import Closed
from auxo.runtime.round_events import RoundEnd, children_made, round_events

_OF_THE_SAME = (
    "nodes' evaluation metrics are of the samples by which they have chosen their cohort, and partitions were decided: "
    "gains look better than they are. An app that takes its evaluation samples by third_of, and says "
    "AuxoClientApp(thirds=True), keeps a third of them for the report"
)
_OF_THE_REST = "nodes' evaluation metrics are of a third of their samples, by which nothing was decided"
_MORE_ROUNDS = "more rounds decide: start again with the same directory, or with more rounds"
_BARE = (
    "have not the client half: they train, but choose no cohort and judge no models; their app has to be an "
    "AuxoClientApp, or to have an AuxoMod"
)
_JUDGES = "judges"  # what has been said: nobody judges models
_MOST_NAMED = 10  # nodes in one warning; our choice


@dataclass
class Narrator:
    """Says what happens; nothing happens by it."""

    state: RunState
    on_event: Callable[[Event], None]
    rounds: int  # of each cohort, its ancestors' included
    is_apart: bool | None = None  # the last evaluation was by samples that decide nothing; None: there was none
    _told: set[str] = field(default_factory=set)
    _trials: TrialsSeen = field(default_factory=TrialsSeen)
    _on_trial: set[CohortId] = field(default_factory=set)  # cohorts of which that was said
    _bare: set[int] = field(default_factory=set)  # nodes without the client half
    _opened: dict[CohortId, int] = field(default_factory=dict)  # rounds that were announced
    _began_s: float = field(default_factory=time.monotonic)
    _trouble: str = ""  # why nodes can judge no models, as they have said last

    def round_opens(self, cohort: CohortId, number: int) -> None:
        """A cohort begins a round, or tries again."""
        if self._opened.get(cohort) != number:
            self._opened[cohort] = number
            LOG.info("")
            LOG.info("[ROUND %d/%d]%s", number, self.rounds, self._of(cohort))

    def answers_late(self, node: int, exchange: Exchange) -> None:
        """A node has answered when nobody waited for it any more."""
        LOG.info("node %d answered round %d of cohort %s too late", node, exchange.round, exchange.cohort)

    def waits(self, cohort: CohortId, why: str) -> None:
        """A cohort begins to wait."""
        LOG.info("cohort %s waits: %s", cohort, why)
        self.on_event(EmptyRound(self.state.clock_s, cohort, self.state.server.round(cohort) + 1, why))

    def goes_on(self, cohort: CohortId) -> None:
        """A cohort waits no longer."""
        LOG.info("cohort %s goes on", cohort)

    def gives_up(self, cohort: CohortId, waited_s: float, why: str) -> str:
        """A cohort has waited too long; return what was said of it."""
        words = f"cohort {cohort} is given up, since nothing came of it for {waited_s:.0f} s: {why}"
        LOG.warning("%s", words)
        return words

    def ends(self, cohort: CohortId) -> None:
        """A cohort opens no more rounds."""
        self.on_event(CohortEnded(self.state.clock_s, cohort, self.state.server.round(cohort)))

    def round_closes(self, exchange: Exchange, closed: Closed, before: CohortTree) -> None:
        """A round has closed; ``before`` is the tree before it."""
        server = self.state.server
        end = RoundEnd(
            cohort=exchange.cohort,
            round=exchange.round,
            time_s=self.state.clock_s,
            duration_s=time.monotonic() - exchange.began_s,
            asked=len(exchange.nodes),
            late=0,  # who answers too late is not waited for
        )
        rejected = [(str(one.client), one.reason) for one in server.rejections]
        shares = {child: server.share(child) for child in children_made(before, server.tree)}
        was_unjudged, was_unsure = exchange.cohort in self._trials.rounds, self._trials.is_unsure(exchange.cohort)
        banned = [(str(client), ban) for client, ban in server.banned.items()]
        for client, ban in banned:
            LOG.warning(
                "node %s is banned until round %d, since it %s: %s", client, ban.until, ban.reason, ban.evidence
            )
        for event in round_events(closed, end, rejected, shares, banned):
            self._trials = self._trials.after(event)
            self.on_event(event)
        why = "did not pay on held-out samples" if not was_unsure else "left its judges unsure"
        why = "was judged by nobody" if was_unjudged else why
        self._tells_what_is_tried(exchange.cohort, exchange.round, why)

    def parts(self, cohort: CohortId) -> None:
        """A cohort has been partitioned."""
        leaves = self.state.server.tree.leaves_of(cohort)
        LOG.info("cohort %s is partitioned into %s", cohort, ", ".join(leaves))
        self._tells_members(leaves, self.state.members())

    def _tells_members(self, leaves: Iterable[CohortId], members: Mapping[CohortId, tuple[int, ...]]) -> None:
        time_s, server = self.state.clock_s, self.state.server
        for leaf in leaves:
            self.on_event(CohortMembers(time_s, leaf, server.round(leaf), tuple(map(str, members[leaf]))))

    def measures(self, cohort: CohortId, number: int, source: str, metrics: MetricRecord) -> None:
        """Metrics of a round have come, of which a record has the finite numbers."""
        told = {
            name: float(value)
            for name, value in metrics.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        if told:
            time_s = self.state.clock_s
            self.on_event(Measured(time_s, cohort, number, source, tuple(told), tuple(told.values())))
        if source != "server":
            LOG.info("\t└──> Aggregated MetricRecord%s: %s", self._of(cohort, number), metrics)
        elif number == 0:
            LOG.info("Initial global evaluation results%s: %s", self._of(cohort), metrics)
        else:
            LOG.info("Global evaluation%s", self._of(cohort, number))
            LOG.info("\t└──> MetricRecord: %s", metrics)

    def nodes_fail(self, exchange: Exchange, results: Sequence[TaskResult | TaskFailure]) -> None:
        """Some of a round's nodes have failed, perhaps none."""
        reasons = Counter(one.reason for one in results if isinstance(one, TaskFailure))
        if reasons:
            ((most, _),) = reasons.most_common(1)
            LOG.warning(
                "cohort %s, round %d: %d of %d nodes failed, most often by: %s",
                exchange.cohort,
                exchange.round,
                reasons.total(),
                len(results),
                why_old(most),
            )

    def hears(self, exchange: Exchange) -> None:
        """Say which nodes have no client half, and which can judge no models and why, as soon as it is seen."""
        said = {node: reply.said for node, reply in exchange.replies.items() if not reply.message.has_error()}
        bare = {node for node, one in said.items() if not one.is_ours}
        if bare - self._bare:
            LOG.warning("%d of %d nodes %s: %s", len(bare), len(said), _BARE, _listed(bare))
        self._bare = (self._bare - set(said)) | bare
        for trouble in sorted({one.trouble for one in said.values() if one.trouble}):
            self._trouble = trouble
            nodes = [node for node, one in said.items() if one.trouble == trouble]
            words = f"nodes can judge no models, and without that no cohort is ever partitioned: {trouble}"
            self._once(words, f"{len(nodes)} of {len(said)} {words} (nodes {_listed(nodes)})")

    def asks_in_vain(self, nodes: Sequence[int], reason: str) -> None:
        """Nodes have given an error when they were asked to check in."""
        words = f"nodes cannot check in, and so do not take part; their app has to be an AuxoClientApp: {reason:.300}"
        self._once(words, f"{len(nodes)} {words} (nodes {_listed(nodes)})")

    @property
    def why_unjudged(self) -> str:
        """Return why nobody judges models, as far as it is known."""
        return self._trouble or (f"nodes {_BARE}" if self._bare else NO_EVALUATION)

    @contextmanager
    def warnings_in_log(self) -> Iterator[None]:
        """Have what is warned of said in the log."""
        with warnings.catch_warnings(record=True) as words:
            warnings.simplefilter("always")
            yield
        for one in words:
            LOG.warning("%s", renamed(str(one.message), {NO_JUDGEMENT: self.why_unjudged}))

    def judges(self, tasks: Mapping[int, Task], exchange: Exchange) -> None:
        """Say once how clients judge models, which decides about partitions."""
        replies = exchange.replies
        answers = [reply.said.result.answer for reply in replies.values() if reply.said.result is not None]
        asked = [node for node, task in tasks.items() if task.ask.judges and node in replies]
        judged = [one for one in answers if one.judged]
        if judged and any(one.on_all for one in answers):
            self._once(
                "halves",
                "clients train on all their samples, for the app does not honour halves; models are judged by what its "
                "own evaluation says of them, so that it must not use samples that it trains on",
                logging.INFO,
            )
        if asked and not judged:
            self._once(
                _JUDGES, f"nobody judges models, and without that no cohort is ever partitioned: {self.why_unjudged}"
            )

    def run_ends(self, result: AuxoResult, *, will_go_on: bool) -> None:
        """Say who is where, of which partitions nobody knows yet, what metrics are of, and what has come of it.

        A run that was stopped and goes on later says who is where when it is over.
        """
        if not will_go_on:
            members = {CohortId(name): nodes for name, nodes in result.members.items()}
            self._tells_members(members, members)
        if self.state.server.tree.branches and self.is_apart is not None:
            LOG.info("%s", _OF_THE_REST if self.is_apart else _OF_THE_SAME)
        for cohort in sorted(self._on_trial):
            is_unjudged = _JUDGES in self._told and cohort in self._trials.rounds
            LOG.log(
                logging.WARNING if is_unjudged else logging.INFO,
                "the run has ended while a partition of cohort %s was on trial; %s",
                cohort,
                f"nobody judges it: {self.why_unjudged}" if is_unjudged else _MORE_ROUNDS,
            )
        LOG.info("")
        LOG.info("Strategy execution finished in %.2fs", time.monotonic() - self._began_s)
        LOG.info("")
        LOG.info("Final results:")
        for line in ("", *str(result).splitlines(), ""):
            LOG.info("\t%s", line)

    def _of(self, cohort: CohortId, number: int | None = None) -> str:
        """Return whose a line is, where there are several; Flower's lines are of the only model."""
        if len(self.state.server.tree.leaves) == 1:
            return ""
        return f" of cohort {cohort}" if number is None else f" of cohort {cohort}, round {number}"

    def _tells_what_is_tried(self, cohort: CohortId, number: int, why: str) -> None:
        """Say when a partition is tried, and when nothing came of it: for many rounds nothing else is to be seen."""
        is_tried = bool(self.state.branches(cohort))
        if is_tried and cohort not in self._on_trial:
            LOG.info("cohort %s, round %d: a partition is on trial, in models of its own", cohort, number)
            self._on_trial.add(cohort)
        elif not is_tried and cohort in self._on_trial:
            if cohort in self.state.server.tree.leaves:
                LOG.info("cohort %s: a partition %s, and is undone", cohort, why)
            self._on_trial.discard(cohort)

    def _once(self, what: str, words: str, level: int = logging.WARNING) -> None:
        if what not in self._told:
            self._told.add(what)
            LOG.log(level, "%s", words)


def _listed(nodes: Iterable[int]) -> str:
    named = sorted(nodes)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(map(str, named[:_MOST_NAMED])) + more

"""What is said of a run while it goes on: sentences in the log, and events for its record."""

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
from auxo.flower.post import Exchange, Reply
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


@dataclass
class Narrator:
    """Says what happens; nothing happens by it."""

    state: RunState
    on_event: Callable[[Event], None]
    is_apart: bool | None = None  # the last evaluation was by samples that decide nothing; None: there was none
    _told: set[str] = field(default_factory=set)
    _trials: TrialsSeen = field(default_factory=TrialsSeen)
    _on_trial: set[CohortId] = field(default_factory=set)  # cohorts of which that was said

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

    def gives_up(self, cohort: CohortId, waited_s: float) -> None:
        """A cohort has waited too long."""
        LOG.warning("cohort %s is given up: nothing came of it for %.0f s, no other trains", cohort, waited_s)

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
        for event in round_events(closed, end, rejected, shares):
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
        if source != "server":  # what the user's own function says, the user has seen
            LOG.info("cohort %s, round %d: %s", cohort, number, metrics)

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

    def judges(self, tasks: Mapping[int, Task], replies: Mapping[int, Reply]) -> None:
        """Say once how clients judge models, which decides about partitions."""
        answers = [reply.said.result.answer for reply in replies.values() if reply.said.result is not None]
        asked = [node for node, task in tasks.items() if task.ask.judges and node in replies]
        judged = [one for one in answers if one.judged]
        if judged and any(one.on_all for one in answers):
            self._once(
                "clients train on all their samples, for the app does not honour halves; models are judged by what its "
                "own evaluation says of them, so that it must not use samples that it trains on"
            )
        if asked and not judged:
            self._once(f"{NO_EVALUATION}. Without that no cohort is ever partitioned")

    def run_ends(self, members: Mapping[CohortId, tuple[int, ...]]) -> None:
        """Say who is where, of which partitions nobody knows yet, and what metrics are of where one was made."""
        self._tells_members(members, members)
        if self.state.server.tree.branches and self.is_apart is not None:
            LOG.info("%s", _OF_THE_REST if self.is_apart else _OF_THE_SAME)
        for cohort in sorted(self._on_trial):
            LOG.info(
                "the run has ended while a partition of cohort %s was on trial; more rounds decide: start again with "
                "the same directory, or with more rounds",
                cohort,
            )

    def _tells_what_is_tried(self, cohort: CohortId, number: int, why: str) -> None:
        """Say when a partition is tried, and when nothing came of it: for many rounds nothing else is to be seen."""
        is_tried = self.state.on_trial(cohort)
        if is_tried and cohort not in self._on_trial:
            LOG.info("cohort %s, round %d: a partition is on trial, in models of its own", cohort, number)
            self._on_trial.add(cohort)
        elif not is_tried and cohort in self._on_trial:
            if cohort in self.state.server.tree.leaves:
                LOG.info("cohort %s: a partition %s, and is undone", cohort, why)
            self._on_trial.discard(cohort)

    def _once(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            LOG.info("%s", words)


@contextmanager
def warnings_in_log() -> Iterator[None]:
    """Have what is warned of said in the log."""
    with warnings.catch_warnings(record=True) as words:
        warnings.simplefilter("always")
        yield
    for one in words:
        LOG.warning("%s", renamed(str(one.message), {NO_JUDGEMENT: NO_EVALUATION}))

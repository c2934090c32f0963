"""What a closed round tells the record of a run, from what `Server` says of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from auxo.core.cohort_tree import CohortTree
from auxo.core.types import CohortId
from auxo.protocol.events import EmptyRound, Event, Partitioned, RoundClosed, StoppedLooking, UpdateRejected
from auxo.runtime.server import Server


@dataclass(frozen=True)
class RoundClock:
    """When a round has closed, and how many were asked."""

    now_s: float
    duration_s: float
    asked: int


def round_events(
    server: Server, cohort: CohortId, number: int, before: CohortTree, clock: RoundClock
) -> Iterator[Event]:
    """Yield the events of the round that a server has just closed; ``before`` is the tree before it."""
    for one in server.rejections:
        yield UpdateRejected(clock.now_s, cohort, number, str(one.client), one.reason)
    closed = server.closed
    if closed is None or closed.outcome is None:
        yield EmptyRound(clock.now_s, cohort, number, "no usable update")
        return
    gathered, notes = closed.gathered, closed.outcome.notes
    rejected = len(server.rejections)
    yield RoundClosed(
        time_s=clock.now_s,
        cohort=cohort,
        round=number,
        participants=gathered.used,
        late=int(gathered.late.sum()),
        failed=max(0, clock.asked - len(gathered.rows) - (rejected - len(gathered.unusual))),
        rejected=rejected,
        duration_s=clock.duration_s,
        known=notes.known,
        labelled=notes.labelled,
        judged=notes.judged,
        gain=notes.gain,
        gain_needed=notes.gain_needed,
        heterogeneity=gathered.dispersion,
        children=notes.children,
        restarted=notes.restarted,
        misfits=gathered.misfits,
    )
    if notes.gives_up:
        yield StoppedLooking(clock.now_s, cohort, number)
    if len(server.tree.branches) > len(before.branches):
        children = server.tree.branches[len(before.branches)].children
        yield Partitioned(
            clock.now_s, cohort, number, children, tuple(server.share(child) for child in children), notes.gain
        )

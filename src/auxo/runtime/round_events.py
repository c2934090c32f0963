"""What a closed round tells the record of a run, wherever it was run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auxo.core.cohort_tree import CohortTree
from auxo.core.guard import Ban
from auxo.core.types import CohortId
from auxo.protocol.events import (
    ClientBanned,
    EmptyRound,
    Event,
    Partitioned,
    RoundClosed,
    StoppedLooking,
    UpdateRejected,
)
from auxo.runtime.closing import Closed


@dataclass(frozen=True)
class RoundEnd:
    """Which round has ended, when, and what the clock says of its participants."""

    cohort: CohortId
    round: int  # counted along the cohort's lineage
    time_s: float
    duration_s: float
    asked: int
    late: int  # answered after it had closed, and were not refused


def round_events(
    closed: Closed,
    end: RoundEnd,
    rejected: Sequence[tuple[str, str]],
    children: Mapping[CohortId, int],
    banned: Sequence[tuple[str, Ban]] = (),
) -> Iterator[Event]:
    """Yield the events of a round that has just closed.

    Args:
        closed: what it came to.
        end: when.
        rejected: clients whose updates were refused or too unusual, with the reason of each.
        children: that it has partitioned the cohort into, with the participants of their rounds; mostly none.
        banned: clients that the guard has banned for what the round has shown.
    """
    for client, ban in banned:
        yield ClientBanned(end.time_s, end.cohort, end.round, client, ban.reason, ban.evidence, ban.until)
    for client, reason in rejected:
        yield UpdateRejected(end.time_s, end.cohort, end.round, client, reason)
    gathered, outcome = closed.gathered, closed.outcome
    if outcome is None:
        yield EmptyRound(end.time_s, end.cohort, end.round, "no usable update")
        return
    notes, number = outcome.notes, outcome.states[0].round
    answered = int((~gathered.late).sum()) + end.late + len(rejected) - len(gathered.unusual)
    yield RoundClosed(
        time_s=end.time_s,
        cohort=end.cohort,
        round=number,
        participants=gathered.used,
        late=end.late,
        failed=max(0, end.asked - answered),  # one may have answered twice
        rejected=len(rejected),
        duration_s=end.duration_s,
        known=notes.known,
        labelled=notes.labelled,
        judged=notes.judged,
        gain=notes.gain,
        gain_needed=notes.gain_needed,
        heterogeneity=gathered.dispersion,
        children=notes.children,
        restarted=notes.restarted,
        misfits=gathered.misfits,
        capped=len(gathered.capped),
    )
    if notes.gives_up:
        yield StoppedLooking(end.time_s, end.cohort, number)
    if children:
        yield Partitioned(end.time_s, end.cohort, number, tuple(children), tuple(children.values()), notes.gain)


def children_made(before: CohortTree, after: CohortTree) -> tuple[CohortId, ...]:
    """Return the cohorts that the partition between two trees has made; none: there was none."""
    new = after.branches[len(before.branches) :]
    return new[0].children if new else ()

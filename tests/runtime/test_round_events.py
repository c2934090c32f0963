"""What a closed round tells, whoever has run it: every participant is counted once."""

from collections.abc import Mapping

import numpy as np

from auxo.core.aggregators import FedAvg
from auxo.core.cohort_algorithm import Outcome, RoundNotes
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Gathered
from auxo.core.types import ROOT, CohortId
from auxo.protocol.events import EmptyRound, Event, Partitioned, RoundClosed, StoppedLooking, UpdateRejected
from auxo.runtime.closing import Closed
from auxo.runtime.round_events import RoundEnd, children_made, round_events
from tests.core.made_updates import N_PARAMS, alike, answers, gathered

UPDATES = alike(6)
UPDATES[2] = np.nan


def closed(found: Gathered, notes: RoundNotes | None = None) -> Closed:
    state = CohortState(FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32)), round=4)
    return Closed(found, Outcome((state,), notes=notes or RoundNotes()))


def events(
    what: Closed,
    asked: int = 9,
    late: int = 0,
    rejected: tuple[str, ...] = ("c",),
    children: Mapping[CohortId, int] | None = None,
) -> list[Event]:
    end = RoundEnd(ROOT, 4, time_s=60.0, duration_s=20.0, asked=asked, late=late)
    return list(round_events(what, end, [(client, "NOT_FINITE") for client in rejected], children or {}))


def test_every_participant_is_counted_once() -> None:
    refused, told = events(closed(gathered(answers(UPDATES, late=(4,)))), late=1)
    assert refused == UpdateRejected(60.0, "0", 4, "c", "NOT_FINITE")
    assert isinstance(told, RoundClosed)
    assert (told.cohort, told.round, told.time_s, told.duration_s) == ("0", 4, 60.0, 20.0)
    assert (told.participants, told.late, told.rejected, told.misfits, told.failed) == (4, 1, 1, 0, 3)


def test_who_is_refused_more_than_once_has_not_failed_less_than_nobody() -> None:
    *_, told = events(closed(gathered(answers(UPDATES))), asked=6, rejected=("c", "c", "stranger"))
    assert isinstance(told, RoundClosed)
    assert (told.rejected, told.failed) == (3, 0)


def test_a_round_that_came_to_nothing_says_so_after_those_who_were_refused() -> None:
    found = gathered(answers(UPDATES[2:3]))
    refused, told = events(Closed(found, None))
    assert isinstance(refused, UpdateRejected)
    assert told == EmptyRound(60.0, "0", 4, "no usable update")


def test_a_cohort_that_stops_looking_and_one_that_is_partitioned_say_so_last() -> None:
    *_, rests = events(closed(gathered(answers(UPDATES)), RoundNotes(gives_up=True)))
    assert rests == StoppedLooking(60.0, "0", 4)
    children = {CohortId("0.0"): 6, CohortId("0.1"): 3}
    *_, parted = events(closed(gathered(answers(UPDATES)), RoundNotes(gain=0.5)), children=children)
    assert parted == Partitioned(60.0, "0", 4, ("0.0", "0.1"), (6, 3), 0.5)


def test_children_are_those_of_the_branch_that_is_new() -> None:
    before = CohortTree()
    after = before.partition(ROOT, (0, 1), (0.5, 0.5))
    assert children_made(before, before) == ()
    assert children_made(before, after) == ("0.0", "0.1")
    assert children_made(after, after.partition(CohortId("0.1"), (0, 1), (0.5, 0.5))) == ("0.1.0", "0.1.1")

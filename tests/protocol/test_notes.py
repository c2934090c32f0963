"""Why there are no cohorts, in words: bounded by what a population has, and nothing claimed that nobody has judged."""

from dataclasses import dataclass, replace

import pytest

from auxo.algorithms.auxo import Auxo
from auxo.algorithms.base import OneCohort
from auxo.protocol.events import Event, Partitioned, RoundClosed, StoppedLooking, UpdateRejected
from auxo.protocol.notes import ONE_SAMPLE, TrialsSeen, explains, refusals_in_words, why_no_partition

ROUND = RoundClosed(1.0, "0", 1, 12, 0, 0, 0, 1.0, 0, 0, 0, None, 0.0, 0.5, 1, restarted=False, misfits=0)
TRIAL = replace(ROUND, gain=0.0)  # nobody judges
JUDGED = replace(TRIAL, judged=3)
STOP = StoppedLooking(1.0, "0", 12)


@dataclass(frozen=True)
class NeedsMany:
    """A method that needs so many participants."""

    fewest: int

    def why_no_partition(self, participants: int, rounds: int) -> str | None:
        return None if participants >= self.fewest else f"it takes {self.fewest}; raise training.participants"


@pytest.mark.parametrize(
    ("participants", "clients", "advice"),
    [
        (12, 12, "the population has 12, and it takes more clients"),
        (6, 12, "the population has 12, and it takes more clients"),
        (6, 50, "raise training.participants, to at most the 50 clients that there are"),
        (6, None, "raise training.participants"),
    ],
)
def test_nobody_is_told_to_have_more_take_part_than_there_are(
    participants: int, clients: int | None, advice: str
) -> None:
    said = why_no_partition(NeedsMany(20), participants, 100, clients)
    assert said == f"no partition is possible: it takes 20; {advice}"
    assert explains(said)


def test_what_can_be_or_says_nothing_has_no_note() -> None:
    assert why_no_partition(NeedsMany(20), 20, 100, 30) is None
    assert why_no_partition(OneCohort(), 1, 1, 1) is None
    assert why_no_partition(Auxo(), 12, 100, 12) is None
    alone = why_no_partition(Auxo(), 1, 100, 12)
    assert alone is not None
    assert alone.endswith("raise training.participants, to at most the 12 clients that there are")


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([ROUND] * 9, None),
        ([ROUND, *[TRIAL] * 3], None),  # judges are yet to be heard
        ([ROUND, *[TRIAL] * 4], "nobody judged a partition on trial"),
        ([*[TRIAL] * 9, STOP], "nobody judged a partition on trial"),
        ([*[TRIAL] * 3, JUDGED, *[TRIAL] * 5, STOP], None),
        ([*[TRIAL] * 9, STOP, ROUND, JUDGED, STOP], "nobody judged 1 of 2 partitions on trial"),
        ([JUDGED, STOP, *[TRIAL] * 9, STOP], "nobody judged 1 of 2 partitions on trial"),
        ([*[TRIAL] * 4, Partitioned(1.0, "0", 5, ("0.0", "0.1"), (6, 6), None)], None),
        ([replace(TRIAL, gain_needed=0.1)] * 9, None),  # a printed criterion, and no trial
        ([STOP], None),
    ],
)
def test_trials_that_nobody_has_judged_are_told_of(events: list[Event], said: str | None) -> None:
    note = TrialsSeen.of(events).note(ONE_SAMPLE)
    if said is None:
        assert note is None
    else:
        assert note is not None
        assert note.startswith(said)
        assert note.endswith(ONE_SAMPLE)
        assert explains(note)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([TRIAL, *[replace(JUDGED, gain=0.4)] * 5], None),  # it goes on
        ([TRIAL, replace(JUDGED, gain=0.05), replace(JUDGED, gain=0.372), STOP, ROUND], "37 % less"),
        ([replace(JUDGED, gain=0.4), replace(JUDGED, gain=0.02), STOP], None),  # there was little to be had
        ([replace(JUDGED, gain=0.4), STOP, replace(JUDGED, gain=0.01), STOP], None),
        ([replace(JUDGED, gain=0.4), STOP, Partitioned(1.0, "0", 5, ("0.0", "0.1"), (6, 6), None)], None),
        ([replace(JUDGED, gain=0.4), replace(JUDGED, gain=0.9, cohort="0.1"), STOP], "cohort 0 on trial"),
        ([replace(JUDGED, gain=0.9, gain_needed=0.1), STOP], None),
    ],
)
def test_a_gain_that_judges_were_not_sure_of_is_told_when_it_is_given_up(events: list[Event], said: str | None) -> None:
    note = TrialsSeen.of(events).note(ONE_SAMPLE)
    if said is None:
        assert note is None
    else:
        assert note is not None
        assert note.startswith("judges were not sure of a partition of cohort 0 on trial")
        assert said in note
        assert explains(note)


def test_clients_that_are_refused_again_and_again_are_named() -> None:
    one, other = (UpdateRejected(1.0, "0", 1, client, "NON_FINITE") for client in ("a", "b"))
    assert (
        refusals_in_words([one] * 6 + [other] * 4)
        == "10 updates of 2 clients were refused, again and again those of a (6 times): "
    )
    assert refusals_in_words([other] * 4) == "4 updates of 1 clients were refused: "

"""Rounds that came to nothing, cohort by cohort: what is said about them, and when a cohort is given up.

A loop that goes on until every cohort has trained its rounds would otherwise never end where one of them cannot.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from auxo.core.types import CohortId
from auxo.core.validation import Reason, why

_MAX_FUTILE = 100  # rounds in a row of which every result was refused; our choice, and the simulation's
_MAX_STARVED = 1000  # times the participants of a round that check in, in a row, and none for the cohort; our choice


class InVain:
    """Counts, for each cohort of a server, what came to nothing in a row."""

    def __init__(self, participants: int, *, gives_up: bool = True) -> None:
        """Begin; without giving up, what comes to nothing is told and no more: clients of a service may come yet."""
        self._gives_up = gives_up
        self._most_starved = _MAX_STARVED * participants
        self._futile: Counter[CohortId] = Counter()
        self._starved: Counter[CohortId] = Counter()
        self.given_up: set[CohortId] = set()

    def matched(self, found: Mapping[CohortId, int], check_ins: int) -> str | None:
        """Take note of how many check-ins each cohort that trains has got; return what is to be said, if anything."""
        if not self._gives_up:
            return None
        for cohort, mine in found.items():
            self._starved[cohort] = 0 if mine else self._starved[cohort] + check_ins
        lost = [cohort for cohort in found if self._starved[cohort] >= self._most_starved]
        self.given_up |= set(lost)
        if not lost:
            return None
        return f"cohort {', '.join(lost)} is given up: none of the last {self._most_starved} check-ins led there"

    def closed(self, cohort: CohortId, refused: Sequence[Reason], *, is_usable: bool) -> str | None:
        """Take note of how a round has ended; return what is to be said, if anything."""
        if is_usable:
            self._futile[cohort] = 0
            return None
        if not refused:  # nobody has sent anything
            return None
        self._futile[cohort] += 1
        words = f"a round of cohort {cohort} came to nothing: all its results were refused, {why(refused)}"
        if self._futile[cohort] < _MAX_FUTILE or not self._gives_up:
            return words
        self.given_up.add(cohort)
        return f"cohort {cohort} is given up after {self._futile[cohort]} such rounds in a row: {words}"

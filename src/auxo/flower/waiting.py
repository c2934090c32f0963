"""Cohorts that could not open a round, or whose round came to nothing: each tries again after a longer pause."""

from dataclasses import dataclass, field

from auxo.core.types import CohortId

_LONGEST_PAUSE_S = 30.0  # between two attempts of a cohort; our choice


@dataclass(frozen=True)
class _Wait:
    until_s: float
    pause_s: float
    since_s: float


@dataclass
class Waiting:
    """The cohorts that wait, and until when."""

    first_pause_s: float
    _waits: dict[CohortId, _Wait] = field(default_factory=dict)

    def __contains__(self, cohort: CohortId) -> bool:
        return cohort in self._waits

    def may_try(self, cohort: CohortId, now_s: float) -> bool:
        """Return whether a cohort does not wait, or has waited long enough."""
        return cohort not in self._waits or now_s >= self._waits[cohort].until_s

    def wait(self, cohort: CohortId, now_s: float) -> float:
        """Let a cohort wait, twice as long as before; return for how many seconds it has done so."""
        before = self._waits.get(cohort)
        pause_s = min(_LONGEST_PAUSE_S, self.first_pause_s if before is None else 2 * before.pause_s)
        since_s = now_s if before is None else before.since_s
        self._waits[cohort] = _Wait(now_s + pause_s, pause_s, since_s)
        return now_s - since_s

    def go_on(self, cohort: CohortId) -> bool:
        """Let a cohort wait no longer; return whether it did."""
        return self._waits.pop(cohort, None) is not None

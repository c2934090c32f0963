"""The cohorts that a run's events tell of: which are leaves, and whose children they are.

Events do not tell all of a method that begins with several cohorts: no partition made them, and where one round is for
several of them it bears the name of the cohort above. What is left is that they have clients.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from auxo.protocol.events import CohortEnded, EmptyRound, Evaluated, Event, Partitioned, RoundClosed


@dataclass(frozen=True)
class CohortsSeen:
    """What events have told so far.

    >>> seen = CohortsSeen().after(Partitioned(9.0, "0", 2, ("0.0", "0.1"), (5, 5), None))
    >>> in_order(seen.leaves)
    ('0.0', '0.1')
    """

    known: frozenset[str] = frozenset()  # they had rounds of their own, or a partition made them
    used: frozenset[str] = frozenset()  # they had clients at the last evaluation
    ever_used: frozenset[str] = frozenset()  # they had some at any evaluation
    partitions: tuple[Partitioned, ...] = ()

    @classmethod
    def of(cls, events: Iterable[Event]) -> "CohortsSeen":
        """Return what all these events tell."""
        seen = cls()
        for event in events:
            seen = seen.after(event)
        return seen

    def after(self, event: Event) -> "CohortsSeen":
        """Return what is known once ``event`` has happened."""
        match event:
            case RoundClosed() | EmptyRound() | CohortEnded():
                return self if event.cohort in self.known else replace(self, known=self.known | {event.cohort})
            case Partitioned():
                known = self.known | {event.cohort, *event.children}
                return replace(self, known=known, partitions=(*self.partitions, event))
            case Evaluated():
                used = frozenset(score.cohort for score in event.cohorts)
                return replace(self, used=used, ever_used=self.ever_used | used)
            case _:
                return self

    @property
    def every(self) -> frozenset[str]:
        """Return all cohorts that were ever told of."""
        return self.known | self.ever_used

    @property
    def leaves(self) -> frozenset[str]:
        """Return the leaves; of those that only evaluations tell of, the ones in use."""
        above = {event.cohort for event in self.partitions} | {one for cohort in self.every for one in _above(cohort)}
        return (self.known | self.used) - above

    @property
    def are_counted_by_use(self) -> bool:
        """Return whether there may be more leaves than `leaves` has, because nobody uses them."""
        return bool(self.leaves - self.known) and bool(self.known)

    @property
    def begin_several(self) -> bool:
        """Return whether some cohorts were there from the start, rather than made by a partition."""
        made = {child for event in self.partitions for child in event.children}
        first = self.every - made
        return len(self.roots) > 1 or any(_above(cohort) for cohort in first)

    @property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Return the children of every cohort that has some, by partition or from the start."""
        children = {event.cohort: event.children for event in self.partitions}
        made = {child for family in children.values() for child in family}
        for cohort in in_order(self._with_ancestors - made):
            if above := _above(cohort):
                children[above[-1]] = (*children.get(above[-1], ()), cohort)
        return children

    @property
    def roots(self) -> tuple[str, ...]:
        """Return the cohorts that are nobody's children: one, unless a method calls its cohorts otherwise."""
        made = {child for family in self.children.values() for child in family}
        return in_order(self._with_ancestors - made)

    @property
    def _with_ancestors(self) -> frozenset[str]:
        made = {child for event in self.partitions for child in event.children}
        return self.every | {one for cohort in self.every - made for one in _above(cohort)}


def in_order(cohorts: Iterable[str]) -> tuple[str, ...]:
    """Return cohorts in the order of their numbers.

    >>> in_order(["0.10", "0.9", "0"])
    ('0', '0.9', '0.10')
    """
    return tuple(sorted(cohorts, key=lambda cohort: [(len(part), part) for part in cohort.split(".")]))


def _above(cohort: str) -> tuple[str, ...]:
    """Return the cohorts above this one, as its name has them, from the root on."""
    parts = cohort.split(".")
    return tuple(".".join(parts[:depth]) for depth in range(1, len(parts)))

"""Why a run has no cohorts, or can have none, in words that are made here, and the same wherever they are shown.

Settings are named as in a configuration file; whoever has other names for them puts these in their place (`renamed`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from auxo.core.cohort_algorithm import SaysWhyNot
from auxo.core.validation import AGAIN
from auxo.protocol.events import Event, Partitioned, RoundClosed, StoppedLooking, UpdateRejected

_T = TypeVar("_T")

_IMPOSSIBLE, _UNJUDGED, _UNSURE = "no partition is possible: ", "nobody judged ", "judges were not sure of "
_MORE_PARTICIPANTS = "raise training.participants"
_MOST_NAMED = 5  # clients that are refused again and again; our choice
_WORTH_SAYING = 0.1  # share of judges' loss that a partition on trial has brought when it is given up; our choice
_HEARD_BY = 4  # rounds of a trial after which somebody should have judged it; our choice

ONE_SAMPLE = "clients have one sample each, and to judge takes two: one to choose a model by, and one to judge it by"
NOT_IN_TIME = (
    "no participant that was asked to has answered in time; more participants, or fewer that are late, may help"
)
NO_JUDGEMENT = "no result has told losses of the models that Task.ask.judges names, see Answer.judged"
NO_EVALUATION = (
    "no client says how models do; the app has to be an AuxoClientApp, or have an AuxoMod, with an evaluation that "
    "names a loss"
)


def why_no_partition(algorithm: object, participants: int, rounds: int, clients: int | None = None) -> str | None:
    """Return why a method cannot find anything, whatever there is to be found; None: it can, or does not say.

    Args:
        algorithm: the method.
        participants: a round.
        rounds: that each cohort trains.
        clients: that there are, so that nobody is told to have more of them take part; None: nobody knows.
    """
    if not isinstance(algorithm, SaysWhyNot):
        return None
    words = algorithm.why_no_partition(participants, rounds)
    if words is None:
        return None
    if clients is not None and _MORE_PARTICIPANTS in words:
        at_most = algorithm.why_no_partition(max(clients, participants), rounds) or ""
        is_enough = _MORE_PARTICIPANTS not in at_most
        advice = (
            f"{_MORE_PARTICIPANTS}, to at most the {clients} clients that there are"
            if is_enough
            else f"the population has {clients}, and it takes more clients"
        )
        words = words.replace(_MORE_PARTICIPANTS, advice)
    return f"{_IMPOSSIBLE}{words}"


@dataclass(frozen=True)
class TrialsSeen:
    """What events tell of partitions on trial: how many there were, who has judged them, and what they brought."""

    rounds: Mapping[str, int] = field(default_factory=dict)  # so far, by cohort, of trials that nobody has judged yet
    judged: Mapping[str, float] = field(default_factory=dict)  # gain by cohort, of present trials that somebody judged
    given_up: int = 0
    unjudged: int = 0  # of these, without anybody having judged
    unsure: Mapping[str, float] = field(default_factory=dict)  # gain by cohort, where much was given up with the last

    @staticmethod
    def of(events: Iterable[Event]) -> "TrialsSeen":
        """Return what all these events tell."""
        seen = TrialsSeen()
        for event in events:
            seen = seen.after(event)
        return seen

    def after(self, event: Event) -> "TrialsSeen":
        """Return what is known once an event has happened."""
        match event:
            case RoundClosed(gain=float(gain), gain_needed=0.0):  # a cohort on trial
                if event.judged:
                    return replace(self._without(event.cohort), judged={**self.judged, event.cohort: gain})
                if event.cohort in self.judged:
                    return self
                return replace(self, rounds={**self.rounds, event.cohort: self.rounds.get(event.cohort, 0) + 1})
            case StoppedLooking():
                is_unjudged = event.cohort in self.rounds
                ended = replace(self, given_up=self.given_up + 1, unjudged=self.unjudged + is_unjudged)
                unsure = {event.cohort: self.judged[event.cohort]} if self.is_unsure(event.cohort) else {}
                return replace(ended._without(event.cohort), unsure={**_but(self.unsure, event.cohort), **unsure})
            case Partitioned():
                return replace(self._without(event.cohort), unsure=_but(self.unsure, event.cohort))
            case _:
                return self

    def is_unsure(self, cohort: str) -> bool:
        """Return whether much would be given up with what a cohort has on trial: judges gain, and are not sure yet."""
        return self.judged.get(cohort, 0.0) >= _WORTH_SAYING

    def _without(self, cohort: str) -> "TrialsSeen":
        return replace(self, rounds=_but(self.rounds, cohort), judged=_but(self.judged, cohort))

    def note(self, why: str) -> str | None:
        """Return that nobody has judged partitions on trial, with the reason, or that judges were not sure of one.

        None: neither is so.
        """
        waiting = sum(count >= _HEARD_BY for count in self.rounds.values())
        if not self.unjudged + waiting:
            return self._unsure_note()
        trials = self.given_up + waiting
        which = f"{self.unjudged + waiting} of {trials} partitions" if trials > 1 else "a partition"
        return f"{_UNJUDGED}{which} on trial, so that nobody knows what it would bring: {why}"

    def _unsure_note(self) -> str | None:
        if not self.unsure:
            return None
        cohort, gain = max(self.unsure.items(), key=lambda one: one[1])
        return (
            f"{_UNSURE}a partition of cohort {cohort} on trial, although their loss was {100 * gain:.0f} % less by it: "
            "from so few it may be chance, or errors did not fall with the loss, and it was not made. More clients, "
            "more participants a round if not all take part, or more samples of each may make them sure"
        )


def _but(mapping: Mapping[str, _T], cohort: str) -> dict[str, _T]:
    return {one: value for one, value in mapping.items() if one != cohort}


def refusals_in_words(refused: Sequence[UpdateRejected]) -> str:
    """Return how many updates were refused, and whose again and again; why they were, goes on after it."""
    counts = Counter(event.client for event in refused)
    often = [f"{client} ({count} times)" for client, count in counts.most_common(_MOST_NAMED) if count >= AGAIN]
    named = f", again and again those of {', '.join(often)}" if often else ""
    return f"{len(refused)} updates of {len(counts)} clients were refused{named}: "


def explains(words: str) -> bool:
    """Return whether this is a note that says why there are no cohorts."""
    return words.startswith((_IMPOSSIBLE, _UNJUDGED, _UNSURE))


def renamed(words: str, names: Mapping[str, str]) -> str:
    """Return a note in which settings have other names.

    >>> renamed("raise training.rounds", {"training.rounds": "num_rounds of start()"})
    'raise num_rounds of start()'
    """
    for setting, name in names.items():
        words = words.replace(setting, name)
    return words

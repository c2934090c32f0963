"""Clients of which a server has to say something: who is refused again and again, or counts for less than it claims.

What is counted is bounded, whatever clients there are, and is in no record: nothing but what is said goes by it.
"""

from collections import Counter

from auxo.core.validation import AGAIN, Reason, why

_MOST_COUNTED = 1000  # clients; of more, those that are refused most often (Misra and Gries, 1982); our choice
_MOST_TOLD = 20  # clients, each once; our choice


class SingledOut:
    """Counts refusals, and says each thing once."""

    def __init__(self) -> None:
        self._refused: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()

    def refused(self, client: str, reason: Reason) -> str | None:
        """Take note of a refusal; return what is to be said, if anything."""
        if client not in self._refused and len(self._refused) >= _MOST_COUNTED:
            self._refused = Counter({one: count - 1 for one, count in self._refused.items() if count > 1})
            return None
        self._refused[client] += 1
        if self._refused[client] < AGAIN:
            return None
        return self._once(client, "refused", f"client {client} is refused again and again, now by {why([reason])}")

    def capped(self, client: str, claimed: int, most_weight: float) -> str | None:
        """Return what is to be said of a client whose update counts for fewer examples than it claims."""
        words = (
            f"client {client} claims {claimed} examples, far more than is usual in its cohort; where updates are "
            f"weighed by examples it counts for fewer, by most_weight ({most_weight:g}). With 1 all examples count"
        )
        return self._once(client, "capped", words)

    def _once(self, client: str, what: str, words: str) -> str | None:
        if (client, what) in self._told or len(self._told) >= _MOST_TOLD:
            return None
        self._told.add((client, what))
        return words

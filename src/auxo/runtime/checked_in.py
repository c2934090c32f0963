"""Check-ins as columns, read once: whatever in a message cannot be counts as nothing said."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.types import BoolArray, ClientId, CohortId, IntArray
from auxo.protocol.messages import AffinityRequest, CheckIn
from auxo.runtime.client_numbers import client_number, plain_id

_TOO_MANY = 2**31  # visits, clusters or starts; nobody has that many, and what is no number of 64 bits is above it


@dataclass(frozen=True, eq=False)
class CheckedIn(Sequence[CheckIn]):
    """Check-ins that have been read: a sequence of them that carries its columns, so that nobody reads them again."""

    check_ins: tuple[CheckIn, ...]  # of a client the last; none whose id is no id
    columns: CheckIns  # the same, row aligned
    vouched: BoolArray  # for the cohort that they were matched to, by their own requests, row aligned
    cohort: CohortId | None = None  # None: nobody has matched them

    @staticmethod
    def of(check_ins: Sequence[CheckIn], tree: CohortTree) -> "CheckedIn":
        """Read check-ins; cohorts that they name are those of ``tree``."""
        numbered = {client_number(check_in.client): check_in for check_in in check_ins}
        known = {number: check_in for number, check_in in numbered.items() if number is not None}
        last = tuple(known.values())
        columns = CheckIns(np.array(list(known), dtype=np.int64), _requests(last, tree))
        return CheckedIn(last, columns, np.zeros(len(last), dtype=np.bool_))

    def take(self, rows: IntArray) -> "CheckedIn":
        """Return the check-ins in ``rows``, in that order, as nobody has matched them."""
        taken = tuple(self.check_ins[row] for row in rows.tolist())
        return CheckedIn(taken, self.columns.take(rows), np.zeros(len(rows), dtype=np.bool_))

    def rows(self, clients: Iterable[ClientId]) -> IntArray:
        """Return the rows of clients, each once and in their order, without those who are not there."""
        row_of = {number: row for row, number in enumerate(self.columns.clients.tolist())}
        numbers = dict.fromkeys(client_number(client) for client in clients)
        return np.array([row_of[number] for number in numbers if number in row_of], dtype=np.int64)

    def names(self) -> dict[int, ClientId]:
        """Return what each client calls itself, by its number."""
        called = zip(self.columns.clients.tolist(), self.check_ins, strict=True)
        return {number: name for number, one in called if (name := plain_id(one.client)) is not None}

    def __len__(self) -> int:
        return len(self.check_ins)

    @overload
    def __getitem__(self, place: int) -> CheckIn: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[CheckIn]: ...
    def __getitem__(self, place: int | slice) -> CheckIn | Sequence[CheckIn]:
        """Return one of them, or some."""
        return self.check_ins[place]


def _requests(check_ins: Sequence[CheckIn], tree: CohortTree) -> Requests:
    """Return check-ins as columns; whatever in them cannot be counts as nothing said."""
    counts = [_count(one.participations, 0) for one in check_ins]
    requests = Requests.silent(tree, np.array(counts, dtype=np.int64))
    for row, check_in in enumerate(check_ins):
        # Types are what the transport promised; a peer that breaks the promise must not break the round.
        wish: object = check_in.request
        cohort: object = wish.cohort if isinstance(wish, AffinityRequest) else None
        if not isinstance(wish, AffinityRequest) or not isinstance(cohort, str) or cohort not in tree.index:
            continue
        requests.cohort[row] = tree.index[CohortId(cohort)]
        requests.cluster[row] = _count(wish.cluster, -1)
        requests.generation[row] = _count(wish.generation, -1)
        requests.reward[row] = finite(wish.reward) or 0.0
        requests.ranked_first[row] = wish.ranked_first is True
        requests.confirmed[row] = _count(wish.confirmed, 0)
    return requests


def finite(value: object) -> float | None:
    """Return a number that is one; None: it is nothing of the kind, or beyond all floats."""
    if not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None


def _count(value: object, otherwise: int) -> int:
    if not isinstance(value, int | np.integer) or not 0 <= int(value) < _TOO_MANY:
        return otherwise
    return int(value)

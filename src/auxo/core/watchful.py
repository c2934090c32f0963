"""A guard that compares what clients claim with what is observed of them, and bans who persists (section 6.4).

The paper's rule for rewards, avg + std of distances, is none for bans: it would find one in six honest clients wanting
in every round. So a claim is held against those of the cohort's members in its last rounds, by their median and the
median deviation from it. To be far off once means nothing, and three times in a row of participations is a ban, which
ends by itself. Whoever claims nothing (a newcomer, or one that has lost its record) never claims too much.

What it keeps is a table of clients: those who are banned, and those who have been off lately. It is bounded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from auxo.core.guard import Ban, Refusals, Shown
from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState, own
from auxo.core.settings import AtLeastTwo, PositiveFloat, PositiveInt, checked, setting
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray
from auxo.core.validation import Reason

_MAD_TO_STD = 1.4826  # of what is normal
_LEAST_DEVIATION = 0.05  # of discrepancies: where all are alike a small one is no offence; our choice
_FEWEST = 8  # members' discrepancies that another can be held against; our choice
_REMEMBERED = 64  # of a cohort's last rounds: in a round of a small one there are too few; our choice
_FORGIVEN = 0.5  # of a strike, by a participation that is as claimed; our choice
_KEPT_ROUNDS = 500  # after a ban has begun: as long as an older token could be presented
_NO_UPDATE: frozenset[Reason] = frozenset({"SCHEMA_MISMATCH", "BAD_WEIGHT", "NON_FINITE", "TOO_LARGE"})


@dataclass(frozen=True)
class Suspect:
    """A client that has been off lately."""

    client: int
    strikes: float  # less what was forgiven
    last: int  # round of the last strike
    reason: str
    evidence: tuple[str, ...]  # of the last strikes


@dataclass(frozen=True)
class Watched:
    """The one table of clients that there is."""

    round: int = 0  # of the cohort that is farthest, as far as rounds were shown
    suspects: tuple[Suspect, ...] = ()  # by client
    banned: tuple[Ban, ...] = ()  # by client; one whose ban is over stays while older tokens could be presented
    usual: Mapping[CohortId, tuple[float, ...]] = field(default_factory=dict)  # last discrepancies of members

    @cached_property
    def holding(self) -> tuple[Ban, ...]:
        """Return the bans that hold."""
        return tuple(ban for ban in self.banned if not ban.is_lifted and ban.until > self.round)

    @cached_property
    def banned_clients(self) -> IntArray:
        """Return whose they are, ascending."""
        return np.array(sorted(ban.client for ban in self.holding), dtype=np.int64)


@dataclass(frozen=True)
class Strike:
    """Something that speaks against a client."""

    reason: str
    evidence: str


@dataclass(frozen=True)
class _Table:
    """Who is in it so far; changed while a round is looked at."""

    suspects: dict[int, Suspect] = field(default_factory=dict)
    banned: dict[int, Ban] = field(default_factory=dict)


@dataclass(frozen=True)
@checked
class Watchful:
    """Bans clients that claim again and again what is not observed, or forge what was signed for them."""

    strikes: AtLeastTwo = setting(3, "Strikes that ban a client; each is in another round. Our choice.")
    deviations: PositiveFloat = setting(
        4.0, "How far beyond the median of a round's discrepancies one is a strike, in deviations. Our choice."
    )
    least_discrepancy: PositiveFloat = setting(
        0.5, "Claimed less observed reward below which nothing is a strike. Our choice."
    )
    ban_rounds: PositiveInt = setting(200, "Rounds that a ban lasts. Our choice.")
    forget_rounds: PositiveInt = setting(100, "Rounds after which strikes are forgotten. Our choice.")
    most_clients: PositiveInt = setting(
        10_000, "Suspects, and bans, that are kept at most; the oldest go first. Our choice."
    )

    own_states = (Watched,)

    def begin(self) -> OwnState:
        """Return that nobody is suspected."""
        return Watched()

    def admit(self, state: OwnState, check_ins: CheckIns) -> Refusals:
        """Return who is banned."""
        watched = own(Watched, state)
        rows = np.flatnonzero(np.isin(check_ins.clients, watched.banned_clients))
        by_client = {ban.client: ban for ban in watched.holding}
        found = [by_client[client] for client in check_ins.clients[rows].tolist()]
        return Refusals(rows, tuple(f"banned until round {ban.until}: {ban.reason}" for ban in found))

    def strike(self, state: OwnState, shown: Shown) -> OwnState:
        """Return what it keeps after a round."""
        watched = own(Watched, state)
        now = max(watched.round, shown.round)
        table = self._still(watched, now)
        usual = self._usual(watched, shown)
        discrepancy = _discrepancies(shown)
        is_off = self._far_off(discrepancy, usual)
        clean, struck = ~np.isnan(discrepancy) & (len(usual) >= _FEWEST) & ~is_off, self._struck(shown, is_off)
        for row, client in enumerate(shown.clients.tolist()):  # who is clean has been seen to be as it claims
            if row in struck:
                self._note(table, client, now, struck[row])
            elif clean[row] and client in table.suspects:
                before = table.suspects[client]
                left = before.strikes - _FORGIVEN
                table.suspects[client] = replace(before, strikes=left)
                if left <= 0:
                    del table.suspects[client]
        return replace(
            self._bounded(table, now), usual={**watched.usual, shown.cohort: usual} if usual else watched.usual
        )

    def _usual(self, watched: Watched, shown: Shown) -> tuple[float, ...]:
        """Return the discrepancies of a cohort's members in its last rounds, this one included."""
        discrepancy = _discrepancies(shown)
        members = ~np.isnan(discrepancy) & (False if shown.proved is None else shown.proved)
        return (*watched.usual.get(shown.cohort, ()), *discrepancy[members].tolist())[-_REMEMBERED:]

    def bans(self, state: OwnState) -> tuple[Ban, ...]:
        """Return the bans that hold."""
        return own(Watched, state).holding

    def last_bans(self, state: OwnState) -> Mapping[int, int]:
        """Return by client the round of its last ban."""
        return {ban.client: ban.since for ban in own(Watched, state).banned}

    def are_suspect(self, state: OwnState, clients: IntArray) -> BoolArray:
        """Return who has strikes."""
        suspects = np.array([one.client for one in own(Watched, state).suspects], dtype=np.int64)
        return np.isin(clients, suspects)

    def lift(self, state: OwnState, clients: Iterable[int]) -> OwnState:
        """Return what it keeps without these bans and strikes."""
        watched, those = own(Watched, state), set(clients)
        return replace(
            watched,
            suspects=tuple(one for one in watched.suspects if one.client not in those),
            banned=tuple(replace(ban, is_lifted=ban.is_lifted or ban.client in those) for ban in watched.banned),
        )

    def _still(self, watched: Watched, now: int) -> _Table:
        """Return what of the table still matters."""
        return _Table(
            {one.client: one for one in watched.suspects if one.last + self.forget_rounds > now},
            {ban.client: ban for ban in watched.banned if max(ban.until, ban.since + _KEPT_ROUNDS) > now},
        )

    def _note(self, table: _Table, client: int, now: int, strike: Strike) -> None:
        before = table.suspects.get(client, Suspect(client, 0.0, now, strike.reason, ()))
        evidence = (*before.evidence, strike.evidence)[-self.strikes :]
        after = Suspect(client, before.strikes + 1, now, strike.reason, evidence)
        if after.strikes < self.strikes:
            table.suspects[client] = after
            return
        table.suspects.pop(client, None)
        table.banned[client] = Ban(client, strike.reason, "; ".join(evidence), now, now + self.ban_rounds)

    def _bounded(self, table: _Table, now: int) -> Watched:
        suspects = sorted(table.suspects.values(), key=lambda one: (-one.last, one.client))[: self.most_clients]
        banned = sorted(table.banned.values(), key=lambda one: (-one.since, one.client))[: self.most_clients]
        return Watched(
            now, tuple(sorted(suspects, key=lambda one: one.client)), tuple(sorted(banned, key=lambda one: one.client))
        )

    def _struck(self, shown: Shown, is_off: BoolArray) -> dict[int, Strike]:
        """Return what the round holds against participants, by row."""
        where = f"cohort {shown.cohort}, round {shown.round}"
        found = dict[int, Strike]()
        bad = [(row, reason) for row, reason in shown.rejected if reason in _NO_UPDATE]
        if len(bad) <= int(shown.answered.sum()):  # where most send no numbers, it is not they who are at fault
            found |= {row: Strike("sends no updates", f"{reason} in {where}") for row, reason in bad}
        for row in np.flatnonzero(is_off).tolist():
            assert shown.claimed is not None and shown.observed is not None  # noqa: S101, PT018 - or none is far off
            said = f"claimed {shown.claimed[row]:.2f}, observed {shown.observed[row]:.2f} in {where}"
            found[row] = Strike("claims to belong where it does not", said)
        if shown.forged is not None:
            rows = np.flatnonzero(shown.forged).tolist()
            said = f"a bad signature, or a claim that its token contradicts, in {where}"
            found |= {row: Strike("forges what is signed", said) for row in rows}
        return found

    def _far_off(self, discrepancy: FloatArray, usual: tuple[float, ...]) -> BoolArray:
        """Return whose claims are far beyond what is observed, as those of the cohort's members go."""
        has = ~np.isnan(discrepancy)
        if len(usual) < _FEWEST:
            return np.zeros(len(has), dtype=np.bool_)
        middle = float(np.median(usual))
        spread = _MAD_TO_STD * float(np.median(np.abs(np.array(usual) - middle)))
        far = middle + self.deviations * max(spread, _LEAST_DEVIATION)
        return has & (np.where(has, discrepancy, 0.0) > max(far, self.least_discrepancy))


def _discrepancies(shown: Shown) -> FloatArray:
    """Return claimed less observed reward; NaN where nothing was claimed, or nothing observed.

    Only where claims are signed: elsewhere an honest client's claim has in it what it found when it compared models.
    Not to fit at all is no lie: who is of a group that was not found yet claims next to nothing, and is far off.
    """
    if shown.claimed is None or shown.observed is None or shown.proved is None:
        return np.full(len(shown.clients), np.nan)
    return np.where(shown.claimed > 0, shown.claimed - np.maximum(shown.observed, 0.0), np.nan)

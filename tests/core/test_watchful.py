"""The watchful guard: who persists in claiming too much is banned, and whoever is merely unlucky is not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.affinity import Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.guard import Shown
from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState, own
from auxo.core.rng import stream
from auxo.core.types import CohortId
from auxo.core.validation import Reason
from auxo.core.watchful import Watched, Watchful

COHORT, MEMBERS, LIAR = CohortId("0.1"), 20, 99
GUARD = Watchful()


def shown(number: int, claimed: float, observed: float, *, forged: bool = False) -> Shown:
    """Return a round of members that claim about what is observed of them, and of one more."""
    rng = stream(0, "round", number)
    seen = 0.15 + 0.1 * rng.standard_normal(MEMBERS)
    clients = np.append(np.arange(MEMBERS), LIAR)
    return Shown(
        cohort=COHORT,
        round=number,
        clients=clients,
        answered=np.ones(MEMBERS + 1, dtype=np.bool_),
        rejected=(),
        claimed=np.append(np.full(MEMBERS, 0.15), claimed),
        observed=np.append(seen, observed),
        proved=np.append(np.ones(MEMBERS, dtype=np.bool_), False),
        forged=np.append(np.zeros(MEMBERS, dtype=np.bool_), forged),
    )


def after(rounds: int, claimed: float, observed: float, guard: Watchful = GUARD, **more: bool) -> OwnState:
    state = guard.begin()
    for number in range(1, rounds + 1):
        state = guard.strike(state, shown(number, claimed, observed, **more))
    return state


def refused(state: OwnState, guard: Watchful = GUARD) -> list[int]:
    clients = np.array([3, LIAR])
    asked = CheckIns(clients, Requests.silent(CohortTree(), np.zeros(2, dtype=np.int64)))
    return [int(client) for client in clients[guard.admit(state, asked).rows]]


@pytest.mark.fault(17)
def test_who_claims_what_is_not_observed_is_banned_at_the_third_time_with_evidence() -> None:
    """Fault 17: flagged at once, banned after strikes in three rounds, and nobody else with it."""
    assert [refused(after(rounds, 1.0, -0.4)) for rounds in (1, 2, 3)] == [[], [], [LIAR]]
    (ban,) = GUARD.bans(after(3, 1.0, -0.4))
    assert (ban.client, ban.since, ban.until) == (LIAR, 3, 203)
    assert ban.evidence.count("claimed 1.00, observed -0.40 in cohort 0.1") == 3


def test_a_bad_signature_is_a_strike_and_not_a_ban_at_once() -> None:
    assert [refused(after(rounds, np.nan, np.nan, forged=True)) for rounds in (1, 2, 3)] == [[], [], [LIAR]]


def test_whoever_claims_nothing_is_never_found_to_claim_too_much() -> None:
    """Fault 23: a client that has lost its record, or is new, fits as badly as it likes."""
    assert refused(after(50, np.nan, -1.0)) == []
    assert refused(after(50, 0.0, -1.0)) == []


def test_who_claims_little_and_does_not_fit_at_all_is_of_another_group_and_no_liar() -> None:
    assert refused(after(50, 0.2, -1.0)) == []
    assert not GUARD.are_suspect(after(2, 0.2, -1.0), np.array([LIAR])).any()


def test_what_was_forgiven_does_not_add_up() -> None:
    state = GUARD.begin()
    for number in range(1, 40):
        lies = number % 3 == 0
        state = GUARD.strike(state, shown(number, 1.0 if lies else 0.15, -0.4 if lies else 0.15))
    assert refused(state) == []


@pytest.mark.fault(20)
def test_a_ban_ends_by_itself_and_can_be_lifted() -> None:
    guard = Watchful(ban_rounds=5)
    banned = after(3, 1.0, -0.4, guard)
    later = guard.strike(banned, shown(8, np.nan, np.nan))
    assert (refused(banned, guard), refused(later, guard)) == ([LIAR], [])
    assert refused(guard.lift(banned, [LIAR]), guard) == []
    assert guard.last_bans(later) == guard.last_bans(guard.lift(banned, [LIAR])) == {LIAR: 3}


def test_who_is_suspect_vouches_for_nobody() -> None:
    assert GUARD.are_suspect(after(1, 1.0, -0.4), np.array([3, LIAR])).tolist() == [False, True]


def test_no_updates_are_strikes_unless_it_is_everybody() -> None:
    """Fault 11: who sends no numbers gets a strike, and is not banned at once."""
    some = replace(shown(1, np.nan, np.nan), rejected=((2, "NON_FINITE"),))
    everybody: tuple[tuple[int, Reason], ...] = tuple((row, "NON_FINITE") for row in range(MEMBERS))
    nobody = np.zeros(MEMBERS + 1, dtype=np.bool_)
    all_bad = replace(some, rejected=everybody, answered=nobody)
    long = replace(some, rejected=((2, "UNUSUAL_LENGTH"),))
    for round_, count in ((some, 1), (all_bad, 0), (long, 0)):
        state = own(Watched, GUARD.strike(GUARD.begin(), round_))
        assert (len(state.suspects), state.banned) == (count, ())


def test_the_table_is_bounded() -> None:
    guard, state = Watchful(most_clients=5), Watchful().begin()
    for number in range(1, 30):
        round_ = shown(number, np.nan, np.nan)
        state = guard.strike(state, replace(round_, clients=round_.clients + 1000 * number, forged=round_.proved))
    watched = own(Watched, state)
    assert len(watched.suspects) == 5
    assert all(one.last == 29 for one in watched.suspects)


@pytest.mark.fault(17)
@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_of_five_hundred_honest_clients_nobody_is_banned_in_a_hundred_rounds(seed: int) -> None:
    """Fault 17: members whose rewards scatter, now and then far, claim the running mean of these."""
    rng, state = stream(seed, "honest"), GUARD.begin()
    running = np.full(500, 0.1)
    for number in range(1, 101):
        rows = rng.permutation(500)[: MEMBERS + 1]
        seen = 0.15 + 0.15 * rng.standard_normal(MEMBERS + 1)
        seen = np.where(rng.random(MEMBERS + 1) < 0.03, -1.0, seen)
        round_ = replace(shown(number, 0.0, 0.0), clients=rows, claimed=running[rows], observed=seen)
        state = GUARD.strike(state, replace(round_, proved=np.ones(MEMBERS + 1, dtype=np.bool_)))
        running[rows] = 0.8 * running[rows] + 0.2 * seen
    assert GUARD.bans(state) == ()

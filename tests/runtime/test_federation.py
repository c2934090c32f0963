from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.algorithms.auxo import Auxo
from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.paper import Paper
from auxo.core.cohort_algorithm import EVERYBODY
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.fingerprint import Fingerprint
from auxo.core.layers import Layer
from auxo.core.types import ROOT, CohortId
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from tests.core.selectors_of_our_own import FewestTurns, Turns
from tests.runtime.made_rounds import LEFT, N_PARAMS, RIGHT, RULES, answers, begun, close, partitioned, updates


def several() -> CoordinatorState:
    """Return a state in which one round is for three leaves, of models 0, 1 and 2."""
    return start(IFCA, lambda number: np.full(N_PARAMS, number, dtype=np.float32))


IFCA = replace(RULES, algorithm=Ifca(cohorts=3))

# Shares.


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 10), st.integers(2, 4)), max_size=4), st.integers(20, 300))
def test_equal_shares_of_the_leaves_sum_to_the_total_and_differ_by_at_most_one(
    partitions: list[tuple[int, int]], total: int
) -> None:
    tree = CohortTree()
    for pick, children in partitions:
        cohort = tree.leaves[pick % len(tree.leaves)]
        tree = tree.partition(cohort, tuple(range(children)), tuple(range(1, children + 1)))
    rules, state = replace(RULES, algorithm=Paper(), total_participants=total), CoordinatorState(tree, {})
    shares = [rules.share(state, leaf) for leaf in tree.leaves]

    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)  # the remainder in turn


def test_shares_of_auxos_cohorts_follow_their_members_and_nobody_has_none() -> None:
    tree = CohortTree().partition(ROOT, (0, 1), (0.9, 0.1)).partition(RIGHT, (0, 1), (0.98, 0.02))
    rules, state = replace(RULES, algorithm=Auxo(), total_participants=100), CoordinatorState(tree, {})

    assert [rules.share(state, leaf) for leaf in tree.leaves] == [89, 10, 1]
    equal = replace(rules, algorithm=Auxo(sharing="equal"))
    assert [equal.share(state, leaf) for leaf in tree.leaves] == [34, 33, 33]


def test_an_algorithm_that_forgets_a_share_is_named() -> None:
    @dataclass(frozen=True)
    class Forgetful(Auxo):
        def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
            return (1.0,)

    with pytest.raises(ValueError, match=r"Forgetful\.shares: expected one for each of 0\.0, 0\.1, got 1"):
        replace(RULES, algorithm=Forgetful()).share(partitioned(), LEFT)


def test_a_round_for_several_leaves_has_all_participants() -> None:
    assert IFCA.openers(several()) == (ROOT,)
    assert IFCA.share(several(), ROOT) == 10
    assert IFCA.invited(several(), ROOT) == 13


def test_more_clients_than_updates_wanted_are_selected() -> None:
    assert (RULES.share(begun(), ROOT), RULES.invited(begun(), ROOT)) == (10, 13)
    assert (RULES.share(partitioned(), LEFT), RULES.invited(partitioned(), LEFT)) == (5, 7)
    assert replace(RULES, overcommit=0.0).invited(begun(), ROOT) == 10


# Who trains.


def test_the_state_of_a_cohort_is_found_by_its_name() -> None:
    state = partitioned()

    assert RULES.openers(state) == (LEFT, RIGHT)
    assert RULES.of(state, LEFT) is state.cohorts[LEFT]


def test_a_cohort_that_opens_rounds_for_its_descendants_has_the_state_of_the_first() -> None:
    state = several()

    assert IFCA.of(state, ROOT) is state.cohorts[CohortId("0.0")]
    assert IFCA.of(state, CohortId("0.2")) is state.cohorts[CohortId("0.2")]


@pytest.mark.parametrize("cohort", [ROOT, CohortId("0.7"), CohortId("0.0.0"), CohortId("")])
def test_a_cohort_that_does_not_train_is_named_together_with_those_that_do(cohort: CohortId) -> None:
    with pytest.raises(KeyError, match=rf"{cohort}: not a cohort that trains now; these do: 0\.0, 0\.1"):
        RULES.of(partitioned(), cohort)


# How far it has come.


def test_progress_is_the_share_of_rounds_done_once_the_present_one_has_closed() -> None:
    state, progress, done = begun(), [], []
    for number in range(4):
        progress.append(RULES.progress(state, ROOT))
        done.append(RULES.is_done(state, ROOT))
        state = close(RULES, state, answers(updates(8, seed=number))).state

    assert progress == [0.25, 0.5, 0.75, 1.0]
    assert done == [False] * 4
    assert RULES.is_done(state, ROOT)


# What goes with it.


def test_the_parts_name_the_kinds_of_what_they_keep() -> None:
    assert RULES.own_states == Auxo().own_states
    assert replace(RULES, algorithm=OneCohort()).own_states == ()
    assert replace(RULES, algorithm=OneCohort(), selector=FewestTurns()).own_states == (Turns,)
    assert replace(RULES, selector=FewestTurns()).own_states == (*Auxo().own_states, Turns)


def test_fingerprints_are_those_of_the_federations_seed_and_size() -> None:
    update = updates(1)[0]
    large = replace(RULES, n_params=5000, sketch_size=64)

    assert RULES.fingerprint is RULES.fingerprint  # a sketch takes time to make
    np.testing.assert_array_equal(RULES.fingerprint.of(update), replace(RULES).fingerprint.of(update))
    assert large.fingerprint == Fingerprint(5000, 64, seed=1)


def test_fingerprints_are_by_unit_where_layers_are_known_and_the_algorithm_wants_them() -> None:
    layers = (Layer((40, 100)), Layer((1000,)))
    rules = replace(RULES, n_params=5000, layers=layers)

    assert rules.fingerprint == Fingerprint(5000, seed=1, layers=layers)
    for plain in (OneCohort(), Auxo(by_unit=False)):
        assert replace(rules, algorithm=plain).fingerprint == Fingerprint(5000, seed=1)
    with pytest.raises(ValueError, match="layers: expected tensors of 5001 parameters in all, got 5000"):
        replace(rules, n_params=5001)


def test_a_federation_without_participants_or_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="total_participants: expected at least 1, got 0"):
        replace(RULES, total_participants=0)
    with pytest.raises(ValueError, match="total_rounds: expected at least 1, got 0"):
        replace(RULES, total_rounds=0)


def test_an_algorithm_may_want_more_or_everybody_but_not_nothing() -> None:
    @dataclass(frozen=True)
    class Modest(OneCohort):
        wanted: int = 0

        def wants(self, state: CohortState, share: int) -> int:
            return self.wanted

    def rules(wanted: int) -> Federation:
        return replace(RULES, algorithm=Modest(wanted))

    assert (rules(40).wanted(begun(), ROOT), rules(40).invited(begun(), ROOT)) == (40, 50)
    assert rules(EVERYBODY).wanted(begun(), ROOT) == rules(EVERYBODY).invited(begun(), ROOT) == EVERYBODY
    with pytest.raises(ValueError, match=r"Modest.wants: expected at least 1 update, or EVERYBODY, got 0"):
        rules(0).wanted(begun(), ROOT)

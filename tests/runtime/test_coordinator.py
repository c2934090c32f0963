from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.algorithms.auxo import Pooling
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.oracle import KnownGroups
from auxo.core.aggregators import FedYogi
from auxo.core.asking import Asks
from auxo.core.cohort_algorithm import Outcome, Participants
from auxo.core.own_state import NOTHING, own
from auxo.core.partition import Keep, Partition
from auxo.core.types import ROOT, CohortId, IntArray
from auxo.protocol.codec import to_bytes
from auxo.runtime.closing import closing_of
from auxo.runtime.coordinator import act, start
from tests.algorithms.planned_partitions import GENERATION
from tests.core.selectors_of_our_own import FewestTurns, Turns
from tests.runtime.made_rounds import (
    HALVES,
    LEFT,
    N_PARAMS,
    RIGHT,
    RULES,
    WEIGHTS,
    answers,
    begun,
    claims,
    close,
    closing_for,
    initial,
    memory_of,
    partitioned,
    partitioned_at,
    updates,
    weights_of,
)

# Before the first round.


def test_before_the_first_round_there_is_one_cohort_with_the_initial_weights() -> None:
    state = begun()

    assert state.tree.leaves == (ROOT,)
    np.testing.assert_array_equal(weights_of(state), WEIGHTS)
    assert RULES.progress(state, ROOT) == 0.25  # once the first of four rounds has closed
    assert memory_of(state.cohorts[ROOT]) == Pooling()
    assert (state.cohorts[ROOT].selection, state.table) == (NOTHING, NOTHING)


def test_a_run_may_begin_partitioned_with_one_model_for_all() -> None:
    rules = replace(RULES, algorithm=KnownGroups(np.array([0, 1, 1, 1]), at=0.0))
    state = start(rules, initial())

    assert state.tree.leaves == tuple(state.cohorts) == (LEFT, RIGHT)
    assert state.tree.branches[0].weights == (0.25, 0.75)
    assert state.tree.branches[0].generation == 0
    for child in (LEFT, RIGHT):
        np.testing.assert_array_equal(weights_of(state, child), WEIGHTS)


def test_a_run_may_begin_with_a_model_for_each_cohort() -> None:
    rules = replace(RULES, algorithm=Ifca(cohorts=3), aggregator=FedYogi(), selector=FewestTurns())
    state = start(rules, lambda number: np.full(N_PARAMS, number, dtype=np.float32))

    assert tuple(state.cohorts) == state.tree.leaves == ("0.0", "0.1", "0.2")
    for number, cohort in enumerate(state.cohorts.values()):
        model = np.full(N_PARAMS, number, dtype=np.float32)
        assert to_bytes(cohort.server) == to_bytes(FedYogi().initial(model))
        assert len(own(Turns, cohort.selection).clients) == 0


# Partitions.


def test_children_start_from_their_parents_weights_and_optimiser_slots() -> None:
    rules = replace(partitioned_at(0.5), aggregator=FedYogi())
    keeping = replace(RULES, aggregator=FedYogi())
    state = begun(rules)
    state = replace(state, cohorts={ROOT: replace(state.cohorts[ROOT], check_ins=40.0)})
    first = close(rules, state, answers(updates(12)))
    assert first.outcome.decision == Keep()
    kept = close(keeping, first.state, answers(updates(12, seed=1)))
    second = close(rules, first.state, answers(updates(12, seed=1)))
    state = second.state

    assert second.outcome.decision == replace(HALVES, generation=GENERATION)
    assert state.tree.leaves == tuple(state.cohorts) == (LEFT, RIGHT)
    assert second.told.tree == state.tree
    for child, weight in zip((LEFT, RIGHT), HALVES.weights, strict=True):
        assert to_bytes(state.cohorts[child].server) == to_bytes(kept.state.cohorts[ROOT].server)
        assert state.cohorts[child].round == 2
        assert memory_of(state.cohorts[child]).rounds == ()
        assert state.cohorts[child].check_ins == pytest.approx(40 * weight)


def test_a_selector_tells_every_child_what_it_knew_of_the_parents_clients() -> None:
    rules = replace(partitioned_at(0.5), selector=FewestTurns())
    first = close(rules, begun(rules), answers(updates(12)))
    second = close(rules, first.state, answers(updates(12, seed=1)))

    assert len(own(Turns, first.state.cohorts[ROOT].selection).clients) == 12
    for child in (LEFT, RIGHT):
        assert own(Turns, second.state.cohorts[child].selection).counts.tolist() == [2] * 12


def test_a_child_that_trains_does_not_move_its_sibling() -> None:
    state = partitioned()
    after = close(RULES, state, answers(updates(12)), LEFT).state

    assert to_bytes(after.cohorts[RIGHT]) == to_bytes(state.cohorts[RIGHT])
    assert not np.array_equal(weights_of(after, LEFT), WEIGHTS)


def test_the_partition_remembers_which_clustering_its_routes_number() -> None:
    rules = partitioned_at(0.25)
    closed = close(rules, begun(rules), answers(updates(12)))

    assert closed.state.tree.branches[0].generation == closed.told.generation == GENERATION


def test_leaves_partition_again_below_themselves() -> None:
    state = partitioned()
    closing = closing_for(RULES, state, claims(0), RIGHT)
    after = act(RULES, state, closing, Outcome((state.cohorts[RIGHT],), HALVES))

    assert tuple(after.cohorts) == after.tree.leaves == ("0.0", "0.1.0", "0.1.1")
    assert after.cohorts[LEFT] is state.cohorts[LEFT]


# Acting.


@dataclass(frozen=True)
class Table:
    """Something that is kept about clients."""

    clients: IntArray


def test_a_table_of_clients_is_kept_until_another_takes_its_place() -> None:
    state, closing = begun(), closing_for(RULES, begun(), claims(0))
    mine = Outcome((state.cohorts[ROOT],))
    table = Table(np.arange(3))
    with_table = act(RULES, state, closing, replace(mine, table=table))

    assert act(RULES, state, closing, mine).table == NOTHING
    assert with_table.table is table
    assert act(RULES, with_table, closing, mine).table is table
    assert act(RULES, with_table, closing, replace(mine, decision=HALVES)).table is table
    assert closing_for(RULES, with_table, claims(0)).table is table
    assert state.table == NOTHING


def test_all_cohorts_that_a_round_was_for_have_their_new_states() -> None:
    rules = replace(RULES, algorithm=Ifca(cohorts=3))
    state = start(rules, lambda number: np.full(N_PARAMS, number, dtype=np.float32))
    some = Participants(np.arange(0), (CohortId("0.2"), CohortId("0.0")), Asks(np.arange(0), np.arange(0)))
    closing = closing_of(rules, state, ROOT, some)
    after = act(rules, state, closing, Outcome(tuple(replace(one, round=5) for one in closing.states)))

    assert {leaf: cohort.round for leaf, cohort in after.cohorts.items()} == {"0.0": 5, "0.1": 0, "0.2": 5}
    assert [float(cohort.server.weights[0]) for cohort in after.cohorts.values()] == [0.0, 1.0, 2.0]
    assert after.tree == state.tree


def test_a_partition_into_more_cohorts_than_participants_is_refused() -> None:
    rules, many = replace(RULES, total_participants=2), Partition((0, 1, 2), (0.3, 0.3, 0.4))
    state = begun(rules)

    with pytest.raises(
        ValueError, match=r"partition of 0: expected at most as many cohorts as participants .* \(2\), got 3"
    ):
        act(rules, state, closing_for(rules, state, claims(2)), Outcome((state.cohorts[ROOT],), many))


def test_a_cohort_that_opens_rounds_for_its_descendants_cannot_be_partitioned() -> None:
    rules = replace(RULES, algorithm=Ifca(cohorts=2))
    state = start(rules, initial())
    asked = Participants(np.arange(2), state.tree.leaves, Asks(np.full(2, -1), np.zeros(2, dtype=np.int64)))
    closing = closing_of(rules, state, ROOT, asked)

    with pytest.raises(ValueError, match="partition of 0: expected a leaf"):
        act(rules, state, closing, Outcome(closing.states, HALVES))

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_table import UNKNOWN, ByTable, CohortTable, leaf_in_table
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import from_bytes, to_bytes

TREE = CohortTree().partition(ROOT, (0, 1), (0.75, 0.25))
GROWN = TREE.partition(CohortId("0.1"), (0, 1), (0.5, 0.5))


def state(tree: CohortTree, table: CohortTable) -> CoordinatorState:
    mine = CohortState(FedAvg().initial(np.zeros(2, dtype=np.float32)))
    return CoordinatorState(tree, dict.fromkeys(tree.leaves, mine), table)


def check_ins(*clients: int) -> CheckIns:
    return CheckIns(np.array(clients), Requests.silent(TREE, np.zeros(len(clients), dtype=np.int64)))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=30))
def test_the_last_word_on_a_client_counts(said: list[tuple[int, int]]) -> None:
    table, expected = CohortTable.empty(), dict(said)
    for client, cohort in said:
        table = table.assigned(np.array([client]), np.array([cohort]))

    assert table.clients.tolist() == sorted(expected)
    found = table.of(np.arange(21))
    assert found.tolist() == [expected.get(client, UNKNOWN) for client in range(21)]


def test_a_table_takes_twelve_bytes_a_client_and_goes_to_bytes_and_back() -> None:
    table = CohortTable.empty().assigned(np.arange(1000), np.ones(1000, dtype=np.int64))

    assert table.clients.nbytes + table.cohort.nbytes == 12_000
    again = from_bytes(CohortTable, to_bytes(table))
    np.testing.assert_array_equal(again.of(np.arange(1001)), table.of(np.arange(1001)))


def test_clients_go_where_the_table_says_and_others_are_drawn_by_members_without_a_word_for_it() -> None:
    table = CohortTable.empty().assigned(np.array([3, 4]), np.array([2, 1]))
    matched = ByTable().match(state(TREE, table), check_ins(3, 4, *range(100, 500)), stream(0, "match"))

    assert matched.cohort[:2].tolist() == [2, 1]
    assert matched.vouched.tolist() == [True, True] + [False] * 400
    assert 0.65 < (matched.cohort[2:] == 1).mean() < 0.85  # three quarters are believed to be there


def test_a_cohort_that_was_partitioned_since_says_nothing() -> None:
    table = CohortTable.empty().assigned(np.array([3, 4]), np.array([2, 1]))
    grown = state(GROWN, table)

    assert leaf_in_table(grown, np.array([3, 4, 5])).tolist() == [UNKNOWN, 1, UNKNOWN]
    placed = ByTable().place(grown, check_ins(3, 4), stream(0, "place"))
    assert placed.vouched.tolist() == [False, True]
    assert GROWN.is_leaf[placed.cohort].all()


def test_where_one_round_is_for_all_everybody_joins_it_and_still_uses_the_model_of_its_own() -> None:
    table = CohortTable.empty().assigned(np.array([3]), np.array([2]))
    matching = ByTable(at_the_root=True)

    assert matching.match(state(TREE, table), check_ins(3, 9), stream(0, "match")).cohort.tolist() == [0, 0]
    assert matching.place(state(TREE, table), check_ins(3), stream(0, "place")).cohort.tolist() == [2]


def test_with_one_cohort_there_is_nothing_to_look_up() -> None:
    placed = ByTable().place(state(CohortTree(), CohortTable.empty()), check_ins(1, 2), stream(0, "place"))

    assert placed.cohort.tolist() == [0, 0]
    assert placed.vouched.all()

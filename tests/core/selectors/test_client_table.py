import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.selectors.client_table import ClientTable

CLIENTS = st.lists(st.integers(-(2**62), 2**62), max_size=20, unique=True)


@given(rounds=st.lists(CLIENTS, max_size=5), asked=CLIENTS)
def test_a_table_is_a_mapping_from_clients_to_what_was_put_last(rounds: list[list[int]], asked: list[int]) -> None:
    table, expected = ClientTable.empty(), dict[int, tuple[float, int]]()
    for number, clients in enumerate(rounds):
        there = np.array(clients, dtype=np.int64)
        table = table.with_rows_for(there)
        rows = table.places(there)
        utility = np.arange(len(there)) + 0.5 * number
        table = table.put(rows, utility=utility, turns=table.turns[rows] + 1)
        expected |= {
            client: (value, expected.get(client, (0, 0))[1] + 1) for client, value in zip(clients, utility, strict=True)
        }
    found = table.places(np.array(asked, dtype=np.int64))

    assert table.clients.tolist() == sorted(expected)
    assert dict(zip(table.clients.tolist(), zip(table.utility, table.turns, strict=True), strict=True)) == expected
    assert [row >= 0 for row in found] == [client in expected for client in asked]
    assert np.isnan(table.usual_s).all()


def test_a_table_is_a_value() -> None:
    first = ClientTable.empty().with_rows_for(np.array([3, 1]))
    second = first.put(np.array([0]), utility=np.array([7.0]))

    assert np.isnan(first.utility).all()
    assert second.utility[0] == 7
    assert second.turns is first.turns  # what has not changed is shared
    assert first.with_rows_for(np.array([1])) is first


def test_a_row_takes_64_bytes() -> None:
    table = ClientTable.empty().with_rows_for(np.arange(1000))

    assert sum(getattr(table, name).nbytes for name in table.__dataclass_fields__) == 64 * 1000


@pytest.mark.parametrize("clients", [[2, 1], [1, 1]])
def test_a_table_out_of_order_is_refused(clients: list[int]) -> None:
    columns = [np.zeros(2)] * 5 + [np.zeros(2, dtype=np.int64)] * 2
    with pytest.raises(ValueError, match="each once, ascending"):
        ClientTable(np.array(clients), *columns)  # type: ignore[arg-type]  # floats, then whole numbers


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one entry for each client"):
        ClientTable(np.arange(3), *[np.zeros(2)] * 5, *[np.zeros(3, dtype=np.int64)] * 2)  # type: ignore[arg-type]

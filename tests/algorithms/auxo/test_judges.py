"""Who judges, and by what mark a trial knows it again."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auxo.algorithms.auxo.judges import first_of, seals

CLIENTS = np.arange(2_000)
SECRET = "of a run"  # noqa: S105 - of a test


def test_a_client_has_the_same_seal_in_one_generation_of_a_run_and_another_in_every_other() -> None:
    marks = seals(CLIENTS, 1, SECRET)

    np.testing.assert_array_equal(seals(CLIENTS[::-1], 1, SECRET), marks[::-1])
    assert len(np.unique(marks)) == len(CLIENTS)
    assert not np.isin(seals(CLIENTS, 2, SECRET), marks).any()
    assert seals(CLIENTS[:0], 1, SECRET).dtype == np.int64


def test_who_knows_all_clients_but_not_the_secret_cannot_tell_whose_seal_it_is() -> None:
    marks = seals(CLIENTS, 1, SECRET)

    for guess in ("", "0", "of another run"):
        assert not np.isin(seals(CLIENTS, 1, guess), marks).any()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=20))
def test_any_number_of_64_bits_has_a_seal(numbers: list[int]) -> None:
    assert len(np.unique(seals(np.array(numbers, dtype=np.int64), 1, SECRET))) == len(numbers)


def test_seals_do_not_tell_how_far_numbers_are_apart() -> None:
    # A mixer that can be undone would: neighbours then differ by the same amount.
    marks = seals(CLIENTS, 1, SECRET).view(np.uint64)
    steps = np.diff(marks)

    assert len(np.unique(steps)) == len(steps)


@given(
    st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=30), st.integers(0, 1000), st.integers(0, 40), st.data()
)
def test_so_many_of_those_who_may_are_taken_in_whatever_order_they_come(
    numbers: list[int], round_: int, most: int, data: st.DataObject
) -> None:
    clients = np.array(numbers, dtype=np.int64)
    among = np.array(data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers))), dtype=np.bool_)
    taken = first_of(clients, among, most, round_)

    assert taken.sum() == min(most, among.sum())
    assert not (taken & ~among).any()
    np.testing.assert_array_equal(first_of(clients[::-1], among[::-1], most, round_), taken[::-1])
    assert (first_of(clients, among, most + 1, round_) >= taken).all()


def test_everybody_is_taken_about_as_often_and_others_in_every_round() -> None:
    clients, among = CLIENTS[:40], np.ones(40, dtype=np.bool_)
    often = np.mean([first_of(clients, among, 20, round_) for round_ in range(400)], axis=0)

    assert np.abs(often - 0.5).max() < 0.12
    assert not np.array_equal(first_of(clients, among, 20, 1), first_of(clients, among, 20, 2))

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.algorithms.auxo.judges import are_controls, are_judges, judge_share, seals
from auxo.algorithms.auxo.settings import TrialSettings

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


def test_the_share_of_judges_is_as_large_as_it_is_said_to_be() -> None:
    assert abs(are_judges(CLIENTS, 0.3).mean() - 0.3) < 0.05
    assert are_judges(CLIENTS, 1.0).all()
    assert not are_judges(CLIENTS, 0.0).any()
    np.testing.assert_array_equal(are_judges(CLIENTS[::-1], 0.3)[::-1], are_judges(CLIENTS, 0.3))
    assert (are_judges(CLIENTS, 0.2) <= are_judges(CLIENTS, 0.3)).all()


@given(st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=30), st.integers(0, 1000))
def test_one_half_of_a_rounds_participants_is_the_control_in_whatever_order_they_come(
    numbers: list[int], round_: int
) -> None:
    clients = np.array(numbers, dtype=np.int64)
    controls = are_controls(clients, round_)

    assert controls.sum() == (len(clients) + 1) // 2
    np.testing.assert_array_equal(are_controls(clients[::-1], round_), controls[::-1])


def test_everybody_is_a_control_in_about_every_other_round() -> None:
    often = np.mean([are_controls(CLIENTS[:40], round_) for round_ in range(400)], axis=0)

    assert np.abs(often - 0.5).max() < 0.12
    assert not np.array_equal(are_controls(CLIENTS, 1), are_controls(CLIENTS, 2))


def test_who_judges_says_nothing_about_who_is_a_control() -> None:
    both = are_judges(CLIENTS, 0.5) & are_controls(CLIENTS, 7)

    assert abs(both.mean() - 0.25) < 0.05


@pytest.mark.parametrize(
    ("clients", "share"),
    [(5000.0, 0.2), (300.0, 0.2), (200.0, 0.3), (120.0, 0.5), (119.0, 1.0), (4.0, 1.0), (0.0, 1.0)],
)
def test_the_fewer_clients_there_are_the_more_of_them_judge_and_everybody_where_that_were_most(
    clients: float, share: float
) -> None:
    assert judge_share(clients, TrialSettings(judge_share=0.2, fewest_judges=60)) == pytest.approx(share)

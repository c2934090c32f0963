"""Parts of a client's samples: a part and what it keeps out are all of them, and five of them in turn are as well."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.folds import FIFTHS, FOLD_NUMBERS, all_but, kept_out_by, part_of, places_in, size_of


@given(samples=st.integers(2, 60), fold=st.integers(0, FOLD_NUMBERS - 1))
def test_a_part_and_what_it_keeps_out_share_nothing_and_are_all_samples(samples: int, fold: int) -> None:
    one, other = part_of(fold, samples).tolist(), part_of(kept_out_by(fold), samples).tolist()

    assert min(len(one), len(other)) > 0
    assert sorted([*one, *other]) == list(range(samples))
    assert one == sorted(one)


@given(samples=st.integers(FIFTHS, 60))
def test_in_five_trials_every_sample_is_kept_out_once(samples: int) -> None:
    kept_out = [place for fifth in range(7, 12) for place in part_of(kept_out_by(all_but(fifth)), samples).tolist()]

    assert sorted(kept_out) == list(range(samples))


@pytest.mark.parametrize("fold", [None, *range(FOLD_NUMBERS)])
@pytest.mark.parametrize("samples", [0, 1])
def test_who_has_a_single_sample_or_none_has_it_in_every_part(fold: int | None, samples: int) -> None:
    assert part_of(fold, samples).tolist() == list(range(samples))


@given(rows=st.lists(st.tuples(st.integers(-1, FOLD_NUMBERS - 1), st.integers(0, 30)), min_size=1, max_size=5))
def test_many_clients_at_once_have_the_parts_of_each(rows: list[tuple[int, int]]) -> None:
    fold, samples = np.array(rows).T
    sizes = size_of(fold, samples)

    for row, (one, count) in enumerate(rows):
        expected = part_of(None if one < 0 else one, count)
        nth = np.arange(len(expected))
        assert sizes[row] == len(expected)
        np.testing.assert_array_equal(places_in(fold[row], samples[row], nth), expected)


def test_a_part_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        part_of(0, 9)[0] = 7

"""PyramidFL's figures, worked out by hand from the authors' code (liecn/PyramidFL, prune_client_tasks)."""

import numpy as np
import pytest

from auxo.core.own_state import own
from auxo.core.selectors import UsualWork
from auxo.core.selectors.oort import Oort, OortMemory
from auxo.core.selectors.pyramidfl import PyramidFL
from tests.core.made_turnouts import NEVER, turnout

FIVE = [1, 2, 3, 4, 5]


def known(**columns: object) -> OortMemory:
    parts = {"lengths": [5.0, 4.0, 3.0, 2.0, 1.0], **columns}
    return own(OortMemory, PyramidFL().learn(PyramidFL().begin(), turnout(FIVE, **parts)))  # type: ignore[arg-type]


def test_useful_participants_drop_less() -> None:
    # low + rank * (high - low) / P with 0.1, 0.6 and P = 5.
    asked = PyramidFL().work(known(), np.array(FIVE), UsualWork(5))

    np.testing.assert_allclose(asked.upload, [0.9, 0.8, 0.7, 0.6, 0.5])
    assert asked.epochs.tolist() == [1] * 5  # no times are known


def test_rank_is_by_length_times_samples_among_those_selected() -> None:
    memory = known(lengths=[1, 1, 1, 1, 9], examples=[10, 20, 30, 40, 1])
    asked = PyramidFL().work(memory, np.array([5, 1, 4]), UsualWork(3))

    # 9, 10 and 40: ranks 2, 1 and 0 of three.
    np.testing.assert_allclose(asked.upload, 0.9 - np.array([2, 1, 0]) * 0.5 / 3)


def test_equals_share_a_rank_and_newcomers_are_first() -> None:
    asked = PyramidFL().work(known(lengths=[2, 2, 1, 1, 1]), np.array([1, 2, 3, 99]), UsualWork(4))

    np.testing.assert_allclose(asked.upload, [0.775, 0.775, 0.525, 0.9])


def test_the_fast_do_a_share_of_the_passes_that_fit_into_the_time_they_would_wait() -> None:
    # comp 1, 2, 4, 8, 16 s a pass, comm 10 s each of which the upload is 6 s; drop-out 0.1, 0.2, ... 0.5.
    memory = known(seconds=[11, 12, 14, 18, 26], epoch_s=[1, 2, 4, 8, 16], upload_s=6.0)
    asked = PyramidFL(most_epochs=50).work(memory, np.array(FIVE), UsualWork(5))

    # t' = 10.4, 10.8, 12.2, 15.6, 23.0 and T = 23.0; floor((T - t') / comp) = 12, 6, 2, 0, 0; half of them, plus 1.
    assert asked.epochs.tolist() == [7, 4, 2, 1, 1]


def test_nobody_waits_longer_than_for_the_fastest_that_complete_the_round() -> None:
    memory = known(seconds=[11, 12, 14, 18, 26], epoch_s=[1, 2, 4, 8, 16], upload_s=0.0)
    asked = PyramidFL(most_epochs=50).work(memory, np.array(FIVE), UsualWork(3))

    # The third is done after 14 s: floor(3 / 1) and floor(2 / 2), half of them, and nothing for the slower.
    assert asked.epochs.tolist() == [2, 1, 1, 1, 1]


def test_more_local_epochs_are_counted_in_passes_and_capped() -> None:
    memory = known(seconds=[1, 2, 3, 4, 1000], epoch_s=[0.1, 1, 10, 50, 100], upload_s=0.0)

    # Usual are 2 passes: 2 + min(20, 0.5 * floor((1000 - t) / comp)), at most 5, or what is asked for instead.
    assert PyramidFL().work(memory, np.array(FIVE), UsualWork(5, epochs=2)).epochs.tolist() == [5, 5, 5, 5, 2]
    free = PyramidFL(most_epochs=1000).work(memory, np.array(FIVE), UsualWork(5, epochs=2))
    assert free.epochs.tolist() == [22, 22, 22, 11, 2]
    assert PyramidFL(most_epochs=1).work(memory, np.array(FIVE), UsualWork(5, epochs=2)).epochs.tolist() == [2] * 5
    assert PyramidFL(more_work=0.0).work(memory, np.array(FIVE), UsualWork(5)).epochs.tolist() == [1] * 5


def test_a_newcomer_does_the_usual_work() -> None:
    memory = known(seconds=[1, 2, 3, 4, 1000], epoch_s=1.0, upload_s=0.0)

    assert PyramidFL().work(memory, np.array([99, 1, 5]), UsualWork(3)).epochs.tolist() == [1, 5, 1]


def test_times_without_their_parts_shorten_nothing() -> None:
    """A loop of one's own may know how long training took, and not the upload."""
    memory = known(seconds=[11, 12, 14, 18, 26], epoch_s=[1, 2, 4, 8, 16], upload_s=NEVER)

    assert PyramidFL(most_epochs=50).work(memory, np.array(FIVE), UsualWork(5)).epochs.tolist() == [8, 4, 2, 1, 1]


def test_it_selects_and_learns_as_oort_does() -> None:
    pyramid, oort = PyramidFL(Oort(exploration=0.5)), Oort(exploration=0.5)
    one, other = (part.learn(part.begin(), turnout(FIVE, losses=FIVE)) for part in (pyramid, oort))

    assert own(OortMemory, one).table.utility.tolist() == own(OortMemory, other).table.utility.tolist()
    assert pyramid.begin(one) is one
    assert (pyramid.own_states, pyramid.asks_for_loss) == (oort.own_states, oort.asks_for_loss)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"dropout_least": 0.7}, "dropout_least"),
        ({"dropout_most": 1.0}, "dropout_least, dropout_most"),
        ({"more_work": 1.1}, "more_work"),
        ({"most_epochs": 0}, "most_epochs"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=f"{named}.*expected"):
        PyramidFL(**wrong)  # type: ignore[arg-type]  # some are whole numbers

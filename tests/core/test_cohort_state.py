"""What is credited to a cohort: no longer than what is usual there, however long updates are where it comes from."""

import numpy as np
import pytest

from auxo.core.cohort_state import Credit
from auxo.core.usual_updates import UsualUpdates

USUAL = UsualUpdates((1.0, 2.0, 3.0), (20.0, 20.0, 20.0))


@pytest.mark.parametrize(("length", "expected"), [(0.5, 0.5), (2.0, 2.0), (200.0, 2.0)])
def test_a_credit_is_no_longer_than_a_usual_update(length: float, expected: float) -> None:
    direction = np.array([0.6, 0.8])
    bounded = Credit(length * direction, 7.0).no_longer_than_usual(USUAL)
    np.testing.assert_allclose(bounded.movement, expected * direction)
    assert bounded.weight == 7.0


def test_where_nothing_is_usual_yet_it_is_as_it_is() -> None:
    credit = Credit(np.array([100.0]), 1.0)
    assert credit.no_longer_than_usual(UsualUpdates()) is credit

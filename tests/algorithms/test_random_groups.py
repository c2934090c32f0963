import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.algorithms.random_groups import RandomGroups
from auxo.core.affinity import Requests
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.rng import stream
from auxo.core.types import ROOT
from auxo.protocol.codec import to_bytes
from tests.algorithms.short_runs import run


def test_clients_are_dealt_evenly_and_for_good() -> None:
    everybody = CheckIns(np.arange(900), Requests.silent(CohortTree(), np.zeros(900, dtype=np.int64)))
    state = CoordinatorState(CohortTree().partition(ROOT, (0, 1, 2), (1 / 3,) * 3), {})
    one, other = (RandomGroups(3).matching.match(state, everybody, stream(seed, "match")) for seed in (0, 1))

    np.testing.assert_array_equal(one.cohort, other.cohort)
    assert np.bincount(one.cohort, minlength=4)[0] == 0
    assert np.bincount(one.cohort, minlength=4)[1:].min() > 250
    assert one.vouched.all()


def test_with_one_group_it_is_plain_federated_learning_bit_for_bit() -> None:
    one, other = run(RandomGroups(1), 3), run(OneCohort(), 3)

    assert one.events == other.events
    assert to_bytes(one.state) == to_bytes(other.state)


def test_impossible_settings_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="cohorts: expected at least 1"):
        RandomGroups(0)

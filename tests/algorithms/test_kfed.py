import numpy as np
import pytest
from sklearn.cluster import KMeans

from auxo.algorithms.base import OneCohort
from auxo.algorithms.kfed import KFed, cluster, server_centres
from auxo.core.aggregators import FedAvg
from auxo.core.cohort_algorithm import EVERYBODY
from auxo.core.cohort_state import CohortState
from auxo.core.types import ROOT
from auxo.protocol.codec import to_bytes
from auxo.training.local_centres import local_centres
from tests.algorithms.short_runs import CLIENTS, PARTICIPANTS, TRAINER, WORLD, run

# Centres that three clients send. From the first client's, 0 and 10, the farthest is 31; then all centres are nearest
# to 0 (0, 2), 10 (10, 8) and 31 (31, 29).
SENT = [np.array([[0.0], [10.0]]), np.array([[31.0], [2.0]]), np.array([[8.0], [29.0]])]


def test_the_server_takes_the_farthest_centres_and_averages_all_around_them_once() -> None:
    assert server_centres(SENT, 3).tolist() == [[1.0], [9.0], [30.0]]
    assert server_centres(SENT, 2).tolist() == [[1.0], [19.5]]  # 8, 10, 29 and 31 are nearer to 10 than to 0


def test_with_more_steps_they_are_those_of_k_means_as_in_the_authors_code() -> None:
    # From 1 and 19.5 on 8 and 10 are nearer to the left: (0 + 2 + 8 + 10) / 4 and (29 + 31) / 2.
    assert server_centres(SENT, 2, steps=300).tolist() == [[5.0], [30.0]]
    everything, first = np.concatenate(SENT), np.array([[0.0], [31.0]])
    reference = KMeans(2, init=first, n_init=1).fit(everything).cluster_centers_
    np.testing.assert_allclose(server_centres(SENT, 2, steps=300), reference)


def test_a_client_belongs_to_the_cluster_of_its_first_centre() -> None:
    assert cluster(SENT, 3).tolist() == [0, 2, 1]


def test_local_centres_are_those_of_well_separated_samples_the_larger_first() -> None:
    samples = np.array([[0.0, 1.0], [0.0, -1.0], [50.0, 0.0], [50.0, 2.0], [50.0, 1.0]])

    np.testing.assert_allclose(local_centres(samples, 2, seed=0), [[50.0, 1.0], [0.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(local_centres(samples, 1, seed=0), [[30.0, 0.6]], atol=1e-12)
    assert len(local_centres(np.ones((4, 2)), 3, seed=0)) == 1  # there is but one sample
    assert len(local_centres(np.zeros((0, 2)), 2, seed=0)) == 0


def test_everybody_sends_centres_once_and_no_model_goes_to_and_fro() -> None:
    result = run(KFed(cohorts=2), 1)
    spent = result.state.spent

    assert (spent.participations, spent.wasted_participations, spent.downloads) == (0, CLIENTS, 0)
    assert len(result.state.coordinator.tree.leaves) == 2
    # A pass over the samples is a third of training, and one centre of 6 numbers goes up.
    took = WORLD.devices.compute_s_per_sample * WORLD.data.train.counts() / 3 + 32 * 6 / WORLD.devices.upload_bps
    failed = 0.3 * took.sum()  # at most: who drops out has not done it all
    assert took.sum() - failed < spent.wasted_device_s < took.sum()


def test_afterwards_each_cohort_is_a_federation_of_its_own() -> None:
    spent = run(KFed(cohorts=2), 3, overcommit=0.0).state.spent

    assert spent.downloads >= 2 * PARTICIPANTS
    rules_state = run(KFed(cohorts=2), 3).state.coordinator
    assert {cohort.round for cohort in rules_state.cohorts.values()} == {3}
    assert KFed(cohorts=2).wants(rules_state.cohorts[rules_state.tree.leaves[0]], 7) == 7


def test_the_one_shot_wants_everybody() -> None:
    begun = CohortState(FedAvg().initial(TRAINER.initial_weights(0)))
    assert KFed(cohorts=2).wants(begun, 7) == EVERYBODY
    assert KFed(cohorts=1).wants(begun, 7) == 7


def test_with_one_cluster_it_is_plain_federated_learning_bit_for_bit() -> None:
    one, other = run(KFed(cohorts=1), 3), run(OneCohort(), 3)

    assert one.events == other.events
    assert to_bytes(one.state.coordinator.cohorts[ROOT]) == to_bytes(other.state.coordinator.cohorts[ROOT])


@pytest.mark.parametrize(("cohorts", "centres", "name"), [(0, 1, "cohorts"), (2, 0, "centres")])
def test_impossible_settings_are_refused_by_name(cohorts: int, centres: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected at least 1"):
        KFed(cohorts, centres)
    with pytest.raises(ValueError, match="steps: expected at least 1, got 0"):
        KFed(steps=0)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.asking import Ask
from auxo.population.federated_data import FederatedData, Samples
from auxo.training.local_samples import PADDING, local_batches, local_positions, reported_examples, sample_counts
from auxo.training.trainer import Job, LocalTraining

sizes = st.lists(st.integers(0, 25), min_size=1, max_size=4)
trainings = st.builds(LocalTraining, batch_size=st.integers(1, 8), epochs=st.integers(1, 3))


def population(counts: list[int]) -> FederatedData:
    total = sum(counts)
    samples = Samples(np.arange(total), np.zeros(total, dtype=np.int64), np.cumsum([0, *counts]))
    names = tuple(f"client {row}" for row in range(len(counts)))
    return FederatedData("counts", np.zeros((total, 1), dtype=np.float32), samples, samples, 2, names)


@given(counts=sizes, training=trainings)
@settings(max_examples=50)
def test_each_epoch_has_each_sample_of_the_client_once(counts: list[int], training: LocalTraining) -> None:
    data = population(counts)
    for row, count in enumerate(counts):
        batches = local_batches(data, [Job(row, visit=0)], training, seed=1)[0]
        owned = data.train.of(row)

        assert batches.shape == (training.epochs * -(-count // training.batch_size), training.batch_size)
        for epoch in batches.reshape(training.epochs, -1):
            assert sorted(epoch[epoch != PADDING]) == list(range(owned.start, owned.stop))


def test_only_the_end_of_an_epochs_last_batch_is_padding() -> None:
    batches = local_batches(population([7]), [Job(0, 0)], LocalTraining(batch_size=3, epochs=2), seed=1)[0]

    np.testing.assert_array_equal(
        batches == PADDING,
        [[False, False, False], [False, False, False], [False, True, True]] * 2,
    )


@given(count=st.integers(2, 30))
@settings(max_examples=20)
def test_folds_are_disjoint_halves_and_together_all_samples(count: int) -> None:
    data = population([3, count])
    even, odd = (local_positions(data, Job(1, visit=0, ask=Ask(fold=fold))) for fold in (0, 1))

    assert not set(even) & set(odd)
    assert set(even) | set(odd) == set(range(3, 3 + count))
    assert abs(len(even) - len(odd)) <= 1


@pytest.mark.parametrize("fold", [0, 1])
def test_client_with_one_sample_trains_on_it_in_either_fold(fold: int) -> None:
    np.testing.assert_array_equal(local_positions(population([4, 1]), Job(1, visit=0, ask=Ask(fold=fold))), [4])


def test_a_client_reports_all_its_samples_whatever_the_half() -> None:
    jobs = [Job(row, 0, Ask(fold=fold)) for row in range(3) for fold in (None, 0, 1)]

    assert reported_examples(population([4, 1, 0]), jobs).tolist() == [4, 4, 4, 1, 1, 1, 0, 0, 0]
    assert reported_examples(population([4]), []).tolist() == []


def test_order_of_samples_depends_on_client_visit_seed_and_epoch() -> None:
    data = population([40, 40])
    training = LocalTraining(batch_size=40, epochs=2)

    def order(row: int, visit: int, seed: int) -> list[list[int]]:
        batches = local_batches(data, [Job(row, visit)], training, seed)[0]
        return [[int(position) % 40 for position in epoch] for epoch in batches]

    orders = [*order(0, 0, seed=1), *order(1, 0, seed=1), *order(0, 1, seed=1), *order(0, 0, seed=2)]
    assert len({tuple(positions) for positions in orders}) == len(orders)
    assert order(0, 0, seed=1) == order(0, 0, seed=1)


def test_unknown_fold_is_refused() -> None:
    with pytest.raises(ValueError, match="fold: expected None or a number from 0 to 11, got 12"):
        local_positions(population([4]), Job(0, visit=0, ask=Ask(fold=12)))


@given(
    counts=sizes, training=trainings, folds=st.lists(st.sampled_from([None, 0, 1, 2, 3, 8, 9]), min_size=4, max_size=4)
)
@settings(max_examples=50)
def test_jobs_have_the_batches_together_that_each_has_alone(
    counts: list[int], training: LocalTraining, folds: list[int | None]
) -> None:
    data = population(counts)
    jobs = [
        Job(row, visit=row + 1, ask=Ask(fold=fold, work=(1.0, 1 / training.epochs, 4 / training.epochs)[row % 3]))
        for row, fold in zip(range(len(counts)), folds, strict=False)
    ]
    together = local_batches(data, jobs, training, seed=1)

    assert len(together) == len(jobs)
    for job, batches, count in zip(jobs, together, sample_counts(data, jobs), strict=True):
        np.testing.assert_array_equal(batches, local_batches(data, [job], training, seed=1)[0])
        used = np.unique(batches[batches != PADDING])
        np.testing.assert_array_equal(used, local_positions(data, job))
        assert count == len(used)


@pytest.mark.parametrize("fold", [None, 0, 1])
def test_a_job_with_epochs_of_its_own_does_the_first_of_them(fold: int | None) -> None:
    data, training = population([7, 12]), LocalTraining(batch_size=4, epochs=3)
    jobs = [Job(1, visit=2, ask=Ask(fold=fold, work=work)) for work in (1 / 3, 2 / 3, 3 / 3, 5 / 3, 1.0)]
    one, two, three, five, usual = local_batches(data, jobs, training, seed=1)
    steps = len(one)

    assert [len(batches) for batches in (two, three, five)] == [2 * steps, 3 * steps, 5 * steps]
    np.testing.assert_array_equal(two[:steps], one)
    np.testing.assert_array_equal(three[: 2 * steps], two)
    np.testing.assert_array_equal(usual, three)
    np.testing.assert_array_equal(five[: 3 * steps], three)


def test_a_job_that_chooses_among_models_has_the_batches_of_one_that_does_not() -> None:
    data, training = population([7, 12]), LocalTraining(batch_size=4, epochs=3)
    named, chooser = local_batches(data, [Job(1, 2), Job(1, 2, Ask(model=-1))], training, seed=1)

    np.testing.assert_array_equal(named, chooser)


def test_every_sample_is_first_about_as_often_as_any_other() -> None:
    data = population([10])
    jobs = [Job(0, visit) for visit in range(5000)]
    firsts = [batches[0, 0] for batches in local_batches(data, jobs, LocalTraining(batch_size=10), seed=1)]

    # 500 each are expected, with a deviation of 21.
    assert np.abs(np.bincount(firsts, minlength=10) - 500).max() < 5 * 21


def test_neighbours_in_one_order_are_no_neighbours_in_another() -> None:
    data = population([10])
    jobs = [Job(0, visit) for visit in range(5000)]
    orders = np.array([batches[0] for batches in local_batches(data, jobs, LocalTraining(batch_size=10), seed=1)])
    followed = ((orders[:, :-1] == 3) & (orders[:, 1:] == 7)).sum()

    # A tenth of all orders, with a deviation of 20: nine places to stand, and one in ninety pairs.
    assert abs(int(followed) - 500) < 5 * 22


def test_no_jobs_have_no_batches() -> None:
    assert local_batches(population([4]), [], LocalTraining(), seed=1) == []


def test_batches_far_wider_than_anybody_has_samples_take_no_memory() -> None:
    data = population([4, 2000])
    usual = LocalTraining(batch_size=6)
    assert usual.fitting(data) is usual
    assert LocalTraining(batch_size=10**9).fitting(data).batch_size == 2000
    assert LocalTraining(batch_size=10**9).fitting(population([4])).batch_size == 1024


def test_a_job_of_so_many_steps_goes_through_its_samples_as_often_as_that_takes() -> None:
    data, training = population([5, 2, 0]), LocalTraining(batch_size=2, epochs=1)
    whole = local_batches(data, [Job(row, 1, Ask(work=4)) for row in range(3)], training, 0)
    some = local_batches(data, [Job(row, 1, Ask(steps=7)) for row in range(3)], training, 0)

    # Of 5 samples a pass is 3 steps: seven are two passes and a step; of 2 it is one; of none there is none.
    np.testing.assert_array_equal(some[0], whole[0][:7])
    assert some[1].shape == (7, 2)
    assert some[2].shape == (0, 2)
    (alone,) = local_batches(data, [Job(0, 1, Ask(steps=1))], training, 0)
    np.testing.assert_array_equal(alone, whole[0][:1])

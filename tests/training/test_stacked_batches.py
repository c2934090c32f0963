import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.asking import Ask
from auxo.training.local_samples import PADDING, local_batches
from auxo.training.stacked_batches import StackedBatches
from auxo.training.trainer import Job, LocalTraining
from tests.training.side_by_side import population

job_lists = st.lists(
    st.builds(Job, st.integers(0, 5), st.integers(0, 1), st.builds(Ask, st.sampled_from([None, 0, 1]))), min_size=1
)
trainings = st.builds(LocalTraining, batch_size=st.integers(1, 8), epochs=st.integers(1, 2))

DATA = population((3,))


@given(jobs=job_lists, training=trainings)
@settings(max_examples=40)
def test_every_job_keeps_its_batches_step_by_step(jobs: list[Job], training: LocalTraining) -> None:
    batches = local_batches(DATA, jobs, training, seed=3)
    stack = StackedBatches.of(DATA, batches)

    assert sorted(stack.job_rows) == list(range(len(jobs)))
    for place, job_row in enumerate(stack.job_rows):
        of_job = batches[job_row]
        assert stack.steps[place] == len(of_job)
        for step, batch in enumerate(of_job):
            samples = batch[batch != PADDING]
            n = len(samples)
            np.testing.assert_array_equal(stack.x_rows[step, place, :n], DATA.train.x_rows[samples])
            np.testing.assert_array_equal(stack.y[step, place, :n], DATA.train.y[samples])
            np.testing.assert_array_equal(stack.shares[step, place, :n], np.full(n, np.float32(1 / n)))
            # What fills a batch up is of the same batch and counts for nothing.
            assert set(stack.x_rows[step, place, n:]) <= {DATA.train.x_rows[samples[0]]}
            assert set(stack.y[step, place, n:]) <= {DATA.train.y[samples[0]]}
            assert not stack.shares[step, place, n:].any()


@given(jobs=job_lists, training=trainings)
@settings(max_examples=40)
def test_jobs_at_work_are_a_prefix_at_every_step(jobs: list[Job], training: LocalTraining) -> None:
    stack = StackedBatches.of(DATA, local_batches(DATA, jobs, training, seed=3))

    assert list(stack.steps) == sorted(stack.steps, reverse=True)
    assert len(stack.active) == stack.steps[0]
    for step, active in enumerate(stack.active):
        np.testing.assert_array_equal(stack.steps > step, np.arange(len(jobs)) < active)


def test_jobs_of_equally_many_steps_keep_their_order() -> None:
    jobs = [Job(row, 0) for row in (1, 0, 1, 4, 0)]

    stack = StackedBatches.of(DATA, local_batches(DATA, jobs, LocalTraining(batch_size=6), seed=3))

    assert stack.job_rows.tolist() == [1, 4, 0, 2, 3]
    assert stack.active == (5, 2, 2)


def test_jobs_without_samples_have_no_steps() -> None:
    stack = StackedBatches.of(DATA, local_batches(DATA, [Job(2, 0), Job(2, 1, Ask(fold=0))], LocalTraining(), seed=3))

    assert stack.active == ()
    assert stack.steps.tolist() == [0, 0]

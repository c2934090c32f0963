"""Participants that are offered several models: whose they train, and in whose memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.core.asking import Answer, Ask, Judgement, Losses, Part, PreTraining, do
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.training.trainer import Job

MODELS = [np.full(3, number, dtype=np.float32) for number in (10, 20, 30)]
CHOOSER = -1


Trains = Callable[[Float32Array, Sequence[Job], Float32Array | None], Iterator[Answer]]
MeanLosses = Callable[[Float32Array, Sequence[Job]], FloatArray]


def train(weights: Float32Array, jobs: Sequence[Job], out: Float32Array | None) -> Iterator[Answer]:
    """Yield updates that say whose they are, and of which model."""
    for row, job in enumerate(jobs):
        update = np.zeros(3, dtype=np.float32) if out is None else out[row]
        update[:] = weights + job.client_row / 100
        yield Answer(update, examples=job.client_row)


@dataclass(frozen=True)
class Made:
    """A device whose participants train and look by functions of a test; a client has as many samples as its row."""

    weights: Sequence[Float32Array]
    jobs: Sequence[Job]
    trains: Trains
    mean_losses: MeanLosses
    out: Float32Array | None

    @property
    def clients(self) -> IntArray:
        return np.array([job.client_row for job in self.jobs])

    @property
    def visits(self) -> IntArray:
        return np.zeros(len(self.jobs), dtype=np.int64)

    @property
    def samples(self) -> IntArray:
        return self.clients

    @property
    def models(self) -> int:
        return len(self.weights)

    def model(self, place: int) -> Float32Array:
        return self.weights[place]

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses:
        jobs = [
            replace(self.jobs[row], ask=replace(ask, fold=ask.half(part))) for row, ask in zip(rows, asks, strict=True)
        ]
        return Losses(self.mean_losses(self.weights[model], jobs))

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> None:
        return None

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer]:
        jobs = [replace(self.jobs[row], ask=ask) for row, ask in zip(rows, asks, strict=True)]
        return self.trains(self.weights[model], jobs, self.out)


def train_offered(
    models: Sequence[Float32Array],
    jobs: Sequence[Job],
    trains: Trains,
    mean_losses: MeanLosses,
    out: Float32Array | None = None,
) -> Iterator[Answer]:
    for answer in do([job.ask for job in jobs], Made(models, jobs, trains, mean_losses, out)):
        assert isinstance(answer, Answer)
        yield answer


def each(loss: Callable[[Float32Array, Job], float]) -> MeanLosses:
    """Return the losses of many jobs from what the loss of one is."""
    return lambda weights, jobs: np.array([loss(weights, job) for job in jobs])


def nearest(weights: Float32Array, jobs: Sequence[Job]) -> FloatArray:
    """Return least for the model whose number is the client's, counted round and round."""
    return np.array([abs(float(weights[0]) / 10 - 1 - job.client_row % 3) for job in jobs])


def jobs_of(models: Sequence[int]) -> list[Job]:
    return [Job(row, visit=0, ask=Ask(model=model)) for row, model in enumerate(models)]


def unasked(weights: Float32Array, jobs: Sequence[Job]) -> FloatArray:
    raise AssertionError("nobody compares models")


def test_a_single_model_is_trained_by_everybody_without_a_look_at_losses() -> None:
    found = list(train_offered(MODELS[:1], jobs_of([CHOOSER, 0, 0]), train, unasked, None))

    assert [answer.model for answer in found] == [0, 0, 0]
    assert [answer.loss for answer in found] == [None, None, None]
    np.testing.assert_allclose([answer.update[0] for answer in found], [10.0, 10.01, 10.02], rtol=1e-6)


def test_who_may_choose_among_the_first_only_takes_it_without_a_look_at_losses_or_the_best_of_some() -> None:
    only, two = (
        [replace(job, ask=replace(job.ask, choices=choices)) for job in jobs_of([CHOOSER] * 3)] for choices in (1, 2)
    )

    assert [answer.model for answer in train_offered(MODELS, only, train, unasked, None)] == [0, 0, 0]
    assert [answer.model for answer in train_offered(MODELS, two, train, nearest, None)] == [0, 1, 1]


def test_a_judge_tells_its_losses_on_each_half_in_the_order_asked() -> None:
    def loss(weights: Float32Array, job: Job) -> float:
        return float(weights[0]) + (0.5 if job.ask.fold == 1 else 0.25 if job.ask.fold == 0 else 100.0)

    def trained(job: Job, examples: int) -> Answer:
        (answer,) = train_offered(MODELS, [replace(job, client_row=examples)], train, each(loss), None)
        return answer

    judge = Job(4, 0, Ask(fold=0, model=1, judges=(2, 0)))

    def judged(*pairs: tuple[float, float]) -> tuple[Judgement, ...]:
        return tuple(Judgement(loss, None, other) for loss, other in pairs)

    assert trained(judge, 4).judged == judged((30.5, 30.25), (10.5, 10.25))
    other = trained(replace(judge, ask=replace(judge.ask, fold=1)), 4)
    assert other.judged == judged((30.25, 30.5), (10.25, 10.5))
    assert trained(judge, 4).model == 1
    assert trained(judge, 4).loss is None
    assert trained(judge, 1).judged == ()  # a single sample is both halves
    on_all = trained(replace(judge, ask=replace(judge.ask, fold=None)), 4)
    assert on_all.judged == judged((30.25, 30.5), (10.25, 10.5))


def test_a_job_trains_the_model_that_it_names_without_a_look_at_losses() -> None:
    found = list(train_offered(MODELS, jobs_of([2, 0, 1, 2]), train, unasked, None))

    assert [answer.model for answer in found] == [2, 0, 1, 2]
    assert [answer.examples for answer in found] == [0, 1, 2, 3]
    assert [answer.loss for answer in found] == [None] * 4
    np.testing.assert_allclose([answer.update[0] for answer in found], [30.0, 10.01, 20.02, 30.03], rtol=1e-6)


def test_a_job_that_names_none_trains_the_model_with_the_least_loss_and_tells_it() -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER] * 6), train, nearest, None))

    assert [answer.model for answer in found] == [0, 1, 2, 0, 1, 2]
    assert [answer.loss for answer in found] == [0.0] * 6
    np.testing.assert_allclose([answer.update[0] for answer in found], [10.0, 20.01, 30.02, 10.03, 20.04, 30.05])


def test_jobs_of_either_kind_come_back_in_their_own_order() -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER, 0, CHOOSER, 0]), train, nearest, None))

    assert [answer.model for answer in found] == [0, 0, 2, 0]
    assert [answer.loss for answer in found] == [0.0, None, 0.0, None]
    assert [answer.examples for answer in found] == [0, 1, 2, 3]


def test_of_equals_the_first_is_taken() -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER]), train, each(lambda weights, job: 1.5), None))

    assert (found[0].model, found[0].loss) == (0, 1.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_that_has_diverged_is_nobodys_choice(bad: float) -> None:
    def loss(weights: Float32Array, job: Job) -> float:
        return bad if weights[0] < 30 else 9.0

    found = list(train_offered(MODELS, jobs_of([CHOOSER] * 3), train, each(loss), None))

    assert [(answer.model, answer.loss) for answer in found] == [(2, 9.0)] * 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_where_all_have_diverged_there_is_no_loss_to_tell(bad: float) -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER]), train, each(lambda weights, job: bad), None))

    assert (found[0].model, found[0].loss) == (0, None)


@pytest.mark.parametrize("models", [1, 3])
def test_updates_lie_in_the_rows_of_the_memory_that_is_given(models: int) -> None:
    jobs, out = jobs_of([CHOOSER] * 5), np.full((5, 3), np.nan, dtype=np.float32)
    found = list(train_offered(MODELS[:models], jobs, train, nearest, out))
    alone = list(train_offered(MODELS[:models], jobs, train, nearest, None))

    for row, answer in enumerate(found):
        assert np.shares_memory(answer.update, out[row])
        np.testing.assert_array_equal(answer.update, alone[row].update)


def test_no_jobs_have_no_updates() -> None:
    assert list(train_offered(MODELS, [], train, nearest, None)) == []


def test_a_job_that_is_asked_for_its_loss_reports_it_also_with_one_model() -> None:
    jobs = [Job(0, 0, Ask(reports_loss=True)), Job(1, 0)]
    updates = list(train_offered([MODELS[1]], jobs, train, nearest, None))

    assert [answer.loss for answer in updates] == [1.0, None]
    assert [answer.model for answer in updates] == [0, 0]


def test_losses_at_a_model_are_asked_for_all_at_once() -> None:
    asked: list[tuple[float, list[int]]] = []

    def loss(weights: Float32Array, jobs: Sequence[Job]) -> FloatArray:
        asked.append((float(weights[0]), [job.client_row for job in jobs]))
        return nearest(weights, jobs)

    reporting = [replace(job, ask=replace(job.ask, reports_loss=True)) for job in jobs_of([1, CHOOSER, 1])]
    found = list(train_offered(MODELS, reporting, train, loss, None))

    # Who compares models has its loss from there; of the others each is asked about the model that it has trained.
    assert asked == [(10.0, [1]), (20.0, [1]), (30.0, [1]), (20.0, [0, 2])]
    assert [answer.loss for answer in found] == [1.0, 0.0, 1.0]


def test_nobody_is_asked_for_a_loss_that_came_with_its_training() -> None:
    def telling(weights: Float32Array, jobs: Sequence[Job], out: Float32Array | None) -> Iterator[Answer]:
        told = {0: 0.25, 1: float("nan")}
        for job, answer in zip(jobs, train(weights, jobs, out), strict=True):
            yield replace(answer, loss=told[job.client_row], squared_loss=0.5)

    jobs = [replace(job, ask=replace(job.ask, reports_loss=True)) for job in jobs_of([1, 0])]
    found = list(train_offered(MODELS, jobs, telling, unasked, None))

    assert [(answer.model, answer.loss, answer.squared_loss) for answer in found] == [(1, 0.25, 0.5), (0, None, 0.5)]


def test_where_all_train_the_same_model_updates_are_made_where_they_are_wanted() -> None:
    out = np.full((3, 3), np.nan, dtype=np.float32)
    given: list[bool] = []

    def watched(weights: Float32Array, jobs: Sequence[Job], out: Float32Array | None) -> Iterator[Answer]:
        given.append(out is not None)
        yield from train(weights, jobs, out)

    jobs = [replace(job, ask=replace(job.ask, reports_loss=True)) for job in jobs_of([1, 1, 1])]
    found = list(train_offered(MODELS, jobs, watched, nearest, out))

    assert given == [True]
    assert all(np.shares_memory(answer.update, row) for answer, row in zip(found, out, strict=True))
    assert [answer.model for answer in found] == [1, 1, 1]


def test_who_pre_trains_trains_the_model_whose_reference_its_update_is_nearest_to() -> None:
    # The models are 10, 20 and 30 everywhere; what follows is what is pre-trained, and a direction for each.
    first = np.array([1.0, 0.0, 0.0], dtype=np.float32)
    references = list(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 5]], dtype=np.float32))
    asked = PreTraining(steps=7, model=3, references=(4, 5, 6))
    seen: list[tuple[float, int | None]] = []

    def trains(weights: Float32Array, jobs: Sequence[Job], out: Float32Array | None) -> Iterator[Answer]:
        for job in jobs:
            seen.append((float(weights[0]), job.ask.steps))
            # Pre-training leads client 0 up, and client 1 a little down and to the side.
            delta = np.array([9, 2, 1] if job.client_row == 0 else [9, -3, -2], dtype=np.float32)
            yield Answer(delta if job.ask.steps == 7 else weights, examples=1)

    jobs = [Job(row, 0, Ask(model=-2, pre_training=asked)) for row in (0, 1)]
    jobs.append(Job(2, 0, Ask(model=1)))
    found = list(train_offered([*MODELS, first, *references], jobs, trains, unasked, None))

    # The second reference is no direction; of the others the third is nearer to (9, -3, -2).
    assert [answer.model for answer in found] == [0, 2, 1]
    assert [float(answer.update[0]) for answer in found] == [10.0, 30.0, 20.0]
    assert seen[:2] == [(1.0, 7), (1.0, 7)]
    assert sorted(seen[2:]) == [(10.0, None), (20.0, None), (30.0, None)]

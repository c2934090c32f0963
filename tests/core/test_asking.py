"""What participants are asked, and the one way to do it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.core.asking import (
    LEAST_LOSS,
    NEAREST,
    Answer,
    Ask,
    Asks,
    Failure,
    Judgement,
    Part,
    PreTraining,
    do,
)
from auxo.core.types import Float32Array, FloatArray
from auxo.training.trainer import Job
from tests.core.made_devices import Made, MeanLosses, train_offered

MODELS = [np.full(3, number, dtype=np.float32) for number in (10, 20, 30)]
CHOOSER = -1


def train(weights: Float32Array, jobs: Sequence[Job]) -> Iterator[Answer]:
    """Yield updates that say whose they are, and of which model."""
    for job in jobs:
        yield Answer((weights + job.client_row / 100).astype(np.float32), examples=job.client_row)


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
    found = list(train_offered(MODELS[:1], jobs_of([CHOOSER, 0, 0]), train, unasked))

    assert [answer.model for answer in found] == [None] * 3  # there is no other
    assert [answer.loss for answer in found] == [None, None, None]
    np.testing.assert_allclose([answer.update[0] for answer in found], [10.0, 10.01, 10.02], rtol=1e-6)


def test_who_may_choose_among_the_first_only_takes_it_without_a_look_at_losses_or_the_best_of_some() -> None:
    only, two = (
        [replace(job, ask=replace(job.ask, choices=choices)) for job in jobs_of([CHOOSER] * 3)] for choices in (1, 2)
    )

    assert [answer.model for answer in train_offered(MODELS, only, train, unasked)] == [None] * 3
    assert [answer.model for answer in train_offered(MODELS, two, train, nearest)] == [0, 1, 1]


def test_a_judge_tells_its_losses_on_each_half_in_the_order_asked() -> None:
    def loss(weights: Float32Array, job: Job) -> float:
        return float(weights[0]) + (0.5 if job.ask.fold == 1 else 0.25 if job.ask.fold == 0 else 100.0)

    def trained(job: Job, examples: int) -> Answer:
        (answer,) = train_offered(MODELS, [replace(job, client_row=examples)], train, each(loss))
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
    found = list(train_offered(MODELS, jobs_of([2, 0, 1, 2]), train, unasked))

    assert [answer.model for answer in found] == [2, None, 1, 2]
    assert [answer.examples for answer in found] == [0, 1, 2, 3]
    assert [answer.loss for answer in found] == [None] * 4
    np.testing.assert_allclose([answer.update[0] for answer in found], [30.0, 10.01, 20.02, 30.03], rtol=1e-6)


def test_a_job_that_names_none_trains_the_model_with_the_least_loss_and_tells_it() -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER] * 6), train, nearest))

    assert [answer.model for answer in found] == [0, 1, 2, 0, 1, 2]
    assert [answer.loss for answer in found] == [0.0] * 6
    np.testing.assert_allclose([answer.update[0] for answer in found], [10.0, 20.01, 30.02, 10.03, 20.04, 30.05])


def test_jobs_of_either_kind_come_back_in_their_own_order() -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER, 0, CHOOSER, 0]), train, nearest))

    assert [answer.model for answer in found] == [0, None, 2, None]
    assert [answer.loss for answer in found] == [0.0, None, 0.0, None]
    assert [answer.examples for answer in found] == [0, 1, 2, 3]


def test_of_equals_the_first_is_taken() -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER]), train, each(lambda weights, job: 1.5)))

    assert (found[0].model, found[0].loss) == (0, 1.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_that_has_diverged_is_nobodys_choice(bad: float) -> None:
    def loss(weights: Float32Array, job: Job) -> float:
        return bad if weights[0] < 30 else 9.0

    found = list(train_offered(MODELS, jobs_of([CHOOSER] * 3), train, each(loss)))

    assert [(answer.model, answer.loss) for answer in found] == [(2, 9.0)] * 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_where_all_have_diverged_there_is_no_loss_to_tell(bad: float) -> None:
    found = list(train_offered(MODELS, jobs_of([CHOOSER]), train, each(lambda weights, job: bad)))

    assert (found[0].model, found[0].loss) == (0, None)


def test_no_jobs_have_no_updates() -> None:
    assert list(train_offered(MODELS, [], train, nearest)) == []


def test_a_job_that_is_asked_for_its_loss_reports_it_also_with_one_model() -> None:
    jobs = [Job(0, 0, Ask(reports_loss=True)), Job(1, 0)]
    updates = list(train_offered([MODELS[1]], jobs, train, nearest))

    assert [answer.loss for answer in updates] == [1.0, None]
    assert [answer.model for answer in updates] == [None, None]


def test_losses_at_a_model_are_asked_for_all_at_once() -> None:
    asked: list[tuple[float, list[int]]] = []

    def loss(weights: Float32Array, jobs: Sequence[Job]) -> FloatArray:
        asked.append((float(weights[0]), [job.client_row for job in jobs]))
        return nearest(weights, jobs)

    reporting = [replace(job, ask=replace(job.ask, reports_loss=True)) for job in jobs_of([1, CHOOSER, 1])]
    found = list(train_offered(MODELS, reporting, train, loss))

    # Who compares models has its loss from there; of the others each is asked about the model that it has trained.
    assert asked == [(10.0, [1]), (20.0, [1]), (30.0, [1]), (20.0, [0, 2])]
    assert [answer.loss for answer in found] == [1.0, 0.0, 1.0]


def test_nobody_is_asked_for_a_loss_that_came_with_its_training() -> None:
    def telling(weights: Float32Array, jobs: Sequence[Job]) -> Iterator[Answer]:
        told = {0: 0.25, 1: float("nan")}
        for job, answer in zip(jobs, train(weights, jobs), strict=True):
            yield replace(answer, loss=told[job.client_row], squared_loss=0.5)

    jobs = [replace(job, ask=replace(job.ask, reports_loss=True)) for job in jobs_of([1, 0])]
    found = list(train_offered(MODELS, jobs, telling, unasked))

    assert [(answer.model, answer.loss, answer.squared_loss) for answer in found] == [(1, 0.25, 0.5), (None, None, 0.5)]


def test_who_pre_trains_trains_the_model_whose_reference_its_update_is_nearest_to() -> None:
    # The models are 10, 20 and 30 everywhere; what follows is what is pre-trained, and a direction for each.
    first = np.array([1.0, 0.0, 0.0], dtype=np.float32)
    references = list(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 5]], dtype=np.float32))
    asked = PreTraining(steps=7, model=3, references=(4, 5, 6))
    seen: list[tuple[float, int | None]] = []

    def trains(weights: Float32Array, jobs: Sequence[Job]) -> Iterator[Answer]:
        for job in jobs:
            seen.append((float(weights[0]), job.ask.steps))
            # Pre-training leads client 0 up, and client 1 a little down and to the side.
            delta = np.array([9, 2, 1] if job.client_row == 0 else [9, -3, -2], dtype=np.float32)
            yield Answer(delta if job.ask.steps == 7 else weights, examples=1)

    jobs = [Job(row, 0, Ask(model=-2, pre_training=asked)) for row in (0, 1)]
    jobs.append(Job(2, 0, Ask(model=1)))
    found = list(train_offered([*MODELS, first, *references], jobs, trains, unasked))

    # The second reference is no direction; of the others the third is nearer to (9, -3, -2).
    assert [answer.model for answer in found] == [0, 2, 1]
    assert [float(answer.update[0]) for answer in found] == [10.0, 30.0, 20.0]
    assert seen[:2] == [(1.0, 7), (1.0, 7)]
    assert sorted(seen[2:]) == [(10.0, None), (20.0, None), (30.0, None)]


def test_who_cannot_tell_losses_trains_the_first_model_and_judges_nothing() -> None:
    @dataclass(frozen=True)
    class Blind(Made):
        def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> None:  # type: ignore[override]
            return None

    asks = [Ask(model=LEAST_LOSS, judges=(1, 2), reports_loss=True)]
    (answer,) = do(asks, Blind(MODELS, [Job(5, 0, asks[0])], train, unasked))

    assert isinstance(answer, Answer)
    assert (answer.model, answer.loss, answer.judged) == (None, None, ())
    assert answer.update[0] == pytest.approx(10.05)


def test_a_failure_is_handed_on_and_tells_nothing() -> None:
    @dataclass(frozen=True)
    class Flat(Made):
        def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:  # type: ignore[override]
            for row, answer in zip(rows, super().train(model, rows, asks), strict=True):
                yield Failure("battery") if row == 1 else answer

    jobs = [replace(job, ask=replace(job.ask, reports_loss=True)) for job in jobs_of([1, 1, 0])]
    found = list(do([job.ask for job in jobs], Flat(MODELS, jobs, train, nearest)))

    assert found[1] == Failure("battery")
    assert [one.loss for one in found if isinstance(one, Answer)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("ask", "first", "places", "changed"),
    [
        (Ask(model=2, judges=(1, 2)), 0, (2, 1), Ask(model=0, choices=1, judges=(1, 0))),
        (Ask(model=LEAST_LOSS, choices=3), 1, (1, 0, 2), Ask(model=LEAST_LOSS, choices=3)),
        (Ask(model=LEAST_LOSS, choices=1, judges=(3,)), 0, (0, 3), Ask(model=0, choices=1, judges=(1,))),
        (Ask(model=3), 0, (3,), Ask(model=0, choices=1)),
        (
            Ask(model=LEAST_LOSS, choices=2, judges=(0, 3), margin=0.05),
            1,
            (1, 0, 3),
            Ask(model=LEAST_LOSS, choices=2, judges=(1, 2), margin=0.05),
        ),
    ],
)
def test_an_ask_is_sent_with_the_models_that_it_needs_and_no_other(
    ask: Ask, first: int, places: tuple[int, ...], changed: Ask
) -> None:
    assert ask.needed(4, first) == (places, changed)


@pytest.mark.parametrize(
    ("ask", "models", "offered"),
    [
        (Ask(model=3), 5, [3]),
        (Ask(model=LEAST_LOSS), 3, [0, 1, 2]),
        (Ask(model=LEAST_LOSS, choices=2), 3, [0, 1]),
        (Ask(model=LEAST_LOSS, choices=9), 3, [0, 1, 2]),
    ],
)
def test_what_is_offered_are_the_first_models_that_there_are(ask: Ask, models: int, offered: list[int]) -> None:
    assert list(ask.offered(models)) == offered


# Another model has to be clearly better.


def chosen(losses: Sequence[float], margin: float, **changes: object) -> Answer:
    """Return the answer of a client with these losses at the models, who is asked to compare them."""
    by_model = {float(model[0]): loss for model, loss in zip(MODELS, losses, strict=True)}
    ask = replace(Ask(model=LEAST_LOSS, margin=margin), **changes)  # type: ignore[arg-type]
    (answer,) = train_offered(MODELS, [Job(4, 0, ask)], train, each(lambda weights, job: by_model[float(weights[0])]))
    return answer


@pytest.mark.parametrize(
    ("losses", "model"),
    [
        ((1.0, 0.96, 0.98), 0),  # better by four in a hundred is not enough
        ((1.0, 0.94, 0.98), 1),
        ((1.0, 0.94, 0.90), 2),  # among others the best one is taken, by however little
        ((1.0, 0.97, 0.949), 2),
        ((np.nan, 1.0, 2.0), 1),
        ((np.inf, np.inf, 2.0), 2),
        ((1.0, np.nan, np.inf), 0),
    ],
)
def test_who_has_reason_to_stay_leaves_only_for_a_model_that_is_clearly_better(
    losses: tuple[float, float, float], model: int
) -> None:
    answer = chosen(losses, margin=0.05)

    assert answer.model == model
    assert answer.loss == losses[model]  # as it is
    assert answer.update[0] == pytest.approx(MODELS[model][0] + 0.04)


@pytest.mark.parametrize(
    ("halves", "margin", "fold", "model"),
    [
        ((0.8, 0.8), 0.05, None, 1),
        ((0.5, 1.1), 0.05, None, 0),  # by one half alone
        ((0.97, 0.7), 0.05, None, 0),  # by the other alone, and by a little
        ((0.5, 1.1), 0.0, None, 1),  # who has no reason to stay takes the best by all samples
        ((0.5, 1.1), 0.05, 0, 1),  # who trains on one half looks at no other: by that it will be judged
    ],
)
def test_who_has_reason_to_stay_leaves_only_for_a_model_that_is_better_on_both_halves(
    halves: tuple[float, float], margin: float, fold: int | None, model: int
) -> None:
    def loss(weights: Float32Array, job: Job) -> float:
        if float(weights[0]) != float(MODELS[1][0]):
            return 1.0 if float(weights[0]) == float(MODELS[0][0]) else 9.0
        return float(np.mean(halves)) if job.ask.fold is None else halves[job.ask.fold]

    ask = Ask(model=LEAST_LOSS, margin=margin, fold=fold)
    (answer,) = train_offered(MODELS, [Job(4, 0, ask)], train, each(loss))

    assert answer.model == model
    assert answer.loss == (1.0 if model == 0 else halves[0] if fold == 0 else float(np.mean(halves)))


@pytest.mark.parametrize(("other", "model"), [(0.999, 1), (1.0, 0)])
def test_who_has_no_reason_to_stay_leaves_for_any_that_is_better(other: float, model: int) -> None:
    assert chosen((1.0, other, 1.5), margin=0.0).model == model


def test_margins_are_each_ones_own() -> None:
    asks = replace(Asks.plain(3), model=np.full(3, LEAST_LOSS), margin=np.array([0.05, 0.0, 0.2]))

    assert [asks.of(row, choices=2).margin for row in range(3)] == [0.05, 0.0, 0.2]
    assert [Asks.plain(3).of(row, choices=2).margin for row in range(3)] == [0.0] * 3


# All of a round's.


ASKS = replace(Asks.plain(4), model=np.array([0, LEAST_LOSS, 1, 2]))


def test_how_many_models_each_looks_at_is_counted() -> None:
    assert ASKS.compared(3).tolist() == [1, 3, 1, 1]
    assert ASKS.compared(1).tolist() == [1, 1, 1, 1]
    nearest_one = replace(ASKS, model=np.full(4, NEAREST), pre_training=PreTraining(1, 0, (1, 2)))
    assert nearest_one.compared(2).tolist() == [1] * 4


def test_asks_of_models_that_there_are_not_are_refused() -> None:
    ASKS.check(4, offered=1, models=3)
    ASKS.check(4, offered=2, models=4)
    for model in (NEAREST, NEAREST - 1, 3):  # without pre-training nobody can find the nearest
        with pytest.raises(ValueError, match=r"asks\.model: expected places among the 3 models"):
            replace(ASKS, model=np.array([0, 0, model, 0])).check(4, offered=1, models=3)


@pytest.mark.parametrize("judges", [[[0, 3]] * 4, [[0, -2]] * 4, [[0, 1]] * 3])
def test_judges_of_models_that_there_are_not_are_refused(judges: list[list[int]]) -> None:
    replace(ASKS, judges=np.array([[0, 2]] * 3 + [[-1, -1]])).check(4, offered=1, models=3)
    with pytest.raises(ValueError, match=r"asks\.judges: expected 4 rows of places among the 3 models"):
        replace(ASKS, judges=np.array(judges)).check(4, offered=1, models=3)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.asking import Ask
from auxo.core.rng import stream
from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData, Samples
from auxo.training.local_samples import PADDING, local_batches
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import NO_CLASS, Job, LocalTraining

FEATURES, CLASSES = 9, 4
COUNTS = [13, 1, 0, 30, 6, 12, 2]

trainings = st.builds(
    LocalTraining,
    batch_size=st.integers(1, 8),
    epochs=st.integers(1, 2),
    momentum=st.sampled_from([0.0, 0.9]),
    weight_decay=st.sampled_from([0.0, 0.01]),
    proximal=st.sampled_from([0.0, 0.5]),
)
orders = st.lists(st.integers(0, len(COUNTS) - 1), min_size=1, max_size=10)


def population() -> FederatedData:
    rng = stream(1, "population")
    total = sum(COUNTS)
    samples = Samples(rng.integers(20, size=total), rng.integers(CLASSES, size=total), np.cumsum([0, *COUNTS]))
    x = rng.normal(size=(20, 3, 3)).astype(np.float32)
    return FederatedData("random", x, samples, samples, CLASSES, tuple(map(str, range(len(COUNTS)))))


DATA = population()
INPUTS = DATA.numbers(np.arange(len(DATA.x)))
WEIGHTS = stream(2, "weights").normal(size=(FEATURES + 1) * CLASSES).astype(np.float32)


def plain_sgd(data: FederatedData, job: Job, training: LocalTraining) -> Float32Array:
    """Local SGD sample by sample in float64, without padding, as a textbook has it."""
    start = WEIGHTS.astype(np.float64)
    matrix, bias = start[:-CLASSES].reshape(FEATURES, CLASSES), start[-CLASSES:]
    matrix_velocity, bias_velocity = np.zeros_like(matrix), np.zeros_like(bias)
    for batch in local_batches(data, [job], training, seed=3)[0]:
        positions = batch[batch != PADDING]
        matrix_gradient, bias_gradient = training.weight_decay * matrix, training.weight_decay * bias
        for position in positions:
            x = data.x[data.train.x_rows[position]].ravel().astype(np.float64)
            likelihoods = np.exp(x @ matrix + bias)
            error = likelihoods / likelihoods.sum() - np.eye(CLASSES)[data.train.y[position]]
            matrix_gradient = matrix_gradient + np.outer(x, error) / len(positions)
            bias_gradient = bias_gradient + error / len(positions)
        matrix_gradient = matrix_gradient + training.proximal * (matrix - start[:-CLASSES].reshape(matrix.shape))
        bias_gradient = bias_gradient + training.proximal * (bias - start[-CLASSES:])
        matrix_velocity = training.momentum * matrix_velocity + matrix_gradient
        bias_velocity = training.momentum * bias_velocity + bias_gradient
        matrix = matrix - training.learning_rate * matrix_velocity
        bias = bias - training.learning_rate * bias_velocity
    return (np.concatenate([matrix.ravel(), bias]) - WEIGHTS).astype(np.float32)


def train(jobs: list[Job], training: LocalTraining, at_once: int = 32) -> list[Float32Array]:
    trainer = SoftmaxTrainer(FEATURES, CLASSES, participants_at_once=at_once)
    return [answer.update for answer in trainer.train(WEIGHTS, DATA, jobs, training, seed=3)]


@given(training=trainings, fold=st.sampled_from([None, 0, 1]))
@settings(max_examples=30)
def test_batched_training_agrees_with_plain_sgd_of_each_participant(training: LocalTraining, fold: int | None) -> None:
    jobs = [Job(row, visit=row % 2, ask=Ask(fold=fold)) for row in range(len(COUNTS))]

    for job, delta in zip(jobs, train(jobs, training), strict=True):
        # Some units in the last place of weights around 1, gathered over up to 60 steps.
        np.testing.assert_allclose(delta, plain_sgd(DATA, job, training), rtol=0, atol=2e-6)


@given(
    batch_size=st.sampled_from([1, 3, 6, 50, 97]),
    epochs=st.sampled_from([1, 5]),
    fold=st.sampled_from([None, 0, 1]),
    at_once=st.integers(1, 8),
    proximal=st.sampled_from([0.0, 1.0, 20.0, 30.0]),  # at a rate of 0.05, kappa is down to 0 and below
)
@settings(max_examples=30)
def test_deferred_weights_agree_with_plain_sgd(
    batch_size: int, epochs: int, fold: int | None, at_once: int, proximal: float
) -> None:
    training = LocalTraining(batch_size=batch_size, epochs=epochs, proximal=proximal)
    jobs = [Job(row, visit=row % 2, ask=Ask(fold=fold)) for row in range(len(COUNTS))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auxo.training.softmax_trainer._MANY_PARAMETERS", 1)
        deferred = train(jobs, training, at_once)

    for job, delta in zip(jobs, deferred, strict=True):
        # Up to 300 samples, which are several stretches; as above.
        np.testing.assert_allclose(delta, plain_sgd(DATA, job, training), rtol=0, atol=4e-6)


@given(rows=orders, training=trainings, at_once=st.integers(1, 5))
@settings(max_examples=30)
def test_update_has_the_same_bits_whatever_the_other_jobs_are(
    rows: list[int], training: LocalTraining, at_once: int
) -> None:
    alone = {row: train([Job(row, 0)], training)[0].tobytes() for row in set(rows)}

    together = train([Job(row, 0) for row in rows], training, at_once)

    assert [delta.tobytes() for delta in together] == [alone[row] for row in rows]


@pytest.mark.parametrize("classes", [10, 11])
def test_same_bits_hold_for_a_model_of_real_size(classes: int) -> None:
    # The weights of eleven classes are so many that they are deferred.
    rng = stream(5, "population")
    counts = [40, 7, 55, 23, 40, 61, 12, 40]
    total = sum(counts)
    samples = Samples(np.arange(total), rng.integers(classes, size=total), np.cumsum([0, *counts]))
    x = rng.normal(size=(total, 784)).astype(np.float32)
    data = FederatedData("images", x, samples, samples, classes, tuple(map(str, range(len(counts)))))
    jobs = [Job(row, 0) for row in range(len(counts))]
    trainer = SoftmaxTrainer(784, classes)
    weights = trainer.initial_weights(0)

    together = list(trainer.train(weights, data, jobs, LocalTraining(), seed=1))

    for job, answer in zip(jobs, together, strict=True):
        (alone,) = trainer.train(weights, data, [job], LocalTraining(), seed=1)
        assert alone.update.tobytes() == answer.update.tobytes()


@pytest.mark.parametrize("many", [1, 10**9], ids=["deferred", "at every step"])
def test_updates_go_to_the_memory_they_are_given_with_the_same_bits(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auxo.training.softmax_trainer._MANY_PARAMETERS", many)
    jobs = [Job(row, 0, Ask(fold=fold)) for row in range(len(COUNTS)) for fold in (None, 1)]
    room = np.full((len(jobs) + 2, len(WEIGHTS)), np.nan, dtype=np.float32)
    trainer = SoftmaxTrainer(FEATURES, CLASSES, participants_at_once=4)

    updates = list(trainer.train(WEIGHTS, DATA, jobs, LocalTraining(), seed=3, out=room[1:-1]))

    assert room[1:-1].tobytes() == np.stack(train(jobs, LocalTraining(), at_once=5)).tobytes()
    assert all(np.shares_memory(answer.update, row) for answer, row in zip(updates, room[1:-1], strict=True))
    assert np.isnan(room[[0, -1]]).all()


def test_examples_are_all_of_the_clients_samples_whatever_the_fold_counted_once_for_all_epochs() -> None:
    jobs = [Job(row, 0, Ask(fold=fold)) for row, fold in [(3, None), (0, 0), (0, 1), (2, None)]]

    updates = SoftmaxTrainer(FEATURES, CLASSES).train(WEIGHTS, DATA, jobs, LocalTraining(epochs=3), seed=3)

    assert [answer.examples for answer in updates] == [30, 13, 13, 0]


def test_client_without_samples_does_not_move_the_weights() -> None:
    (delta,) = train([Job(2, 0)], LocalTraining(momentum=0.9, weight_decay=0.1))

    np.testing.assert_array_equal(delta, np.zeros_like(WEIGHTS))


def test_training_leaves_weights_and_data_untouched() -> None:
    weights, x = WEIGHTS.copy(), DATA.x.copy()

    train([Job(3, 0), Job(0, 0)], LocalTraining(momentum=0.9))

    np.testing.assert_array_equal(weights, WEIGHTS)
    np.testing.assert_array_equal(x, DATA.x)


def test_logits_too_large_for_exp_still_give_a_finite_update() -> None:
    jobs = [Job(3, 0)]

    (answer,) = SoftmaxTrainer(FEATURES, CLASSES).train(1000 * WEIGHTS, DATA, jobs, LocalTraining(), seed=3)

    assert np.all(np.isfinite(answer.update))
    assert np.any(answer.update)


@pytest.mark.parametrize("many", [1, 10**9], ids=["deferred", "at every step"])
def test_one_clients_broken_inputs_stay_with_it(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auxo.training.softmax_trainer._MANY_PARAMETERS", many)
    x = DATA.x.copy()
    samples = Samples(np.arange(8), np.arange(8) % CLASSES, np.array([0, 5, 8]))
    x[7] = np.nan
    data = FederatedData("broken", x, samples, samples, CLASSES, ("sound", "broken"))
    jobs = [Job(0, 0), Job(1, 0)]

    sound, broken = SoftmaxTrainer(FEATURES, CLASSES).train(WEIGHTS, data, jobs, LocalTraining(batch_size=4), seed=3)

    assert np.all(np.isfinite(sound.update))
    assert not np.all(np.isfinite(broken.update))


def test_prediction_is_the_class_of_the_largest_logit() -> None:
    matrix, bias = WEIGHTS[:-CLASSES].reshape(FEATURES, CLASSES), WEIGHTS[-CLASSES:]
    expected = [int(np.argmax(row.ravel() @ matrix + bias)) for row in DATA.x]

    predicted = SoftmaxTrainer(FEATURES, CLASSES).predict(WEIGHTS, INPUTS)

    assert predicted.dtype == np.int64
    assert predicted.tolist() == expected


def test_data_of_another_shape_are_refused() -> None:
    trainer = SoftmaxTrainer(FEATURES + 1, CLASSES)
    with pytest.raises(ValueError, match="x: expected 10 features, got 9"):
        next(trainer.train(trainer.initial_weights(0), DATA, [Job(0, 0)], LocalTraining(), seed=1))
    with pytest.raises(ValueError, match="weights: expected shape"):
        trainer.predict(WEIGHTS, INPUTS)


@pytest.mark.parametrize("field", ["n_features", "n_classes", "participants_at_once"])
def test_sizes_must_be_positive(field: str) -> None:
    sizes = {"n_features": 3, "n_classes": 2, "participants_at_once": 1, field: 0}
    with pytest.raises(ValueError, match=f"{field}: expected at least 1, got 0"):
        SoftmaxTrainer(**sizes)


def test_probabilities_are_those_by_which_the_prediction_is_the_most_likely() -> None:
    trainer = SoftmaxTrainer(FEATURES, CLASSES)
    likely = trainer.probabilities(WEIGHTS, INPUTS)
    np.testing.assert_allclose(likely.sum(axis=1), 1)
    assert np.array_equal(likely.argmax(axis=1), trainer.predict(WEIGHTS, INPUTS))
    y = np.arange(len(INPUTS)) % CLASSES
    np.testing.assert_allclose(-np.log(likely[np.arange(len(y)), y]), trainer.losses(WEIGHTS, INPUTS, y), rtol=1e-6)


def test_where_outputs_are_no_numbers_no_class_is_predicted() -> None:
    broken = INPUTS.copy()
    broken[1, 0, 0] = np.nan
    found = SoftmaxTrainer(FEATURES, CLASSES).predict(WEIGHTS, broken)
    assert found[1] == NO_CLASS
    assert (found[2:] >= 0).all()

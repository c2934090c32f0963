from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from auxo.core.layers import Layer
from auxo.core.rng import stream
from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData, Samples
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from auxo.models.small_models import LeafCnn, Mlp, SmallCnn, image_shape  # noqa: E402
from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.kernels import Stacking  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402

COUNTS = [13, 1, 0, 20]
FEATURES, CLASSES = 16, 3
JOBS = [Job(row, visit=0) for row in range(len(COUNTS))]


def population() -> FederatedData:
    rng = stream(1, "population")
    total = sum(COUNTS)
    samples = Samples(np.arange(total), rng.integers(CLASSES, size=total), np.cumsum([0, *COUNTS]))
    x = rng.normal(size=(total, FEATURES)).astype(np.float32)
    return FederatedData("random", x, samples, samples, CLASSES, tuple(map(str, range(len(COUNTS)))))


DATA = population()
INPUTS = DATA.numbers(np.arange(len(DATA.x)))


def linear() -> nn.Module:
    return nn.Linear(FEATURES, CLASSES)


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.5), nn.GroupNorm(2, 8), nn.Linear(8, CLASSES))


def with_frozen_layer() -> nn.Module:
    module = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    module[0].requires_grad_(False)
    return module


FACTORIES: dict[str, Callable[[], nn.Module]] = {
    "linear": linear,
    "mlp": partial(Mlp, FEATURES, CLASSES),
    "cnn": partial(SmallCnn, 4, CLASSES),
    "dropout": with_dropout,
    "frozen": with_frozen_layer,
}


TRAINERS = {
    **{name: TorchTrainer(factory) for name, factory in FACTORIES.items()},
    "stacked linear": TorchTrainer(linear, batching=BatchingPlan("stacked", at_once=3)),
    "stacked and deferred mlp": TorchTrainer(
        FACTORIES["mlp"], batching=BatchingPlan("stacked", 3, Stacking(("layers.1",)))
    ),
    "stacked cnn": TorchTrainer(FACTORIES["cnn"], batching=BatchingPlan("stacked", at_once=3)),
    "stacked and frozen": TorchTrainer(with_frozen_layer, batching=BatchingPlan("stacked", at_once=3)),
    "mapped mlp": TorchTrainer(FACTORIES["mlp"], batching=BatchingPlan("vmap", at_once=3)),
}


@pytest.fixture(params=TRAINERS)
def trainer(request: pytest.FixtureRequest) -> TorchTrainer:
    return TRAINERS[request.param]


def deltas(trainer: TorchTrainer, jobs: list[Job], training: LocalTraining, seed: int = 3) -> list[Float32Array]:
    return [answer.update for answer in trainer.train(trainer.initial_weights(7), DATA, jobs, training, seed)]


def test_update_has_the_same_bits_whatever_the_other_jobs_are(trainer: TorchTrainer) -> None:
    training = LocalTraining(batch_size=4, epochs=2, momentum=0.9, weight_decay=0.01)
    alone = [deltas(trainer, [job], training)[0].tobytes() for job in JOBS]

    backwards = deltas(trainer, JOBS[::-1], training)

    assert [delta.tobytes() for delta in backwards] == alone[::-1]


def test_updates_go_to_the_memory_they_are_given_with_the_same_bits(trainer: TorchTrainer) -> None:
    room = np.full((len(JOBS) + 2, trainer.n_params), np.nan, dtype=np.float32)
    expected = deltas(trainer, JOBS, LocalTraining())

    updates = list(trainer.train(trainer.initial_weights(7), DATA, JOBS, LocalTraining(), seed=3, out=room[1:-1]))

    assert [row.tobytes() for row in room[1:-1]] == [delta.tobytes() for delta in expected]
    assert all(np.shares_memory(answer.update, row) for answer, row in zip(updates, room[1:-1], strict=True))
    assert np.isnan(room[[0, -1]]).all()


def test_updates_without_such_memory_stay_as_they_are_when_training_goes_on(trainer: TorchTrainer) -> None:
    first = deltas(trainer, JOBS, LocalTraining())
    copies = [delta.copy() for delta in first]

    deltas(trainer, JOBS[::-1], LocalTraining(), seed=4)

    np.testing.assert_array_equal(first, copies)


def test_another_trainer_of_the_same_module_gives_the_same_bits(trainer: TorchTrainer) -> None:
    other = TorchTrainer(trainer.module_factory, batching=trainer.batching)
    deltas(trainer, JOBS, LocalTraining())

    assert [delta.tobytes() for delta in deltas(trainer, JOBS, LocalTraining())] == [
        delta.tobytes() for delta in deltas(other, JOBS, LocalTraining())
    ]


def test_updates_of_two_runs_may_be_taken_in_turn() -> None:
    trainer = TorchTrainer(FACTORIES["mlp"])
    weights = trainer.initial_weights(7)
    expected = deltas(trainer, JOBS, LocalTraining())

    for one, other, delta in zip(
        trainer.train(weights, DATA, JOBS, LocalTraining(), seed=3),
        trainer.train(weights + 1, DATA, JOBS, LocalTraining(), seed=4),
        expected,
        strict=True,
    ):
        assert one.update.tobytes() == delta.tobytes()
        assert one.examples == other.examples


def test_initial_weights_depend_on_the_seed_alone(trainer: TorchTrainer) -> None:
    first = trainer.initial_weights(1)
    deltas(trainer, JOBS, LocalTraining())

    assert first.shape == (trainer.n_params,)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(trainer.initial_weights(1), first)
    assert not np.array_equal(trainer.initial_weights(2), first)


def test_initial_weights_stay_within_the_bound_of_their_fan_in() -> None:
    weights = TorchTrainer(linear).initial_weights(1)

    assert np.all(np.abs(weights[: FEATURES * CLASSES]) <= FEATURES**-0.5)
    np.testing.assert_array_equal(weights[FEATURES * CLASSES :], np.zeros(CLASSES))


def test_module_may_bring_its_own_initial_weights() -> None:
    def pretrained() -> nn.Module:
        module = linear()
        nn.init.constant_(module.get_parameter("weight"), 0.25)
        return nn.Sequential(module)

    trainer = TorchTrainer(pretrained, initialise=lambda module, rng: None)

    np.testing.assert_array_equal(trainer.initial_weights(1)[: FEATURES * CLASSES], np.full(48, np.float32(0.25)))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_linear_module_agrees_with_the_softmax_trainer(momentum: float) -> None:
    training = LocalTraining(batch_size=4, epochs=2, momentum=momentum, weight_decay=0.01)
    trainer, softmax = TorchTrainer(linear), SoftmaxTrainer(FEATURES, CLASSES)
    weights = trainer.initial_weights(7)

    def transposed(flat: Float32Array, *shape: int) -> Float32Array:
        return np.concatenate([flat[:-CLASSES].reshape(shape).T.ravel(), flat[-CLASSES:]])

    # torch keeps (classes, features), softmax (features, classes).
    weights_for_softmax = transposed(weights, CLASSES, FEATURES)
    expected = list(softmax.train(weights_for_softmax, DATA, JOBS, training, seed=3))
    got = list(trainer.train(weights, DATA, JOBS, training, seed=3))

    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(transposed(one.update, CLASSES, FEATURES), other.update, rtol=0, atol=2e-6)
        assert one.examples == other.examples
    np.testing.assert_array_equal(trainer.predict(weights, INPUTS), softmax.predict(weights_for_softmax, INPUTS))


def test_frozen_parameters_are_no_part_of_the_weights() -> None:
    trainer = TorchTrainer(with_frozen_layer)
    assert trainer.n_params == 8 * CLASSES + CLASSES
    assert trainer.layers == (Layer((CLASSES, 8)), Layer((CLASSES,)))


@pytest.fixture
def three_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("three_threads")
def test_torch_is_left_as_it_was_found(trainer: TorchTrainer) -> None:
    state = torch.get_rng_state()

    deltas(trainer, JOBS, LocalTraining())
    trainer.predict(trainer.initial_weights(1), INPUTS)

    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == 3


def test_dropout_is_drawn_anew_for_each_visit_and_rests_in_prediction() -> None:
    trainer = TorchTrainer(with_dropout)
    one_sample = LocalTraining(epochs=1)
    first, second = deltas(trainer, [Job(1, visit=0), Job(1, visit=1)], one_sample)

    assert not np.array_equal(first, second)
    weights = trainer.initial_weights(1)
    np.testing.assert_array_equal(trainer.predict(weights, INPUTS), trainer.predict(weights, INPUTS))


def test_inputs_may_be_read_only_and_stay_untouched(trainer: TorchTrainer) -> None:
    weights, x = trainer.initial_weights(1), INPUTS.copy()
    before = weights.copy()
    weights.flags.writeable = False
    x.flags.writeable = False
    data = FederatedData(DATA.name, x, DATA.train, DATA.test, CLASSES, DATA.client_names)

    list(trainer.train(weights, data, JOBS, LocalTraining(), seed=3))
    predicted = trainer.predict(weights, x)

    assert predicted.shape == (len(x),)
    np.testing.assert_array_equal(weights, before)
    np.testing.assert_array_equal(x, DATA.x)


def test_weights_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights: expected shape \(51,\), got \(3,\)"):
        TorchTrainer(linear).predict(np.zeros(3, dtype=np.float32), INPUTS)


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        (nn.ReLU(), "got none"),
        (nn.Linear(4, 2, dtype=torch.float64), "expected float32"),
        (nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)), "running statistics"),
    ],
    ids=["nothing to train", "doubles", "batch norm"],
)
def test_module_that_cannot_be_averaged_is_refused(module: nn.Module, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TorchTrainer(lambda: module)


def test_losses_are_the_cross_entropies_of_the_rows() -> None:
    trainer = TorchTrainer(linear)
    weights = trainer.initial_weights(1)
    x = np.tile(INPUTS, (40, 1))  # more rows than are predicted at a time
    y = np.tile(DATA.train.y, 40)
    logits = x.astype(np.float64) @ weights[:-CLASSES].reshape(CLASSES, FEATURES).T + weights[-CLASSES:]

    losses = trainer.losses(weights, x, y)

    expected = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]
    np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("model", [SmallCnn, LeafCnn])
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (1, 28), (3, 32)])
def test_cnn_takes_images_flat_or_square(model: type[SmallCnn] | type[LeafCnn], channels: int, side: int) -> None:
    cnn = model(side, classes=5, channels=channels)
    images = torch.ones(2, channels, side, side)

    assert cnn(images).shape == (2, 5)
    assert torch.equal(cnn(images), cnn(images.flatten(1)))


@pytest.mark.parametrize("features", [(63,), (8, 9), (3, 8, 9), (2, 2, 8, 8), ()])
def test_samples_that_are_no_square_images_are_refused(features: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="square images"):
        image_shape(features)


@pytest.mark.parametrize("model", [SmallCnn, LeafCnn])
def test_images_too_small_for_the_cnn_are_refused(model: type[SmallCnn] | type[LeafCnn]) -> None:
    with pytest.raises(ValueError, match="at least 4x4 pixels, got 3x3"):
        model(3, classes=2)


def test_leaf_cnn_has_the_parameters_of_leaf() -> None:
    # 5x5 filters: 1 to 32 and 32 to 64 maps; 7x7 of these to 2048 hidden units, and these to 62 characters.
    expected = (25 + 1) * 32 + (32 * 25 + 1) * 64 + (64 * 49 + 1) * 2048 + (2048 + 1) * 62

    assert sum(weight.numel() for weight in LeafCnn(28, classes=62, hidden=2048).parameters()) == expected

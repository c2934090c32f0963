import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.core.aggregators import FedAvg, update_weight, weighted_mean
from auxo.core.rng import stream
from auxo.core.types import IntArray
from auxo.learning.federated_data import FederatedData, Samples
from auxo.learning.models import MODELS, Batching, make_trainer
from auxo.learning.trainer import Job, LocalTraining, Trainer

CLASSES, SIDE, CLIENTS, SAMPLES_EACH = 4, 8, 6, 20


@dataclass(frozen=True)
class Enough:
    """What a model needs to learn the population below."""

    rounds: int
    training: LocalTraining


# "resnet18" keeps the contract, too, in a file of its own: it is large.
CONTRACT = {
    "softmax": Enough(5, LocalTraining()),
    "mlp": Enough(5, LocalTraining()),
    "cnn": Enough(7, LocalTraining()),
    "leaf-cnn": Enough(7, LocalTraining(learning_rate=0.1)),
}


def separable_population() -> FederatedData:
    """Clients whose samples are noisy copies of one image for each class."""
    rng = stream(1, "separable")
    prototypes = rng.normal(size=(CLASSES, SIDE * SIDE))

    def labels() -> IntArray:
        return rng.integers(CLASSES, size=CLIENTS * SAMPLES_EACH)

    y_train, y_test = labels(), labels()
    y = np.concatenate([y_train, y_test])
    x = (prototypes[y] + rng.normal(scale=0.5, size=(len(y), SIDE * SIDE))).astype(np.float32)
    offsets = np.arange(CLIENTS + 1) * SAMPLES_EACH
    train = Samples(np.arange(len(y_train)), y_train, offsets)
    test = Samples(np.arange(len(y_train), len(y)), y_test, offsets)
    return FederatedData("separable", x, train, test, CLASSES, tuple(map(str, range(CLIENTS))))


DATA = separable_population()


@pytest.fixture(params=CONTRACT)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def trainer(model: str) -> Trainer:
    if model != "softmax":
        pytest.importorskip("torch")
    return make_trainer(model, DATA)


# Contract: what every trainer does.


def test_initial_weights_are_one_flat_float32_vector_for_each_seed(trainer: Trainer) -> None:
    weights = trainer.initial_weights(1)

    assert weights.shape == (trainer.n_params,)
    assert weights.dtype == np.float32
    assert weights.tobytes() == trainer.initial_weights(1).tobytes()


def test_few_rounds_of_federated_averaging_learn_a_separable_population(model: str, trainer: Trainer) -> None:
    aggregator, enough = FedAvg(), CONTRACT[model]
    state = aggregator.initial(trainer.initial_weights(1))
    for visit in range(enough.rounds):
        jobs = [Job(row, visit, fold=None) for row in range(CLIENTS)]
        updates = trainer.train(state.weights, DATA, jobs, enough.training, seed=1)
        mean = weighted_mean(
            ((update.delta, update_weight("examples", update.examples)) for update in updates), trainer.n_params
        )
        assert mean is not None
        state = aggregator.step(state, mean)

    predicted = trainer.predict(state.weights, DATA.x[DATA.test.x_rows])
    assert np.mean(predicted == DATA.test.y) > 0.9


def test_updates_come_in_the_order_of_the_jobs_with_the_same_bits(trainer: Trainer) -> None:
    weights = trainer.initial_weights(1)
    jobs = [Job(row, visit=row, fold=row % 2) for row in range(CLIENTS)]

    forwards = list(trainer.train(weights, DATA, jobs, LocalTraining(), seed=1))
    backwards = list(trainer.train(weights, DATA, jobs[::-1], LocalTraining(), seed=1))

    assert [update.delta.tobytes() for update in forwards] == [update.delta.tobytes() for update in backwards[::-1]]
    assert len({update.delta.tobytes() for update in forwards}) == CLIENTS
    assert {update.examples for update in forwards} == {SAMPLES_EACH // 2}
    assert all(update.delta.dtype == np.float32 for update in forwards)


def test_no_jobs_give_no_updates(trainer: Trainer) -> None:
    assert list(trainer.train(trainer.initial_weights(1), DATA, [], LocalTraining(), seed=1)) == []


def test_diverging_participant_gives_an_update_that_is_not_finite(trainer: Trainer) -> None:
    weights = trainer.initial_weights(1)
    reckless = LocalTraining(learning_rate=1e30, weight_decay=1.0)

    (update,) = trainer.train(weights, DATA, [Job(0, 0, None)], reckless, seed=1)

    assert not np.all(np.isfinite(update.delta))


def test_prediction_of_no_rows_is_empty(trainer: Trainer) -> None:
    assert trainer.predict(trainer.initial_weights(1), DATA.x[:0]).shape == (0,)


# The registry.


def test_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="expected one of softmax, mlp, cnn, leaf-cnn, resnet18, got 'resnet'"):
        make_trainer("resnet", DATA)


def test_every_model_keeps_the_contract() -> None:
    assert {*CONTRACT, "resnet18"} == set(MODELS)


@pytest.mark.parametrize("batching", ["stacked", "vmap", "one-by-one"])
def test_participants_train_in_the_way_that_is_asked_for(batching: Batching) -> None:
    pytest.importorskip("torch")
    from auxo.learning.torch_trainer import TorchTrainer  # noqa: PLC0415

    trainer = make_trainer("mlp", DATA, batching)

    assert isinstance(trainer, TorchTrainer)
    assert trainer.way.kind == batching


@pytest.mark.parametrize("features", [(SIDE * SIDE,), (SIDE, SIDE), (1, SIDE, SIDE)])
@pytest.mark.parametrize("model", ["softmax", "mlp", "cnn", "leaf-cnn"])
def test_model_is_made_for_inputs_flat_or_square(model: str, features: tuple[int, ...]) -> None:
    if model != "softmax":
        pytest.importorskip("torch")
    data = replace(DATA, x=DATA.x.reshape(-1, *features))
    trainer = make_trainer(model, data)

    assert trainer.n_params == make_trainer(model, DATA).n_params
    assert trainer.predict(trainer.initial_weights(1), data.x).shape == (len(data.x),)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "softmax"])
def test_missing_torch_is_an_error_that_says_what_to_install(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("auxo.learning.torch_models", "auxo.learning.torch_trainer"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    with pytest.raises(ImportError, match=r'"auxo\[torch\]"'):
        make_trainer(model, DATA)


def test_softmax_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    assert make_trainer("softmax", DATA).n_params == (SIDE * SIDE + 1) * CLASSES

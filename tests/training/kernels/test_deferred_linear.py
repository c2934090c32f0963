from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.asking import Ask
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray
from auxo.training.trainer import Job, LocalTraining
from tests.training.side_by_side import CLASSES, largest_difference, population, updates

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.kernels import Stacking  # noqa: E402
from auxo.training.kernels.deferred import stretch_steps  # noqa: E402
from auxo.training.kernels.deferred_linear import DeferredLinear  # noqa: E402
from auxo.training.kernels.stacked_parameter import StackedParameter  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402

INPUTS, RATE = 10, 0.05
LAYERS = (StackedParameter(3, (4, INPUTS)), StackedParameter(3 + 4 * INPUTS, (1, INPUTS)))
PARAMETERS = 3 + 5 * INPUTS + 2


def errors_at(outputs: FloatArray) -> FloatArray:
    """Errors that depend on the outputs, so that a wrong output shows in all that follows."""
    return np.asarray(np.tanh(outputs) / len(outputs))


def plain_sgd(weights: FloatArray, x: FloatArray, batch: int, proximal: float) -> FloatArray:
    """A layer's update by SGD that moves the weights at every step, in float64."""
    moved = weights.copy()
    for first in range(0, len(x), batch):
        rows = x[first : first + batch]
        gradient = errors_at(rows @ moved.T).T @ rows + proximal * (moved - weights)
        moved = moved - RATE * gradient
    return moved - weights


def train_deferred(
    weights: Float32Array, inputs: Sequence[Float32Array], batch: int, proximal: float = 0.0
) -> Float32Array:
    """Take the layers of several jobs through their steps, those with most steps first."""
    out = np.full((len(inputs), PARAMETERS), np.nan, dtype=np.float32)
    steps = [len(x) // batch for x in inputs]
    deferred = DeferredLinear(
        LAYERS, torch.from_numpy(weights), [torch.from_numpy(row) for row in out], steps, batch, RATE, proximal
    )
    stretch = stretch_steps(batch)
    for step in range(steps[0]):
        active = sum(own > step for own in steps)
        if step % stretch == 0:
            rows = slice(step * batch, (step + stretch) * batch)
            deferred.begin([torch.from_numpy(x[rows]) for x in inputs[:active]], step)
        deferred.at(step)
        for layer in LAYERS:
            outputs = deferred.forward(layer.offset, active)
            assert outputs.shape == (active, batch, layer.shape[0])
            errors = np.stack([errors_at(own.astype(np.float64)) for own in outputs.numpy()])
            deferred.backward(layer.offset, torch.from_numpy(errors.astype(np.float32)))
        if step % stretch == stretch - 1 or step == steps[0] - 1:
            deferred.end()
    return out


@given(
    steps=st.lists(st.integers(1, 40), min_size=1, max_size=4).map(lambda numbers: sorted(numbers, reverse=True)),
    batch=st.sampled_from([1, 5, 6, 40, 97]),
    proximal=st.sampled_from([0.0, 0.4, 1 / RATE, 30.0]),  # kappa is down to 0 and below
)
@settings(max_examples=50)
def test_deferred_weights_are_those_of_plain_sgd(steps: list[int], batch: int, proximal: float) -> None:
    rng = stream(1, "deferred", batch, *steps)
    weights = rng.normal(size=PARAMETERS, scale=0.3).astype(np.float32)
    inputs = [rng.normal(size=(own * batch, INPUTS)).astype(np.float32) for own in steps]

    out = train_deferred(weights, inputs, batch, proximal)

    for row, x in zip(out, inputs, strict=True):
        for layer in LAYERS:
            columns = layer.columns
            before = weights[columns].reshape(layer.shape).astype(np.float64)
            expected = plain_sgd(before, x.astype(np.float64), batch, proximal)
            difference = np.abs(row[columns].reshape(expected.shape) - expected).max()
            # Float32 over up to 40 steps; the term leaves little of an update beside the weights, which are around 1.
            assert difference <= 2e-5 * np.abs(expected).max() + (1e-6 if proximal else 0.0)


@given(steps=st.lists(st.integers(1, 30), min_size=1, max_size=3))
@settings(max_examples=10)
def test_only_the_columns_of_the_layers_are_written(steps: list[int]) -> None:
    inputs = [np.ones((6 * own, INPUTS), dtype=np.float32) for own in sorted(steps, reverse=True)]

    out = train_deferred(np.ones(PARAMETERS, dtype=np.float32), inputs, batch=6)

    assert np.isnan(out[:, :3]).all()
    assert np.isnan(out[:, 3 + 5 * INPUTS :]).all()
    assert np.isfinite(out[:, 3 : 3 + 5 * INPUTS]).all()


def test_stretch_is_of_one_step_at_least() -> None:
    assert stretch_steps(10_000) == 1
    assert stretch_steps(6) > 1


def test_layer_that_gets_no_errors_does_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", lambda *size: torch.full(size, torch.nan))
    update, layer = torch.full((4 * INPUTS,), torch.nan), StackedParameter(0, (4, INPUTS))
    deferred = DeferredLinear((layer,), torch.ones(4 * INPUTS), [update], steps=[2], batch=6, rate=RATE)

    deferred.begin([torch.ones(12, INPUTS)], 0)
    for step in range(2):
        deferred.at(step)
        assert torch.equal(deferred.forward(0, active=1), torch.full((1, 6, 4), float(INPUTS)))
    deferred.end()

    assert torch.equal(update, torch.zeros(4 * INPUTS))


class TwoInputLayers(nn.Module):
    """Two layers on the raw inputs, of different widths and one without bias, and one behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 12)
        self.behind = nn.Linear(12, CLASSES)
        self.second = nn.Linear(64, CLASSES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.behind(torch.tanh(self.first(x.flatten(1)))) + self.second(x.flatten(1))
        return logits


@pytest.mark.parametrize("batch_size", [4, 6, 50, 97])
def test_module_with_deferred_layers_trains_as_one_by_one(batch_size: int) -> None:
    # One client needs two stretches, one exactly a stretch, others a part of one or nothing.
    data = population((8, 8), counts=(96, 120, 0, 1, 30))
    jobs = [Job(row, 0, Ask(fold=fold)) for row in range(data.n_clients) for fold in (None, 1)]
    training = LocalTraining(learning_rate=0.01, batch_size=batch_size)
    plain = TorchTrainer(TwoInputLayers)
    deferred = TorchTrainer(TwoInputLayers, batching=BatchingPlan("stacked", 4, Stacking(("first", "second"))))
    at_every_step = TorchTrainer(TwoInputLayers, batching=BatchingPlan("stacked", at_once=4))

    expected = updates(plain, data, jobs, training)

    assert largest_difference(updates(deferred, data, jobs, training), expected) < 1e-4
    assert largest_difference(updates(at_every_step, data, jobs, training), expected) < 1e-4
    assert plain.suited_to(data).batching.stacking.deferred == ("first", "second")

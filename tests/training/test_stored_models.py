"""Models as files: the names and shapes of the model's own parameters, and what is refused."""

import numpy as np
import pytest
import safetensors.numpy

from auxo.core.rng import stream
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.stored_models import restored, stored

torch = pytest.importorskip("torch")

from safetensors.torch import load  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from auxo.training.torch_trainer import TorchTrainer  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 4)
        self.frozen = nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)
        self.frozen.requires_grad_(False)
        self.register_buffer("steps", torch.arange(3))
        self.tied = self.last

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.frozen(torch.relu(self.first(x))))
        return out


def test_a_module_takes_the_file_of_its_own_run_and_predicts_the_same() -> None:
    trainer = TorchTrainer(Net)
    weights = trainer.initial_weights(3)
    x = stream(0, "x").normal(size=(20, 5)).astype(np.float32)

    content = stored(trainer, weights)
    module = Net()
    module.load_state_dict(load(content))

    with torch.no_grad():
        predicted = module.eval()(torch.from_numpy(x)).argmax(dim=1).numpy()
    assert np.array_equal(predicted, trainer.predict(weights, x))
    assert np.array_equal(restored(trainer, content), weights)


def test_softmax_regression_is_stored_as_a_linear_layer() -> None:
    trainer = SoftmaxTrainer(n_features=6, n_classes=3)
    weights = stream(0, "weights").normal(size=trainer.n_params).astype(np.float32)
    x = stream(0, "x").normal(size=(20, 6)).astype(np.float32)

    layer = nn.Linear(6, 3)
    layer.load_state_dict(load(stored(trainer, weights)))

    with torch.no_grad():
        assert np.array_equal(layer(torch.from_numpy(x)).argmax(dim=1).numpy(), trainer.predict(weights, x))
    assert np.array_equal(restored(trainer, stored(trainer, weights)), weights)


@pytest.mark.parametrize("trainer", [SoftmaxTrainer(6, 3), TorchTrainer(Net)], ids=["softmax", "torch"])
def test_a_file_of_another_model_or_a_damaged_one_is_refused(trainer: SoftmaxTrainer | TorchTrainer) -> None:
    with pytest.raises(ValueError, match="load it with the model that was trained"):
        restored(trainer, safetensors.numpy.save({"weight": np.zeros((9, 9), np.float32)}))
    content = stored(trainer, trainer.initial_weights(0))
    with pytest.raises(ValueError, match="use another copy"):
        restored(trainer, content[: len(content) // 2])


def test_a_model_of_other_shapes_is_refused() -> None:
    content = stored(SoftmaxTrainer(5, 3), np.zeros(18, np.float32))
    with pytest.raises(ValueError, match=r"weight: expected shape \(3, 6\), got \(3, 5\)"):
        restored(SoftmaxTrainer(6, 3), content)


def test_flat_weights_are_stored_of_a_trainer_that_knows_no_names() -> None:
    weights = np.arange(4, dtype=np.float32)
    assert np.array_equal(restored(object(), stored(object(), weights)), weights)

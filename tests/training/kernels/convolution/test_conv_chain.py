from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auxo.training.trainer import LocalTraining
from tests.training.kernels.test_linear_chain import SETTINGS, chain_of
from tests.training.side_by_side import CLASSES, all_jobs, largest_difference, population, updates

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from auxo.models.small_models import LeafCnn, SmallCnn  # noqa: E402
from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.kernels import Stacking  # noqa: E402
from auxo.training.kernels.convolution.conv_chain import ConvChain  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402

SIDE = 10


class Functional(nn.Module):
    """A network as people write it: what has no weights is a function."""

    def __init__(self, reshape: Callable[[Tensor], Tensor], flatten: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.reshape, self.flatten = reshape, flatten
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3)
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.reshape(x)
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = torch.relu(functional.max_pool2d(self.conv2(x), kernel_size=2, stride=2))
        logits: Tensor = self.fc2(self.fc1(self.flatten(x)).relu())
        return logits


class Shared(nn.Module):
    """One layer without weights in several places, as tutorials have it."""

    def __init__(self, reshape: Callable[[Tensor], Tensor] = lambda x: x.unsqueeze(1)) -> None:
        super().__init__()
        self.reshape = reshape
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3)
        self.pool, self.relu, self.fc = nn.MaxPool2d(2, 2), nn.ReLU(), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.conv1(self.reshape(x))))
        logits: Tensor = self.fc(torch.flatten(self.relu(self.pool(self.conv2(x))), start_dim=1))
        return logits


class OtherwiseInEvaluation(nn.Module):
    """Takes another way in evaluation, and comes in that mode."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.a, self.b = nn.Conv2d(1, 4, 3), nn.Linear(256, CLASSES), nn.Linear(256, CLASSES)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x.view(-1, 1, SIDE, SIDE)).relu().flatten(1)
        logits: Tensor = self.a(x) if self.training else self.b(x)
        return logits


class Keeps(nn.Module):
    """Holds on to what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(SIDE * SIDE, CLASSES), torch.zeros(0)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        logits: Tensor = self.layer(x)
        return logits


class Says(nn.Module):
    """Does with its layer's outputs what it is told."""

    def __init__(self, say: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.say = nn.Linear(SIDE * SIDE, CLASSES), say

    def forward(self, x: Tensor) -> Tensor:
        return self.say(self.layer(x))


def checked(x: Tensor) -> Tensor:
    assert isinstance(x, Tensor)
    return x


def sequential(*layers: nn.Module, inputs: int, hidden: tuple[nn.Module, ...] = ()) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, SIDE, SIDE)), *layers, nn.Flatten(), *hidden, nn.Linear(inputs, CLASSES))


def as_images(x: Tensor) -> Tensor:
    return x.view(-1, 1, SIDE, SIDE)


CHAINS: dict[str, Callable[[], nn.Module]] = {
    "small": lambda: SmallCnn(SIDE, CLASSES),
    "LEAF's": lambda: LeafCnn(SIDE, CLASSES),
    "no pooling, no bias": lambda: sequential(nn.Conv2d(1, 3, 3, bias=False), nn.ReLU(), inputs=3 * 64),
    "pooling before the ReLU": lambda: sequential(
        nn.Conv2d(1, 5, 5, padding="same"), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(5, 9, 2), inputs=9 * 16
    ),
    "odd image": lambda: sequential(nn.Conv2d(1, 4, 2), nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), inputs=4 * 16),
    "many channels at once": lambda: nn.Sequential(
        nn.Unflatten(1, (25, 2, 2)), nn.Conv2d(25, 6, 2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(54, CLASSES)
    ),
    "functions": lambda: Functional(as_images, lambda x: x.flatten(1)),
    "reshape and torch.flatten": lambda: Functional(
        lambda x: x.reshape((-1, 1, SIDE, SIDE)), lambda x: torch.flatten(x, 1)
    ),
    "shared layers": lambda: Shared(as_images),
    "x.size(0)": lambda: Functional(as_images, lambda x: x.view(x.size(0), -1)),
    "x.shape[0]": lambda: Functional(lambda x: x.reshape(x.shape[0], 1, SIDE, SIDE), lambda x: x.view(x.shape[0], -1)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chain_is_found(name: str) -> None:
    chain = chain_of(CHAINS[name]())

    assert isinstance(chain, ConvChain)


@pytest.mark.parametrize("training", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", CHAINS)
def test_chain_trains_as_one_by_one(name: str, training: LocalTraining) -> None:
    data = population((SIDE * SIDE,))
    jobs = all_jobs(data)
    plan = BatchingPlan("stacked", 5, Stacking(is_sequential=True))

    found = updates(TorchTrainer(CHAINS[name], batching=plan), data, jobs, training)

    assert largest_difference(found, updates(TorchTrainer(CHAINS[name]), data, jobs, training)) < 1e-4


@pytest.mark.parametrize("features", [(SIDE, SIDE), (1, SIDE, SIDE)], ids=str)
def test_images_without_channels_are_images(features: tuple[int, ...]) -> None:
    factory = Shared if len(features) == 2 else lambda: SmallCnn(SIDE, CLASSES)
    data, training = population(features), LocalTraining(learning_rate=0.01, batch_size=4)
    jobs = all_jobs(data)
    plan = BatchingPlan("stacked", 5, Stacking(is_sequential=True))

    found = updates(TorchTrainer(factory, batching=plan), data, jobs, training)

    assert largest_difference(found, updates(TorchTrainer(factory), data, jobs, training)) < 1e-4


@pytest.mark.parametrize("width", [1, 2, 3])
def test_pixels_that_are_all_equal_train_as_one_by_one(width: int) -> None:
    side = (SIDE + 1 - width) // 2
    factory = lambda: sequential(nn.Conv2d(1, 4, width), nn.MaxPool2d(2), inputs=4 * side**2)  # noqa: E731
    data, training = population((SIDE * SIDE,)), LocalTraining(learning_rate=0.01, batch_size=4)
    plain = TorchTrainer(factory)
    weights = plain.initial_weights(7)
    weights[: 4 * width**2] = 0.0  # then outputs are 0.0 and -0.0
    jobs = all_jobs(data)

    found, expected = (
        np.stack([answer.update for answer in trainer.train(weights, data, jobs, training, seed=3)])
        for trainer in (replace(plain, batching=BatchingPlan("stacked", 5, Stacking(is_sequential=True))), plain)
    )

    assert largest_difference(found, expected) < 1e-4


def test_network_is_the_one_of_training() -> None:
    data, training = population((SIDE * SIDE,)), LocalTraining(learning_rate=0.01, batch_size=4)
    jobs = all_jobs(data)
    trainer = TorchTrainer(OtherwiseInEvaluation).suited_to(data)

    assert trainer.batching.stacking.is_sequential
    found = updates(trainer, data, jobs, training)
    assert largest_difference(found, updates(TorchTrainer(OtherwiseInEvaluation), data, jobs, training)) < 1e-4


def test_looking_at_a_module_leaves_nothing_in_it() -> None:
    module = Keeps()

    assert chain_of(module) is None or module.seen.numel() == 0
    assert type(module.seen) is Tensor


@pytest.mark.parametrize(
    "say",
    [
        lambda x: torch.mul(input=x, other=2),
        lambda x: torch.relu(input=x),
        lambda x: torch.flatten(input=x, start_dim=1),
        lambda x: nn.ReLU()(x.neg()).neg(),
        checked,
        lambda x: x.flatten(),
    ],
)
def test_what_cannot_be_followed_is_no_chain(say: Callable[[Tensor], Tensor]) -> None:
    assert chain_of(Says(say)) is None


def test_way_is_refused_for_a_module_that_is_no_chain() -> None:
    with pytest.raises(ValueError, match="expected a plain chain"):
        BatchingPlan("stacked", 3, Stacking(is_sequential=True)).build(
            nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        )


def test_images_may_come_as_such() -> None:
    factory = lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, CLASSES))  # noqa: E731
    data, training = population((3, 8, 8)), LocalTraining(learning_rate=0.01, batch_size=4)
    jobs = all_jobs(data)
    trainer = TorchTrainer(factory).suited_to(data)

    assert trainer.batching.stacking.is_sequential
    found = updates(trainer, data, jobs, training)
    assert largest_difference(found, updates(TorchTrainer(factory), data, jobs, training)) < 1e-4


def conv_then(*layers: nn.Module, **settings: Any) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, **settings), *layers)


@pytest.mark.parametrize(
    "module",
    [
        conv_then(nn.Flatten(), nn.Linear(4, CLASSES), stride=2),
        conv_then(nn.Flatten(), nn.Linear(4, CLASSES), dilation=2),
        conv_then(nn.Conv2d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(4, CLASSES)),
        conv_then(nn.Conv2d(4, 4, 8), nn.Flatten(), nn.Linear(4, CLASSES)),
        conv_then(nn.Linear(6, CLASSES)),
        conv_then(nn.Flatten(2), nn.Linear(36, CLASSES)),
        conv_then(nn.Tanh(), nn.Flatten(), nn.Linear(4, CLASSES)),
        conv_then(nn.MaxPool2d(2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, CLASSES)),
        conv_then(nn.MaxPool2d(3), nn.Flatten(), nn.Linear(4, CLASSES)),
        conv_then(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES)),
        conv_then(nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4, CLASSES)),
        conv_then(nn.Flatten()),
        Functional(lambda x: as_images(x) * 2, lambda x: x.flatten(1)),
        Functional(lambda x: as_images(x).transpose(2, 3), lambda x: x.flatten(1)),
        Functional(as_images, lambda x: x.reshape(-1, 3, 2).flatten(1)),
    ],
    ids=str,
)
def test_whatever_does_more_is_no_chain_of_images(module: nn.Module) -> None:
    assert chain_of(module) is None


def test_few_products_are_left_to_the_library() -> None:
    assert chain_of(LeafCnn(28, CLASSES)).is_faster_for((28, 28))  # type: ignore[union-attr]
    assert not chain_of(SmallCnn(8, CLASSES)).is_faster_for((8, 8))  # type: ignore[union-attr]


def test_large_images_are_left_to_the_library() -> None:
    chain = chain_of(
        nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64 * 64, CLASSES))
    )

    assert isinstance(chain, ConvChain)
    assert not chain.is_faster_for((16, 64, 64))
    assert not chain.is_faster_for((16 * 64 * 64,))  # no image at all

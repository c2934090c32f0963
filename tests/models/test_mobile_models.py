"""MobileNet-V2 and ShuffleNet-V2: sized as published, gentle with small images, and trained side by side."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from auxo.core.types import Float32Array
from auxo.models.catalogue import make_trainer
from auxo.training.trainer import Job, LocalTraining
from tests.training.side_by_side import CLASSES, largest_difference, population

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from auxo.models.mobilenet import MobileNetV2  # noqa: E402
from auxo.models.shufflenet import ShuffleNetV2  # noqa: E402
from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402

KINDS: dict[str, type[MobileNetV2] | type[ShuffleNetV2]] = {"mobilenet-v2": MobileNetV2, "shufflenet-v2": ShuffleNetV2}
PUBLISHED = {"mobilenet-v2": 3_504_872, "shufflenet-v2": 2_278_604}  # of torchvision's, the second at width 1


@pytest.fixture(params=KINDS, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def small(name: str) -> nn.Module:
    return KINDS[name](8, CLASSES)


def last_size(module: nn.Module, images: Tensor) -> tuple[int, ...]:
    """Return rows and columns of what the last convolution makes of images."""
    sizes: list[tuple[int, ...]] = []
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            part.register_forward_hook(lambda layer, given, made: sizes.append(tuple(made.shape[2:])))
    module(images)
    return sizes[-1]


def test_large_images_of_a_thousand_classes_take_as_many_weights_as_published(name: str) -> None:
    with torch.device("meta"):
        assert sum(weight.numel() for weight in KINDS[name](224, 1000, channels=3).parameters()) == PUBLISHED[name]


@pytest.mark.parametrize(("side", "expected"), [(224, 7), (64, 2), (32, 4), (28, 4), (8, 1)])
def test_small_images_are_halved_three_times_and_large_ones_five_times(name: str, side: int, expected: int) -> None:
    with torch.device("meta"):
        module = KINDS[name](side, CLASSES, channels=3)
        assert last_size(module, torch.zeros(1, 3, side, side)) == (expected, expected)


def test_no_norm_keeps_statistics_and_every_convolution_has_one(small: nn.Module) -> None:
    norms = [part for part in small.modules() if isinstance(part, nn.GroupNorm)]

    assert not list(small.buffers())
    assert len(norms) == sum(isinstance(part, nn.Conv2d) for part in small.modules())
    assert all(norm.num_channels // norm.num_groups >= 16 for norm in norms)


def test_images_are_taken_flat_or_square(small: nn.Module) -> None:
    images = torch.from_numpy(np.linspace(-1, 1, 2 * 64, dtype=np.float32)).view(2, 1, 8, 8).sin()
    with torch.no_grad():
        logits = small(images)
        assert logits.shape == (2, CLASSES)
        assert torch.equal(small(images.flatten(1)), logits)
        assert not torch.equal(logits[0], logits[1])


def test_model_is_known_by_its_name(name: str) -> None:
    nobody_has_samples = population((3, 8, 8), counts=(0,))  # so that nothing is tried, which takes long
    trainer = make_trainer(name, nobody_has_samples)

    assert isinstance(trainer, TorchTrainer)
    module = trainer.module_factory()
    assert isinstance(module, KINDS[name])
    assert module.image == (3, 8, 8)
    assert module.classify.out_features == CLASSES


def test_participants_train_together_as_one_by_one(name: str) -> None:
    data = population((8, 8), counts=(2, 1))
    jobs, training = [Job(1, 0), Job(0, 0)], LocalTraining(learning_rate=0.001, batch_size=2)
    factory: Callable[[], nn.Module] = partial(KINDS[name], 8, CLASSES)
    plain = TorchTrainer(factory)
    weights = plain.initial_weights(7)

    def of(trainer: TorchTrainer) -> Float32Array:
        return np.stack([answer.update for answer in trainer.train(weights, data, jobs, training, seed=3)])

    assert largest_difference(of(replace(plain, batching=BatchingPlan("stacked", at_once=2))), of(plain)) < 1e-3


def test_shuffled_channels_come_from_both_halves_by_turns() -> None:
    unit = ShuffleNetV2(8, CLASSES).units[1]
    x = torch.arange(116.0).view(1, 116, 1, 1).expand(1, 116, 2, 2)
    with torch.no_grad():
        assert torch.equal(unit(x)[0, ::2], x[0, :58])

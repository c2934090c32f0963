from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from auxo.core.types import Float32Array
from auxo.models.catalogue import make_trainer
from auxo.training.trainer import Job, LocalTraining
from tests.training.side_by_side import CLASSES, largest_difference, population

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from auxo.models.resnet import ResNet, ResNet18, ResNet34  # noqa: E402
from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402


def test_participants_train_together_as_one_by_one() -> None:
    data = population((8, 8), counts=(2, 1))
    jobs, training = [Job(1, 0), Job(0, 0)], LocalTraining(learning_rate=0.001, batch_size=2)
    plain = TorchTrainer(partial(ResNet18, 8, CLASSES))
    weights = plain.initial_weights(7)

    def of(trainer: TorchTrainer) -> Float32Array:
        return np.stack([answer.update for answer in trainer.train(weights, data, jobs, training, seed=3)])

    assert largest_difference(of(replace(plain, batching=BatchingPlan("stacked", at_once=2))), of(plain)) < 1e-4


def test_model_is_known_by_its_name() -> None:
    nobody_has_samples = population((3, 8, 8), counts=(0,))  # so that nothing is tried, which takes long
    trainer = make_trainer("resnet18", nobody_has_samples)

    assert isinstance(trainer, TorchTrainer)
    module = trainer.module_factory()
    assert isinstance(module, ResNet)
    assert module.image == (3, 8, 8)
    assert module.classify.out_features == CLASSES


@pytest.fixture(scope="module")
def small() -> ResNet:
    return ResNet18(8, CLASSES)


def test_weights_are_as_many_as_the_papers_with_a_stem_for_small_images(small: ResNet) -> None:
    # Of torchvision's resnet18 with a 3x3 stem of one channel; a group norm has as many weights as a batch norm.
    stem = 64 * 9 + 2 * 64
    stages = [64, 64, 128, 256, 512]
    blocks = sum(
        (before * width + 3 * width * width) * 9 + 8 * width + (before * width + 2 * width if before != width else 0)
        for before, width in pairwise(stages)
    )

    assert sum(weight.numel() for weight in small.parameters()) == stem + blocks + 513 * CLASSES


def test_no_norm_keeps_statistics_and_groups_are_of_sixteen_channels(small: ResNet) -> None:
    norms = [part for part in small.modules() if isinstance(part, nn.GroupNorm)]

    assert not list(small.buffers())
    assert len(norms) == 20
    assert {norm.num_channels // norm.num_groups for norm in norms} == {16}


def test_small_images_keep_their_size_until_the_second_stage_and_large_ones_do_not(small: ResNet) -> None:
    with torch.no_grad():
        assert small.stem(torch.zeros(1, 1, 8, 8)).shape == (1, 64, 8, 8)
        assert small.blocks(torch.zeros(1, 64, 8, 8)).shape == (1, 512, 1, 1)
        assert ResNet18(64, CLASSES, channels=3).stem(torch.zeros(1, 3, 64, 64)).shape == (1, 64, 16, 16)


def test_images_are_taken_flat_or_square(small: ResNet) -> None:
    images = torch.from_numpy(np.linspace(-1, 1, 2 * 64, dtype=np.float32)).view(2, 1, 8, 8)
    with torch.no_grad():
        logits = small(images)
        assert logits.shape == (2, CLASSES)
        assert torch.equal(small(images.flatten(1)), logits)
        assert not torch.allclose(logits[0], logits[1])


@pytest.mark.parametrize(("model", "published"), [(ResNet18, 11_689_512), (ResNet34, 21_797_672)])
def test_large_images_of_a_thousand_classes_take_as_many_weights_as_published(
    model: "partial[ResNet]", published: int
) -> None:
    # Of torchvision's resnet18 and resnet34.
    with torch.device("meta"):
        assert sum(weight.numel() for weight in model(224, 1000, channels=3).parameters()) == published


def test_blocks_of_the_stages_can_be_set() -> None:
    nobody_has_samples = population((8, 8), counts=(0,))
    trainer = make_trainer("resnet34", nobody_has_samples, model_args={"blocks": [1, 1, 1, 2]})

    assert isinstance(trainer, TorchTrainer)
    module = trainer.module_factory()
    assert isinstance(module, ResNet)
    assert len(module.blocks) == 5

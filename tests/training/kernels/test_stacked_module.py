import re

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from auxo.training.kernels.stacked_conv import StackedConv  # noqa: E402
from auxo.training.kernels.stacked_layers import StackedAffine, StackedLinear  # noqa: E402
from auxo.training.kernels.stacked_module import StackedModule, stack_module  # noqa: E402
from auxo.training.kernels.stacked_pooling import StackedMaxPool  # noqa: E402
from auxo.training.kernels.stacking import Unstackable  # noqa: E402


def small_net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 5), nn.Linear(5, 3)
    )


def test_layers_with_weights_are_replaced_and_know_where_these_lie() -> None:
    made = stack_module(small_net())

    assert isinstance(made, StackedModule)
    kinds = [StackedConv, StackedAffine, StackedMaxPool, nn.Flatten, StackedLinear, StackedLinear]
    assert [type(part) for part in made.module.children()] == kinds
    assert [parameter.shape for parameter in made.parameters] == [
        tuple(parameter.shape) for parameter in small_net().parameters()
    ]
    ends = [parameter.columns.stop for parameter in made.parameters]
    assert [parameter.offset for parameter in made.parameters] == [0, *ends[:-1]]
    assert ends[-1] == sum(parameter.numel() for parameter in small_net().parameters())


def test_linear_layers_are_told_by_name() -> None:
    made = stack_module(small_net())

    assert isinstance(made, StackedModule)
    shapes = {name: weight.shape for name, weight in made.linear.items()}
    assert shapes == {"4": (5, 16), "5": (3, 5)}


def test_frozen_layers_stay_as_they_are() -> None:
    module = small_net()
    module[4].requires_grad_(False)

    made = stack_module(module)

    assert isinstance(made, StackedModule)
    layer = made.module.get_submodule("4")
    assert type(layer) is nn.Linear
    assert torch.equal(layer.weight, module[4].weight)
    assert len(made.parameters) == 6


def with_frozen_bias() -> nn.Module:
    layer = nn.Linear(24, 4)
    layer.bias.requires_grad_(False)
    return nn.Sequential(layer)


def tied() -> nn.Module:
    first, second = nn.Linear(24, 24), nn.Linear(24, 24)
    second.weight = first.weight
    return nn.Sequential(first, second)


def same_layer_in_two_places() -> nn.Module:
    layer = nn.Linear(24, 24)
    return nn.Sequential(layer, nn.Tanh(), layer)


class OwnLinear(nn.Linear):
    """May compute something else, for all anybody knows."""


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (with_frozen_bias(), r"0 \(Linear\) is trainable in part"),
        (tied(), r"1 \(Linear\) is trainable in part, or shares its weights"),
        (same_layer_in_two_places(), "same layer in two places"),
        (nn.Sequential(OwnLinear(24, 4)), r"0 \(OwnLinear\) is a layer that participants cannot share"),
        (OwnLinear(24, 4), r"the module \(OwnLinear\)"),
        (nn.Sequential(nn.LSTM(4, 4)), r"0 \(LSTM\)"),
        (nn.Sequential(nn.Conv1d(4, 4, 2)), r"0 \(Conv1d\)"),
        (nn.Conv2d(1, 1, 4, padding="same"), r"the module \(Conv2d\)"),
        (nn.LayerNorm(4, bias=False), r"the module \(LayerNorm\)"),
        (nn.Sequential(nn.Embedding(4, 4, padding_idx=0)), r"0 \(Embedding\)"),
        (nn.Sequential(nn.Embedding(4, 4, max_norm=1.0)), r"0 \(Embedding\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_module_that_cannot_be_stacked_says_why(module: nn.Module, reason: str) -> None:
    made = stack_module(module)

    assert isinstance(made, Unstackable)
    assert re.search(reason, made.reason)


def test_stacking_leaves_the_module_alone() -> None:
    module = small_net()
    layers, state = [type(part) for part in module.modules()], {k: v.clone() for k, v in module.state_dict().items()}

    stack_module(module)

    assert [type(part) for part in module.modules()] == layers
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())

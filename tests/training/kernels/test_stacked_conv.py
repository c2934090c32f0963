import numpy as np
import pytest

from auxo.core.rng import stream

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from auxo.training.kernels.stacked_conv import StackedConv, zero_padding  # noqa: E402
from auxo.training.kernels.stacked_module import StackedModule, stack_module  # noqa: E402
from auxo.training.kernels.stacked_pooling import StackedMaxPool, is_max_pool_2x2  # noqa: E402

# Pooling.


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (5, 7), (6, 3), (2, 9)])
def test_pool_and_its_gradient_are_those_of_the_library_for_equal_numbers_too(size: tuple[int, int]) -> None:
    # Few different numbers, so that most windows have more than one largest.
    numbers = stream(1, "ties").integers(3, size=(8, 5, *size)).astype(np.float32)
    ours, theirs = (torch.from_numpy(numbers).clone().requires_grad_() for _ in range(2))
    pooled, expected = StackedMaxPool()(ours), nn.MaxPool2d(2)(theirs)
    errors = torch.arange(1.0, pooled.numel() + 1).view_as(pooled)

    pooled.backward(errors)
    expected.backward(errors)

    assert torch.equal(pooled, expected)
    assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    ("layer", "is_known"),
    [
        (nn.MaxPool2d(2), True),
        (nn.MaxPool2d((2, 2), stride=(2, 2)), True),
        (nn.MaxPool2d(3), False),
        (nn.MaxPool2d(2, stride=1), False),
        (nn.MaxPool2d((2, 1)), False),
        (nn.MaxPool2d(2, padding=1), False),
        (nn.MaxPool2d(2, dilation=2), False),
        (nn.MaxPool2d(2, ceil_mode=True), False),
        (nn.MaxPool2d(2, return_indices=True), False),
        (nn.AvgPool2d(2), False),
    ],
    ids=str,
)
def test_only_max_pooling_over_2x2_is_replaced(layer: nn.Module, is_known: bool) -> None:
    assert is_max_pool_2x2(layer) is is_known


# Convolution.


@pytest.mark.parametrize(
    ("layer", "padding"),
    [
        (nn.Conv2d(1, 1, 3), (0, 0)),
        (nn.Conv2d(1, 1, 3, padding=(2, 1)), (2, 1)),
        (nn.Conv2d(1, 1, 3, padding="valid"), (0, 0)),
        (nn.Conv2d(1, 1, (3, 5), padding="same", dilation=(1, 2)), (1, 4)),
        (nn.Conv2d(1, 1, 4, padding="same"), None),
        (nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), None),
    ],
    ids=str,
)
def test_zero_padding_is_that_of_the_layer(layer: nn.Conv2d, padding: tuple[int, int] | None) -> None:
    assert zero_padding(layer) == padding


@pytest.mark.parametrize("needs_dx", [False, True])
def test_gradients_of_a_convolution_are_those_of_the_library(needs_dx: bool) -> None:
    layer = nn.Conv2d(8, 6, 3, stride=2, padding=1)
    made = stack_module(nn.Sequential(layer))
    assert isinstance(made, StackedModule)
    conv = made.module.get_submodule("0")
    assert isinstance(conv, StackedConv)
    assert conv.bias is not None
    made.sgd.active = 1
    made.sgd.weights = {conv.weight.offset: layer.weight.detach().unsqueeze(0)}
    x, own = torch.rand(4, 8, 7, 8), stream(1, "errors")
    with torch.no_grad():
        y = layer(x)
    errors = torch.from_numpy(own.normal(size=tuple(y.shape)).astype(np.float32))

    dx, dw, db = conv.gradients(x, errors, row=0, needs_dx=needs_dx)

    x.requires_grad_()
    expected = torch.autograd.grad(layer(x), [x, *layer.parameters()], errors)
    torch.testing.assert_close((dw, db), expected[1:], rtol=1e-5, atol=1e-5)
    if needs_dx:
        torch.testing.assert_close(dx, expected[0], rtol=1e-5, atol=1e-5)

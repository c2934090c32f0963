"""Convolution and pooling of images in HWNC, beside PyTorch's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.rng import stream

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from auxo.training.kernels.convolution.hwnc_pooling import max_pool, max_unpool  # noqa: E402
from auxo.training.kernels.convolution.im2col_conv import Im2colConv  # noqa: E402
from auxo.training.kernels.convolution.tiled_conv import TiledConv  # noqa: E402

SHAPES = {
    # image, padding, weight, samples
    "LEAF's second": ((14, 14), (2, 2), (64, 32, 5, 5), 6),
    "no padding": ((12, 12), (0, 0), (16, 6, 5, 5), 6),
    "one sample": ((14, 14), (1, 1), (8, 16, 3, 3), 1),
    "not square": ((7, 10), (0, 2), (5, 3, 2, 4), 3),
    "a pixel at a time": ((6, 5), (0, 0), (7, 4, 1, 1), 2),
    "one output": ((5, 3), (0, 0), (2, 3, 5, 3), 2),
    "seven wide": ((9, 9), (3, 3), (3, 2, 7, 7), 2),
}


def drawn(*shape: int) -> Tensor:
    numbers: Tensor = torch.from_numpy(stream(3, "image", str(shape)).normal(size=shape))
    return numbers


def to_hwnc(images: Tensor) -> Tensor:
    return images.float().permute(2, 3, 0, 1).contiguous()


def to_nchw(images: Tensor) -> Tensor:
    return images.double().permute(2, 3, 0, 1)


def as_used(weight: Tensor) -> Tensor:
    outputs, inputs, high, wide = weight.shape
    return weight.float().permute(2, 3, 1, 0).reshape(high * wide, inputs * outputs)


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ["tiled", "im2col"])
def test_convolution_and_its_gradients(name: str, kind: str) -> None:
    size, padding, shape, samples = SHAPES[name]
    x, weight = drawn(samples, shape[1], *size).requires_grad_(), drawn(*shape).requires_grad_()
    y = functional.conv2d(x, weight, padding=padding)
    dy = drawn(*y.shape)
    torch.autograd.backward(y, dy)
    assert x.grad is not None
    assert weight.grad is not None

    with torch.no_grad():
        if kind == "tiled":
            conv = TiledConv.of(size, padding, shape)
            found, saved = conv.forward(to_hwnc(x), as_used(weight))
            dx, dw = conv.backward(to_hwnc(dy), saved, needs_dx=True)
            assert dx is not None
            assert distance(to_nchw(dx), x.grad) < 2e-5
            assert conv.backward(to_hwnc(dy), saved, needs_dx=False)[0] is None
        else:
            im2col = Im2colConv(shape, padding)
            found, columns = im2col.forward(to_hwnc(x), as_used(weight))
            dw = im2col.backward(to_hwnc(dy), columns)

    assert distance(to_nchw(found), y.detach()) < 2e-5
    assert distance(dw.double(), as_used(weight.grad).double()) < 2e-5


def test_fewer_multiplications_where_kernels_are_large_and_channels_many() -> None:
    size, padding, shape, _ = SHAPES["LEAF's second"]
    direct = 14 * 14 * 64 * 32 * 5 * 5

    assert TiledConv.of(size, padding, shape).multiplications() < 0.45 * direct


@given(st.integers(2, 9), st.integers(2, 9), st.integers(1, 3), st.integers(0, 2**32))
def test_pooling_sends_errors_where_pytorch_does(height: int, width: int, samples: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Few different numbers: many of a window are equal.
    x = torch.randint(-1, 2, (samples, 2, height, width), generator=generator).float()
    x = (x * (torch.randint(0, 2, x.shape, generator=generator) * 2 - 1)).requires_grad_()  # -0.0 among them
    y = functional.max_pool2d(x, 2)
    dy = torch.randn(y.shape, generator=generator)
    torch.autograd.backward(y, dy)
    assert x.grad is not None

    found, masks = max_pool(to_hwnc(x.detach()))
    errors = max_unpool(to_hwnc(dy), masks)

    assert torch.equal(found.permute(2, 3, 0, 1), y)
    assert torch.equal(errors.permute(2, 3, 0, 1), x.grad)

"""Convolution and pooling of images that lie pixel by pixel, beside PyTorch's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.rng import stream

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from auxo.training.kernels.im2col_conv import PatchConv  # noqa: E402
from auxo.training.kernels.pixel_pooling import pool, unpool  # noqa: E402
from auxo.training.kernels.tiled_conv import TiledConv  # noqa: E402

SHAPES = {
    # image, zeros around, filters, samples
    "LEAF's second": ((14, 14), (2, 2), (64, 32, 5, 5), 6),
    "no zeros": ((12, 12), (0, 0), (16, 6, 5, 5), 6),
    "one sample": ((14, 14), (1, 1), (8, 16, 3, 3), 1),
    "not square": ((7, 10), (0, 2), (5, 3, 2, 4), 3),
    "a pixel at a time": ((6, 5), (0, 0), (7, 4, 1, 1), 2),
    "one output": ((5, 3), (0, 0), (2, 3, 5, 3), 2),
    "seven wide": ((9, 9), (3, 3), (3, 2, 7, 7), 2),
}


def drawn(*shape: int) -> Tensor:
    numbers: Tensor = torch.from_numpy(stream(3, "image", str(shape)).normal(size=shape))
    return numbers


def by_pixel(images: Tensor) -> Tensor:
    return images.float().permute(2, 3, 0, 1).contiguous()


def by_sample(images: Tensor) -> Tensor:
    return images.double().permute(2, 3, 0, 1)


def as_used(filters: Tensor) -> Tensor:
    outputs, inputs, high, wide = filters.shape
    return filters.float().permute(2, 3, 1, 0).reshape(high * wide, inputs * outputs)


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ["tiled", "patches"])
def test_convolution_and_its_gradients(name: str, kind: str) -> None:
    size, zeros, shape, samples = SHAPES[name]
    x, filters = drawn(samples, shape[1], *size).requires_grad_(), drawn(*shape).requires_grad_()
    y = functional.conv2d(x, filters, padding=zeros)
    dy = drawn(*y.shape)
    torch.autograd.backward(y, dy)
    assert x.grad is not None
    assert filters.grad is not None

    with torch.no_grad():
        if kind == "tiled":
            conv = TiledConv.of(size, zeros, shape)
            found, seen = conv.forward(by_pixel(x), as_used(filters))
            dx, by_filters = conv.backward(by_pixel(dy), seen, wants_dx=True)
            assert dx is not None
            assert distance(by_sample(dx), x.grad) < 2e-5
            assert conv.backward(by_pixel(dy), seen, wants_dx=False)[0] is None
        else:
            patched = PatchConv(shape, zeros)
            found, patches = patched.forward(by_pixel(x), as_used(filters))
            by_filters = patched.backward(by_pixel(dy), patches)

    assert distance(by_sample(found), y.detach()) < 2e-5
    assert distance(by_filters.double(), as_used(filters.grad).double()) < 2e-5


def test_fewer_products_where_filters_are_wide_and_channels_many() -> None:
    size, zeros, shape, _ = SHAPES["LEAF's second"]
    direct = 14 * 14 * 64 * 32 * 5 * 5

    assert TiledConv.of(size, zeros, shape).products() < 0.45 * direct


@given(st.integers(2, 9), st.integers(2, 9), st.integers(1, 3), st.integers(0, 2**32))
def test_pooling_sends_errors_where_pytorch_does(height: int, width: int, samples: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Few different numbers: many of a square are equal.
    x = torch.randint(-1, 2, (samples, 2, height, width), generator=generator).float()
    x = (x * (torch.randint(0, 2, x.shape, generator=generator) * 2 - 1)).requires_grad_()  # -0.0 among them
    y = functional.max_pool2d(x, 2)
    dy = torch.randn(y.shape, generator=generator)
    torch.autograd.backward(y, dy)
    assert x.grad is not None

    found, winners = pool(by_pixel(x.detach()))
    errors = unpool(by_pixel(dy), winners)

    assert torch.equal(found.permute(2, 3, 0, 1), y)
    assert torch.equal(errors.permute(2, 3, 0, 1), x.grad)

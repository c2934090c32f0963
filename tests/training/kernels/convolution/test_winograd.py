import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from auxo.training.kernels.convolution.winograd import MAX_KERNEL_SIZE, axis  # noqa: E402

Lengths = tuple[int, int, int]


@st.composite
def lengths(draw: st.DrawFn) -> Lengths:
    kernel_size = draw(st.integers(1, MAX_KERNEL_SIZE))
    padding = draw(st.integers(0, 4))
    return draw(st.integers(max(1, kernel_size - 2 * padding), 20)), padding, kernel_size


@given(lengths(), st.integers(0, 2**32))
def test_outputs_are_those_of_the_convolution(of: Lengths, seed: int) -> None:
    size, padding, kernel_size = of
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (size, kernel_size))
    along = axis(size, padding, kernel_size)

    at_points = (along.input_transform.double() @ x).view(along.points, along.tiles) * (
        along.filter_transform.double() @ w
    ).unsqueeze(1)
    found = along.output_transform.double() @ at_points.flatten()

    expected = functional.conv1d(x.view(1, 1, -1), w.view(1, 1, -1), padding=padding).flatten()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(x.norm() * w.norm()))


@given(lengths())
def test_no_more_multiplications_than_in_a_direct_convolution(of: Lengths) -> None:
    size, padding, kernel_size = of
    along = axis(size, padding, kernel_size)

    assert along.points * along.tiles <= along.output_size * kernel_size
    assert along.output_size == size + 2 * padding - kernel_size + 1


def test_four_outputs_of_a_kernel_of_five_take_eight_multiplications() -> None:
    along = axis(14, 2, 5)

    assert (along.points, along.tiles) == (8, 4)


@pytest.mark.parametrize(("size", "padding", "kernel_size"), [(3, 0, 4), (20, 0, MAX_KERNEL_SIZE + 1), (5, 1, 0)])
def test_kernel_that_does_not_fit_is_refused(size: int, padding: int, kernel_size: int) -> None:
    with pytest.raises(ValueError, match="kernel_size: expected"):
        axis(size, padding, kernel_size)

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from auxo.training.kernels.winograd import MOST_TAPS, axis  # noqa: E402

Lengths = tuple[int, int, int]


@st.composite
def lengths(draw: st.DrawFn) -> Lengths:
    taps = draw(st.integers(1, MOST_TAPS))
    zeros = draw(st.integers(0, 4))
    return draw(st.integers(max(1, taps - 2 * zeros), 20)), zeros, taps


@given(lengths(), st.integers(0, 2**32))
def test_outputs_are_those_of_the_convolution(of: Lengths, seed: int) -> None:
    size, zeros, taps = of
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (size, taps))
    along = axis(size, zeros, taps)

    at_points = (along.spread.double() @ x).view(along.points, along.tiles) * (along.values.double() @ w).unsqueeze(1)
    found = along.gather.double() @ at_points.flatten()

    expected = functional.conv1d(x.view(1, 1, -1), w.view(1, 1, -1), padding=zeros).flatten()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(x.norm() * w.norm()))


@given(lengths())
def test_no_more_products_than_taps(of: Lengths) -> None:
    size, zeros, taps = of
    along = axis(size, zeros, taps)

    assert along.points * along.tiles <= along.outputs * taps
    assert along.outputs == size + 2 * zeros - taps + 1


def test_four_outputs_of_five_taps_take_eight_products() -> None:
    along = axis(14, 2, 5)

    assert (along.points, along.tiles) == (8, 4)


@pytest.mark.parametrize(("size", "zeros", "taps"), [(3, 0, 4), (20, 0, MOST_TAPS + 1), (5, 1, 0)])
def test_taps_that_do_not_fit_are_refused(size: int, zeros: int, taps: int) -> None:
    with pytest.raises(ValueError, match="taps: expected"):
        axis(size, zeros, taps)

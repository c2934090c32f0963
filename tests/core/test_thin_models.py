"""Models as differences from another one: near enough to compare, in an eighth of the bytes."""

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.core.thin_models import SHARE, ThinModel, thinned
from auxo.core.types import Float32Array

NUMBERS = st.floats(-1e6, 1e6, width=32)


@given(st.integers(1, 700).flatmap(lambda n: st.tuples(*[npst.arrays(np.float32, n, elements=NUMBERS)] * 2)))
def test_no_parameter_is_farther_off_than_half_a_step_of_the_widest_difference(
    pair: tuple[Float32Array, Float32Array],
) -> None:
    model, like = pair
    found = thinned(model, like)

    assert found.shape == model.shape
    assert found.dtype == np.float32
    room = np.abs(model - like).max() / 14 + 1e-5 * (np.abs(model).max() + np.abs(like).max())
    assert (np.abs(found - model) <= room).all()


def test_a_model_that_is_the_same_stays_the_same() -> None:
    model = stream(0, "model").standard_normal(1000).astype(np.float32)

    np.testing.assert_array_equal(thinned(model, model), model)


def test_it_takes_an_eighth_of_the_bytes() -> None:
    rng = stream(0, "model")
    model, like = (rng.standard_normal(256_000).astype(np.float32) for _ in range(2))
    thin = ThinModel.of(model, like)

    assert (thin.scales.nbytes + thin.steps.nbytes) / model.nbytes == pytest.approx(SHARE)


def test_a_thin_model_of_another_size_is_refused() -> None:
    model = np.ones(600, dtype=np.float32)

    with pytest.raises(ValueError, match="expected 4 scales for 1000 parameters"):
        ThinModel.of(model, 0 * model).added_to(np.zeros(1000, dtype=np.float32))

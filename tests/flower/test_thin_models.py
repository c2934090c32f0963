"""Other cohorts' models on Flower's messages: server and node make the same arrays of the few bytes between them."""

from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from auxo.core.rng import stream
from auxo.core.thin_models import thinned
from auxo.flower.model_arrays import ModelArrays, is_thin, thin_arrays, whole_arrays


def arrays(seed: int, steps: int) -> ArrayRecord:
    """Return a model with weights, a bias of another kind of numbers, and a count."""
    rng = stream(seed, "arrays")
    weights = rng.standard_normal((40, 30)).astype(np.float32)
    named = {"w": weights, "b": rng.standard_normal(40), "steps": np.array(steps)}
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in named.items()})


def test_what_arrives_is_the_thinned_model_in_the_kinds_of_the_own_one_with_its_counts() -> None:
    own, other = arrays(0, 7), arrays(1, 9)
    model = ModelArrays.of(own)
    sent = thin_arrays(model.float_names, other, own)
    found = whole_arrays(sent, own)

    assert is_thin(sent)
    assert not is_thin(own)
    assert found is not None
    flat = [model.flat(one).astype(np.float32) for one in (other, own)]
    np.testing.assert_array_equal(model.flat(found).astype(np.float32), thinned(*flat))
    assert [found[name].numpy().dtype for name in ("w", "b")] == [np.float32, np.float64]
    assert found["steps"].numpy() == 7
    assert sum(len(one.data) for one in sent.values()) < sum(len(one.data) for one in own.values()) / 4


def test_arrays_in_another_order_and_counts_that_became_floats_change_nothing() -> None:
    own, other = arrays(0, 7), arrays(1, 9)
    names = ModelArrays.of(own).float_names
    # As federated averaging leaves them, which multiplies everything by shares.
    averaged = ArrayRecord({"steps": Array(np.array(7.5)), "b": own["b"], "w": own["w"]})
    expected, found = (whole_arrays(thin_arrays(names, other, one), one) for one in (own, averaged))

    assert expected is not None
    assert found is not None
    for name in ("w", "b"):
        np.testing.assert_array_equal(found[name].numpy(), expected[name].numpy())
    assert found["steps"].numpy() == 7.5


@pytest.mark.parametrize("name", ["auxo.scales", "auxo.steps", "auxo.names"])
@pytest.mark.parametrize("made", [lambda values: values[:-1], lambda values: values.astype(np.int64)])
def test_what_is_of_no_such_model_has_not_come(
    name: str, made: Callable[[NDArray[np.generic]], NDArray[np.generic]]
) -> None:
    own = arrays(0, 7)
    sent = thin_arrays(ModelArrays.of(own).float_names, arrays(1, 9), own)
    sent[name] = Array(np.asarray(made(sent[name].numpy())))

    assert whole_arrays(sent, own) is None

"""Other cohorts' models on Flower's messages: server and node make the same arrays of the few bytes between them."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

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
    sent = thin_arrays(model, other, own)
    found = whole_arrays(model, sent, own)

    assert is_thin(sent)
    assert not is_thin(own)
    flat = [model.flat(one).astype(np.float32) for one in (other, own)]
    np.testing.assert_array_equal(model.flat(found).astype(np.float32), thinned(*flat))
    assert [found[name].numpy().dtype for name in ("w", "b")] == [np.float32, np.float64]
    assert found["steps"].numpy() == 7
    assert sum(len(one.data) for one in sent.values()) < sum(len(one.data) for one in own.values()) / 4


def test_numbers_of_another_kind_are_refused() -> None:
    own = arrays(0, 7)
    model = ModelArrays.of(own)
    sent = thin_arrays(model, arrays(1, 9), own)
    sent["auxo.steps"] = Array(sent["auxo.steps"].numpy().astype(np.int64))

    with pytest.raises(ValueError, match="expected scales of float32 and steps of bytes"):
        whole_arrays(model, sent, own)

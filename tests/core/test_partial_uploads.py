import numpy as np
import pytest

from auxo.core.layers import Layer
from auxo.core.partial_uploads import draw_skipped, sent_share, without
from auxo.core.rng import stream

LAYERS = (Layer((4, 2)), Layer((4,)), Layer((3, 4)), Layer((3,)))


def test_a_tensor_is_sent_with_the_chance_that_was_asked_for() -> None:
    skipped = draw_skipped(np.repeat([1.0, 0.6], 5000), 4, stream(0, "skip"))

    assert not skipped[:5000].any()
    assert skipped[5000:].mean() == pytest.approx(0.4 - 0.4**4 / 4, abs=0.015)  # less where one is sent all the same


def test_everybody_sends_something() -> None:
    assert (~draw_skipped(np.full(200, 1e-9), 3, stream(1, "skip"))).sum(axis=1).tolist() == [1] * 200


def test_the_share_that_is_sent_is_that_of_the_parameters() -> None:
    skipped = np.array([[False] * 4, [True, False, False, False], [True, True, True, False]])

    np.testing.assert_allclose(sent_share(skipped, LAYERS), [1.0, 19 / 27, 3 / 27])


def test_what_is_not_sent_is_nothing_and_the_rest_is_not_rescaled() -> None:
    update = np.arange(1, 28, dtype=np.float32)
    sent = without(update, LAYERS, (1, 3))

    assert sent.tolist() == [*range(1, 9), 0, 0, 0, 0, *range(13, 25), 0, 0, 0]
    assert update.tolist() == list(range(1, 28))
    assert without(update, LAYERS, ()) is update

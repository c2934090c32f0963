"""Words that a participant says of itself: what they come to, and that what cannot be meant counts as not said."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.asking import Answer, Ask, Asks
from auxo.core.types import Float32Array, FloatArray
from auxo.core.words import (
    SaidWords,
    Words,
    gain_of,
    label_of,
    possible_gain,
    possible_label,
    possible_sketch,
    sketch_of,
    width_of,
)
from auxo.training.trainer import Job
from tests.core.made_devices import train_offered

LOSSES = st.lists(st.floats(0, 100), min_size=2, max_size=5)


def test_a_sketch_is_the_same_projection_for_everybody_and_has_length_one() -> None:
    words, update = Words("0#1", seed=4, width=8), np.arange(100, dtype=np.float32)

    sketch = sketch_of(update, words)

    assert len(sketch) == width_of(100, 8) == 7  # a prime number
    assert np.linalg.norm(sketch) == pytest.approx(1.0)
    np.testing.assert_allclose(sketch_of(3 * update, words), sketch, rtol=1e-6)
    assert not np.allclose(sketch_of(update, replace(words, seed=5)), sketch)


def test_what_points_nowhere_has_a_sketch_of_zeros_and_what_is_no_update_has_none() -> None:
    words = Words("0#1", width=8)

    assert not sketch_of(np.zeros(100, dtype=np.float32), words).any()
    assert not sketch_of(np.full(100, np.nan, dtype=np.float32), words).any()
    assert sketch_of(np.zeros(0, dtype=np.float32), words).shape == (0,)


def test_a_label_is_the_nearest_centre_of_the_same_width() -> None:
    assert label_of(np.array([0.9, 0.1]), [(0.0, 1.0), (1.0, 0.0)]) == 1
    assert label_of(np.array([0.9, 0.1]), ()) is None
    assert label_of(np.array([0.9, 0.1]), [(1.0, 0.0), (1.0,)]) is None
    assert label_of(np.array([0.9, 0.1]), [(np.nan, np.nan), (1.0, 0.0)]) is None or 1


@given(LOSSES, st.data())
def test_a_gain_is_of_minus_one_to_one_and_none_without_a_choice(losses: list[float], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.floats(0, 100), min_size=len(losses), max_size=len(losses)))
    reference = data.draw(st.integers(0, len(losses) - 1))

    gain = gain_of(losses, others, reference, None)

    assert gain is not None
    assert -1 <= gain <= 1
    assert gain_of(losses, losses, reference, None) >= 0  # type: ignore[operator]  # it is a number, as above
    assert gain_of([losses[0]] * 3, [others[0]] * 3, 0, None) == 0


def test_a_judge_chooses_by_one_half_and_is_judged_by_the_other_both_ways() -> None:
    # By the second half it takes the branch, which has half of the loss on the first; by the first it takes it, too,
    # and that has four fifths on the second.
    assert gain_of([1.0, 0.5], [1.0, 0.8], 0, None) == pytest.approx((0.5 + 0.2) / 2)
    assert gain_of([1.0, 0.5], [0.8, 1.0], 0, None) == pytest.approx((0.0 - 0.2) / 2)
    assert gain_of([1.0, 0.99], [1.0, 0.99], 0, None) == 0  # not clearly better


def test_who_has_samples_of_one_kind_is_judged_by_the_branch_of_its_label() -> None:
    assert gain_of([1.0, 0.5, 2.0], None, 0, 0) == pytest.approx(0.5)
    assert gain_of([1.0, 0.5, 2.0], None, 0, 1) == pytest.approx(-0.5)
    assert gain_of([1.0, 0.5], None, 0, None) is None
    assert gain_of([1.0, 0.5], None, 0, 7) is None


@pytest.mark.parametrize("losses", [[], [np.nan, 1.0], [np.inf, 1.0], [-1.0, 1.0]])
def test_there_is_no_gain_in_losses_that_cannot_be(losses: list[float]) -> None:
    assert gain_of(losses, [1.0, 1.0], 0, 0) is None
    assert gain_of([1.0, 1.0], losses or [np.nan] * 2, 0, 0) is None


@pytest.mark.parametrize("said", [None, "x", (1.0, "x"), (1.0, np.nan), (np.inf,), (1e30,), (True,), 3.0, {1: 2}])
def test_a_sketch_that_cannot_be_is_none(said: object) -> None:
    assert possible_sketch(said) == ()


@pytest.mark.parametrize("said", [None, "1", 1.0, -1, 2**40, True])
def test_a_label_that_cannot_be_is_none(said: object) -> None:
    assert possible_label(said) is None


@pytest.mark.parametrize("said", [None, "1", np.nan, np.inf, -1e30, True])
def test_a_gain_that_cannot_be_is_none(said: object) -> None:
    assert possible_gain(said) is None


def test_sketches_of_another_width_are_none() -> None:
    said = SaidWords.of([(1.0, 2.0), (1.0,), (), "x"], [1, None, -3, 2], [0.5, None, np.nan, -1])

    np.testing.assert_array_equal(said.of_width(2), [[1, 2], *[[np.nan, np.nan]] * 3])
    np.testing.assert_array_equal(said.labels, [1, -1, -1, 2])
    np.testing.assert_array_equal(said.gains, [0.5, np.nan, np.nan, -1])
    np.testing.assert_array_equal(said.take(np.array([True, False, False, True])).labels, [1, 2])


MODELS = [np.full(4, number, dtype=np.float32) for number in (10, 20, 30)]


def _train(weights: Float32Array, jobs: Sequence[Job]) -> Iterator[Answer]:
    for job in jobs:
        yield Answer(np.eye(4, dtype=np.float32)[job.client_row % 4], examples=job.client_row)


def _losses(weights: Float32Array, jobs: Sequence[Job]) -> FloatArray:
    return np.array([float(weights[0]) / 10 for _ in jobs])


def _answer(ask: Ask) -> Answer:
    (answer,) = train_offered(MODELS, [Job(5, 0, ask)], _train, _losses)
    return answer


def test_a_participant_says_the_words_that_it_is_asked_for_and_no_others() -> None:
    words = Words("0#1", width=8, centres=((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)))

    sketch, label = _answer(Ask(words=replace(words, sketch=4.0))), _answer(Ask(words=replace(words, label=4.0)))

    assert (sketch.sketch, sketch.label, sketch.gain) == ((0.0, 1.0, 0.0, 0.0), None, None)
    assert (label.sketch, label.label, label.gain) == ((), 1, None)
    assert (_answer(Ask()).sketch, _answer(Ask()).label) == ((), None)


def test_a_judge_that_says_a_gain_tells_no_loss() -> None:
    judge = Ask(judges=(2, 1, 0), words=Words("0#1", gain=4.0, reference=0))

    answer = _answer(judge)

    assert (answer.judged, answer.judged_by, answer.loss) == ((), None, None)
    assert answer.gain == pytest.approx((3 - 1) / 3)
    assert _answer(replace(judge, words=Words("0#1", gain=4.0, reference=2))).gain == 0  # its own choice


def test_asks_have_words_for_everybody_or_nobody() -> None:
    asks = replace(Asks.plain(2), words=(None, Words("0#1")))

    assert [asks.of(row, 1).words for row in (0, 1)] == [None, Words("0#1")]
    asks.check(2, 1, 1)
    with pytest.raises(ValueError, match=r"asks\.words: expected 2 entries or none, got 1"):
        replace(asks, words=(None,)).check(2, 1, 1)

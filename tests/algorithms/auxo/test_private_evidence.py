"""Evidence of one bounded word from each judge: sure where parting pays, and hardly ever where it does not."""

import numpy as np
import pytest

from auxo.algorithms.auxo.private_evidence import PrivateEvidence
from auxo.core.rng import stream
from auxo.core.types import FloatArray
from auxo.core.words import bound_of
from auxo.privacy.private_words import private_gain

ALPHA = 0.01


def _words(gains: FloatArray, epsilon: float, seed: int) -> FloatArray:
    rng = stream(seed, "words")
    return np.array([private_gain(one, epsilon, rng) for one in gains])


def _heard(gains: list[float], judges: int, epsilon: float, seed: int, rounds: int = 10) -> PrivateEvidence:
    """Return the evidence after some rounds, in which judges gain so much over each model on average."""
    evidence, rng = PrivateEvidence.begin(len(gains), epsilon), stream(seed, "gains")
    for number in range(rounds):
        references = np.resize(evidence.open(ALPHA), judges)
        true = np.clip(np.array(gains)[references] + 0.3 * rng.standard_normal(judges), -1, 1)
        evidence = evidence.after(references, _words(true, epsilon, 1000 * seed + number))
    return evidence


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_judges_who_gain_over_every_model_are_soon_sure(epsilon: float) -> None:
    evidence = _heard([0.3, 0.5, 0.5], 60, epsilon, 100)

    assert evidence.is_sure(ALPHA)
    assert evidence.gain == pytest.approx(0.3, abs=0.15)
    assert not evidence.is_hopeless(0.02)


def test_a_branch_that_is_ahead_for_everybody_is_no_reason_to_part() -> None:
    assert not _heard([0.4, 0.0, 0.6], 60, 4.0, 100).is_sure(ALPHA)


def test_where_nobody_gains_stakes_are_hardly_ever_won() -> None:
    sure = sum(_heard([0.0, 0.0], 40, 4.0, seed, rounds=6).is_sure(ALPHA) for seed in range(100, 200))

    assert sure <= 2


def test_where_everybody_loses_a_trial_is_hopeless() -> None:
    assert _heard([-0.1, 0.2], 100, 4.0, 100).is_hopeless(0.02)
    assert PrivateEvidence.begin(3, 4.0).is_hopeless(0.02)  # nobody has been heard


def test_a_liar_weighs_no_more_than_its_word_can_and_nothing_beyond_that() -> None:
    evidence, bound = PrivateEvidence.begin(2, 4.0), bound_of(4.0)
    liars = evidence.after(np.zeros(3, dtype=np.int64), np.array([1e6, -1e6, 2 * bound]))

    np.testing.assert_array_equal(liars.log_stakes, evidence.log_stakes)
    assert liars.heard.sum() == 0
    one = evidence.after(np.zeros(1, dtype=np.int64), np.array([-bound]))
    assert one.log_stakes.min() >= np.log(1 - 0.95) - 1e-9


def test_stakes_that_are_won_leave_their_judges_to_the_others() -> None:
    evidence = PrivateEvidence.begin(3, 0.0).after(np.full(50, 1), np.full(50, 0.9))

    np.testing.assert_array_equal(evidence.open(ALPHA), [0, 2])
    every = evidence.after(np.repeat([0, 2], 50), np.full(100, 0.9))
    assert every.is_sure(ALPHA)
    np.testing.assert_array_equal(every.open(ALPHA), [0])  # what they gain over the cohort's own is asked for on

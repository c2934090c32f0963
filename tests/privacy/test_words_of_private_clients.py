"""Words of private clients: paid for once, repeated where they are asked for again, and not said beyond the terms."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auxo.core.asking import Answer, Ask
from auxo.core.words import Words, bound_of
from auxo.privacy.accounting import Gaussian, PrivacyBudget, Pure, RandomisedResponse, Release
from auxo.privacy.accounts import OnDevice
from auxo.privacy.local_privacy import LocalPrivacy
from auxo.privacy.terms import Terms, Wish, terms_of
from tests.privacy.test_local_privacy import TERMS, Loud, answered, device, on_device

ROOMY = replace(TERMS, budget=PrivacyBudget(40.0, 1e-6), questions=1, question_epsilon=10.0)
CENTRES = tuple(tuple(row) for row in np.eye(31)[:3].tolist())
WORDS = Words("0#1", 1, 32, sketch=4.0, label=2.0, gain=4.0, centres=CENTRES)
ASK = Ask(judges=(0, 1, 2), words=WORDS)
SILENT = ((), None, None)


def words(answer: Answer) -> tuple[object, ...]:
    return answer.sketch, answer.label, answer.gain


def spent(mod: LocalPrivacy) -> dict[Release, int]:
    assert isinstance(mod.account, OnDevice)
    return dict(mod.account.ledger.spent().releases)


def test_words_leave_with_their_noise_and_no_loss_beside_them(tmp_path: Path) -> None:
    found = answered(on_device(tmp_path, ROOMY), ASK)

    assert len(found.sketch) == 31
    assert np.linalg.norm(found.sketch) > 3  # a clean one has length one
    assert found.label in {0, 1, 2}
    assert found.gain is not None
    assert abs(found.gain) <= bound_of(4.0)
    assert found == replace(
        Answer(found.update, 1, on_all=True), sketch=found.sketch, label=found.label, gain=found.gain
    )


def test_every_word_is_charged_before_it_leaves(tmp_path: Path) -> None:
    mod = on_device(tmp_path, ROOMY)
    answered(mod, ASK)

    assert spent(mod) == {Gaussian(ROOMY.multiplier): 1, Pure(4.0): 2, RandomisedResponse(2.0, 3): 1}


def test_who_is_asked_the_same_again_says_the_same_and_pays_nothing_even_after_other_data_were_trained_on(
    tmp_path: Path,
) -> None:
    first = answered(on_device(tmp_path, ROOMY), ASK)
    paid = spent(on_device(tmp_path, ROOMY))
    # Another visit, with another model to train, and a word less.
    again = answered(on_device(tmp_path, ROOMY), replace(ASK, model=1), device(visit=1))

    assert words(again) == words(first)
    assert not np.array_equal(again.update, first.update)
    assert spent(on_device(tmp_path, ROOMY)) == {**paid, Gaussian(ROOMY.multiplier): 2}


def test_other_samples_or_another_question_are_answered_anew(tmp_path: Path) -> None:
    first = answered(on_device(tmp_path, ROOMY), ASK)
    other = answered(on_device(tmp_path, ROOMY, data="new"), ASK)
    asked = answered(on_device(tmp_path, ROOMY), replace(ASK, words=replace(WORDS, about="0.1#1")), device(visit=1))

    assert len({words(one) for one in (first, other, asked)}) == 3


def test_a_word_that_the_budget_does_not_hold_is_left_out_and_the_update_leaves(tmp_path: Path) -> None:
    tight = replace(ROOMY, budget=PrivacyBudget(8.0, 1e-6))
    mod = on_device(tmp_path, tight)

    found = answered(mod, ASK)

    assert words(found) != SILENT
    assert None in words(found) or () in words(found)
    assert tight.budget is not None
    assert tight.budget.holds(spent(mod))


@pytest.mark.parametrize(
    "asked",
    [
        replace(WORDS, seed=2),  # a question too many
        replace(WORDS, sketch=8.0),  # too dear
        replace(WORDS, gain=0.0),  # as it is
        replace(WORDS, sketch=float("nan")),
        replace(WORDS, sketch=-1.0),
    ],
)
def test_beyond_the_terms_nothing_is_said_or_paid(asked: Words, tmp_path: Path) -> None:
    class Unlooked(Loud):
        def scores(self, *_: object) -> None:  # type: ignore[override]  # nobody judges
            raise AssertionError("judged a model")

    mod = on_device(tmp_path, ROOMY)
    found = answered(mod, replace(ASK, words=asked), Unlooked(np.arange(1), np.zeros(1, dtype=np.int64)))

    assert words(found) == SILENT
    assert spent(mod) == {Gaussian(ROOMY.multiplier): 1}


def test_without_questions_in_the_terms_no_word_leaves() -> None:
    assert words(answered(LocalPrivacy.simulated(TERMS, 100), ASK)) == SILENT


def test_simulated_words_follow_from_the_seed() -> None:
    one, other = (answered(LocalPrivacy.simulated(ROOMY, 100), ASK) for _ in range(2))

    assert words(one) == words(other) != SILENT


def test_a_damaged_word_is_said_and_paid_for_anew(tmp_path: Path) -> None:
    mod = on_device(tmp_path, ROOMY)
    first = answered(mod, ASK)
    for path in (tmp_path / "a" / "ledger-words").iterdir():
        path.write_bytes(path.read_bytes()[:-1])

    again = answered(mod, ASK, device(visit=1))

    assert words(again) != words(first)
    assert spent(mod)[Pure(4.0)] == 4


def test_what_words_may_cost_is_taken_from_the_budget() -> None:
    wish = Wish(epsilon=16.0, participations=2, questions=1, question_epsilon=4.0)
    with_words, without = terms_of(wish), terms_of(replace(wish, questions=0))

    assert isinstance(with_words, Terms)
    assert (with_words.questions, with_words.question_epsilon) == (1, 4.0)
    assert with_words.noise > without.noise
    with pytest.raises(ValueError, match="leaves something for updates"):
        terms_of(replace(wish, question_epsilon=20.0))

"""Bets on what judges gain: sure no more often than they may be in error, and soon where much is to be gained."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.algorithms.auxo.evidence import BETS, OWN, Evidence, Said, believed, choices, share_of
from auxo.core.rng import stream
from auxo.core.types import FloatArray
from tests.algorithms.auxo.made_trials import begun, heard, said_of, two_groups, two_groups_and_a_doubtful_third

ALPHA = 0.05


def gains_of(said: Said, usual: float = 1.0, single: int = OWN) -> FloatArray:
    """Return what judges gain by their choice among all models."""
    return said.gains(usual, np.arange(said.losses.shape[1]), single)


# How often it errs.


def errors(rng: np.random.Generator, clients: int, models: int, samples: int) -> FloatArray:
    """Return (clients, models) shares of held-out samples that models get wrong, every one of which is as good."""
    return rng.binomial(samples, 0.5, (clients, models)) / samples


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("samples", [3, 40])
def test_sampled_judges_are_sure_of_nothing_more_often_than_alpha_says_however_often_one_looks(
    samples: int, both: bool
) -> None:
    trials, sure = 400, 0
    for number in range(trials):
        rng = stream(number, "no gain", samples)
        evidence = begun(4, everybody=False)
        for round_ in range(12):
            told, others = errors(rng, 15, 4, samples), errors(rng, 15, 4, samples)
            evidence = evidence.after(said_of(told, others, first=15 * round_, both=both), is_look=True)
            if evidence.is_sure(0, ALPHA):
                sure += 1
                break

    assert sure / trials <= ALPHA


def test_clients_whose_losses_differ_much_do_not_make_it_sure_of_nothing() -> None:
    trials, sure = 300, 0
    for number in range(trials):
        rng = stream(number, "unlike")
        evidence = begun(4, everybody=False)
        for round_ in range(12):
            usual = np.exp(rng.standard_normal((15, 1)))
            told, others = (usual * (1 + 0.2 * rng.uniform(-1, 1, (15, 4))) for _ in range(2))
            evidence = evidence.after(said_of(told, others, first=15 * round_, both=True), is_look=True)
        sure += evidence.is_sure(0, ALPHA)

    assert sure / trials <= ALPHA


@pytest.mark.parametrize("kept", [0.0, 0.9, 1.0], ids=["models change", "models change a little", "models stay"])
@pytest.mark.parametrize("clients", [4, 12, 40])
def test_everybody_with_the_same_samples_at_each_look_is_sure_no_more_often_than_alpha_says(
    clients: int, kept: float
) -> None:
    trials, samples, sure = 600, 40, 0
    for number in range(trials):
        rng = stream(number, "no gain for anybody")
        wrong = rng.random((2, clients, 3, samples)) < 0.5
        evidence = begun(3, everybody=True)
        for round_ in (2, 4, 8, 16, 32):
            new = rng.random(wrong.shape) < 0.5
            wrong = np.where(rng.random(wrong.shape) < kept, wrong, new)
            told, others = wrong.mean(axis=3)
            apart = wrong[0].astype(np.float64) - wrong[0][:, :1]
            said = said_of(told, others, round_=round_, samples=samples, errors=apart.var(axis=2, ddof=1) / samples)
            evidence = evidence.after(said, is_look=True)
            if evidence.is_sure(0, ALPHA):
                sure += 1
                break

    assert sure / trials <= ALPHA


def test_who_is_judged_by_the_samples_that_it_chooses_by_would_be_sure_of_chance() -> None:
    # So the tests above would fail if the halves were one.
    rng = stream(0, "one half")
    one_half = np.concatenate([errors(rng, 60, 4, 10) for _ in range(2)])

    assert heard(said_of(one_half)).is_sure(0, ALPHA)
    assert not heard(said_of(one_half, errors(rng, 120, 4, 10))).is_sure(0, ALPHA)


def test_trials_and_looks_share_one_chance_of_an_error() -> None:
    assert sum(share_of(ALPHA, number) for number in range(1, 100_000)) == pytest.approx(ALPHA, rel=1e-4)
    assert share_of(ALPHA, 1) > share_of(ALPHA, 2) > 0


@pytest.mark.parametrize("ahead", [0.1, 0.3])
@pytest.mark.parametrize("everybody", [False, True])
def test_branches_that_are_merely_ahead_for_everybody_are_sure_of_nothing_more_often_than_alpha_says(
    ahead: float, everybody: bool
) -> None:
    # Both have gone further in the same direction, and no client is better off with the one than with the other.
    trials, sure, over_own = 100, 0, 0
    for number in range(trials):
        rng = stream(number, "ahead")
        evidence = begun(3, everybody=everybody)
        for round_ in (2, 4, 8):
            told, others = ((1 + 0.1 * rng.standard_normal((60, 3))) * [1, 1 - ahead, 1 - ahead] for _ in range(2))
            first = 0 if everybody else 60 * round_
            evidence = evidence.after(said_of(told, others, first=first, round_=round_), is_look=True)
            if evidence.is_sure(0, ALPHA):
                sure += 1
                break
        over_own += gains_of(evidence.recent).mean() > 0

    assert over_own == trials  # over the own model everybody gains
    assert sure / trials <= ALPHA


def test_candidates_side_by_side_err_no_more_often_together_than_alpha_says_if_they_share_it() -> None:
    trials, sure = 400, 0
    for number in range(trials):
        rng = stream(number, "side by side")
        evidence = Evidence.begin([2, 3], everybody=False)
        for round_ in range(8):
            told, others = errors(rng, 15, 6, 3), errors(rng, 15, 6, 3)
            evidence = evidence.after(said_of(told, others, first=15 * round_), is_look=True)
            if any(evidence.is_sure(one, ALPHA / 2) for one in range(2)):
                sure += 1
                break

    assert sure / trials <= ALPHA


# How soon it is sure.


@pytest.mark.parametrize(("gain", "judges"), [(0.5, 20), (0.2, 40), (0.05, 160)])
def test_judges_with_large_gains_are_sure_when_few_have_been_heard(gain: float, judges: int) -> None:
    evidence = heard(said_of(two_groups(judges, gain)))

    assert evidence.is_sure(0, 0.01)
    assert not heard(said_of(two_groups(2, gain))).is_sure(0, 0.01)


def test_small_gains_that_everybody_has_make_judges_sure_once_it_is_known_how_much_anybody_gains() -> None:
    def after(gains: FloatArray) -> Evidence:
        evidence = begun(3)
        for number, some in enumerate(np.split(gains, 6)):
            losses = two_groups(len(some), 0.0)
            mine = np.arange(len(some)) % 2
            losses[np.arange(len(some)), 1 + mine] -= some
            losses[np.arange(len(some)), 2 - mine] += 0.1
            evidence = evidence.after(said_of(losses, first=len(some) * number), is_look=True)
        return evidence

    gains = stream(0, "small gains").uniform(0.03, 0.05, 180)

    assert after(gains).is_sure(0, 0.01)
    assert not after(gains[:12]).is_sure(0, 0.01)


@pytest.mark.parametrize(("clients", "samples"), [(4, 30.0), (8, 20.0), (2, 80.0), (40, 2.0)])
def test_few_clients_are_sure_at_the_first_look_where_they_gain_much_by_enough_samples(
    clients: int, samples: float
) -> None:
    assert heard(said_of(two_groups(clients, 0.7), samples=samples), everybody=True).is_sure(0, 0.01)
    assert not heard(said_of(two_groups(clients, 0.0), samples=samples), everybody=True).is_sure(0, 0.01)


def test_four_clients_of_a_sample_each_are_sure_of_nothing() -> None:
    assert not heard(said_of(two_groups(4, 0.7), samples=1.0), everybody=True).is_sure(0, 0.01)


def test_a_third_of_the_stake_is_bet_at_each_of_three_looks() -> None:
    won, lost = said_of(two_groups(6, 0.5), samples=11), said_of(np.ones((6, 3)), samples=11)
    one = begun(3, everybody=True).after(won, is_look=True)
    assert one.is_sure(0, 0.02)
    assert one.after(lost, is_look=True).is_sure(0, 0.02)  # what was won at a look stays won
    assert one.left > 1 > begun(3, everybody=True).after(lost, is_look=True).left
    many = one
    for _ in range(5):
        many = many.after(won, is_look=True)

    assert many.looks == 3
    assert many.won == pytest.approx(3 * one.won)


def test_trials_go_on_with_what_the_ones_before_have_left() -> None:
    some = said_of(two_groups(12, 0.12), samples=20, errors=np.tile([0.0, 0.1**2, 0.1**2], (12, 1)))
    first = begun(3, everybody=True).after(some, is_look=True)
    second = Evidence.begin([2], everybody=True, stake=first.left).after(some, is_look=True)

    assert not first.is_sure(0, 0.02)
    assert second.is_sure(0, 0.02)


def test_bets_are_not_carried_on_by_who_judges_by_the_same_samples_in_every_trial() -> None:
    some = said_of(two_groups(12, 0.12), samples=20, errors=np.tile([0.0, 0.1**2, 0.1**2], (12, 1)), kept_out=False)
    first = begun(3, everybody=True).after(some, is_look=True)
    second = Evidence.begin([2], everybody=True, stake=50.0).after(some, is_look=True)

    assert first.left == 1.0
    assert not second.is_sure(0, 0.02)


def test_a_trial_that_is_given_up_after_a_bad_look_does_not_get_back_what_it_has_not_bet() -> None:
    bad = begun(3, everybody=True).after(said_of(two_groups(12, -0.1), two_groups(12, 0.1)), is_look=True)

    assert bad.left == pytest.approx(bad.won)
    assert bad.left < 1


def test_small_gains_of_few_clients_are_sure_by_how_much_their_samples_differ() -> None:
    gains = 0.04 + 0.1 * stream(0, "unlike clients").standard_normal(30)
    losses = two_groups(30, 0.0)
    losses[np.arange(30), 1 + np.arange(30) % 2] -= gains
    losses[np.arange(30), 2 - np.arange(30) % 2] += 0.2
    by = two_groups(30, 0.5)

    assert heard(said_of(losses, by, errors=np.tile([0.0, 0.03**2, 0.03**2], (30, 1))), everybody=True).is_sure(0, 0.01)
    assert not heard(said_of(losses, by), everybody=True).is_sure(0, 0.01)


def test_everybody_is_sure_of_nothing_before_a_look() -> None:
    evidence = begun(3, everybody=True).after(said_of(two_groups(30, 0.9)), is_look=False)

    assert not evidence.is_sure(0, 0.01)


def test_nobody_heard_is_no_evidence() -> None:
    for everybody in (False, True):
        evidence = begun(3, everybody=everybody)
        assert evidence.after(Said.none(3), is_look=True) == evidence
        assert not evidence.is_sure(0, 0.5)
        assert evidence.gains.tolist() == [0.0]
        assert evidence.is_hopeless(0.5)  # who waits for judges that never come waits for nothing


def test_what_is_hopeless_is_told_with_a_deviation_to_spare() -> None:
    # One half of them gains .06 and loses .04 in turn by the branch it chooses, the other half nothing.
    rows, turn, chosen = np.arange(80), np.arange(80) % 4, 1 + np.arange(80) // 4 % 2
    losses = np.repeat(np.where(turn < 2, 0.5, 1.5)[:, None], 3, axis=1)
    losses[rows, chosen] -= np.choose(turn, [0.06, -0.04, 0.0, 0.0])
    losses[rows, 3 - chosen] += 1.0
    by = np.ones((80, 3))
    by[rows, chosen] = 0.0
    little = heard(said_of(losses, by))

    assert little.gains[0] == pytest.approx(0.005)
    assert little.is_hopeless(0.02)
    assert not little.is_hopeless(0.006)
    assert not heard(said_of(two_groups(100, 0.1))).is_hopeless(0.02)
    assert not heard(said_of(two_groups(1, 0.0))).is_hopeless(0.02)  # a single one may be any


# What counts.


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(12)), everybody=st.booleans(), seed=st.integers(0, 100))
def test_the_order_of_judges_and_rows_does_not_matter(order: list[int], everybody: bool, seed: int) -> None:
    rng = stream(seed, "order")
    said = said_of(rng.random((12, 4)), rng.random((12, 4)), both=rng.random(12) < 0.5)
    one, other = (heard(some, everybody=everybody) for some in (said, said.take(np.array(order))))

    np.testing.assert_allclose(one.log_stakes, other.log_stakes, atol=1e-12)
    assert one.usual == pytest.approx(other.usual)
    assert one.is_sure(0, 0.3) == other.is_sure(0, 0.3)
    assert one.is_hopeless(0.1) == other.is_hopeless(0.1)
    assert one.fewest(0).tolist() == other.fewest(0).tolist()


def test_a_judge_that_is_heard_again_counts_once_and_by_what_it_said_last() -> None:
    first = said_of(two_groups(10, 0.1), round_=2)
    again = said_of(two_groups(4, 0.5), first=6, round_=3)
    evidence = heard(first, everybody=True).after(again, is_look=True)

    assert sorted(evidence.said.seals.tolist()) == list(range(10))
    assert gains_of(evidence.said).tolist() == pytest.approx([0.1] * 6 + [0.5] * 4)


def test_only_what_was_heard_lately_tells_of_the_models_as_they_are() -> None:
    sampled = heard(said_of(two_groups(100, 0.0))).after(said_of(two_groups(100, 0.5), first=100), is_look=True)
    assert sampled.recent.seals.tolist() == list(range(100, 200))
    few = heard(said_of(two_groups(30, 0.0))).after(said_of(two_groups(40, 0.5), first=30), is_look=True)
    assert few.recent.seals.tolist() == list(range(10, 70))  # sixty at least

    everybody = heard(said_of(two_groups(6, 0.0), round_=4), everybody=True)
    everybody = everybody.after(said_of(two_groups(5, 0.5), round_=8), is_look=True)
    assert everybody.recent.seals.tolist() == [0, 1, 2, 3, 4]


def test_nobody_gains_or_loses_more_than_the_usual_loss() -> None:
    losses = np.array([[1.0, 0.5], [1.0, 1e9], [50.0, 0.5], [50.0, 60.0]])
    chosen = np.array([[1.0, 0.0]] * 4)  # all choose the branch

    assert gains_of(said_of(losses, chosen)).tolist() == pytest.approx([0.5, -1.0, 1.0, -1.0])
    assert (np.abs(gains_of(said_of(1e6 * losses, chosen), usual=3.0)) <= 1).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_that_has_diverged_is_nobodys_choice_and_harms_nobody(bad: float) -> None:
    sane = two_groups(20, 0.3)
    diverged = np.column_stack([sane, np.full(20, bad)])
    by = np.column_stack([sane, np.full(20, np.inf)])  # a trial makes NaN infinite where judges choose by it
    with_it, without = heard(said_of(diverged, by)), heard(said_of(sane))

    assert choices(by).max() < 3
    np.testing.assert_array_equal(with_it.log_stakes[:, :3], without.log_stakes)
    assert with_it.is_sure(0, 0.05) == without.is_sure(0, 0.05)
    assert with_it.usual == without.usual
    assert with_it.fewest(0).tolist() == without.fewest(0).tolist()


def test_who_chooses_a_model_that_has_diverged_on_other_samples_loses_what_is_usual_and_no_more() -> None:
    on = np.array([[0.8, np.nan], [0.8, np.inf]])
    by = np.array([[0.9, 0.1], [0.9, 0.1]])

    assert gains_of(said_of(on, by)).tolist() == pytest.approx([-1.0, -1.0])


def test_noise_of_branches_alone_and_harm_to_half_of_the_judges_make_nobody_sure() -> None:
    rng = stream(0, "noisy branches")
    noisy = [
        np.column_stack([1 + 0.02 * rng.standard_normal(200), 1 + 0.3 * rng.standard_normal((200, 2))]) for _ in "ab"
    ]
    assert not heard(said_of(noisy[0], noisy[1])).is_sure(0, 0.05)

    harmed = np.array([[1.0, 0.3, 3.0]] * 30 + [[1.0, 3.0, 3.0]] * 30)
    chosen = np.array([[1.0, 0.0, 9.0]] * 60)  # by their other samples all like the first branch
    assert heard(said_of(harmed, chosen)).gains[0] < 0


def test_where_the_own_model_has_no_loss_there_is_nothing_to_gain() -> None:
    evidence = heard(said_of(np.zeros((40, 3))))

    assert evidence.usual == 0
    assert not evidence.is_sure(0, 0.5)


def test_halves_that_may_change_places_count_both_ways() -> None:
    on, by = np.array([[1.0, 0.6]]), np.array([[1.0, 0.8]])

    assert gains_of(said_of(on, by)).tolist() == pytest.approx([0.4])
    assert gains_of(said_of(on, by, both=True)).tolist() == pytest.approx([0.3])


def test_scores_are_those_of_the_choice_and_missing_where_none_are_told() -> None:
    scores = np.array([[0.5, 0.9, 0.1], [0.5, 0.9, 0.1], [np.nan, np.nan, np.nan]])
    losses = np.array([[1.0, 0.5, 0.7], [1.0, 0.7, 0.5], [1.0, 0.5, 0.7]])

    np.testing.assert_allclose(
        said_of(losses, scores=scores).better_scores(np.array([0, 1, 2]), OWN), [0.4, -0.4, np.nan], atol=1e-12
    )
    np.testing.assert_allclose(said_of(losses, scores=scores).better_scores(np.array([0, 1]), OWN)[:2], [0.4, 0.4])


# Over a single model for all.


def test_a_model_that_is_ahead_for_everybody_is_no_gain() -> None:
    evidence = heard(said_of(np.tile([1.0, 0.6, 0.8], (60, 1))))

    assert evidence.single == 1
    assert evidence.gains.tolist() == [0.0]
    assert not evidence.is_sure(0, 0.5)
    assert evidence.is_hopeless(0.02)


def test_who_gains_beyond_a_model_that_is_ahead_for_everybody_counts_by_that_alone() -> None:
    losses = np.tile([1.0, 0.6, 0.8], (60, 1))
    losses[::3, 2] = 0.3
    evidence = heard(said_of(losses))

    assert evidence.single == 1
    assert evidence.gains[0] == pytest.approx(0.1)
    assert evidence.is_sure(0, 0.05)
    assert evidence.fewest(0).tolist() == [1, 2]


def test_the_best_single_model_is_the_one_with_the_least_mean_loss_and_none_that_has_diverged() -> None:
    losses = np.array([[1.0, 0.2, 0.9, np.nan], [1.0, 1.9, 0.9, np.inf], [1.0, 1.1, 0.9, np.nan]])

    assert said_of(losses).best_single(1.0) == 2
    assert said_of(losses[:, [0, 1, 3]]).best_single(1.0) == OWN


# Candidates side by side.


def side_by_side(gains: tuple[float, float], judges: int = 60) -> Evidence:
    """Return the evidence of two candidates of two branches each, by which judges gain so much."""
    one, other = (two_groups(judges, gain) for gain in gains)
    return heard(said_of(np.column_stack([one, other[:, 1:]])), [2, 2])


def test_each_candidate_is_judged_by_its_own_models() -> None:
    evidence = side_by_side((0.1, 0.4))

    assert [places.tolist() for places in evidence.candidates] == [[0, 1, 2], [0, 3, 4]]
    assert evidence.gains.tolist() == pytest.approx([0.1, 0.4])
    assert (evidence.by_gain, evidence.leading) == ((1, 0), 1)
    assert [evidence.fewest(one).tolist() for one in range(2)] == [[1, 2], [3, 4]]


def test_one_candidate_may_be_sure_and_another_not_and_hope_is_lost_only_with_both() -> None:
    evidence = side_by_side((0.0, 0.4))

    assert [evidence.is_sure(one, 0.01) for one in range(2)] == [False, True]
    assert not evidence.is_hopeless(0.02)
    assert side_by_side((0.0, 0.0)).is_hopeless(0.02)


def test_of_candidates_by_which_judges_gain_the_same_the_first_leads() -> None:
    assert side_by_side((0.2, 0.2)).by_gain == (0, 1)


# Which models are missed.


def test_a_model_that_is_like_another_is_dropped_and_only_one_of_them() -> None:
    losses = two_groups(80, 0.4, models=4)
    losses[:, 3] = losses[:, 2]

    fewest = heard(said_of(losses)).fewest(0).tolist()

    assert fewest in ([1, 2], [1, 3])


def test_a_branch_can_be_done_without_once_enough_judges_say_that_it_brings_little() -> None:
    few, many = (heard(two_groups_and_a_doubtful_third(judges)) for judges in (60, 6000))

    assert few.fewest(0).tolist() == many.fewest(0).tolist() == [1, 2]
    assert not few.can_do_with(0, np.array([1, 2]))
    assert many.can_do_with(0, np.array([1, 2]))
    assert few.can_do_with(0, np.array([1, 2, 3]))  # all are kept


def test_a_branch_that_brings_its_share_cannot_be_done_without_however_many_say_so() -> None:
    losses = np.ones((3000, 4))
    losses[np.arange(3000), 1 + np.arange(3000) % 3] = 0.7

    assert not heard(said_of(losses)).can_do_with(0, np.array([1, 2]))


def test_a_minoritys_branch_is_measured_by_the_minority_and_not_by_an_equal_share() -> None:
    losses = np.ones((3000, 4))
    group = np.searchsorted([1700, 2850], np.arange(3000), side="right")  # 57, 38 and 5 %
    losses[np.arange(3000), 1 + group] = 0.7
    losses[group == 2, 2] = 0.9  # a third of the gain is left to who has to make do with another's model

    evidence = heard(said_of(losses))

    assert not evidence.can_do_with(0, np.array([1, 2]))
    assert heard(said_of(losses[group < 2])).can_do_with(0, np.array([1, 2]))  # what nobody chooses brings nothing


def test_a_model_that_a_minority_needs_is_kept() -> None:
    losses = two_groups(100, 0.4, models=4)
    losses[::12] = 1.0
    losses[::12, 3] = 0.2

    assert heard(said_of(losses)).fewest(0).tolist() == [1, 2, 3]


def test_the_own_model_stays_if_it_serves_those_who_have_no_branch() -> None:
    losses = np.tile([0.4, 0.9, 0.9], (60, 1))  # a half that it serves well
    losses[:30] = two_groups(30, 0.8)

    assert heard(said_of(losses)).fewest(0).tolist() == [OWN, 1, 2]


@pytest.mark.parametrize(("alone", "kept"), [(1, [1, 2]), (2, [1, 2, 3])])
def test_no_model_is_kept_for_a_single_judge(alone: int, kept: list[int]) -> None:
    losses = np.full((12, 4), 1.0)
    losses[:6, 1] = losses[6:, 2] = 0.2
    losses[:alone, 3] = 0.0  # nobody but these gains by the third, and they gain most
    losses[:alone, 1] = 1.0

    assert heard(said_of(losses), everybody=True).fewest(0).tolist() == kept


def test_two_models_are_the_fewest() -> None:
    assert len(heard(said_of(np.ones((40, 5)))).fewest(0).tolist()) == 2


def test_one_liar_cannot_make_a_bad_model_the_one_that_would_serve_all() -> None:
    losses = np.tile([1.0, 0.9, 1.3], (60, 1))
    lies = losses.copy()
    lies[0] = [1e9, 1e9, 0.0]

    assert said_of(losses).best_single(1.0) == said_of(lies).best_single(1.0) == 1


def test_what_is_no_clearly_better_than_one_model_for_all_is_nobodys_choice() -> None:
    losses = np.tile([1.0, 0.99, 0.97], (4, 1))

    assert said_of(losses).gains(1.0, np.array([0, 1]), 0).tolist() == [0.0] * 4
    assert said_of(losses).gains(1.0, np.array([0, 1, 2]), 0) == pytest.approx(np.full(4, 0.03))


# Judges that lie: they say the most that can be said.


def with_liars(
    losses: FloatArray, others: FloatArray, share: float, *, speak_for: bool
) -> tuple[FloatArray, FloatArray]:
    """Return what is said if the first of the judges lie, as `auxo.attacks.lying_judge` does."""
    told, chosen_by, lies = losses.copy(), others.copy(), round(share * len(losses))
    for row in range(lies):
        fits = np.arange(losses.shape[1]) == (1 + row % (losses.shape[1] - 1) if speak_for else OWN)
        told[row] = np.where(fits, 0.0, 10.0)
        chosen_by[row] = told[row] if speak_for else np.where(fits, 10.0, 0.0)
    return told, chosen_by


def is_parted(gain: float, share: float, liars: float, *, speak_for: bool, seed: int = 0) -> bool:
    """Return whether judges of whom a share lies are ever sure of a gain that is worth it, in a trial of 12 rounds."""
    evidence = Evidence.begin([2], everybody=False, liars=liars)
    for round_ in range(12):
        rng = stream(seed, "liars", round_)
        told, others = (two_groups(60, gain) + 0.05 * rng.standard_normal((60, 3)) for _ in range(2))
        evidence = evidence.after(
            said_of(*with_liars(told, others, share, speak_for=speak_for), first=60 * round_, both=True), is_look=True
        )
        if evidence.is_sure(0, ALPHA) and evidence.gains[0] >= 0.02:
            return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_liars_who_are_not_believed_neither_force_a_partition_nor_prevent_one(seed: int) -> None:
    assert is_parted(0.0, 0.2, 0.0, speak_for=True, seed=seed)
    assert not is_parted(0.0, 0.2, 0.25, speak_for=True, seed=seed)
    assert not is_parted(0.1, 0.15, 0.0, speak_for=False, seed=seed)
    assert is_parted(0.1, 0.15, 0.25, speak_for=False, seed=seed)


def is_minority_found(*, far: bool, liars: float = 0.15) -> bool:
    """Return whether one judge in twenty that gains all is enough; its updates show that it has far to go, or not."""
    evidence, minority = Evidence.begin([2], everybody=False, liars=liars), np.arange(60) % 20 == 0
    for round_ in range(12):
        rng = stream(0, "minority", round_)
        told, others = (np.where(minority[:, None], [1.0, 0.0, 2.0], [1.0, 2.0, 1.0]) for _ in range(2))
        told = told + 0.01 * rng.standard_normal((60, 3))
        evidence = evidence.after(said_of(told, others, first=60 * round_, both=True, far=minority & far), is_look=True)
    return evidence.is_sure(0, ALPHA) and evidence.gains[0] >= 0.02


def test_a_small_group_is_believed_where_its_updates_show_that_it_has_far_to_go() -> None:
    assert is_minority_found(far=True)
    assert not is_minority_found(far=False)  # to words alone it is a few liars
    assert is_minority_found(far=False, liars=0.0)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.floats(0.01, 0.49), st.integers(0, 2**60))
def test_who_is_not_believed_is_taken_to_gain_what_most_do_and_is_no_more_than_a_share(
    gains: list[float], liars: float, drawn: int
) -> None:
    values, far = np.array(gains), np.array([bool(drawn >> place & 1) for place in range(len(gains))])
    heard = believed(values, liars, far)
    changed = heard != values
    assert not changed[far].any()
    assert changed.sum() <= 2 * np.ceil(liars * (~far).sum())
    assert np.isin(heard[changed], np.median(values[~far]) if changed.any() else []).all()
    assert (np.abs(heard - values)[changed] > 0.15 - 1e-9).all()  # usual losses: small gains of many are nobody's lie


@given(st.lists(st.floats(0, 1e9), min_size=3, max_size=3), st.lists(st.floats(0, 1e9), min_size=3, max_size=3))
def test_one_judge_no_more_than_doubles_a_stake_whatever_it_says(losses: list[float], others: list[float]) -> None:
    """So that ten of them have to agree before the first trial is sure of anything: ln(1 / alpha) / ln(1.95) = 9.4."""
    before = begun(3).after(said_of(two_groups(60, 0.0)), is_look=True)
    word = said_of(np.array([losses]), np.array([others]), first=100, both=True)
    after = before.after(word, is_look=True)
    most = np.log(1 + BETS.max())
    assert (after.log_stakes - before.log_stakes <= most + 1e-9).all()
    assert (after.log_stakes - before.log_stakes >= np.log(1 - BETS.max()) - 1e-9).all()


# Who leaves the one model for all, and who does better by it.


@pytest.mark.parametrize(("error", "gain"), [(0.0, 0.1), (0.05, 0.1), (0.2, 0.0), (np.nan, 0.1)])
def test_a_judge_leaves_the_model_for_all_by_a_standard_error_or_a_share_of_its_loss(error: float, gain: float) -> None:
    losses = np.array([[1.0, 0.9]])
    told = said_of(losses, errors=np.array([[0.0, error**2]]))

    assert gains_of(told)[0] == pytest.approx(gain)


def test_who_cannot_have_the_best_single_model_has_its_own_branch_all_the_same() -> None:
    # By validation data it tells one loss of each, and chooses by its label alone: its branch, or the cohort's own.
    told = said_of(np.array([[1.0, 0.4, 0.8]]), np.array([[1.0, 0.0, np.inf]]))

    assert gains_of(told, single=2)[0] == pytest.approx(0.4)


def minority(judges: int, every: int) -> FloatArray:
    """Return losses of a model for all and a branch that serves one judge in so many, and no other."""
    is_one = np.arange(judges) % every == every - 1
    return np.where(is_one[:, None], [2.0, 0.5], [0.5, 2.0])


@pytest.mark.parametrize(("judges", "is_clear"), [(40, False), (200, True)])
def test_fewer_errors_of_a_few_are_clear_once_enough_are_heard_though_most_are_as_before(
    judges: int, is_clear: bool
) -> None:
    losses = minority(judges, every=20)
    evidence = heard(said_of(losses, scores=(losses < 1).astype(np.float64)))

    assert evidence.has_fewer_errors(np.array([0, 1])) is is_clear


@pytest.mark.parametrize("idle", [0, 1, 12])
def test_fewer_errors_of_nearly_all_are_clear_though_a_few_gain_nothing(idle: int) -> None:
    # Skewed the other way round: most gain nearly all that there is to be gained.
    losses = two_groups(300, 0.95)
    scores = np.where(losses < 1, 0.9, 0.2)
    losses[:idle], scores[:idle] = 1.0, 0.2
    evidence = heard(said_of(losses, scores=scores))

    assert evidence.has_fewer_errors(np.arange(losses.shape[1]))
    assert evidence.is_sure(0, ALPHA)


@given(
    better=st.lists(st.floats(-1, 1), min_size=20, max_size=80),
    more=st.floats(0, 5),
)
def test_who_gains_more_is_no_less_clear_however_skewed_gains_are(better: list[float], more: float) -> None:
    losses = np.tile([2.0, 1.0], (len(better), 1))

    def is_clear(gains: FloatArray) -> bool:
        evidence = heard(said_of(losses, scores=np.stack([np.zeros_like(gains), gains], axis=1)))
        return evidence.has_fewer_errors(np.array([0, 1]))

    gains = np.array(better)
    assert is_clear(gains + more) or not is_clear(gains)


@pytest.mark.parametrize(("better", "is_clear"), [(0.002, False), (0.02, True)])
def test_errors_that_are_about_level_are_no_reason_to_part_though_losses_are_smaller(
    better: float, is_clear: bool
) -> None:
    losses, noise = two_groups(300, 0.3), stream(0, "scores").standard_normal((300, 1))
    scores = np.where(losses < 1, 0.5 + better + 0.05 * noise, 0.5)
    evidence = heard(said_of(losses, scores=scores))

    assert evidence.has_fewer_errors(np.arange(losses.shape[1])) is is_clear


def test_who_tells_no_score_stands_in_nobodys_way() -> None:
    assert heard(said_of(two_groups(60, 0.3))).has_fewer_errors(np.array([0, 1, 2]))


@pytest.mark.parametrize("steepness", [0.0, 0.4, 1.0, 2.0])
def test_how_fast_the_own_model_learns_is_read_from_what_judges_say_round_by_round(steepness: float) -> None:
    evidence, rng = replace(begun(3), begun=5), stream(0, "course")
    for number in range(2, 14):
        losses = two_groups(60, 0.1) * (5 + 1 + number) ** -steepness * rng.lognormal(0, 0.2, (60, 1))
        evidence = evidence.after(said_of(losses, first=60 * number, round_=number), is_look=True)

    assert evidence.steepness == pytest.approx(steepness, abs=0.15)


@pytest.mark.parametrize("steep", [0.3, 1.0])
def test_until_two_rounds_are_heard_losses_are_taken_to_fall_as_they_did_before(steep: float) -> None:
    evidence = replace(begun(3), begun=5, steep=steep)

    assert evidence.steepness == steep
    assert evidence.after(said_of(two_groups(60, 0.1)), is_look=True).steepness == pytest.approx(steep)


def test_a_round_that_a_single_judge_was_heard_in_tells_no_more_than_one_judge_can() -> None:
    rng = stream(0, "course")

    def after(alone: float) -> float:
        evidence = replace(begun(3), begun=55, steep=0.1)
        for number in range(2, 14):
            losses = two_groups(5, 0.1) * rng.lognormal(0, 0.05, (5, 1))
            said = said_of(losses[:1] * alone if number == 6 else losses, first=60 * number, round_=number)
            evidence = evidence.after(said, is_look=True)
        return evidence.steepness

    assert after(alone=1.0) == pytest.approx(0.1, abs=0.4)
    assert after(alone=4.0) == pytest.approx(0.1, abs=0.6)


def test_a_branchs_price_falls_with_the_samples_of_all_clients_and_not_with_how_many_of_them_judge() -> None:
    said = said_of(two_groups(20, 0.1), samples=16)

    def price(clients: float, said: Said = said) -> float:
        return replace(heard(said), clients=clients).price

    assert price(0) == 0  # nobody has counted
    assert heard(said_of(np.zeros((0, 3)))).price == 0
    assert price(40) == price(20) / 2
    assert price(20, said_of(two_groups(10, 0.1), samples=16)) == price(20)
    assert price(20, said_of(two_groups(20, 0.1), samples=40, both=True)) == price(20)  # half of 80, a fifth of 80
    # Of losses in units that nobody tells it is a part all the same, neither nothing nor all there is.
    assert price(20, said_of(1e9 * two_groups(20, 0.1), samples=16)) == price(20)
    assert price(20, said_of(1e-9 * two_groups(20, 0.1), samples=16)) == 4 * price(20)


@pytest.mark.parametrize(("clients", "kept"), [(20, 2), (40, 3)])
def test_a_branch_that_does_not_bring_its_price_is_not_kept(clients: float, kept: int) -> None:
    losses = np.ones((60, 4))
    losses[np.arange(60), 1 + np.arange(60) % 3] = 0.9  # a third gains a tenth by each

    evidence = replace(heard(said_of(losses, samples=10)), clients=clients)

    assert (evidence.price > 0.1 / 3) is (kept == 2)
    assert len(evidence.fewest(0)) == kept


def test_no_branch_is_kept_below_its_price_whichever_is_surest() -> None:
    losses = np.ones((100, 4))
    group = np.searchsorted([6, 9], np.arange(100) % 10, side="right")
    losses[np.arange(100), 1 + group] = np.where(group == 1, np.where(np.arange(100) // 10 % 2, 0.2, 1.1), 0.8)

    evidence = replace(heard(said_of(losses, samples=8)), clients=40)

    assert 0.02 < evidence.price < 0.1
    assert 3 not in evidence.fewest(0)  # a tenth of them gain a fifth of their loss, and each as much as the other
    assert evidence.can_do_with(0, evidence.fewest(0))


def test_a_few_who_say_how_many_samples_they_have_do_not_set_the_price() -> None:
    said = said_of(two_groups(20, 0.1), samples=16)
    boasting = replace(said, samples=np.where(np.arange(20) < 3, 2.0**53, said.samples))

    prices = [replace(heard(one), clients=20).price for one in (said, boasting)]

    assert prices[0] == prices[1] > 0


def test_a_loss_that_grows_is_not_steep() -> None:
    evidence = begun(3)
    for number in range(2, 8):
        evidence = evidence.after(said_of(number * two_groups(60, 0.1), first=60 * number, round_=number), is_look=True)

    assert evidence.steepness == 0

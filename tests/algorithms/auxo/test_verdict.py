"""A verdict keeps apart what is better off apart on held-out samples, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.algorithms.auxo.trial import routes_of
from auxo.algorithms.auxo.verdict import Judgements, _Mean
from auxo.core.rng import stream
from auxo.core.types import FloatArray
from tests.algorithms.auxo.made_trials import FOUR, branch_of, cut_of, heard, judged, said, trial


def test_where_everybody_gains_each_branch_is_a_cohort() -> None:
    cut = cut_of(trial(judged(dict.fromkeys(range(4), (0.2, 0.2)))))

    assert set(cut.nodes) == {0, 1, 2, 3}
    assert cut.gain == pytest.approx(0.4, abs=0.05)
    assert sorted(routes_of(FOUR, cut)) == [0, 1, 2, 3]


def test_branches_that_gain_nothing_by_being_alone_stay_together() -> None:
    gains = {0: (0.2, 0.0), 1: (0.2, 0.0), 2: (0.2, 0.2), 3: (0.2, 0.2)}

    cut = cut_of(trial(judged(gains)))

    assert set(cut.nodes) == {4, 2, 3}
    routes = routes_of(FOUR, cut)
    assert routes[0] == routes[1]
    assert len(set(routes)) == 3


def test_what_some_gain_counts_for_more_than_the_little_that_others_lose() -> None:
    # One in four gains much, the others lose a little by having fewer participants.
    gains = {0: (-0.01, 1.0), 1: (-0.01, -0.01), 2: (-0.01, -0.01), 3: (-0.01, -0.01)}

    cut = cut_of(trial(judged(gains)))

    assert 0 in cut.nodes
    assert 5 in cut.nodes


def test_a_few_who_gain_everything_are_heard_among_many_who_gain_nothing() -> None:
    # Eight of 128: the mean gain of all is 2.8 deviations at most, however large theirs is.
    many, few = (judged({0: (0.0, gain)}, count, noise=0.02) for count, gain in ((120, 0.0), (8, 0.9)))
    losses = np.concatenate([many, few[:, [1, 0, 2, 3, 4, 5, 6]]])
    losses[:, 6] = losses[:, 4]
    assert np.bincount(branch_of(losses)).tolist() == [120, 8]
    cut = cut_of(trial(losses))

    assert {0, 1} <= set(cut.nodes)


def mean_of(parts: list[list[float]]) -> _Mean:
    values = np.concatenate([np.array(part) for part in parts])
    found = _Mean.of(values, np.repeat(np.arange(len(parts)), [len(part) for part in parts]), np.arange(len(values)))
    assert found is not None
    return found


def test_a_few_must_gain_more_to_be_beyond_chance() -> None:
    gains = [0.2, 0.4, 0.6]  # 3.5 deviations, which three values have by chance too often

    assert mean_of([gains * 30]).is_beyond_chance(3.0)
    assert not mean_of([gains]).is_beyond_chance(3.0)
    assert _Mean.of(np.array([0.2]), np.array([0]), np.array([7])) is None


def test_that_one_part_gains_more_than_another_is_no_chance() -> None:
    little, much = [0.09, 0.1, 0.11] * 3, [1.1, 1.2, 1.3]
    apart, mixed = mean_of([little, much]), mean_of([little + much])

    assert apart.value == pytest.approx(mixed.value)
    assert apart.is_beyond_chance(3.0)
    assert not mixed.is_beyond_chance(3.0)


def test_the_error_of_one_part_is_that_of_a_mean_and_a_single_judge_adds_no_certainty() -> None:
    values = stream(5, "error").normal(size=20).tolist()
    alone, beside = mean_of([values]), mean_of([values, [5.0]])

    assert alone.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(20))
    assert alone.freedom == 19
    assert alone.of_few == pytest.approx(19)
    assert beside.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(21))
    assert beside.freedom == 19


def test_three_judges_are_few_among_however_many_who_are_of_one_mind() -> None:
    few = [0.2, 0.4, 0.6]

    assert mean_of([few, [0.0] * 200]).of_few == pytest.approx(2)
    assert not mean_of([few, [0.0] * 200]).is_beyond_chance(3.0)
    assert mean_of([[0.5, 0.55, 0.6], [0.0] * 200]).is_beyond_chance(3.0)


@given(st.integers(0, 200))
def test_where_a_model_of_ones_own_is_only_noisier_nothing_is_parted(seed: int) -> None:
    cut = cut_of(trial(judged(dict.fromkeys(range(4), (-0.01, -0.01)), seed=seed)))

    assert cut.nodes == (6,)
    assert cut.gain == 0


def test_nobody_judged_means_nothing_to_part() -> None:
    assert cut_of(trial(np.zeros((0, 7)))).nodes == (6,)


def test_a_single_absurd_loss_neither_makes_nor_hides_a_partition() -> None:
    gaining, losing = (judged(dict.fromkeys(range(4), (gain, gain))) for gain in (0.2, -0.02))
    for losses in (gaining, losing):
        losses[0, 6] = 1e30

    assert len(cut_of(trial(gaining)).nodes) == 4
    assert cut_of(trial(losing)).nodes == (6,)


def test_who_says_nothing_of_the_cohorts_own_model_or_could_be_anywhere_is_not_heard() -> None:
    losses = np.tile(np.arange(7.0), (5, 1))
    losses[1, 4], losses[2, 6] = np.nan, np.inf
    held_in = np.full((5, 7), np.nan)
    held_in[4] = 1.0
    judgements = Judgements(np.array([0, 1, 2, -1, -1]), losses, 1 - losses, held_in, np.arange(5))
    heard_of = judgements.whole()

    assert heard_of.seals.tolist() == [0, 1, 4]  # by their cluster index, and by its choice
    assert heard_of.losses[1, 4] == np.inf  # that model has diverged for it


def test_a_model_that_has_diverged_is_nobodys_choice_and_keeps_nobody_from_being_heard() -> None:
    losses = judged({0: (0.2, 0.2), 1: (0.2, 0.2), 2: (0.2, 0.0)})
    losses[:, 3] = np.nan
    held_in = np.where(np.isnan(losses), np.nan, losses + 0.01)
    cut = cut_of(heard(replace(said(losses, held_in=held_in), branch=np.full(len(losses), -1)).whole()))

    assert {0, 1} <= set(cut.nodes)
    assert cut.judged == len(losses)


def test_who_says_the_same_of_both_halves_is_where_its_label_leads_or_nowhere() -> None:
    losses = judged(dict.fromkeys(range(4), (0.2, 0.2)))
    same = said(losses, held_in=losses)

    assert np.isnan(same.whole().held_in).all()
    assert replace(same, branch=np.full(len(losses), -1)).whole().judges == 0


def test_a_judge_that_chooses_is_where_its_other_samples_lead_whatever_its_label_says() -> None:
    losses = judged(dict.fromkeys(range(4), (0.2, 0.2)))
    wrong = replace(said(losses, held_in=losses + 0.01), branch=3 - branch_of(losses))

    assert len(cut_of(heard(wrong)).nodes) == 4
    by_label = replace(wrong, held_in=np.full_like(losses, np.nan))
    assert cut_of(heard(by_label)).nodes == (6,)


def test_a_choice_by_chance_parts_nothing() -> None:
    # Every branch is as good as any other for everybody; on its other samples each finds one that seems to be better.
    rng = stream(1, "chance")
    losses, held_in = (1.0 + 0.2 * rng.standard_normal((400, 7)) for _ in range(2))
    losses[:, 6] -= 0.01

    assert cut_of(heard(said(losses, held_in=held_in))).nodes == (6,)
    assert len(cut_of(heard(said(losses, held_in=losses))).nodes) > 1  # which is why `whole` leaves these out


@given(st.permutations(list(range(8))))
def test_what_the_seals_of_judges_are_decides_nothing(seals: list[int]) -> None:
    rng = stream(2, "values")
    values, part, judge = rng.random(12), np.arange(12) % 3, np.arange(12) % 8
    marks = np.array(seals)[judge] * 1_000_003

    assert _Mean.of(values, part, marks) == _Mean.of(values, part, judge)


def test_who_judges_by_both_halves_is_one_judge() -> None:
    losses = judged({0: (0.0, 0.5), 1: (0.0, 0.5)}, count=2, noise=0.1)
    once = said(losses, held_in=losses + 0.01)
    twice = once.and_of(once)

    assert (once.judges, twice.judges, len(twice.seals)) == (4, 4, 8)
    assert cut_of(heard(once)).nodes == cut_of(heard(twice)).nodes
    assert cut_of(heard(once)).judged == 4


def test_a_judge_whose_halves_disagree_counts_no_more_than_one_whose_halves_agree() -> None:
    values, part, judge = (
        np.array([1.0, 1.0, 0.0, 0.5, 1.0, 1.0]),
        np.array([0, 0, 0, 1, 1, 1]),
        np.array([0, 0, 1, 1, 2, 2]),
    )
    found = _Mean.of(values, part, judge)
    assert found is not None

    assert found.value == pytest.approx((1.0 + 0.25 + 1.0) / 3)


def test_where_a_part_loses_how_many_judges_it_has_is_chance_as_well() -> None:
    # One in ten gains what the others lose together: by the number of judges alone it may seem to pay.
    gaining, losing = [0.5, 0.52, 0.48, 0.5], [-0.04, -0.05, -0.06] * 5

    assert mean_of([gaining, losing]).value > 0.02
    assert not mean_of([gaining, losing]).is_beyond_chance(3.0)
    assert mean_of([gaining, [0.0] * 15]).is_beyond_chance(3.0)


def scored(losses: FloatArray, better: float, noise: float = 0.0) -> FloatArray:
    """Return scores by node, which are better in branches than in what they are joined to by so much."""
    rng = stream(3, "scores")
    rows = 0.8 + noise * rng.standard_normal(losses.shape)
    rows[:, :4] += better
    return rows


@pytest.mark.parametrize(
    ("better", "noise", "parts"), [(0.05, 0.0, 4), (-0.05, 0.0, 1), (0.0, 0.0, 1), (0.05, 0.02, 4)]
)
def test_who_gains_loss_and_no_score_stays_together(better: float, noise: float, parts: int) -> None:
    losses = judged(dict.fromkeys(range(4), (0.2, 0.2)))
    on_trial = trial(losses, scored(losses, better, noise))

    assert len(cut_of(on_trial).nodes) == parts


def test_a_score_within_chance_is_not_better() -> None:
    losses = judged(dict.fromkeys(range(4), (0.2, 0.2)))
    on_trial = trial(losses, scored(losses, 0.0005, 0.1))

    assert len(cut_of(on_trial).nodes) == 1


@pytest.mark.parametrize(
    ("gain", "noise", "is_open"),
    [
        pytest.param(0.01, 0.01, True, id="beyond chance, and not enough"),
        pytest.param(0.05, 0.25, True, id="enough, and by two deviations"),
        pytest.param(0.0, 0.1, False, id="nothing"),
        pytest.param(-0.1, 0.1, False, id="a loss"),
        pytest.param(0.2, 0.1, False, id="a partition"),
    ],
)
def test_it_is_open_what_a_trial_comes_to_where_branches_gain_and_not_enough(
    gain: float, noise: float, is_open: bool
) -> None:
    assert cut_of(trial(judged(dict.fromkeys(range(4), (gain, gain)), noise=noise))).is_open is is_open

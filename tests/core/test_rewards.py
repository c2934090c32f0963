from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from auxo.core.fingerprint import Fingerprint, unit_rows
from auxo.core.rewards import RewardSettings, instant_rewards, relative_length
from auxo.core.rng import stream
from auxo.core.types import BoolArray, Float32Array, FloatArray

N_PARAMS = 12
SETTINGS = RewardSettings(min_known=3)
VARIANTS = [
    SETTINGS,
    replace(SETTINGS, leave_one_out=False),
    replace(SETTINGS, scale_by_known=False),
    replace(SETTINGS, leave_one_out=False, scale_by_known=False),
]

updates_of_any_scale = st.lists(
    st.tuples(hnp.arrays(np.float32, N_PARAMS, elements=st.floats(-1, 1, width=32)), st.integers(-12, 6)),
    min_size=1,
    max_size=8,
)


def fingerprints(updates: list[tuple[Float32Array, int]], size: int) -> FloatArray:
    sketch = Fingerprint(N_PARAMS, size)
    return np.array([sketch.of((update * 10.0**exponent).astype(np.float32)) for update, exponent in updates])


def on_a_circle(*degrees: float) -> FloatArray:
    angles = np.deg2rad(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def known(*numbers: int, of: int) -> BoolArray:
    return np.isin(np.arange(of), numbers)


@settings(max_examples=60)
@given(
    updates_of_any_scale,
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.sampled_from(VARIANTS),
    st.sampled_from([4, N_PARAMS]),
)
def test_rewards_of_updates_of_any_scale_are_finite_and_within_one(
    updates: list[tuple[Float32Array, int]], flags: list[bool], variant: RewardSettings, size: int
) -> None:
    directions = fingerprints(updates, size)
    rewards = instant_rewards(directions, np.array(flags[: len(directions)]), variant)

    assert rewards.shape == (len(directions),)
    assert np.isfinite(rewards).all()
    assert np.abs(rewards).max() <= 1


def test_a_lone_participant_learns_nothing() -> None:
    np.testing.assert_array_equal(instant_rewards(on_a_circle(10), known(0, of=1), SETTINGS), [0.0])


@pytest.mark.parametrize("n_known", [0, 3])
def test_identical_updates_fit_perfectly(n_known: int) -> None:
    for n in range(3, 11):
        direction = unit_rows(stream(0, "direction", n).standard_normal((1, 40)))
        rewards = instant_rewards(np.repeat(direction, n, axis=0), known(*range(n_known), of=n), SETTINGS)

        np.testing.assert_array_equal(rewards, np.ones(n))


def test_zero_updates_fit_each_other() -> None:
    rewards = instant_rewards(np.zeros((6, 4)), known(of=6), SETTINGS)

    assert len(set(rewards.tolist())) == 1


@settings(max_examples=30)
@given(st.lists(st.floats(0, 180), min_size=2, max_size=8, unique=True))
def test_of_newcomers_the_farther_never_gets_the_higher_reward(degrees: list[float]) -> None:
    members = [-4.0, -2.0, 0.0, 2.0, 4.0]
    directions = on_a_circle(*members, *sorted(degrees))
    rewards = instant_rewards(directions, known(0, 1, 2, 3, 4, of=len(directions)), SETTINGS)[len(members) :]

    assert (np.diff(rewards) <= 1e-12).all()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 10), st.sampled_from(VARIANTS))
def test_a_participant_farther_from_the_centre_it_is_compared_with_never_gets_the_higher_reward(
    seed: int, n: int, variant: RewardSettings
) -> None:
    rng = stream(seed, "rewards")
    directions, is_known = unit_rows(rng.standard_normal((n, 5)) + 1.0), rng.random(n) < 0.5
    compared = is_known if is_known.sum() >= variant.min_known else np.ones(n, dtype=np.bool_)
    distances = []
    for row in range(n):
        others = compared & (np.arange(n) != row) if variant.leave_one_out else compared
        distances.append(np.linalg.norm(directions[row] - directions[others].mean(axis=0)))
    rewards = instant_rewards(directions, is_known, variant)

    assert (np.diff(rewards[np.argsort(distances)]) <= 1e-9).all()


def test_members_are_rewarded_and_strangers_are_not() -> None:
    directions = on_a_circle(-3, -1, 0, 1, 3, 90, 180)
    rewards = instant_rewards(directions, known(0, 1, 2, 3, 4, of=7), SETTINGS)

    assert rewards[2] > 0
    np.testing.assert_array_equal(rewards[5:], [-1.0, -1.0])


def test_newcomers_do_not_move_what_members_are_told() -> None:
    members = on_a_circle(-3, -1, 0, 1, 3)
    crowd = np.concatenate([members, on_a_circle(*np.linspace(80, 170, 20))])
    alone = instant_rewards(members, known(0, 1, 2, 3, 4, of=5), SETTINGS)
    crowded = instant_rewards(crowd, known(0, 1, 2, 3, 4, of=25), SETTINGS)

    np.testing.assert_allclose(crowded[:5], alone)


def test_with_too_few_known_participants_everybody_is_compared_with_everybody() -> None:
    directions = on_a_circle(0, 10, 20, 90)
    nobody = instant_rewards(directions, known(of=4), SETTINGS)

    np.testing.assert_array_equal(instant_rewards(directions, known(0, 3, of=4), SETTINGS), nobody)
    assert not np.array_equal(instant_rewards(directions, known(0, 1, 2, of=4), SETTINGS), nobody)


@settings(max_examples=30)
@given(st.permutations(range(7)), st.sampled_from(VARIANTS))
def test_permuting_participants_permutes_their_rewards(order: list[int], variant: RewardSettings) -> None:
    directions, is_known = on_a_circle(-3, -1, 0, 5, 40, 90, 180), known(0, 1, 3, 4, of=7)
    rows = np.array(order)
    straight = instant_rewards(directions, is_known, variant)

    np.testing.assert_allclose(instant_rewards(directions[rows], is_known[rows], variant), straight[rows], atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_inputs_are_left_untouched(variant: RewardSettings) -> None:
    directions, is_known = on_a_circle(-3, -1, 0, 5, 90), known(0, 1, 2, of=5)
    directions_before, known_before = directions.copy(), is_known.copy()
    instant_rewards(directions, is_known, variant)

    np.testing.assert_array_equal(directions, directions_before)
    np.testing.assert_array_equal(is_known, known_before)


def test_a_centre_of_fewer_than_two_is_refused() -> None:
    with pytest.raises(ValueError, match="min_known: expected at least 2, got 1"):
        RewardSettings(min_known=1)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6])
def test_rewards_with_lengths_are_bounded_and_finite_for_updates_of_any_scale(scale: float) -> None:
    updates = (stream(1, "updates").standard_normal((12, 30)) * scale).astype(np.float32)
    fingerprint = Fingerprint(n_params=30)
    directions = np.array([fingerprint.of(update) for update in updates])
    lengths = np.array([relative_length(update, 20) for update in updates])
    rewards = instant_rewards(directions, np.arange(12) < 8, RewardSettings(), lengths)
    assert np.isfinite(rewards).all()
    assert (np.abs(rewards) <= 1).all()
    unscaled = np.array([relative_length((update / scale).astype(np.float32), 20) for update in updates])
    np.testing.assert_allclose(
        rewards, instant_rewards(directions, np.arange(12) < 8, RewardSettings(), unscaled), atol=1e-4
    )


def test_an_unusually_long_update_is_an_outlier_whatever_its_direction() -> None:
    directions = unit_rows(1.0 + 0.5 * stream(2, "directions").standard_normal((21, 40)))
    is_known = np.arange(21) < 20
    lengths = np.full(21, 1.0) + 0.1 * stream(3, "lengths").random(21)
    usual = instant_rewards(directions, is_known, RewardSettings(), lengths)
    lengths[20] = 5.0
    long = instant_rewards(directions, is_known, RewardSettings(), lengths)
    assert long[20] < 0 < usual[20]
    np.testing.assert_array_equal(long[:20], usual[:20])
    blind = instant_rewards(directions, is_known, RewardSettings(weigh_length=False), lengths)
    assert blind[20] > 0


def test_data_size_alone_makes_no_update_long() -> None:
    step = stream(4, "step").standard_normal(50).astype(np.float32)
    assert relative_length(step * 3, 90) == pytest.approx(relative_length(step, 10), rel=1e-6)

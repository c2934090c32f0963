"""A cohort pools fingerprints, looks early, and when nothing came of it again after a rest, at twice as many."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.algorithms.auxo import ClusteringSettings, Pooling, TrialSettings
from auxo.algorithms.auxo.looking import Candidate
from auxo.algorithms.auxo.pooling import are_in_first_half, first_look
from auxo.algorithms.auxo.views import Prints, View, ViewName
from auxo.core.rng import stream
from tests.algorithms.auxo.made_prints import Seen, seen

SETTINGS = ClusteringSettings(clusters=4, pool_rounds=3, pool_most=100)


def prints_of(count: int, seed: int = 0) -> Prints:
    rng = stream(seed, "prints")
    return Prints(rng.standard_normal((count, 6)) + 3, rng.standard_normal((count, 2)), rng.standard_normal((count, 0)))


def pooled(*counts: int, settings: ClusteringSettings = SETTINGS, start: Pooling | None = None) -> Pooling:
    """Return a pool after rounds of so many participants each, always the first ones."""
    pool = start or Pooling()
    for number, count in enumerate(counts):
        pool = pool.after(prints_of(count, number), np.arange(count), np.arange(count), settings)
    return pool


def pooled_from(at: Seen, settings: ClusteringSettings, start: Pooling | None = None) -> Pooling:
    """Return a pool with a round of these, and so many clients."""
    who = np.arange(len(at.groups))
    pool = replace(start or Pooling(), rounds=(), common=None).after(at.prints, who, who, settings)
    return replace(pool, clients=float(len(who)))


def test_it_looks_after_so_many_rounds_and_not_before() -> None:
    assert [pooled(*[10] * rounds).is_full(SETTINGS) for rounds in range(5)] == [False, False, False, True, True]


def test_with_very_few_participants_it_waits_for_enough_updates() -> None:
    assert [pooled(*[2] * rounds).is_full(SETTINGS) for rounds in range(6)] == [False] * 4 + [True] * 2


def test_with_very_many_participants_it_looks_as_soon_as_no_more_are_kept() -> None:
    assert [pooled(*[60] * rounds).is_full(SETTINGS) for rounds in range(3)] == [False, False, True]


@given(st.integers(2, 300), st.integers(1, 6), st.integers(1, 300))
def test_the_first_look_is_after_the_round_that_is_told(participants: int, rounds: int, most: int) -> None:
    settings = ClusteringSettings(pool_rounds=rounds, pool_most=most)
    told = first_look(participants, settings)

    assert pooled(*[participants] * told, settings=settings).is_full(settings)
    assert not pooled(*[participants] * (told - 1), settings=settings).is_full(settings)


@given(st.lists(st.integers(0, 60), max_size=12))
def test_memory_is_bounded(counts: list[int]) -> None:
    pool = pooled(*counts)
    kept = [len(one.first_half) for one in pool.rounds]

    assert sum(kept[1:]) < SETTINGS.pool_most
    told = [count for count in counts if count >= 2]
    assert kept == told[len(told) - len(kept) :]  # the last ones, each of them whole
    assert sum(kept) >= min(SETTINGS.pool_most, sum(told))
    for one in pool.rounds:
        assert one.directions.dtype == one.outputs.dtype == one.inputs.dtype == np.float32


def test_a_round_is_kept_without_what_its_participants_shared_and_a_single_one_tells_nothing() -> None:
    pool = pooled(10)
    (only,) = pool.rounds

    np.testing.assert_allclose(only.directions.mean(axis=0), 0, atol=1e-6)
    assert pool.common is not None
    np.testing.assert_allclose(pool.common.directions[0], prints_of(10).directions.mean(axis=0))
    assert pooled(1, 0) == Pooling()


def test_after_a_look_in_vain_it_rests_as_long_as_it_has_been_and_needs_twice_as_many() -> None:
    again = pooled(10, 10, 10).failed(3, (), False, SETTINGS)

    assert (again.rests_until, again.needs, again.rounds) == (6, 6, ())
    assert [again.pools(number) for number in (4, 6, 7)] == [False, False, True]
    assert [pooled(*[10] * rounds, start=again).is_full(SETTINGS) for rounds in (5, 6)] == [False, True]
    third = again.failed(12, (), False, SETTINGS)
    assert (third.rests_until, third.needs) == (24, 12)


def test_where_everybody_has_been_seen_more_of_the_same_is_not_waited_for() -> None:
    again = replace(pooled(10, 10, 10), everybody=True).failed(3, (), False, SETTINGS)

    assert (again.rests_until, again.needs) == (6, 3)


def test_where_another_view_shows_groups_it_has_its_turn_at_once() -> None:
    tried = replace(pooled(10), trials=2, needs=6).failed(20, ("plain",), True, SETTINGS)

    assert (tried.rests_until, tried.needs, tried.trials, tried.tried) == (20, 6, 2, ("plain",))
    assert tried.pools(21)


def test_views_that_were_on_trial_together_are_used_up_together_and_all_of_them_begin_anew() -> None:
    first = Pooling(trials=1).failed(20, ("plain", "input energies"), True, SETTINGS)
    second = first.failed(30, ("without frequencies",), False, SETTINGS)
    third = second.failed(60, ("plain",), True, SETTINGS)

    assert first.tried == ("plain", "input energies")
    assert second.tried == ("plain", "input energies", "without frequencies")
    assert third.tried == ("plain",)


def test_where_a_trial_was_promising_no_view_is_used_up_and_it_is_looked_at_again_at_once() -> None:
    before = replace(pooled(10), trials=2, needs=6, tried=("input energies",))
    again = before.failed(20, (), True, SETTINGS)

    assert (again.tried, again.needs, again.rests_until) == (("input energies",), 6, 20)
    assert again.pools(21)


@pytest.mark.parametrize("kind", ["classes", "units"])
def test_views_are_tried_in_turn_and_from_the_first_again(kind: str) -> None:
    at = seen(kind, 2, clients=60)
    settings = ClusteringSettings(clusters=3)
    state, order = Pooling(), []
    views = 5 if kind == "classes" else 4  # of units class frequencies show nothing
    for number in range(3 * views):
        state = pooled_from(at, settings, state)
        found = state.look(at.blocks, settings, stream(0, "cluster"))
        order.append(found[0].view.name)
        state = state.failed(number, (order[-1],), len(found) > 1, settings)

    assert len(set(order[:views])) == views
    assert order == order[:views] * 3
    assert state.rests_until == 2 * (3 * views - 1)  # there is a rest when all of them have had their turn


def test_no_more_clusters_are_looked_for_than_pairs_of_clients() -> None:
    at = seen("classes", 3, clients=60)
    settings = ClusteringSettings(clusters=8)
    pool = pooled_from(at, settings)

    def most(clients: float) -> int:
        counted = replace(pool, clients=clients)
        return max(one.clusters for one in counted.look(at.blocks, settings, stream(0, "cluster")))

    assert (most(4.0), most(5.0)) == (2, 2)
    assert most(60.0) >= 3


@pytest.mark.parametrize(
    ("clients", "participants", "everybody"),
    [
        (4, 4, True),
        (119, 40, True),
        (200, 10, False),
        (5000, 200, False),
        (200, 200, True),  # all of them are there in every round, and nobody is new to a trial
        (300, 150, True),
        (2000, 1000, False),  # one in four is new in the third round, and they are many
    ],
)
def test_everybody_judges_where_too_few_would_be_new_to_a_trial(
    clients: int, participants: int, everybody: bool
) -> None:
    pool = Pooling()
    for number in range(3):
        who = stream(0, "draws", clients, number).permutation(clients)[:participants]
        pool = pool.after(prints_of(participants), who, who, ClusteringSettings())

    assert pool.counted(float(clients), TrialSettings(judges=60)).everybody is everybody


@pytest.mark.parametrize("clients", [30, 300, 3000])
def test_clients_are_counted_by_who_comes_again(clients: int) -> None:
    found = []
    for seed in range(40):
        pool, rng = Pooling(), stream(seed, "draws", clients)
        for number in range(4):
            who = rng.permutation(clients)[: min(clients, 60)]
            pool = pool.after(prints_of(len(who), number), who, 7 * who, replace(SETTINGS, pool_most=1000))
        found.append(pool.counted(5.0, TrialSettings()).clients)

    assert np.median(found) == pytest.approx(clients, rel=0.25)


def test_there_are_as_many_clients_as_check_in_at_least_and_many_where_nobody_comes_again() -> None:
    assert pooled(10, 10, 10).counted(5.0, TrialSettings()).clients == 10.0
    assert pooled(10, 10, 10).counted(25.0, TrialSettings()).clients == 25.0
    strangers = Pooling()
    for number in range(3):
        who = 10 * number + np.arange(10)
        strangers = strangers.after(prints_of(10, number), who, who, SETTINGS)
    counted = strangers.counted(25.0, TrialSettings())
    assert counted.clients == 300  # with fewer, one of as many pairs would have been the same client twice
    assert not counted.everybody
    assert pooled(10, 10, 10).counted(25.0, TrialSettings()).everybody


def test_a_single_round_tells_nothing_of_who_comes_again() -> None:
    assert pooled(10).counted(25.0, TrialSettings()).clients == 25.0
    assert pooled(10, start=Pooling(clients=500.0)).counted(25.0, TrialSettings()).clients == 500.0


def test_what_was_counted_is_kept_when_a_look_or_a_trial_came_to_nothing_but_a_child_has_fewer() -> None:
    counted = replace(pooled(10, 10, 10), trials=2).counted(25.0, TrialSettings())

    assert counted.failed(3, (), False, SETTINGS).clients == 25.0
    assert Pooling.of_child(counted, 7) == Pooling(rests_until=14, trials=2)


def test_the_first_half_of_clients_is_always_the_same_and_a_half() -> None:
    clients = np.arange(5000)
    half = are_in_first_half(clients)

    assert half.mean() == pytest.approx(0.5, abs=0.03)
    np.testing.assert_array_equal(are_in_first_half(clients[::-1])[::-1], half)
    np.testing.assert_array_equal(are_in_first_half(clients[100:200]), half[100:200])


def test_a_view_that_was_tried_in_vain_gives_way_to_one_that_was_not() -> None:
    at = seen("classes", 2, clients=60)
    tried: tuple[ViewName, ...] = ("plain",)
    pool = pooled_from(at, SETTINGS, Pooling(tried=tried))

    names = {one.view.name for one in pool.look(at.blocks, SETTINGS, stream(0, "cluster"))}

    assert names == {"without frequencies", "input energies", "input means", "frequencies"}


def test_what_judges_were_sure_of_is_tried_first_and_what_its_view_shows_by_now_last() -> None:
    at = seen("classes", 2, clients=60)
    kept = Candidate(View(), 1.5, np.eye(at.prints.directions.shape[1])[:2])
    pool = pooled_from(at, SETTINGS, Pooling().rested(kept))
    found = pool.look(at.blocks, SETTINGS, stream(0, "cluster"))
    without = replace(pool, kept=None).look(at.blocks, SETTINGS, stream(0, "cluster"))

    assert found[0] is kept
    assert without[0].view.name == found[-1].view.name == "plain"
    assert sorted(one.view.name for one in found[1:]) == sorted(one.view.name for one in without)
    assert pool.failed(9, (), False, SETTINGS).kept is None


@pytest.mark.parametrize(("everybody", "clusters"), [(True, 2), (False, 5)])
def test_what_was_kept_is_no_candidate_where_everybody_judges_or_there_may_be_fewer_clusters(
    everybody: bool, clusters: int
) -> None:
    at = seen("classes", 2, clients=60)
    kept = Candidate(View(), 1.5, np.eye(at.prints.directions.shape[1])[:clusters])
    pool = replace(pooled_from(at, SETTINGS, Pooling().rested(kept)), everybody=everybody)

    assert kept not in pool.look(at.blocks, SETTINGS, stream(0, "cluster"))


def few_pooled(clients: int, groups: int, *, secret: int = 0) -> Pooling:
    """Return a pool of three rounds of a few clients, each of which has a place of its own near its group's."""
    rng = stream(clients, "few")
    towards = np.eye(24)[np.arange(clients) % groups] if groups > 1 else np.zeros((clients, 24))
    places, pool = 3 * towards + 0.5 * rng.standard_normal((clients, 24)), Pooling(everybody=True)
    marks = stream(secret, "marks").permutation(clients)
    for _ in range(3):
        directions = places + 0.2 * rng.standard_normal((clients, 24))
        prints = Prints(directions, np.zeros((clients, 0)), np.zeros((clients, 0)))
        pool = pool.after(prints, np.arange(clients), marks, SETTINGS)
    return replace(pool, clients=float(clients))


@pytest.mark.parametrize(("clients", "groups", "clusters"), [(10, 3, 3), (12, 4, 4), (15, 1, 3), (8, 2, 2), (5, 3, 2)])
def test_where_everybody_judges_a_branch_has_three_participants_or_five_where_no_number_is_clear(
    clients: int, groups: int, clusters: int
) -> None:
    (found,) = few_pooled(clients, groups).look(np.zeros(24, dtype=np.int64), SETTINGS, stream(0, "cluster"))

    assert found.clusters == clusters


@pytest.mark.parametrize("groups", [1, 3])
def test_what_clients_are_known_by_decides_nothing(groups: int) -> None:
    blocks = np.zeros(24, dtype=np.int64)
    looks = [few_pooled(20, groups, secret=one).look(blocks, SETTINGS, stream(0, "cluster")) for one in range(6)]

    for (found,) in looks:
        np.testing.assert_array_equal(found.centres, looks[0][0].centres)

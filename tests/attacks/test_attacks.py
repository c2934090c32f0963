"""What each kind of attacker does to what it says, and that nobody else's words change."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.attacks.alie import Alie
from auxo.attacks.all_mods import mods_of
from auxo.attacks.attackers import Attack, Attackers, Target
from auxo.attacks.forged_cluster import ForgedCluster
from auxo.attacks.forged_reward import ForgedReward
from auxo.attacks.hopping import Hopping
from auxo.attacks.inner_product import InnerProduct
from auxo.attacks.label_flip import LabelFlip
from auxo.attacks.lying_judge import LyingJudge
from auxo.attacks.mimic import Mimic
from auxo.attacks.new_name import NewName
from auxo.attacks.noise import Noise
from auxo.attacks.not_numbers import NotNumbers
from auxo.attacks.scaled import Scaled
from auxo.attacks.sign_flip import SignFlip
from auxo.core.affinity import Requests
from auxo.core.asking import Answer, Ask
from auxo.core.client_mod import ClientMod, ModsRequests, said_through
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId
from auxo.engines.in_process import InProcess
from auxo.experiments.parts import ATTACKS
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.testing import check_client_mod
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.core.made_updates import given as answered

CLIENTS = 12
DATA = synthetic_population(clients=CLIENTS, groups=2, heterogeneity=LabelPermutation(), features=4, classes=3, seed=0)
ENGINE = InProcess(SoftmaxTrainer(4, 3), DATA, LocalTraining(), seed=0)
MODELS = list(np.outer((0, 0.1, -0.1), np.arange(15)).astype(np.float32))
ATTACKERS = Attackers(np.array([1, 4, 5]), CLIENTS, seed=3)
KINDS: list[Attack] = [ATTACKS.find(name)() for name in ATTACKS.names]  # type: ignore[misc]
TREE = CohortTree().partition(ROOT, (0, 1, 2), (0.5, 0.2, 0.3)).partition(CohortId("0.0"), (0, 1), (0.1, 0.9))
SMALLEST = "0.0.0"  # a tenth of a half


def answers(mods: Sequence[ClientMod], ask: Ask | None = None, out: bool = True) -> list[Answer]:
    jobs = [Job(client, 2, ask or Ask()) for client in range(CLIENTS)]
    memory = np.empty((CLIENTS, 15), dtype=np.float32) if out else None
    return [replace(one, update=one.update.copy()) for one in answered(ENGINE.answers(MODELS, jobs, mods, memory))]


def sent(kind: Attack) -> tuple[list[Answer], list[Answer]]:
    """Return what all would honestly send, and what they send under an attack."""
    return answers(()), answers([kind.mod(ATTACKERS)])


def requests(tree: CohortTree = TREE) -> Requests:
    rng = stream(0, "requests")
    silent = Requests.silent(tree, rng.integers(1, 5, CLIENTS))
    cohort = np.array([tree.index[leaf] for leaf in tree.leaves])[rng.integers(0, len(tree.leaves), CLIENTS)]
    return replace(silent, cohort=cohort, reward=rng.random(CLIENTS) / 2, confirmed=np.ones(CLIENTS, dtype=np.int64))


def claimed(kind: Attack, attackers: Attackers = ATTACKERS, tree: CohortTree = TREE) -> Requests:
    return said_through([kind.mod(attackers)], np.arange(CLIENTS), requests(tree))


@pytest.mark.parametrize("kind", KINDS, ids=ATTACKS.names)
def test_every_attack_keeps_the_contract_of_client_mods(kind: Attack) -> None:
    check_client_mod(kind.mod(Attackers(np.array([0, 2, 4]), 6, seed=1, target="random")))


@pytest.mark.parametrize("kind", KINDS, ids=ATTACKS.names)
def test_honest_clients_are_left_as_they_are(kind: Attack) -> None:
    mod, honest = kind.mod(ATTACKERS), ATTACKERS.honest.tolist()
    judging = Ask(judges=(0, 1, 2))
    for client, one, other in zip(range(CLIENTS), answers((), judging), answers([mod], judging), strict=True):
        if client in honest:
            np.testing.assert_array_equal(one.update, other.update)
            assert one.judged == other.judged
    said = requests()
    for name in ("cohort", "cluster", "generation", "reward", "ranked_first", "confirmed", "participations"):
        now = getattr(said_through([mod], np.arange(CLIENTS), said), name)
        np.testing.assert_array_equal(now[honest], getattr(said, name)[honest])


@pytest.mark.parametrize(
    ("kind", "times"), [(SignFlip(), -1.0), (SignFlip(times=2.0), -2.0), (Scaled(), 10.0), (InnerProduct(), -0.5)]
)
def test_updates_are_sent_back_to_front_or_longer(kind: Attack, times: float) -> None:
    for client, (honest, forged) in enumerate(zip(*sent(kind), strict=True)):
        if client in ATTACKERS.clients:
            np.testing.assert_allclose(forged.update, times * honest.update, rtol=1e-5)


def test_noise_is_as_long_as_it_is_said_to_be_and_another_at_each_visit() -> None:
    honest, forged = sent(Noise(times=3.0))
    again = answered(ENGINE.answers(MODELS, [Job(4, 7, Ask())], [Noise(times=3.0).mod(ATTACKERS)]))[0]
    assert np.linalg.norm(forged[4].update) == pytest.approx(3 * np.linalg.norm(honest[4].update), rel=1e-5)
    assert abs(np.corrcoef(forged[4].update, again.update)[0, 1]) < 0.9


def test_updates_that_are_no_numbers_have_no_number_in_them() -> None:
    assert np.isnan(sent(NotNumbers())[1][1].update).all()


@pytest.mark.parametrize("out", [True, False])
def test_a_little_is_enough_shifts_by_what_the_halves_differ(out: bool) -> None:
    honest, forged = answers((), out=out), answers([Alie(deviations=2.0).mod(ATTACKERS)], out=out)
    jobs = [[Job(5, 2, Ask(fold=fold))] for fold in (0, 1)]
    one, other = (answered(ENGINE.answers(MODELS, job))[0].update.astype(np.float64) for job in jobs)
    expected = honest[5].update - 2.0 * np.abs(one - other) / np.sqrt(2)
    np.testing.assert_allclose(forged[5].update, expected, rtol=1e-5)


def test_wrong_labels_are_never_the_right_ones_and_test_samples_keep_theirs() -> None:
    from auxo.population.wrong_labels import mislabelled  # noqa: PLC0415

    wrong = mislabelled(DATA, ATTACKERS.clients, 3)
    theirs = DATA.train.positions(ATTACKERS.clients)
    assert (wrong.train.y[theirs] != DATA.train.y[theirs]).all()
    assert len(np.unique((wrong.train.y[theirs] - DATA.train.y[theirs]) % 3)) == 2  # each of the others
    others = DATA.train.positions(ATTACKERS.honest)
    np.testing.assert_array_equal(wrong.train.y[others], DATA.train.y[others])
    np.testing.assert_array_equal(wrong.test.y, DATA.test.y)


def test_who_has_wrong_labels_trains_and_compares_by_them() -> None:
    honest, forged = sent(LabelFlip())
    assert all(np.any(honest[client].update != forged[client].update) for client in ATTACKERS.clients)
    asked = Ask(reports_loss=True)
    losses = [one.loss for one in answers((), replace(asked, model=1))]
    wrong = [one.loss for one in answers([LabelFlip().mod(ATTACKERS)], replace(asked, model=1))]
    assert [a == b for a, b in zip(losses, wrong, strict=True)] == (~ATTACKERS.among(np.arange(CLIENTS))).tolist()


def test_all_who_mimic_send_what_one_honest_client_sends() -> None:
    honest, forged = sent(Mimic())
    ours = [forged[client].update for client in ATTACKERS.clients]
    assert all(np.array_equal(ours[0], one) for one in ours)
    assert sum(np.array_equal(ours[0], honest[client].update) for client in ATTACKERS.honest) == 1


@pytest.mark.parametrize("kind", [LabelFlip(), Mimic()])
def test_a_real_device_shows_no_other_samples_and_says_so(kind: Attack) -> None:
    class Real:
        clients, visits = np.array([1]), np.array([0])

    with pytest.raises(TypeError, match="device: expected one of a simulation"):
        list(kind.mod(ATTACKERS).answers([Ask()], Real(), lambda asks, device: iter(())))  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("kind", [ForgedReward(), ForgedCluster()])
def test_all_claims_lead_into_the_smallest_cohort(kind: Attack) -> None:
    said = claimed(kind, replace(ATTACKERS, target="smallest"))
    leaf, vouched = TREE.resolve(said.cohort, said.cluster, said.generation, stream(0, "draws"))
    assert {TREE.cohorts[at] for at in leaf[ATTACKERS.clients]} == {SMALLEST}
    assert vouched[ATTACKERS.clients].all()
    assert said.ranked_first[ATTACKERS.clients].all()


@pytest.mark.parametrize("target", ["own", "random"])
def test_no_forged_index_leads_to_the_cohort_that_the_attacker_belongs_to(target: Target) -> None:
    everybody = Attackers(np.arange(CLIENTS), CLIENTS, seed=3, target=target)
    leaves = np.flatnonzero(TREE.is_leaf)
    for own in leaves.tolist():
        honest = replace(requests(), cohort=np.full(CLIENTS, own))
        said = said_through([ForgedCluster().mod(everybody)], np.arange(CLIENTS), honest)
        led, _ = TREE.resolve(said.cohort, said.cluster, said.generation, stream(0, "draws"))
        assert own not in led
        assert len(set(led.tolist())) > 1


def test_forged_rewards_are_the_highest_there_are_and_need_no_comparison() -> None:
    said = claimed(ForgedReward(), replace(ATTACKERS, target="random"))
    assert (said.reward[ATTACKERS.clients] == 1.0).all()
    assert (said.confirmed[ATTACKERS.clients] == 127).all()
    assert len(np.unique(claimed(ForgedReward(), Attackers(np.arange(12), 12, 3, "random")).cohort)) > 1


def test_who_claims_its_own_cohort_and_has_none_claims_nothing() -> None:
    newcomers = Requests.silent(TREE, np.zeros(CLIENTS, dtype=np.int64))
    said = said_through([ForgedReward().mod(ATTACKERS)], np.arange(CLIENTS), newcomers)
    assert (said.cohort == -1).all()
    assert not said.ranked_first.any()
    assert (said.reward == 0).all()


def test_who_hops_claims_another_cohort_at_another_visit() -> None:
    everybody = Attackers(np.arange(CLIENTS), CLIENTS, seed=3)
    one, other = (
        said_through([Hopping().mod(everybody)], np.arange(CLIENTS), replace(requests(), participations=np.full(12, n)))
        for n in (1, 2)
    )
    assert 0 < np.mean(one.cohort == other.cohort) < 1
    assert TREE.is_leaf[one.cohort].all()


def test_a_new_name_has_no_past() -> None:
    said = claimed(NewName())
    assert (said.cohort[ATTACKERS.clients] == -1).all()
    assert (said.participations[ATTACKERS.clients] == 0).all()


@pytest.mark.parametrize("says", ["for", "against"])
def test_judges_say_the_most_that_can_be_said(says: str) -> None:
    judged = answers([LyingJudge(says).mod(ATTACKERS)], Ask(judges=(0, 1, 2)))[4].judged  # type: ignore[arg-type]
    own, *branches = judged
    choice = min(branches, key=lambda one: one.other_loss or 0.0)
    assert own.other_loss is not None
    assert choice.other_loss is not None
    assert choice.other_loss < own.other_loss
    assert (choice.loss < own.loss) == (says == "for")
    assert abs(choice.loss - own.loss) >= 10


def test_judges_who_speak_for_a_partition_do_not_all_like_the_same_branch() -> None:
    everybody = Attackers(np.arange(CLIENTS), CLIENTS, seed=3)
    said = answers([LyingJudge("for").mod(everybody)], Ask(judges=(0, 1, 2)))
    assert {tuple(one.loss == 0 for one in answer.judged) for answer in said} == {
        (False, True, False),
        (False, False, True),
    }


def test_attacks_go_together_and_the_first_has_the_last_word() -> None:
    flipped, both = sent(LabelFlip())[1], answers(mods_of([Scaled(), LabelFlip()], ATTACKERS))
    np.testing.assert_allclose(both[4].update, 10 * flipped[4].update, rtol=1e-5)


@pytest.mark.parametrize(
    ("kinds", "target", "forge"), [([SignFlip()], "own", 0), ([SignFlip()], "smallest", 1), ([Hopping()], "random", 1)]
)
def test_who_goes_for_another_cohort_claims_to_belong_there(kinds: list[Attack], target: Target, forge: int) -> None:
    mods = mods_of(kinds, replace(ATTACKERS, target=target))
    assert sum(isinstance(mod, ModsRequests) for mod in mods) == forge


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0, 1), st.integers(0, 5))
def test_attackers_of_a_smaller_share_are_among_those_of_a_larger_one(
    n: int, one: float, two: float, seed: int
) -> None:
    few, many = (Attackers.drawn(n, share, seed) for share in sorted((one, two)))
    assert set(few.clients.tolist()) <= set(many.clients.tolist())
    assert len(many.clients) == round(max(one, two) * n)
    assert sorted([*many.clients.tolist(), *many.honest.tolist()]) == list(range(n))

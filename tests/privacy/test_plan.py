import pytest

from auxo.privacy.plan import LEARNABLE, Circumstances, Plan
from auxo.privacy.terms import Terms, Wish, terms_of


def _plan(epsilon: float, numbers: int, participations: int = 1) -> Plan:
    wish = Wish(epsilon=epsilon, participations=participations, choice_share=0.0)
    return Plan(terms_of(wish), Circumstances(numbers=numbers, participants=200))


@pytest.mark.parametrize(
    ("numbers", "noise"), [(100, (3.2, 1.7, 0.9)), (1_000, (10, 5.3, 2.9)), (10_000, (32, 17, 9.2))]
)
def test_noise_in_the_mean_of_200_updates(numbers: int, noise: tuple[float, ...]) -> None:
    found = [_plan(epsilon, numbers).noise_in_mean() for epsilon in (2.0, 4.0, 8.0)]
    assert found == pytest.approx(noise, rel=0.04)  # printed with two digits


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_ten_thousand_numbers_at_client_level_leave_nothing_and_it_is_said(epsilon: float) -> None:
    plan = _plan(epsilon, 10_000)
    assert "Nothing is left that can be learned from." in plan.verdict()
    words = " / ".join(plan.remedies())
    assert "more participants" in words
    assert "promise sample level" in words
    assert "a secure sum" in words
    assert ("train fewer numbers" in words) == (plan.numbers_learnable >= 50)


def test_what_is_needed_is_enough_and_no_more() -> None:
    plan = _plan(4.0, 10_000)
    assert plan.noise_in_mean(participants=plan.participants_needed) <= LEARNABLE
    assert plan.noise_in_mean(participants=plan.participants_needed - 10) > LEARNABLE
    assert plan.noise_in_mean(numbers=plan.numbers_learnable) <= LEARNABLE


def test_a_small_model_of_many_is_fine_and_nothing_is_advised() -> None:
    plan = Plan(_plan(8.0, 100).terms, Circumstances(numbers=100, participants=20_000))
    assert "Training should go on" in plan.verdict()
    assert plan.remedies() == ()


def test_budgets_and_noise_are_each_others_way_back() -> None:
    forth = _plan(4.0, 100, participations=10)
    back = Plan(Terms("client", None, 1.0, forth.terms.noise, participations=10), forth.around)
    assert back.spent_after(10) == pytest.approx(4.0, rel=1e-2)
    assert back.spent_after(1) < 4.0


def test_a_plan_lasts_for_twice_the_mean_visits() -> None:
    assert Circumstances(rounds=200, participants=100, clients=2_000).visits == 20


def test_larger_batches_help_at_sample_level() -> None:
    terms = terms_of(Wish(promise="sample", participations=10))
    few, many = (Plan(terms, Circumstances(samples=200, batch_size=size)) for size in (5, 50))
    assert many.noise_in_mean() < few.noise_in_mean() / 2
    assert "larger batches" in " / ".join(few.remedies())

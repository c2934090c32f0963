import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

from auxo.core.affinity import Requests
from auxo.core.asking import LEAST_LOSS, NEAREST, Answer, Ask, Device, Failure, Judgement, Losses, Part, PreTraining, do
from auxo.core.client_mod import is_sealed, through
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.privacy.accounting import Gaussian, PrivacyBudget, RandomisedResponse
from auxo.privacy.accounts import OnDevice
from auxo.privacy.local_privacy import ANSWERED, REQUESTED, LocalPrivacy
from auxo.privacy.terms import Terms, Wish, paper_terms, terms_of

WIDTH = 2_000
TERMS = Terms("client", PrivacyBudget(8.0, 1e-6), clip=2.0, noise=4.0, choice_epsilon=1.0, participations=3)


@dataclass(frozen=True)
class Loud:
    """Devices that tell all there is to tell; the last model has the least loss."""

    clients: IntArray
    visits: IntArray
    models: int = 4
    loss: float = 0.5

    @property
    def samples(self) -> IntArray:
        return np.full(len(self.clients), 40)

    def model(self, place: int) -> Float32Array:
        return np.full(WIDTH, place, dtype=np.float32)

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses:
        mean = np.full(len(rows), self.loss * (self.models - model))
        return Losses(mean, mean**2, np.full(len(rows), 40))

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> FloatArray:
        return np.full(len(rows), 0.1 * model)

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:
        for _ in rows:
            yield Answer(
                np.full(WIDTH, 1 + model, dtype=np.float32),
                40,
                loss=0.123,
                squared_loss=0.4,
                judged=(Judgement(0.1),),
                judged_by=12,
                on_all=True,
                took_s=3.0,
                training_s=2.0,
            )


def device(n: int = 1, visit: int = 0) -> Loud:
    return Loud(np.arange(n), np.full(n, visit))


def answers(mod: LocalPrivacy, asks: Sequence[Ask], where: Device) -> list[Answer | Failure]:
    return list(through([mod])(asks, where))


def answered(mod: LocalPrivacy, ask: Ask, where: Device | None = None) -> Answer:
    (found,) = answers(mod, [ask], where or device())
    assert isinstance(found, Answer), found
    return found


def on_device(tmp_path: Path, terms: Terms = TERMS, data: str = "") -> LocalPrivacy:
    return LocalPrivacy(terms, OnDevice.at(tmp_path / "a" / "ledger", tmp_path / "b" / "mark", terms.promise, data))


def test_every_field_of_an_answer_and_of_a_request_has_been_thought_of() -> None:
    # Who adds a field says here what a private client does with it, and the mod does it.
    assert list(ANSWERED) == [one.name for one in fields(Answer)]
    assert list(REQUESTED) == [one.name for one in fields(Requests)]


def test_nothing_but_a_noised_update_leaves() -> None:
    mod = LocalPrivacy.simulated(TERMS, seed=100)
    found = answered(mod, Ask(judges=(1, 2), reports_loss=True))
    assert found == replace(Answer(found.update, 1), on_all=True)
    assert is_sealed([mod])


def test_updates_are_clipped_and_have_the_noise_that_is_promised() -> None:
    mod, asks = LocalPrivacy.simulated(TERMS, seed=100), [Ask()] * 20
    found = np.stack([one.update for one in answers(mod, asks, device(20)) if isinstance(one, Answer)])
    assert found.dtype == np.float32
    noise = found - TERMS.clip / math.sqrt(WIDTH)
    assert noise.std() == pytest.approx(TERMS.clip * TERMS.noise, rel=0.02)
    assert abs(noise.mean()) < 0.2
    assert np.abs(np.corrcoef(found)[np.triu_indices(20, 1)]).max() < 0.15  # type: ignore[index]


def test_the_choice_is_made_before_training_and_shows_in_both_alike() -> None:
    mod = LocalPrivacy.simulated(replace(TERMS, clip=1e9, noise=1e-16), seed=100)
    found = answers(mod, [Ask(model=LEAST_LOSS)] * 400, device(400))
    chosen = []
    for one in found:
        assert isinstance(one, Answer)
        assert one.model is not None
        assert one.update[0] == pytest.approx(1 + one.model)  # it has trained the model that it names
        chosen.append(one.model)
    assert np.mean(np.array(chosen) == 3) == pytest.approx(0.48, abs=0.06)  # of 4 at epsilon 1


def test_without_a_share_for_choices_nobody_compares() -> None:
    class Blind(Loud):
        def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses:
            raise AssertionError("looked at its samples")

    mod = LocalPrivacy.simulated(replace(TERMS, choice_epsilon=0.0, clip=1e9, noise=1e-16), seed=100)
    found = answered(mod, Ask(model=LEAST_LOSS), Blind(np.arange(1), np.zeros(1, dtype=np.int64)))
    assert found.model is None
    assert found.update[0] == pytest.approx(1.0)


def test_a_choice_by_pre_training_is_noised_as_well() -> None:
    mod = LocalPrivacy.simulated(TERMS, seed=100)
    asks = [Ask(model=NEAREST, choices=3, pre_training=PreTraining(1, 0, (1, 2, 3)))] * 300
    chosen = [one.model for one in answers(mod, asks, device(300)) if isinstance(one, Answer)]
    assert set(chosen) == {0, 1, 2}


def test_centres_of_samples_are_refused() -> None:
    (found,) = answers(LocalPrivacy.simulated(TERMS, seed=100), [Ask(centres=2)], device())
    assert isinstance(found, Failure)
    assert "centres of samples" in found.reason


def test_a_simulated_budget_is_spent_after_its_visits() -> None:
    mod = LocalPrivacy.simulated(TERMS, seed=100)
    where = Loud(np.arange(4), np.array([0, 3, 2, 9]))
    found = answers(mod, [Ask()] * 4, where)
    assert [isinstance(one, Failure) for one in found] == [False, True, False, True]
    assert isinstance(found[1], Failure)
    assert found[1].reason.startswith("the privacy budget is spent after 3 visits")
    alone = answered(mod, Ask(), Loud(np.array([2]), np.array([2])))
    assert isinstance(found[2], Answer)
    assert alone.update.tolist() == found[2].update.tolist()


def test_requests_go_as_they_are() -> None:
    requests = Requests.silent(CohortTree(), np.arange(3))
    assert LocalPrivacy.simulated(TERMS, seed=100).requests(np.arange(3), requests) == requests


@pytest.mark.fault(37)
def test_a_device_pays_before_it_says_anything_and_then_refuses(tmp_path: Path) -> None:
    mod = on_device(tmp_path)
    account = mod.account
    assert isinstance(account, OnDevice)
    said, refusal = 0, ""
    while not refusal:
        for found in through([mod])([Ask(model=LEAST_LOSS, work=1.0 + said)], device()):
            if isinstance(found, Failure):
                refusal = found.reason
                continue
            said += 1  # the ledger stands so when the answer leaves
            assert account.ledger.spent().releases == {Gaussian(2.0): said, RandomisedResponse(1.0, 4): said}
    assert refusal.startswith("the privacy budget is spent: epsilon")
    assert said >= 3
    assert TERMS.budget is not None
    assert TERMS.budget.holds(account.ledger.spent().releases)


def test_the_same_question_has_the_same_answer_and_is_paid_for_once(tmp_path: Path) -> None:
    mod = on_device(tmp_path)
    first = answered(mod, Ask(model=LEAST_LOSS))
    for _ in range(20):  # also in another process, later, and when the budget is spent
        again = answered(on_device(tmp_path), Ask(model=LEAST_LOSS))
        assert again.update.tolist() == first.update.tolist()
        assert again.model == first.model
    assert isinstance(mod.account, OnDevice)
    assert mod.account.ledger.spent().releases[Gaussian(2.0)] == 1


def test_new_samples_and_new_questions_have_new_answers(tmp_path: Path) -> None:
    found = [
        answered(on_device(tmp_path), Ask()),
        answered(on_device(tmp_path, data="of May"), Ask()),
        answered(on_device(tmp_path), Ask(work=2.0)),
    ]
    assert len({one.update.tobytes() for one in found}) == 3


def test_an_answer_that_is_damaged_is_made_and_paid_for_anew(tmp_path: Path) -> None:
    first = answered(on_device(tmp_path), Ask())
    (kept,) = (tmp_path / "a" / "ledger-answers").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    mod = on_device(tmp_path)
    assert answered(mod, Ask()).update.tolist() != first.update.tolist()
    assert isinstance(mod.account, OnDevice)
    assert mod.account.ledger.spent().releases == {Gaussian(2.0): 2}


@pytest.mark.fault(37)
def test_without_its_ledger_a_device_says_nothing_not_even_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mod = on_device(tmp_path)
    answered(mod, Ask())
    (tmp_path / "a" / "ledger").unlink()
    (found,) = answers(mod, [Ask()], device())
    assert isinstance(found, Failure)
    assert found.reason.startswith("the privacy ledger cannot be relied on")
    assert str(tmp_path) not in found.reason  # it is sent
    assert "missing, but this client has enrolled" in caplog.text


def test_who_is_refused_does_no_work(tmp_path: Path) -> None:
    class Idle(Loud):
        def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:
            raise AssertionError("trained")

    mod = on_device(tmp_path, replace(TERMS, budget=PrivacyBudget(0.1, 1e-6)))
    (found,) = answers(mod, [Ask()], Idle(np.arange(1), np.zeros(1, dtype=np.int64)))
    assert isinstance(found, Failure)


def test_noise_on_a_device_follows_from_no_seed(tmp_path: Path) -> None:
    one, other = answered(on_device(tmp_path / "1"), Ask()), answered(on_device(tmp_path / "2"), Ask())
    noises = [each.update - TERMS.clip / math.sqrt(WIDTH) for each in (one, other)]
    assert noises[0].tolist() != noises[1].tolist()
    for noise in noises:
        assert noise.std() == pytest.approx(TERMS.clip * TERMS.noise, rel=0.1)


def test_a_failure_inside_costs_nothing(tmp_path: Path) -> None:
    class Flat(Loud):
        def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:
            yield Failure("the battery is flat")

    mod = on_device(tmp_path)
    assert answers(mod, [Ask()], Flat(np.arange(1), np.zeros(1, dtype=np.int64))) == [Failure("the battery is flat")]
    assert isinstance(mod.account, OnDevice)
    assert mod.account.ledger.spent().releases == {}


def test_sample_level_is_refused_where_training_cannot_clip_samples() -> None:
    mod = LocalPrivacy.simulated(replace(TERMS, promise="sample"), seed=100)
    with pytest.raises(ValueError, match=r'expected training that clips the gradient of each sample.*"client" level'):
        answers(mod, [Ask()], device())


def test_terms_and_ledger_promise_the_same(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a ledger for client level"):
        LocalPrivacy(TERMS, OnDevice.at(tmp_path / "a", tmp_path / "b", "sample"))


@pytest.mark.parametrize("promise", ["client", "sample"])
def test_terms_last_for_as_many_visits_as_are_wished_for(promise: str) -> None:
    wish = Wish(promise=promise, epsilon=4.0, participations=7)  # type: ignore[arg-type]
    terms = terms_of(wish, passes=2)
    a_visit = terms.a_visit(passes=2)
    assert terms.budget is not None
    assert terms.budget.holds({one: 7 * count for one, count in a_visit.items()})
    assert not terms.budget.holds({one: 8 * count for one, count in a_visit.items()})


def test_the_paper_has_noise_of_its_own_in_two_readings() -> None:
    each, shared = (paper_terms(0.77, 1.0, noise, 100) for noise in ("per_client", "shared"))
    assert each.noise == pytest.approx(0.77)
    assert shared.noise == pytest.approx(0.077)
    assert each.budget is shared.budget is None
    assert each.choice_epsilon == 0
    found = answered(LocalPrivacy.simulated(each, seed=100), Ask(), device(visit=10_000))
    assert found.update.std() == pytest.approx(0.77, rel=0.1)


def test_a_mod_inside_sees_what_is_asked_in_private() -> None:
    seen: list[Ask] = []

    @dataclass(frozen=True)
    class Inside:
        def answers(self, asks: Sequence[Ask], device: Device, do: object) -> Iterator[Answer | Failure]:
            seen.extend(asks)
            return do_(asks, device)

    do_ = do
    list(through([LocalPrivacy.simulated(TERMS, seed=100), Inside()])([Ask(model=LEAST_LOSS, judges=(1,))], device()))
    assert seen[0].model >= 0
    assert seen[0].judges == ()

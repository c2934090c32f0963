from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.algorithms.base import OneCohort
from auxo.algorithms.cfl import Cfl
from auxo.algorithms.fesem import FeSem
from auxo.algorithms.fl_hc import FlHc
from auxo.algorithms.flex_cfl import FlexCfl
from auxo.algorithms.icfl import Icfl
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.kfed import KFed
from auxo.algorithms.oracle import Oracle
from auxo.algorithms.paper import Lemma, Paper, PartitionLimits
from auxo.algorithms.random_groups import RandomGroups
from auxo.core.aggregators import Aggregator, ServerState
from auxo.core.asking import NEAREST, PreTraining
from auxo.core.cohort_algorithm import (
    Circumstances,
    ClientHalf,
    Closing,
    CohortAlgorithm,
    InitialModel,
    Opening,
    Outcome,
    Plan,
    Start,
    held_by,
    stepped,
)
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, Gathered
from auxo.core.matching import CheckIns, Matched, Matching, ToTheRoot
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.types import CohortId, Float32Array
from auxo.experiments.parts import METHODS
from auxo.testing import ContractBroken, check_method, methods
from auxo.testing.contract import Check
from auxo.testing.methods import Method, algorithms_of
from auxo.testing.small_federation import SmallFederation, initial_model, rules_of
from auxo.testing.witness import Notebook, observed
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

EARLY = PartitionLimits(begin=0.0, end=0.9, min_participants=3)
EAGER: Mapping[
    str, CohortAlgorithm
] = {  # settings with which cohorts are partitioned within the few rounds of the suite
    "auxo": Auxo(clustering=ClusteringSettings(clusters=2, pool_rounds=1), trial=TrialSettings(alpha=0.9)),
    "paper": Paper(criterion=Lemma(EARLY, alpha=0.1), start_round=2),
    "cfl": Cfl(eps_1=1e6, eps_2=0.0, first_split=2),
    "fl+hc": FlHc(after=2, threshold=0.9),
    "kfed": KFed(cohorts=2),
    "fl+hc of three": FlHc(after=1, groups=3, metric="l2", linkage="ward"),
}
CONTRACT: Mapping[str, tuple[Method, ...]] = {
    "base": (OneCohort(),),
    "auxo": (Auxo(), EAGER["auxo"]),
    "paper": (Paper(), EAGER["paper"]),
    "oracle": (Oracle(),),
    "random": (RandomGroups(cohorts=3), RandomGroups(cohorts=1)),
    "cfl": (Cfl(), EAGER["cfl"]),
    "fl+hc": (FlHc(after=12), EAGER["fl+hc"], EAGER["fl+hc of three"]),
    "flexcfl": (
        FlexCfl(groups=2, sample=5, steps=4),
        FlexCfl(groups=3, sample=2, steps=30, group_rate=0.1),
        FlexCfl(1),
    ),
    "ifca": (Ifca(), Ifca(cohorts=1)),
    "fesem": (FeSem(cohorts=3), FeSem(cohorts=1)),
    "icfl": (Icfl(), Icfl(most=4, attach=0.0, gap=0.0, smallest=1, merge=0.0, wait=1)),
    "kfed": (KFed(cohorts=2), KFed(cohorts=3, centres=2), KFed(cohorts=1)),
}
PARTS = {f"{name} {number}": part for name, parts in CONTRACT.items() for number, part in enumerate(parts, 1)}


def test_every_method_that_has_a_name_keeps_the_contract() -> None:
    assert set(CONTRACT) == set(METHODS.names)
    for name, parts in CONTRACT.items():
        assert {type(part) for part in parts} == {METHODS.find(name)}


@pytest.mark.parametrize("part", PARTS)
@every(methods.CONTRACT.checks)
def test_methods_keep_the_contract(check: Check[Method], part: str) -> None:
    check(PARTS[part])


@pytest.mark.parametrize("name", EAGER)
def test_eager_methods_partition_while_they_are_looked_at(name: str) -> None:
    assert len(SmallFederation.of(rules_of(EAGER[name])).end().coordinator.tree.leaves) > 1


def test_the_eager_auxo_is_interrupted_in_a_trial_that_judges_report_from() -> None:
    notebook = Notebook()
    on_trial = [
        any(held_by(mine)[0] for mine in state.coordinator.cohorts.values())
        for state in SmallFederation.of(rules_of(observed(EAGER["auxo"], notebook))).states()
    ]

    assert any(on_trial[number] for number in methods.INTERRUPTED_AT)
    assert any((asked.answer.asks.model > 0).any() for asked in notebook.taken("plan"))  # some train branches
    assert any(np.isfinite(asked.given[1].judged.loss).any() for asked in notebook.taken("close"))


def test_the_small_federation_has_late_and_failed_participants() -> None:
    late = failed = 0
    for state in SmallFederation.of(rules_of(OneCohort())).states():
        for pace in state.paces.values():
            if pace.open_round is not None:
                late += int(pace.open_round.late.sum())
                failed += int((~pace.open_round.kept & ~pace.open_round.late).sum())
    assert late > 0
    assert failed > 0


# Parts that break one promise each.


def same_start(start: Start) -> Start:
    return start


def same_openers(openers: tuple[CohortId, ...]) -> tuple[CohortId, ...]:
    return openers


def same_shares(shares: tuple[float, ...]) -> tuple[float, ...]:
    return shares


def same_plan(opening: Opening, plan: Plan) -> Plan:
    return plan


def same_outcome(closing: Closing, gathered: Gathered, outcome: Outcome | None) -> Outcome | None:
    return outcome


@dataclass(frozen=True)
class Bent:
    """Does what another algorithm does, but for what is bent."""

    inner: CohortAlgorithm = field(default_factory=OneCohort)
    matching: Matching = field(default_factory=ToTheRoot)
    start: Callable[[Start], Start] = same_start
    opened: Callable[[tuple[CohortId, ...]], tuple[CohortId, ...]] = same_openers
    shared: Callable[[tuple[float, ...]], tuple[float, ...]] = same_shares
    planned: Callable[[Opening, Plan], Plan] = same_plan
    closed: Callable[[Closing, Gathered, Outcome | None], Outcome | None] = same_outcome
    remembers: OwnState = NOTHING

    @property
    def client_half(self) -> ClientHalf | None:
        return self.inner.client_half

    @property
    def own_states(self) -> tuple[type, ...]:
        return self.inner.own_states

    def begin(self, initial: InitialModel) -> Start:
        return self.start(self.inner.begin(initial))

    def memory(self, parent: CohortState | None) -> OwnState:
        return self.remembers

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        return self.opened(self.inner.openers(tree))

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        return self.shared(self.inner.shares(tree, openers))

    def plan(self, opening: Opening) -> Plan:
        return self.planned(opening, self.inner.plan(opening))

    def admission(self, closing: Closing) -> Admission:
        return self.inner.admission(closing)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        outcome = self.inner.close(closing, gathered, aggregator, rng)
        return self.closed(closing, gathered, outcome)


class Loose(Bent):
    """Not frozen: whoever likes gives it another attribute."""


def reorders_the_selected(opening: Opening, plan: Plan) -> Plan:
    opening.selected.clients[:] = np.sort(opening.selected.clients)[::-1]
    return plan


def forgets_lengths(closing: Closing, gathered: Gathered, outcome: Outcome | None) -> Outcome | None:
    gathered.lengths[:] = 1.0
    return outcome


@dataclass(frozen=True)
class Misleading:
    """Sends everybody to cohorts that are not there, or that do not train."""

    matched: int = 0
    placed: int = 0

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        return self._to(self.matched, len(check_ins))

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        return self._to(self.placed, len(check_ins))

    def _to(self, position: int, count: int) -> Matched:
        return Matched(np.full(count, position, dtype=np.int64), np.ones(count, dtype=np.bool_))


@dataclass(frozen=True)
class Scribbling:
    """Writes its own into what clients say."""

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        check_ins.requests.cluster[:] = 0
        return ToTheRoot().match(state, check_ins, rng)

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        return ToTheRoot().place(state, check_ins, rng)


def twice_the_first(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, rows=np.zeros_like(plan.rows))


def third_half(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, fold=np.full_like(plan.asks.fold, 12)))


def no_such_model(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, model=np.full_like(plan.asks.model, 1)))


def judges_no_such_model(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, judges=np.full((len(plan.rows), 1), 1)))


def judges_for_others(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, judges=np.zeros((len(plan.rows) + 1, 1), dtype=np.int64)))


def offers_a_stranger(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, offered=(CohortId("0.7"),))


def fails_for_nobody(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, fold=plan.asks.fold + 0 * int(opening.selected.clients[0])))


def never_counts(closing: Closing, gathered: Gathered, outcome: Outcome | None) -> Outcome | None:
    if outcome is None:
        return None
    return replace(outcome, states=tuple(replace(state, round=0) for state in outcome.states))


def says_nothing(closing: Closing, gathered: Gathered, outcome: Outcome | None) -> Outcome | None:
    return None if outcome is None else replace(outcome, affinities=None)


def moved(outcome: Outcome | None, factor: float) -> Outcome | None:
    if outcome is None:
        return None
    states = tuple(
        replace(state, server=replace(state.server, weights=state.server.weights * np.float32(factor)))
        for state in outcome.states
    )
    return replace(outcome, states=states)


def explodes(closing: Closing, gathered: Gathered, outcome: Outcome | None) -> Outcome | None:
    return moved(outcome, np.inf)


def minds_rejections(closing: Closing, gathered: Gathered, outcome: Outcome | None) -> Outcome | None:
    return moved(outcome, 0.5) if gathered.rejected else outcome


def closes_all_the_same(closing: Closing, gathered: Gathered, outcome: Outcome | None) -> Outcome | None:
    return outcome or Outcome(stepped(closing, gathered, rules_of(OneCohort()).aggregator))


def counts_by_itself() -> Callable[[Closing, Gathered, Outcome | None], Outcome | None]:
    calls = count(1)
    return lambda closing, gathered, outcome: moved(outcome, 1 + 1e-3 * next(calls))


WEIGHTS = initial_model(1)


@dataclass(frozen=True)
class Holding:
    """A memory with models besides the cohort's own, which nobody trains."""

    servers: tuple[ServerState, ...]
    models: tuple[Float32Array, ...] = ()

    def held_servers(self) -> tuple[ServerState, ...]:
        return self.servers

    def held_models(self) -> tuple[Float32Array, ...]:
        return self.models


@dataclass(frozen=True)
class Undeclared:
    """A memory of a kind that nobody has named."""

    seen: int = 0


@dataclass(frozen=True)
class Greedy(Bent):
    """Wants a number of updates that there is not."""

    wanted: int = 0

    def wants(self, state: CohortState, share: int) -> int:
        return share if state.round == 0 else self.wanted


@dataclass(frozen=True)
class Unwilling(Bent):
    """Refuses always, or without a word."""

    words: str = ""
    obstacles: bool = True

    def why_not(self, circumstances: Circumstances) -> str | None:
        return self.words if circumstances.obstacles or not self.obstacles else None


def no_steps(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, steps=0))


def no_centres(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, centres=0))


def nearest_of_nothing(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, model=np.full_like(plan.asks.model, NEAREST)))


def pre_trains_no_such_model(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, pre_training=PreTraining(5, model=1, references=(0,))))


def pre_trains_without_references(opening: Opening, plan: Plan) -> Plan:
    return replace(plan, asks=replace(plan.asks, pre_training=PreTraining(5, model=0, references=())))


def stumbles(opening: Opening, plan: Plan) -> Plan:
    raise ZeroDivisionError("in a plan")


BROKEN: list[tuple[Check[Method], Method]] = [
    (methods.is_a_value, Loose()),
    (methods.runs, Bent(planned=stumbles)),
    (methods.leaves_arguments_alone, Bent(planned=reorders_the_selected)),
    (methods.leaves_arguments_alone, Bent(closed=forgets_lengths)),
    (methods.leaves_arguments_alone, Bent(matching=Scribbling())),
    (methods.begins_with_models, Bent(start=lambda start: Start(start.models * 2))),
    (methods.begins_with_models, Bent(start=lambda start: Start((start.models[0][:-1],)))),
    (methods.opens_rounds_for_every_leaf, Bent(opened=lambda openers: ())),
    (methods.opens_rounds_for_every_leaf, Bent(inner=Ifca(2), opened=lambda openers: (CohortId("0.0"),))),
    (methods.opens_rounds_for_every_leaf, Bent(opened=lambda openers: (*openers, CohortId("0.9")))),
    (methods.shares_with_every_opener, Bent(shared=lambda shares: (*shares, 1.0))),
    (methods.shares_with_every_opener, Bent(shared=lambda shares: tuple(-share for share in shares))),
    (methods.shares_with_every_opener, Bent(shared=lambda shares: tuple(share * np.inf for share in shares))),
    (methods.matches_openers_and_places_leaves, Bent(matching=Misleading(matched=5))),
    (methods.matches_openers_and_places_leaves, Bent(inner=Ifca(2), matching=Misleading(matched=1, placed=1))),
    (methods.matches_openers_and_places_leaves, Bent(inner=Ifca(2), matching=Misleading(placed=0))),
    (methods.plans_for_the_selected, Bent(planned=twice_the_first)),
    (methods.plans_for_the_selected, Bent(planned=third_half)),
    (methods.plans_for_the_selected, Bent(planned=no_such_model)),
    (methods.plans_for_the_selected, Bent(planned=judges_no_such_model)),
    (methods.plans_for_the_selected, Bent(planned=judges_for_others)),
    (methods.plans_for_the_selected, Bent(planned=offers_a_stranger)),
    (methods.plans_for_the_selected, Bent(planned=fails_for_nobody)),
    (methods.plans_for_the_selected, Bent(planned=no_steps)),
    (methods.plans_for_the_selected, Bent(planned=no_centres)),
    (methods.plans_for_the_selected, Bent(planned=nearest_of_nothing)),
    (methods.plans_for_the_selected, Bent(planned=pre_trains_no_such_model)),
    (methods.plans_for_the_selected, Bent(planned=pre_trains_without_references)),
    (methods.wants_some_updates, Greedy()),
    (methods.wants_some_updates, Greedy(wanted=-7)),
    (methods.refuses_in_words, Unwilling()),
    (methods.refuses_in_words, Unwilling(words="has no wish to", obstacles=False)),
    (methods.closes_rounds_one_by_one, Bent(closed=never_counts)),
    (methods.closes_rounds_one_by_one, Bent(inner=Auxo(), remembers=Auxo().memory(None), closed=says_nothing)),
    (methods.models_stay_finite, Bent(closed=explodes)),
    (methods.models_stay_finite, Bent(remembers=Holding((ServerState(WEIGHTS * np.float32(np.inf), (), 0),)))),
    (methods.models_stay_finite, Bent(remembers=Holding((), (WEIGHTS.astype(np.float16),)))),
    (methods.models_stay_finite, Bent(remembers=Holding((), (WEIGHTS[:-1],)))),
    (methods.repeats_itself, Bent(closed=counts_by_itself())),
    (methods.resumes_from_bytes, Bent(remembers=Undeclared())),
    (methods.resumes_from_bytes, Bent(closed=counts_by_itself())),
    (methods.rejected_is_failed, Bent(closed=minds_rejections)),
    (methods.nothing_comes_of_nothing, Bent(closed=closes_all_the_same)),
]


def test_a_bent_method_that_is_not_bent_keeps_the_contract() -> None:
    check_method(Bent())


def test_a_cohort_may_hold_models_besides_its_own() -> None:
    methods.models_stay_finite(Bent(remembers=Holding((ServerState(WEIGHTS, (), 0),), (WEIGHTS,))))


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[Method], part: Method) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(methods.CONTRACT.checks, BROKEN)


def test_the_message_says_what_came_and_what_was_expected() -> None:
    message = assert_caught(methods.plans_for_the_selected, Bent(planned=third_half))
    assert message.startswith("Bent breaks a promise of a method: A plan's rows are different rows of the selected")
    assert "asks.fold: expected 0 to 11, or -1 for all samples, got [12]" in message
    assert message.endswith("the protocol is described at CohortAlgorithm in auxo.core.cohort_algorithm")


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="Two runs of the same federation end with the same bytes"):
        check_method(Bent(closed=counts_by_itself()))


def test_a_method_that_needs_the_groups_is_given_them() -> None:
    assert len(algorithms_of(Oracle(starts=(0.0, 0.25, 0.5)))) == 3


def test_a_method_that_lacks_something_is_told_what() -> None:
    @dataclass(frozen=True)
    class Half:
        own_states = ()
        client_half = None

        def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
            return tree.leaves

    with pytest.raises(ContractBroken, match="all members of the protocol, got none called matching, begin, memory"):
        check_method(Half())  # type: ignore[arg-type]  # which is the point

"""The contract of methods: cohort algorithms, and references that are told the groups.

A method is tried in a small federation of a dozen rounds. What it does not do there is not seen: one that partitions
cohorts had better be given settings with which it does so early.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from math import isfinite

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.cohort_algorithm import (
    EVERYBODY,
    Circumstances,
    Closing,
    CohortAlgorithm,
    NeedsGroups,
    Opening,
    Outcome,
    Refuses,
    Wants,
    held_by,
)
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Gathered
from auxo.core.matching import NOWHERE, CheckIns, Matched
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.simulation.virtual_time import SimulationState
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Check, Contract, expect, expect_array, expect_finite, expect_frozen
from auxo.testing.locking import locked
from auxo.testing.small_federation import (
    N_CLIENTS,
    PARTICIPANTS,
    TRAINER,
    SmallFederation,
    in_process,
    initial_model,
    rules_of,
    true_groups,
)
from auxo.testing.troubled_engine import Troubled, diverged, failed, none, of_some
from auxo.testing.witness import Notebook, Noted, observed

Method = CohortAlgorithm | NeedsGroups

CONTRACT = Contract[Method]("a method", "CohortAlgorithm in auxo.core.cohort_algorithm")
check_method = CONTRACT.check
"""Raises `ContractBroken` unless a method keeps its contract; one that needs the groups is given them."""

INTERRUPTED_AT = (3, 10, 17, 31)  # events after which a run is taken to bytes; with rounds open, and between rounds


def algorithms_of(method: Method) -> tuple[CohortAlgorithm, ...]:
    """Return what a method runs; one that needs the groups is given those of the small population."""
    return method.given(true_groups()) if isinstance(method, NeedsGroups) else (method,)


def _promise(look: Callable[[CohortAlgorithm], None]) -> Check[Method]:
    """Return the check of a promise that each of a method's algorithms makes."""

    @CONTRACT.promise
    @wraps(look)
    def look_at_each(method: Method) -> None:
        for algorithm in algorithms_of(method):
            look(algorithm)

    return look_at_each


@CONTRACT.promise
def is_a_value(method: Method) -> None:
    """A method is a frozen value: what it keeps is in the states that it returns."""
    for part in (method, *algorithms_of(method)):
        expect_frozen(part)


@_promise
def runs(algorithm: CohortAlgorithm) -> None:
    """It has all members of a cohort algorithm, and a small federation runs with it to its end."""
    lacking = [name for name in vars(CohortAlgorithm) if not name.startswith("_") and not hasattr(algorithm, name)]
    expect(not lacking, "all members of the protocol", f"none called {', '.join(lacking)}")
    SmallFederation.of(rules_of(algorithm)).end()


@_promise
def leaves_arguments_alone(algorithm: CohortAlgorithm) -> None:
    """No function changes its arguments, arrays included."""
    federation = SmallFederation.of(rules_of(observed(algorithm, watch=locked)))
    federation.simulation.placement(federation.end())


@_promise
def begins_with_models(algorithm: CohortAlgorithm) -> None:
    """There is a model for the root, or one for each of its children, or one for all of these."""
    begin = algorithm.begin(initial_model)
    children = 1 if begin.partition is None else len(begin.partition.weights)
    expect(len(begin.models) in {1, children}, f"1 model or one for each of {children} cohorts", len(begin.models))
    for model in begin.models:
        expect_array(model, "float32", (TRAINER.n_params,), "weights")


@_promise
def opens_rounds_for_every_leaf(algorithm: CohortAlgorithm) -> None:
    """Openers are never empty, and every leaf trains in the rounds of exactly one of them, until all have ended."""
    for state in SmallFederation.of(rules_of(algorithm)).states():
        _expect_openers(algorithm.openers(state.coordinator.tree), state.coordinator.tree)


def _expect_openers(openers: Sequence[CohortId], tree: CohortTree) -> None:
    expect(len(openers) > 0, "at least one opener", "none")
    unknown = [cohort for cohort in openers if cohort not in tree.index]
    expect(not unknown, f"openers among {tree.cohorts}", unknown)
    for leaf in tree.leaves:
        by = [cohort for cohort in openers if tree.is_below(leaf, cohort)]
        expect(len(by) == 1, f"one opener for the leaf {leaf}", by or "none")


@_promise
def shares_with_every_opener(algorithm: CohortAlgorithm) -> None:
    """Shares of the participants are finite positive numbers, one for each opener."""
    for state in SmallFederation.of(rules_of(algorithm)).states():
        tree = state.coordinator.tree
        openers = algorithm.openers(tree)
        shares = algorithm.shares(tree, openers)
        expect(len(shares) == len(openers), f"a share for each of {openers}", shares)
        expect(all(isfinite(share) and share > 0 for share in shares), "finite positive numbers", shares)


@_promise
def matches_openers_and_places_leaves(algorithm: CohortAlgorithm) -> None:
    """Check-ins are matched to openers or NOWHERE, and clients are placed with leaves or NOWHERE."""
    notebook = Notebook()
    witness = observed(algorithm, notebook)
    federation = SmallFederation.of(rules_of(witness))
    for state in federation.states():
        federation.simulation.placement(state)
        _try_strangers(witness, state.coordinator)
        for asked in notebook.taken("match"):
            _expect_among(asked, algorithm.openers(asked.given[0].tree), "an opener")
        for asked in notebook.taken("place"):
            _expect_among(asked, asked.given[0].tree.leaves, "a leaf")


def _try_strangers(witness: CohortAlgorithm, state: CoordinatorState) -> None:
    """Send nobody, and clients whose requests come from a tree that never was."""
    rng = stream(0, "strangers")
    tree = CohortTree().partition(ROOT, (0, 1, 2), (0.2, 0.3, 0.5)).partition(CohortId("0.1"), (0, 1), (0.5, 0.5))
    for count in (0, N_CLIENTS):
        silent = Requests.silent(tree, np.zeros(count, dtype=np.int64))
        odd = replace(
            silent,
            cohort=rng.integers(-1, 9, size=count),
            cluster=rng.integers(-1, 9, size=count),
            generation=rng.integers(-1, 3, size=count),
        )
        check_ins = CheckIns(np.arange(count), odd)
        witness.matching.match(state, check_ins, stream(0, "match"))
        witness.matching.place(state, check_ins, stream(0, "place"))


def _expect_among(asked: Noted, cohorts: Sequence[CohortId], expected: str) -> None:
    state, check_ins, _ = asked.given
    matched: Matched = asked.answer
    for name, column, kind in (("cohort", matched.cohort, "i"), ("vouched", matched.vouched, "b")):
        is_fit = column.shape == (len(check_ins),) and column.dtype.kind == kind
        expect(is_fit, f"a row in {name} for each of {len(check_ins)}", f"{column.dtype} {column.shape}")
    allowed = [NOWHERE, *(state.tree.index[cohort] for cohort in cohorts)]
    wrong = matched.cohort[~np.isin(matched.cohort, allowed)]
    expect(len(wrong) == 0, f"{expected} (positions {allowed[1:]}) or {NOWHERE}", wrong[:5])


@_promise
def wants_some_updates(algorithm: CohortAlgorithm) -> None:
    """A round wants at least one update, or those of everybody, whoever else there is to share with."""
    if not isinstance(algorithm, Wants):
        return
    for state in SmallFederation.of(rules_of(algorithm)).states():
        for cohort in state.coordinator.cohorts.values():
            for share in (1, PARTICIPANTS):
                wants = algorithm.wants(cohort, share)
                is_fit = wants >= 1 or wants == EVERYBODY
                expect(is_fit, "at least 1 update, or EVERYBODY", wants)


@CONTRACT.promise
def refuses_in_words(method: Method) -> None:
    """A method that cannot be run says why; where everybody is there all the time, and not too many, it can be."""
    if not isinstance(method, Refuses):
        return
    best = Circumstances(clients=1000, participants=1000, rounds=1000)
    words = method.why_not(best)
    expect(words is None, "no refusal where everybody is there", words)
    for clients, obstacles in ((1000, ("devices.dropout = 0.5",)), (10**7, ())):
        words = method.why_not(replace(best, clients=clients, obstacles=obstacles))
        expect(words is None or len(words) > 0, "None, or the reason in words", repr(words))


@_promise
def plans_for_the_selected(algorithm: CohortAlgorithm) -> None:
    """A plan's rows are different rows of the selected, of whom there may be none, and name models that there are."""
    notebook = Notebook()
    for _ in SmallFederation.of(rules_of(observed(algorithm, notebook))).states():
        for asked in notebook.taken("plan"):
            _of_nobody(algorithm, *asked.given)


def _of_nobody(algorithm: CohortAlgorithm, opening: Opening) -> None:
    """Ask for a plan for nobody; other plans are checked where rounds open."""
    nobody = replace(opening, selected=opening.selected.take(np.arange(0)), vouched=opening.vouched[:0])
    algorithm.plan(nobody).check(0, opening.tree, sum(map(len, held_by(opening.state))))


@_promise
def closes_rounds_one_by_one(algorithm: CohortAlgorithm) -> None:
    """A round that closes is one more of every cohort that it is for, with a word for all who keep a record."""
    notebook = Notebook()
    for _ in SmallFederation.of(rules_of(observed(algorithm, notebook))).states():
        for asked in notebook.taken("close"):
            if asked.answer is not None:
                closing, gathered, *_ = asked.given
                _expect_outcome(algorithm, closing, gathered, asked.answer)


def _expect_outcome(algorithm: CohortAlgorithm, closing: Closing, gathered: Gathered, outcome: Outcome) -> None:
    before, after = ([state.round for state in states] for states in (closing.states, outcome.states))
    rounds = [number + 1 for number in before]
    expect(after == rounds, f"the rounds {rounds} after {before}", after)
    half, said, rows = algorithm.client_half, outcome.affinities, len(gathered.rows)
    if half is None:
        return
    expect(said is not None, "affinities, for clients keep a record", said)
    if said is not None:
        shapes = (said.instant_reward.shape, said.similarity.shape)
        expected = ((rows,), (rows, half.clusters))
        expect(shapes == expected, f"rewards and similarities of shapes {expected}", shapes)


@_promise
def models_stay_finite(algorithm: CohortAlgorithm) -> None:
    """Models, also those that a cohort holds besides its own, stay finite vectors of float32, whatever some send."""
    troubled = Troubled(in_process(), of_some(diverged))
    for state in SmallFederation.of(rules_of(algorithm), troubled).states():
        for cohort, mine in state.coordinator.cohorts.items():
            for weights in _models_of(mine):
                expect_array(weights, "float32", (TRAINER.n_params,), f"weights in {cohort}")
                expect_finite(weights, what=f"finite weights in {cohort}")


def _models_of(state: CohortState) -> tuple[Float32Array, ...]:
    """Return a cohort's own model, and those that it holds besides."""
    trained, compared = held_by(state)
    return (state.server.weights, *(server.weights for server in trained), *compared)


@_promise
def repeats_itself(algorithm: CohortAlgorithm) -> None:
    """Two runs of the same federation end with the same bytes."""
    one, other = (SmallFederation.of(rules_of(algorithm)).end() for _ in range(2))
    _expect_same_states(one, other, "the same state at the end of both")


@_promise
def resumes_from_bytes(algorithm: CohortAlgorithm) -> None:
    """The state goes to bytes and back at any event, and a run that goes on from there ends with the same bits."""
    rules = rules_of(algorithm)
    federation, kept = SmallFederation.of(rules), []
    whole = federation.start()
    for number, state in enumerate(federation.states(whole)):
        whole = state
        if number in INTERRUPTED_AT:
            kept.append(to_bytes(state))
    for data in kept:
        again = from_bytes(SimulationState, data, rules.own_states)
        expect(to_bytes(again) == data, "the bytes that were read", "others")
        _expect_same_states(whole, federation.end(again), "the same end for a run that was interrupted")


def _expect_same_states(one: SimulationState, other: SimulationState, expected: str) -> None:
    if to_bytes(one) != to_bytes(other):
        expect_same(one, other, expected)
        expect(False, expected, "other bytes")


@_promise
def rejected_is_failed(algorithm: CohortAlgorithm) -> None:
    """A participant whose update is refused is as one that failed, to the bit, in models and clients' records."""
    rules = rules_of(algorithm)
    one, other = (
        SmallFederation.of(rules, Troubled(in_process(), of_some(trouble))).end() for trouble in (diverged, failed)
    )
    models = [
        {name: (mine.server, *held_by(mine)) for name, mine in state.coordinator.cohorts.items()}
        for state in (one, other)
    ]
    expect_same(models[0], models[1], "the same models")
    expect_same(one.clients, other.clients, "the same clients' records")


@_promise
def nothing_comes_of_nothing(algorithm: CohortAlgorithm) -> None:
    """A round without an update that can be used changes nothing, whether nobody answers or only late ones do."""
    rules = rules_of(algorithm)
    federation = SmallFederation.of(rules)
    silent = SmallFederation.of(rules, Troubled(in_process(), failed))
    late = SmallFederation.of(rules, Troubled(in_process(), none, only_late=True))
    for state in federation.states():
        if all(pace.open_round is None for pace in state.paces.values()):
            continue
        for other in (silent, late):
            after = other.simulation.step(state.copy())
            if after.spent != state.spent:  # a round has closed, and has not merely opened
                expect_same(state.coordinator, after.coordinator, "the cohorts as they were")
                expect_same(state.clients, after.clients, "the clients' records as they were")

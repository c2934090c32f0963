from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from auxo.algorithms.ifca import Ifca
from auxo.core.aggregators import FedAvg, RateScaling
from auxo.core.asking import LEAST_LOSS, NEAREST, Answer, Asks, Failure, PreTraining
from auxo.core.cohort_algorithm import Outcome, Participants
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Returned
from auxo.core.own_state import own
from auxo.core.partition import Outlook
from auxo.core.rng import stream
from auxo.core.thin_models import thinned
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.protocol.codec import to_bytes
from auxo.runtime.closing import Closed, Training, _offered_now, close_round, closing_of, returned_by
from auxo.runtime.coordinator import act, start
from auxo.runtime.rounds import end_round
from auxo.training.trainer import Job
from tests.core.made_updates import saying
from tests.core.selectors_of_our_own import FewestTurns, Turns
from tests.runtime.made_rounds import (
    HALVES,
    LABELS,
    LEFT,
    N_PARAMS,
    RIGHT,
    RULES,
    SETTINGS,
    WEIGHTS,
    answers,
    begun,
    claims,
    close,
    closing_for,
    partitioned,
    updates,
    weights_of,
    with_auxo,
)

# A round.


def test_a_closing_holds_all_that_the_cohort_needs_wherever_it_closes() -> None:
    state = partitioned()
    closing = closing_for(RULES, state, claims(5), LEFT)

    assert closing.cohort == LEFT
    assert closing.states == (state.cohorts[LEFT],)
    assert closing.outlook == Outlook(progress=0.25, total_participants=10, cohorts=2, check_ins=0.0)
    assert closing.share == 5
    assert closing.table == state.table


def test_a_round_for_several_models_closes_with_the_states_of_those_that_were_offered() -> None:
    rules = replace(RULES, algorithm=Ifca(cohorts=3))
    state = start(rules, lambda number: np.full(N_PARAMS, number, dtype=np.float32))
    offered = state.tree.leaves
    nobody = Participants(np.arange(0), offered, Asks(np.arange(0), np.arange(0)))
    closing = closing_of(rules, state, ROOT, nobody)

    assert [float(one.server.weights[0]) for one in closing.states] == [0.0, 1.0, 2.0]
    assert (closing.outlook.cohorts, closing.share) == (3, 10)


def test_leaves_that_were_partitioned_while_a_round_was_open_are_offered_as_what_they_have_become() -> None:
    state = partitioned()
    model = np.array([LEAST_LOSS, 0, 1])
    asked = Participants(np.arange(3), (LEFT, RIGHT), Asks(np.full(3, -1), model), notes=claims(3))
    nobody = Participants(np.arange(0), (RIGHT,), Asks(np.arange(0), np.arange(0)))
    later = act(RULES, state, closing_of(RULES, state, RIGHT, nobody), Outcome((state.cohorts[RIGHT],), HALVES))
    closing = closing_of(RULES, later, LEFT, asked)

    assert closing_of(RULES, state, LEFT, asked).participants is asked
    assert closing.participants.offered == (LEFT, CohortId("0.1.0"), CohortId("0.1.1"))
    assert closing.participants.asks.model.tolist() == [LEAST_LOSS, 0, LEAST_LOSS]
    assert closing.states == (later.cohorts[LEFT],)
    assert set(closing.shelved) == set(closing.participants.offered) - {LEFT}
    own = later.cohorts[LEFT].server.weights
    assert closing.models[0] is own
    for model, leaf in zip(closing.models[1:], closing.participants.offered[1:], strict=True):
        np.testing.assert_array_equal(model, thinned(later.cohorts[leaf].server.weights, own))  # as it travels


def test_a_round_with_leaves_that_are_only_compared_writes_nothing_back_to_them() -> None:
    rules, state = replace(RULES, selector=FewestTurns()), partitioned(replace(RULES, selector=FewestTurns()))
    asked = Participants(np.arange(4), (LEFT, RIGHT), Asks(np.full(4, -1), np.full(4, LEAST_LOSS)), notes=claims(4))
    closing = closing_of(rules, state, LEFT, asked)
    closed = close_round(rules, closing, iter([saying(one, model=one.row % 2) for one in answers(updates(4))]))
    assert closed.outcome is not None
    ended = end_round(rules, state, closing, closed)
    after, told = ended.state, ended.feedback

    assert to_bytes(after.cohorts[RIGHT]) == to_bytes(state.cohorts[RIGHT])
    assert after.cohorts[LEFT].round == state.cohorts[LEFT].round + 1
    assert told is not None
    assert told.placed is not None
    assert told.placed.tolist() == [-1] * 4  # both models are still the parent's


def comparing_round(
    state: CoordinatorState, deltas: Float32Array, models: list[int]
) -> tuple[CoordinatorState, Closed]:
    """Return what comes of a round of the left cohort whose participants have compared both models."""
    n = len(models)
    asked = Participants(np.arange(n), (LEFT, RIGHT), Asks(np.full(n, -1), np.full(n, LEAST_LOSS)), notes=claims(n))
    closing = closing_of(RULES, state, LEFT, asked)
    returned = [saying(one, model=models[one.row]) for one in answers(deltas)]
    closed = close_round(RULES, closing, iter(returned))
    return end_round(RULES, state, closing, closed).state, closed


def unlike() -> CoordinatorState:
    """Return two cohorts with models of their own."""
    return close(RULES, partitioned(), answers(updates(4)), LEFT).state


def test_updates_of_another_leafs_model_are_credited_to_it_until_it_has_closed_a_round_of_its_own() -> None:
    state, deltas = unlike(), updates(4, seed=1)
    credited, closed = comparing_round(state, deltas, [0, 1, 0, 1])

    assert sorted(closed.gathered.aggregated.tolist()) == [0, 1, 2, 3]
    assert to_bytes(credited.cohorts[RIGHT]) == to_bytes(state.cohorts[RIGHT])
    np.testing.assert_allclose(credited.credits[RIGHT].movement, (2 * deltas[1] + 4 * deltas[3]) / 6, rtol=1e-5)
    # What was credited is no measure of what is usual on the left.
    usual = state.cohorts[LEFT].usual.after([float(np.linalg.norm(deltas[row])) for row in (0, 2)], [1, 3])
    assert credited.cohorts[LEFT].usual.lengths == pytest.approx(usual.lengths)
    assert credited.cohorts[LEFT].usual.examples == usual.examples
    own = updates(6, seed=2)
    after = close(RULES, credited, answers(own), RIGHT).state
    total = sum((row + 1) * own[row] for row in range(6)) + 2 * deltas[1] + 4 * deltas[3]
    np.testing.assert_allclose(weights_of(after, RIGHT) - weights_of(credited, RIGHT), total / 27, rtol=1e-4, atol=1e-6)
    assert after.credits == {}


def test_a_credit_stays_while_nobody_has_trained_the_cohorts_own_model() -> None:
    state, closed = comparing_round(unlike(), updates(3), [1, 1, 1])

    assert closed.outcome is not None
    credit = state.credits[RIGHT]
    again, _ = comparing_round(replace(state, credits={LEFT: credit}), updates(3), [1, 1, 1])
    assert again.credits[LEFT] is credit
    assert again.cohorts[LEFT].round == state.cohorts[LEFT].round + 1


def test_a_round_moves_the_weights_by_the_mean_of_the_updates_weighted_by_examples() -> None:
    deltas = updates(8)
    closed = close(RULES, begun(), answers(deltas))

    expected = WEIGHTS + np.average(deltas.astype(np.float64), axis=0, weights=np.arange(1, 9))
    np.testing.assert_allclose(weights_of(closed.state), expected, rtol=1e-6)
    assert closed.gathered.used == 8
    assert closed.state.cohorts[ROOT].round == 1
    assert RULES.progress(closed.state, ROOT) == 0.5


def test_a_round_closes_in_one_thread_and_leaves_the_others_to_the_process() -> None:
    def watched() -> Iterator[Returned]:
        for answer in answers(updates(4)):
            counts.append(threads_of_kmeans())
            yield answer

    def threads_of_kmeans() -> int:
        return next(int(pool["num_threads"]) for pool in threadpool_info() if "scikit_learn" in pool["filepath"])

    counts = list[int]()
    closing = closing_for(RULES, begun(), claims(4))
    with threadpool_limits(2):
        close_round(RULES, closing, watched())
        after = threads_of_kmeans()

    assert (counts, after) == ([1] * 4, 2)


def test_updates_count_alike_where_the_aggregator_says_so() -> None:
    deltas = updates(8)
    closed = close(replace(RULES, aggregator=FedAvg(weighting="uniform")), begun(), answers(deltas))

    np.testing.assert_allclose(weights_of(closed.state), WEIGHTS + deltas.astype(np.float64).mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    "returned",
    [[], [Returned(0, Answer(np.zeros(1, dtype=np.float32), 1))], [Returned(0, Answer(WEIGHTS, 1), late=True)]],
)
def test_a_round_without_a_usable_update_closes_nothing(returned: list[Returned]) -> None:
    closed = close_round(RULES, closing_for(RULES, begun(), claims(1)), iter(returned))

    assert closed.outcome is None
    assert closed.gathered.used == 0


def test_closing_a_round_leaves_the_state_it_began_with_and_the_updates_untouched() -> None:
    state = close(RULES, begun(), answers(updates(12))).state
    deltas, brought = updates(12, seed=1), claims(12, label=np.arange(12) % 2)
    before, deltas_before, brought_before = to_bytes(state), deltas.copy(), to_bytes(brought)
    close(RULES, state, answers(deltas), brought=brought)

    assert to_bytes(state) == before
    assert to_bytes(brought) == brought_before
    np.testing.assert_array_equal(deltas, deltas_before)


def test_the_same_answers_give_the_same_state_to_the_last_bit() -> None:
    one, other = (close(RULES, begun(), answers(updates(12))).state for _ in range(2))

    assert to_bytes(one) == to_bytes(other)


@pytest.mark.parametrize(
    ("update", "examples", "reason"),
    [
        (np.full(N_PARAMS, np.nan, dtype=np.float32), 5, "NON_FINITE"),
        (np.ones(1, dtype=np.float32), 5, "SCHEMA_MISMATCH"),
        (np.ones(N_PARAMS, dtype=np.int64), 5, "SCHEMA_MISMATCH"),
        (np.ones(N_PARAMS, dtype=np.float32), 0, "BAD_WEIGHT"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_rejected_update_counts_as_no_answer_and_has_a_reason(
    update: Any, examples: Any, reason: str, late: bool
) -> None:
    good = answers(updates(12))
    corrupted = [*good[:5], Returned(5, Answer(update, examples), late=late), *good[6:]]
    rejected = close(RULES, begun(), corrupted)
    failed = close(RULES, begun(), [*good[:5], *good[6:]], brought=claims(12))

    assert rejected.gathered.rejected == ((5, reason),)
    assert to_bytes(rejected.state) == to_bytes(failed.state)
    assert to_bytes(rejected.told) == to_bytes(failed.told)


def test_a_late_update_is_answered_but_moves_nothing() -> None:
    good = answers(updates(12), late=[11])
    closed = close(LABELS, begun(), good)
    without = close(LABELS, begun(), good[:-1], brought=claims(12))

    np.testing.assert_array_equal(weights_of(closed.state), weights_of(without.state))
    assert closed.gathered.used == 11
    assert len(closed.told.instant_reward) == 12
    assert not np.isnan(closed.told.similarity[11]).any()


# Newcomers.


def test_a_newcomer_that_does_not_fit_moves_the_model_only_where_misfits_are_admitted() -> None:
    deltas = updates(9)[::2]  # five of one group
    stranger = -deltas[0]
    brought = claims(6, known=np.arange(6) < 5)
    everybody = answers(np.concatenate([deltas, stranger[None]]))
    closed = close(RULES, partitioned(), everybody, LEFT, brought)
    without = close(RULES, partitioned(), everybody[:5], LEFT, brought)
    admitting = close(with_auxo(replace(SETTINGS, admit_misfits=True)), partitioned(), everybody, LEFT, brought)

    assert (closed.gathered.used, closed.gathered.misfits) == (5, 1)
    assert (admitting.gathered.used, admitting.gathered.misfits) == (6, 0)
    np.testing.assert_array_equal(weights_of(closed.state, LEFT), weights_of(without.state, LEFT))
    assert not np.array_equal(weights_of(admitting.state, LEFT), weights_of(without.state, LEFT))
    assert closed.told.instant_reward[5] < min(0.0, closed.told.instant_reward[:5].min())


def test_a_newcomer_that_fits_moves_the_model() -> None:
    closed = close(RULES, partitioned(), answers(updates(11)[::2]), LEFT, claims(6, known=np.arange(6) < 5))

    assert closed.gathered.used == 6


def test_with_too_few_members_or_a_single_cohort_every_newcomer_is_admitted() -> None:
    deltas = updates(9)[::2]
    everybody = answers(np.concatenate([deltas, -deltas]))
    few = close(RULES, partitioned(), everybody, LEFT, claims(10, known=np.arange(10) < 2))
    alone = close(RULES, begun(), everybody, ROOT, claims(10, known=np.arange(10) < 5))

    assert few.gathered.misfits == alone.gathered.misfits == 0


# What participants are told.


def test_rewards_say_nothing_while_there_is_one_cohort_and_are_bounded_afterwards() -> None:
    alone = close(RULES, begun(), answers(updates(12)))
    together = close(RULES, partitioned(), answers(updates(12)), LEFT)

    assert np.isnan(alone.told.instant_reward).all()
    assert (np.abs(together.told.instant_reward) <= 1).all()


@pytest.mark.parametrize("folds", [1, 3])
def test_each_participant_is_told_its_own_cluster_whoever_else_answers_and_in_whatever_order(folds: int) -> None:
    first = close(LABELS, begun(), answers(updates(16)))
    labels = first.similarity.argmax(axis=1)
    assert len(set(labels[::2])) == len(set(labels[1::2])) == 1

    order = stream(0, "order").permutation(16)[:11]
    fold = np.arange(16) % folds - 1
    some = [Returned(int(row), Answer(updates(16, seed=1)[row], 1)) for row in order]
    later = close(LABELS, first.state, some, brought=claims(16, label=labels), fold=fold)

    assert first.told.generation == later.told.generation == 1
    np.testing.assert_array_equal(later.gathered.rows, order)
    np.testing.assert_array_equal(later.told.similarity.argmax(axis=1), labels[order])
    np.testing.assert_array_equal(later.told.fold, fold[order])


def test_a_member_that_comes_late_does_not_move_what_the_others_are_told() -> None:
    deltas = updates(9)[::2]
    without = close(RULES, partitioned(), answers(deltas), LEFT, claims(5, known=True))
    everybody = answers(np.concatenate([deltas, -deltas[:1]]), late=[5])
    together = close(RULES, partitioned(), everybody, LEFT, claims(6, known=True))

    np.testing.assert_allclose(together.told.instant_reward[:5], without.told.instant_reward)
    assert together.told.instant_reward[5] < 0


def test_before_branches_are_on_trial_no_cluster_is_told() -> None:
    closed = close(RULES, begun(), answers(updates(12)))

    assert closed.told.similarity.shape == (12, 2)
    assert np.isnan(closed.told.similarity).all()


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", np.sqrt(0.5)), ("linear", 0.5)])
def test_the_server_rate_follows_a_cohorts_share_where_it_is_asked_to(scaling: RateScaling, factor: float) -> None:
    rules = with_auxo(replace(SETTINGS, rate_scaling=scaling))
    alone = close(rules, begun(rules), answers(updates(12)))
    shared = close(rules, partitioned(rules), answers(updates(12)), LEFT)

    np.testing.assert_allclose(
        weights_of(shared.state, LEFT) - WEIGHTS,
        factor * (weights_of(alone.state) - WEIGHTS),
        rtol=1e-5,
        atol=1e-6,
    )


# The selector learns.


def test_the_selector_learns_who_has_answered_with_a_valid_update() -> None:
    rules = replace(RULES, selector=FewestTurns())
    returned = answers(updates(12), late=[11])
    returned[4] = Returned(4, Answer(np.zeros(1, dtype=np.float32), 1))
    closed = close(rules, begun(rules), returned)
    turns = own(Turns, closed.state.cohorts[ROOT].selection)

    assert turns.clients.tolist() == [100 + row for row in range(12) if row != 4]
    assert set(turns.counts.tolist()) == {1}


def test_a_round_that_comes_to_nothing_teaches_the_selector_nothing() -> None:
    rules = replace(RULES, selector=FewestTurns())
    closed = close_round(rules, closing_for(rules, begun(rules), claims(2)), iter(answers(updates(2), late=[0, 1])))

    assert isinstance(closed, Closed)
    assert closed.outcome is None


# From jobs to answers.


def test_answers_are_named_by_the_rows_of_their_jobs_and_failures_are_nothing() -> None:
    deltas = updates(3)
    training = Training(
        rows=np.array([1, 4, 6]),
        jobs=[Job(row, 0) for row in (1, 4, 6)],
        late=np.array([False, False, True]),
        models=(WEIGHTS, WEIGHTS),
    )
    given: list[Answer | Failure] = [
        Answer(deltas[0], 5, model=1, loss=0.5),
        Failure("battery"),
        Answer(deltas[2], 7),
    ]

    first, second = returned_by(training, given)
    assert (first.row, first.late, second.row, second.late) == (1, False, 6, True)
    assert (first.answer, second.answer) == (given[0], given[2])


def test_an_engine_that_answers_too_often_or_too_seldom_is_found_out() -> None:
    training = Training(np.array([0, 1]), [Job(0, 0), Job(1, 0)], np.zeros(2, dtype=np.bool_), (WEIGHTS,))

    for count in (1, 3):
        with pytest.raises(ValueError, match=r"zip\(\) argument"):
            list(returned_by(training, [Failure("none")] * count))


def test_who_pre_trains_finds_what_a_leaf_has_become_by_the_leafs_reference() -> None:
    tree = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
    first = PreTraining(steps=5, model=2, references=(3, 4))
    asked = Participants(
        np.arange(2), tree.leaves, Asks(np.full(2, -1), np.array([NEAREST, 1]), steps=None, pre_training=first)
    )
    grown = tree.partition(LEFT, (0, 1), (0.5, 0.5))
    now = _offered_now(asked, grown)

    assert now.offered == ("0.0.0", "0.0.1", "0.1")
    assert now.asks.model.tolist() == [NEAREST, 2]
    assert now.asks.pre_training == PreTraining(steps=5, model=3, references=(4, 4, 5))

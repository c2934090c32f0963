from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer
from auxo.core.fingerprint import Fingerprint
from auxo.core.gathering import (
    Admission,
    AdmitAll,
    Belongs,
    ByDirections,
    Examined,
    Gathered,
    Returned,
    dispersion,
    examine,
    gather,
)
from auxo.core.layers import Layer
from tests.core.made_updates import FINGERPRINT, N_PARAMS, alike, answers, gathered, movement_of, saying


class NobodyOdd:
    """Admits participants in even rows only."""

    def place(self, row: int, examined: Examined, model: int) -> int | None:
        return model if row % 2 == 0 else None


def test_the_mean_is_weighted_by_examples_unless_it_is_told_otherwise() -> None:
    updates = alike(5)
    uniform = FedAvg(weighting="uniform")

    by_examples = np.average(updates.astype(np.float64), axis=0, weights=np.arange(3, 8))
    np.testing.assert_allclose(movement_of(gathered(answers(updates))), by_examples, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        movement_of(gathered(answers(updates), aggregator=uniform)),
        updates.astype(np.float64).mean(axis=0),
        rtol=1e-5,
        atol=1e-6,
    )


def test_late_answers_are_in_the_fingerprints_but_not_in_the_mean() -> None:
    returned = answers(alike(6), late=[1, 4])
    result = gathered(returned)
    in_time = [answer for answer in returned if not answer.late]

    assert result.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert result.late.tolist() == [False, True, False, False, True, False]
    assert result.aggregated.tolist() == [0, 2, 3, 5]
    assert result.used == 4
    np.testing.assert_array_equal(movement_of(result), movement_of(gathered(in_time)))


def test_nothing_to_aggregate_gives_nothing_to_move_by() -> None:
    refused = [
        Returned(0, Answer(np.full(N_PARAMS, np.nan, dtype=np.float32), 3)),
        Returned(1, Answer(np.zeros(1, dtype=np.float32), 3)),
    ]
    for returned in ([], refused, answers(alike(2), late=[0, 1])):
        result = gathered(returned)

        assert result.movements == (None,)
        assert result.used == 0
    assert gathered(refused).rejected == ((0, "NON_FINITE"), (1, "SCHEMA_MISMATCH"))


def test_an_empty_round_has_columns_without_rows() -> None:
    result = gathered([], models=2)

    assert result.movements == (None, None)
    assert result.directions.shape == (0, FINGERPRINT.width)
    for column in (result.rows, result.late, result.model, result.losses, result.lengths, result.aggregated):
        assert column.shape == (0,)
    assert result.dispersion == 0.0


def test_who_is_not_admitted_is_fingerprinted_and_counted_and_moves_nothing() -> None:
    returned = answers(alike(5))
    result = gathered(returned, NobodyOdd())

    assert result.rows.tolist() == [0, 1, 2, 3, 4]
    assert result.aggregated.tolist() == [0, 2, 4]
    assert result.misfits == 2
    np.testing.assert_array_equal(movement_of(result), movement_of(gathered(returned[::2])))


def test_each_model_is_moved_by_those_who_trained_it_and_one_that_nobody_trained_by_nothing() -> None:
    models = [0, 2, 2, 0, 2]
    returned = [saying(one, model=model) for one, model in zip(answers(alike(5)), models, strict=True)]
    result = gathered(returned, models=3)

    assert result.model.tolist() == models
    assert result.movements[1] is None
    for model in (0, 2):
        alone = gathered(
            [saying(one, model=0) for one in returned if isinstance(one.answer, Answer) and one.answer.model == model]
        )
        np.testing.assert_array_equal(movement_of(result, model), movement_of(alone))


def test_losses_are_kept_and_missing_where_nobody_asked() -> None:
    returned = [saying(one, loss=loss) for one, loss in zip(answers(alike(3)), [0.5, None, 0.0], strict=True)]

    np.testing.assert_array_equal(gathered(returned).losses, [0.5, np.nan, 0.0])


@pytest.mark.parametrize("late", [(), (2,)])
def test_answers_that_an_engine_has_examined_give_the_same_bits(late: tuple[int, ...]) -> None:
    returned = [saying(one, loss=0.25) for one in answers(alike(6), late)]
    returned[3] = saying(returned[3], update=None)
    examined = [
        Returned(one.row, examine(one.answer, FINGERPRINT), late=one.late)
        for one in returned
        if isinstance(one.answer, Answer)
    ]
    here, there = gathered(returned), gathered(examined)

    assert there.rejected == here.rejected == ((3, "SCHEMA_MISMATCH"),)
    assert movement_of(there).tobytes() == movement_of(here).tobytes()
    for name in ("rows", "late", "model", "losses", "directions", "lengths", "aggregated"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


def test_a_valid_update_is_examined_into_its_direction_and_its_length_over_the_root_of_the_examples() -> None:
    update = np.arange(N_PARAMS, dtype=np.float32)  # its squares sum to 55
    seen = examine(Answer(update, 5, loss=0.5), FINGERPRINT)

    assert isinstance(seen, Examined)
    assert (seen.answer.examples, seen.answer.loss) == (5, 0.5)
    assert seen.length == pytest.approx(11**0.5)
    np.testing.assert_array_equal(seen.direction, FINGERPRINT.of(update))


@settings(max_examples=20)
@given(st.permutations(range(8)))
def test_the_order_of_answers_changes_rows_alike_and_movements_by_rounding_only(order: list[int]) -> None:
    updates = alike(8)
    before = updates.copy()
    returned = [saying(one, model=one.row % 2) for one in answers(updates)]
    straight, shuffled = gathered(returned, models=2), gathered([returned[row] for row in order], models=2)

    assert shuffled.rows.tolist() == order
    np.testing.assert_array_equal(shuffled.directions, straight.directions[order])
    np.testing.assert_array_equal(shuffled.lengths, straight.lengths[order])
    for model in (0, 1):
        one, other = movement_of(shuffled, model), movement_of(straight, model)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)  # float32
    np.testing.assert_array_equal(updates, before)


def test_an_update_need_only_last_until_the_next_is_asked_for() -> None:
    updates, memory = alike(10), np.empty(N_PARAMS, dtype=np.float32)

    def in_the_same_memory() -> Iterator[Returned]:
        for answer, update in zip(answers(updates), updates, strict=True):
            memory[:] = update
            yield saying(answer, update=memory)

    result = gathered(in_the_same_memory())
    np.testing.assert_array_equal(movement_of(result), movement_of(gathered(answers(updates))))


def test_dispersion_is_the_mean_squared_distance_to_the_mean() -> None:
    # Their mean is (1, 0), and their squared distances to it are 1, 1, 4 and 4.
    assert dispersion(np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 2.0], [1.0, -2.0]])) == pytest.approx((1 + 1 + 4 + 4) / 4)
    assert dispersion(np.zeros((0, 2))) == 0.0


@dataclass(frozen=True)
class Told:
    """An admission that says what it was told to."""

    said: tuple[int | tuple[int, ...] | Belongs | None, ...]
    keeps_updates: bool = False

    def place(self, row: int, examined: Examined, model: int) -> int | tuple[int, ...] | Belongs | None:
        return self.said[row]


def told(said: tuple[int | tuple[int, ...] | Belongs | None, ...], keeps: bool = False, late: int = -1) -> Gathered:
    """Return what becomes of updates 1, 2, 3 ... of one parameter from model 0, of two that there are."""
    aggregator = FedAvg()
    start = aggregator.initial(np.zeros(1, dtype=np.float32))
    answers = (
        Returned(row, Answer(np.array([row + 1], dtype=np.float32), 1), late=row == late) for row in range(len(said))
    )
    sums = [aggregator.accumulate(start), aggregator.accumulate(start)]
    return gather(answers, Fingerprint(1), Told(said, keeps), sums)


def test_an_update_moves_the_model_that_its_participant_belongs_to_by_what_is_said() -> None:
    found = told((0, Belongs(1, np.array([10], dtype=np.float32)), Belongs(1), None, 1))

    assert found.placed is not None
    assert found.placed.tolist() == [0, 1, 1, -1, 1]
    assert found.model.tolist() == [0] * 5  # that they have trained
    assert found.aggregated.tolist() == [0, 1, 4]
    assert found.misfits == 2
    assert [None if one is None else one.tolist() for one in found.movements] == [[1.0], [7.5]]


def test_an_update_that_moves_several_models_counts_once() -> None:
    both, one = told(((0, 1), 0, (1,), ())), told((0, 0, 1, None))

    assert [None if move is None else move.tolist() for move in both.movements] == [[1.5], [2.0]]
    assert both.placed is not None
    assert both.placed.tolist() == [0, 0, 1, -1]
    assert both.aggregated.tolist() == one.aggregated.tolist() == [0, 1, 2]
    assert both.used == 3
    assert both.misfits == 1
    assert both.usual == one.usual


def test_an_update_that_is_held_because_it_is_unusual_moves_all_its_models_or_none() -> None:
    # All are held until there are enough to tell what is usual; the last is a hundred times as long.
    updates = np.concatenate([alike(9), 100 * alike(1)])

    class ToBoth:
        def place(self, row: int, examined: Examined, model: int) -> tuple[int, ...]:
            return (0, 1)

    result = gathered(answers(updates), ToBoth(), models=2)

    assert result.unusual == ((9, "UNUSUAL_LENGTH"),)
    assert result.aggregated.tolist() == list(range(9))
    np.testing.assert_array_equal(movement_of(result, 0), movement_of(result, 1))
    np.testing.assert_array_equal(movement_of(result, 0), movement_of(gathered(answers(updates[:9]))))


def test_energies_of_inputs_go_with_their_participants() -> None:
    layers = (Layer((2, 2)), Layer((2,)))
    fingerprint = Fingerprint(N_PARAMS, layers=layers)
    aggregator = FedAvg()
    sums = [aggregator.accumulate(aggregator.initial(np.zeros(N_PARAMS, dtype=np.float32)))]
    result = gather(iter(answers(alike(4))), fingerprint, AdmitAll(), sums)

    np.testing.assert_array_equal(result.inputs, [fingerprint.inputs(one) for one in alike(4)])
    kept = np.array([True, False, True, False])
    np.testing.assert_array_equal(result.take(kept).inputs, result.inputs[kept])
    assert gathered([]).inputs.shape == (0, 0)
    assert gathered(answers(alike(3))).inputs.shape == (3, 0)


def test_layers_are_read_only_where_the_admission_wants_to_know() -> None:
    fingerprint = Fingerprint(6, layers=(Layer((2, 2)), Layer((2,))))
    update = np.arange(1, 7, dtype=np.float32)
    start = FedAvg().initial(np.zeros(6, dtype=np.float32))

    def read(admission: Admission, answer: Answer | Examined) -> Gathered:
        return gather(iter([Returned(0, answer)]), fingerprint, admission, [FedAvg().accumulate(start)])

    whole, brief = (read(admission, Answer(update, 5)) for admission in (AdmitAll(), ByDirections(AdmitAll())))
    examined = examine(Answer(update, 5), fingerprint)
    assert isinstance(examined, Examined)
    from_a_worker = read(ByDirections(AdmitAll()), examined)  # which reads all there is

    assert (whole.inputs.shape, whole.outputs.shape) == ((1, 4), (1, 2))
    for one in (brief, from_a_worker):
        assert (one.inputs.shape, one.outputs.shape) == ((1, 0), (1, 0))
        assert np.array_equal(one.directions, whole.directions)
        assert one.used == 1


def test_updates_are_kept_only_where_the_admission_keeps_them() -> None:
    assert told((0, None)).updates is None
    kept = told((0, None, 0), keeps=True, late=2).updates

    assert kept is not None
    assert kept.tolist() == [[1.0], [2.0], [3.0]]  # late ones and others that move nothing included
    nothing = told((), keeps=True).updates
    assert nothing is not None
    assert nothing.shape == (0, 1)

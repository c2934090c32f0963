"""What a run gives back: whose model it is, and which node is in which cohort."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from auxo.algorithms.base import OneCohort
from auxo.flower import AuxoClientApp, cohort_of
from auxo.flower.result import AuxoResult
from auxo.protocol.events import CohortMembers
from tests.flower.linear_app import auxo_app, fill
from tests.flower.local_grid import LocalGrid
from tests.flower.small import NODES, federation

EVEN, ODD = (100, 102, 104, 106), (101, 103, 105, 107)  # ids of the nodes of the two groups


def test_the_model_of_one_cohort_is_not_taken_for_that_of_all_in_silence() -> None:
    result, _, _ = federation()
    with pytest.warns(RuntimeWarning, match=r"model of cohort 0\.\d alone.*result\.cohorts\[name\]\.arrays") as told:
        arrays = result.arrays
    assert told[0].filename == __file__
    assert arrays is result.cohorts[result.largest].arrays
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "0.1: 12 rounds, 4 nodes" in repr(result)


def test_the_model_of_all_nodes_needs_no_words() -> None:
    result, _, _ = federation(method=OneCohort(), rounds=2)
    assert result.arrays is result.cohorts["0"].arrays
    assert AuxoResult().arrays is not None


def test_which_node_is_in_which_cohort_is_in_the_result_in_events_and_on_the_page(tmp_path: Path) -> None:
    result, events, _ = federation(directory=tmp_path)
    assert sorted(result.members.values()) == [EVEN, ODD]
    assert result.cohort_of(100) == result.cohort_of(106) != result.cohort_of(101)
    assert result.cohort_of(999) is None
    told = [event for event in events if isinstance(event, CohortMembers)]
    assert {one.cohort: tuple(map(int, one.clients)) for one in told} == result.members
    assert {one.round for one in told if one.round < 12}  # after the partition already
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert ", ".join(map(str, ODD)) in page


def test_without_a_partition_everybody_who_is_there_is_in_the_one_cohort() -> None:
    result, _, _ = federation(method=OneCohort(), rounds=1)
    assert result.members == {"0": (*range(100, 100 + NODES),)}


def test_who_never_took_part_is_in_no_cohort() -> None:
    late = 107
    grid = LocalGrid(auxo_app(2), NODES, is_online=lambda node: node != late)
    result, _, _ = federation(grid=grid)
    assert len(result.members) == 2
    assert result.cohort_of(late) is None


def test_a_node_is_told_its_own_cohort_while_it_trains_and_evaluates() -> None:
    seen: dict[int, set[str | None]] = {}

    def asks(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        seen.setdefault(context.node_id, set()).add(cohort_of(context))
        return call_next(message, context)

    grid = LocalGrid(fill(AuxoClientApp(mods=[asks]), 2, train_mods=[asks]), NODES)
    result, _, _ = federation(grid=grid)
    assert {node: cohort_of(context) for node, context in grid.contexts.items()} == {
        node: result.cohort_of(node) for node in grid.contexts
    }
    assert all(cohorts == {"0", result.cohort_of(node)} for node, cohorts in seen.items())
    assert cohort_of(Context(1, 1, {}, RecordDict(), {})) is None


def test_a_run_that_goes_on_leaves_the_models_of_its_last_cohorts_only(tmp_path: Path) -> None:
    grid = LocalGrid(auxo_app(2), NODES)
    federation(grid=grid, directory=tmp_path, rounds=3)
    models = tmp_path / "models"
    assert [path.name for path in models.iterdir()] == ["0.safetensors"]
    result, _, _ = federation(grid=grid, directory=tmp_path)
    assert sorted(path.name for path in models.iterdir()) == ["0.0.safetensors", "0.1.safetensors"]
    for cohort, one in result.cohorts.items():
        kept = load_file(models / f"{cohort}.safetensors")
        assert all(np.array_equal(kept[name], array.numpy()) for name, array in one.arrays.items())

"""What a method leaves to be used: models, the table of clients, the tree, the coordinator's state."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo
from auxo.core.aggregators import FedAvg
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId
from auxo.experiments.outcome_files import (
    COLUMNS,
    losers_of,
    model_file,
    read_client_table,
    read_coordinator,
    read_model,
    read_tree,
    write_client_tables,
    write_outcome,
)
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.files.errors import FileError
from auxo.protocol.events import Event
from auxo.training.softmax_trainer import SoftmaxTrainer

TREE = CohortTree().partition(ROOT, (0, 1, 1), (0.25, 0.75)).partition(CohortId("0.1"), (1, 0), (0.5, 0.5), 3)
TRAINER = SoftmaxTrainer(4, 3)
NAMES = ("ann", "bob, the second", "čeněk", "4")
SCORES = ClientScores(
    accuracy=np.array([0.5, 1.0, 0.25, 0.0]),
    test_samples=np.array([10, 4, 200, 0]),
    cohort=np.array(["0.0", "0.1.0", "0.1.1", "0.0"]),
    lost=np.array([False, True, False, True]),
    reward=np.array([0.5, np.nan, -0.125, np.nan]),
    visits=np.array([3, 0, 7, 0]),
)


def state() -> CoordinatorState:
    def cohort(number: int) -> CohortState:
        weights = stream(number, "weights").normal(size=TRAINER.n_params).astype(np.float32)
        return CohortState(FedAvg().initial(weights), round=number, memory=Auxo().memory(None))

    return CoordinatorState(TREE, {leaf: cohort(number) for number, leaf in enumerate(TREE.leaves)})


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory.create(tmp_path / "run", 'methods = ["base", "auxo"]\n')
    events: tuple[Event, ...] = ()
    for method in ("base", "auxo"):
        directory.replace_events(method, events)
    return directory


def test_models_tree_and_state_come_back_as_they_were(run: RunDirectory) -> None:
    before = state()
    write_outcome(run, "auxo", before, TRAINER)

    assert read_tree(run, "auxo") == TREE
    assert sorted(path.name for path in (run.path / "auxo" / "models").iterdir()) == [
        "0.0.safetensors",
        "0.1.0.safetensors",
        "0.1.1.safetensors",
    ]
    after = read_coordinator(run, "auxo", Auxo().own_states)
    assert after.tree == TREE
    for leaf, kept in before.cohorts.items():
        assert np.array_equal(read_model(run, "auxo", leaf, TRAINER), kept.server.weights)
        assert np.array_equal(after.cohorts[leaf].server.weights, kept.server.weights)
        assert after.cohorts[leaf].round == kept.round


def test_the_table_names_clients_and_knows_the_base_as_soon_as_it_is_there(run: RunDirectory) -> None:
    run.write_clients("auxo", SCORES)
    write_client_tables(run, NAMES)
    first = read_client_table(run, "auxo")
    assert [row.base_accuracy for row in first] == [None] * 4

    run.write_clients("base", replace(SCORES, accuracy=np.array([0.75, 1.0, 0.75, 0.0]), cohort=np.full(4, "0")))
    write_client_tables(run, NAMES)
    rows = read_client_table(run, "auxo")
    assert [row.name for row in rows] == list(NAMES)
    assert [row.cohort for row in rows] == ["0.0", "0.1.0", "0.1.1", "0.0"]
    assert [row.accuracy for row in rows] == [0.5, 1.0, 0.25, None]
    assert [row.base_accuracy for row in rows] == [0.75, 1.0, 0.75, None]
    assert [row.reward for row in rows] == [0.5, None, -0.125, None]
    assert [row.visits for row in rows] == [3, 0, 7, 0]
    assert [row.lost for row in rows] == [False, True, False, True]
    with (run.path / "auxo" / "clients.csv").open(encoding="utf-8", newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS


def test_of_a_sample_of_clients_each_has_its_own_name(run: RunDirectory) -> None:
    run.write_clients("auxo", replace(SCORES, client=np.array([1, 3, 4, 6])))
    write_client_tables(run, [f"c{number}" for number in range(9)])
    assert [row.name for row in read_client_table(run, "auxo")] == ["c1", "c3", "c4", "c6"]


def test_losers_are_counted_and_named_and_chance_is_told_from_loss(run: RunDirectory) -> None:
    run.write_clients("auxo", SCORES)
    assert losers_of(run, NAMES) == {}
    run.write_clients("base", replace(SCORES, accuracy=np.array([0.75, 1.0, 0.75, 0.5])))
    losers = losers_of(run, NAMES)["auxo"]
    # With 10 test samples .25 less may be chance, with 200 the half less is not; without any nothing is known.
    assert (losers.clients, losers.beyond_chance) == (2, 1)
    assert [one.client for one in losers.worst] == ["čeněk", "ann"]
    assert (losers.worst[0].accuracy, losers.worst[0].base_accuracy) == (0.25, 0.75)


def test_other_clients_of_the_base_are_not_compared(run: RunDirectory) -> None:
    run.write_clients("auxo", SCORES)
    run.write_clients("base", replace(SCORES, client=np.array([0, 1, 2, 5])))
    assert losers_of(run, [*NAMES, "5", "6"]) == {}


def test_what_is_missing_or_damaged_is_named(run: RunDirectory) -> None:
    with pytest.raises(FileError, match=r"tree.json: file: expected the tree of a method that has finished"):
        read_tree(run, "auxo")
    with pytest.raises(FileError, match=r"clients.csv: file: expected a table of clients"):
        read_client_table(run, "auxo")
    write_outcome(run, "auxo", state(), TRAINER)
    run.write_clients("auxo", SCORES)
    write_client_tables(run, NAMES)
    with pytest.raises(FileError, match=r"0.1.safetensors: file: expected the model of a cohort"):
        read_model(run, "auxo", "0.1", TRAINER)
    with pytest.raises(FileError, match=r"0.0.safetensors: weight: expected shape \(3, 5\)"):
        read_model(run, "auxo", "0.0", SoftmaxTrainer(5, 3))
    with pytest.raises(FileError, match=r"coordinator.safetensors"):
        read_coordinator(run, "auxo", ())
    folder = run.path / "auxo"
    (folder / "tree.json").write_text('{"partitions": [], "leaves": ["0"], "more": 1}', encoding="utf-8")
    with pytest.raises(FileError, match=r"tree.json: expected a cohort tree as JSON: more: expected no such field"):
        read_tree(run, "auxo")
    text = (folder / "clients.csv").read_text(encoding="utf-8")
    (folder / "clients.csv").write_text(text.replace(",yes", ",perhaps", 1), encoding="utf-8")
    with pytest.raises(FileError, match=r"clients.csv: line 3: expected 8 cells of their kinds"):
        read_client_table(run, "auxo")
    (folder / "clients.csv").write_text(text.replace("reward", "rewards", 1), encoding="utf-8")
    with pytest.raises(FileError, match=r"clients.csv: columns: expected name, cohort"):
        read_client_table(run, "auxo")


def test_a_damaged_model_is_refused(run: RunDirectory) -> None:
    write_outcome(run, "auxo", state(), TRAINER)
    path = model_file(run, "auxo", "0.0")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(FileError, match=r"0.0.safetensors: expected a safetensors file"):
        read_model(run, "auxo", "0.0", TRAINER)

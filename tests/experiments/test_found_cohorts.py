"""Runs that start from the cohorts of an earlier one: what they take over, what it brings, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.outcome_files import read_client_table, read_coordinator, read_model, read_tree
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment
from auxo.experiments.summary import Summary
from auxo.protocol.events import Event, RoundClosed
from auxo.training.softmax_trainer import SoftmaxTrainer

SMALL = """
methods = ["base", "auxo"]

[population]
source = "synthetic"
clients = 90
groups = 2
heterogeneity = "concept"
features = 6
classes = 3
samples = [20, 30]
test_samples = 10

[training]
aggregator = "fedavg"
rounds = 40
participants = 40
learning_rate = 0.1
batch_size = 10

[run]
evaluate_every = 2
"""


def ignore(label: str, event: Event) -> None:
    pass


def run(path: Path, *overrides: str) -> tuple[RunDirectory, Summary]:
    config: Config = parse_config(SMALL, overrides)
    directory = RunDirectory.create(path, to_toml(config))
    try:
        return directory, run_experiment(config, directory, ignore)
    except ConfigError:
        directory.discard()
        raise


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    directory, summary = run(tmp_path_factory.mktemp("cohorts") / "first")
    assert summary.methods["auxo"].cohorts == 2
    return directory


def from_cohorts(first: RunDirectory) -> str:
    return f'training.cohorts="{first.path}"'


def test_another_task_starts_in_the_cohorts_with_new_models_and_is_better_at_once(
    first: RunDirectory, tmp_path: Path
) -> None:
    few = ("training.rounds=4", "training.model=mlp")
    again, with_cohorts = run(tmp_path / "again", from_cohorts(first), *few)
    _, without = run(tmp_path / "alone", *few)

    assert read_tree(again, "auxo") == read_tree(first, "auxo")
    assert with_cohorts.methods["auxo"].final_accuracy > without.methods["auxo"].final_accuracy + 0.1
    assert with_cohorts.methods["base"] == without.methods["base"]
    assert with_cohorts.methods["auxo"].ari == 1.0
    rounds = [event for event in again.events("auxo").events if isinstance(event, RoundClosed)]
    assert {event.cohort for event in rounds} == {"0.0", "0.1"}
    assert {row.name: row.cohort for row in read_client_table(again, "auxo")} == {
        row.name: row.cohort for row in read_client_table(first, "auxo")
    }


def test_the_same_task_goes_on_from_the_models(first: RunDirectory, tmp_path: Path) -> None:
    nothing_learnt = ("training.rounds=1", "training.learning_rate=1e-30", "training.participants=80")
    again, _ = run(tmp_path / "again", from_cohorts(first), "training.cohort_models=true", *nothing_learnt)
    trainer = SoftmaxTrainer(6, 3)
    for leaf in read_tree(first, "auxo").leaves:
        assert np.array_equal(read_model(again, "auxo", leaf, trainer), read_model(first, "auxo", leaf, trainer))


def test_it_is_the_same_again_bit_for_bit(first: RunDirectory, tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        again, _ = run(tmp_path / name, from_cohorts(first), "training.rounds=3")
        texts.append((again.path / "auxo" / "events.jsonl").read_bytes())
    assert texts[0] == texts[1]


def test_clients_that_were_not_there_are_newcomers(first: RunDirectory, tmp_path: Path) -> None:
    # Of a sample of clients only some are in the table.
    some, _ = run(tmp_path / "some", "run.evaluate_clients=30", from_cohorts(first), "training.rounds=3")
    assert len(read_client_table(some, "auxo")) == 30
    again, summary = run(tmp_path / "again", from_cohorts(some), "training.cohort_models=true", "training.rounds=3")
    assert len(read_client_table(again, "auxo")) == 90
    assert summary.methods["auxo"].final_accuracy > summary.methods["base"].final_accuracy + 0.1


def test_the_state_can_be_read_again(first: RunDirectory) -> None:
    config = parse_config(first.config_text())
    method = config.parts["auxo"]
    state = read_coordinator(first, "auxo", method.own_states)
    assert state.tree == read_tree(first, "auxo")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (lambda first: (f'training.cohorts="{first.path}-not"',), "expected a run directory"),
        (lambda first: (from_cohorts(first), 'methods=["base"]'), "none of the methods base can start from cohorts"),
        (lambda first: (from_cohorts(first), "population.features=7", "training.cohort_models=true"), "leave training"),
        (lambda first: (from_cohorts(first), "training.participants=1"), "at least one for each of the 2 cohorts"),
        (lambda first: ("training.cohort_models=true",), "training.cohorts is not set"),
        (lambda first: (from_cohorts(first), "population.clients=2000"), "expected clients of the same names"),
    ],
)
def test_what_cannot_be_started_from_is_refused_and_leaves_nothing(
    overrides: Callable[[RunDirectory], tuple[str, ...]], words: str, first: RunDirectory, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        run(tmp_path / "again", *overrides(first))
    assert not (tmp_path / "again").exists()


def test_a_run_that_found_no_cohorts_is_refused(tmp_path: Path) -> None:
    short, _ = run(tmp_path / "short", "training.rounds=2")
    with pytest.raises(ConfigError, match="auxo made no partition there; start without them"):
        run(tmp_path / "again", from_cohorts(short))

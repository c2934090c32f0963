"""Evaluation of a sample: it says of its clients what an evaluation of all says of them, and changes nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from auxo.core.matching import NOWHERE, Matched
from auxo.core.types import IntArray
from auxo.experiments.config import Config
from auxo.experiments.config_file import parse_config, to_toml
from auxo.experiments.evaluation import clients_to_evaluate, evaluated, place_clients, score_clients
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment, run_method
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import Evaluated
from auxo.reporting.facts import gather_facts
from auxo.reporting.report import write_report
from auxo.simulation.virtual_time import Simulation, SimulationState

# Two groups that name the classes differently, and few participants a round: some clients never take part.
SMALL = """
[population]
source = "synthetic"
clients = 300
groups = 2
heterogeneity = "concept"
features = 6
classes = 3
samples = [10, 20]
test_samples = 10

[training]
aggregator = "fedavg"
rounds = 12
participants = 40
learning_rate = 0.1

[auxo.clustering]
clusters = 2
pool_rounds = 2

[auxo.trial]
judges = 20

[ifca]
cohorts = 2
warm_start = 2

[run]
evaluate_every = 6
"""


def small(*overrides: str) -> Config:
    return parse_config(SMALL, overrides)


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return make_population(small())


@pytest.mark.parametrize("at_most", [None, 50, 51])
def test_everybody_is_evaluated_unless_there_are_more_than_wanted(at_most: int | None) -> None:
    np.testing.assert_array_equal(clients_to_evaluate(50, at_most, seed=0), np.arange(50))


def test_a_sample_is_drawn_once_for_each_seed() -> None:
    sample, same, other = (clients_to_evaluate(1000, 100, seed) for seed in (3, 3, 4))

    assert len(np.unique(sample)) == 100
    np.testing.assert_array_equal(sample, np.sort(sample))
    np.testing.assert_array_equal(sample, same)
    assert sample.tolist() != other.tolist()


def test_a_sample_is_scored_as_it_is_among_all(data: FederatedData) -> None:
    of_all = run_method("auxo", small(), data)
    of_some = run_method("auxo", small("run.evaluate_clients=70"), data)
    rows = of_some.scores.clients

    assert len(of_all.state.coordinator.tree.leaves) > 1
    assert of_all.scores.lost[rows].any()
    for name in ("correct", "tests", "cohort", "lost"):
        np.testing.assert_array_equal(getattr(of_some.scores, name), getattr(of_all.scores, name)[rows], err_msg=name)
    assert of_some.final.accuracy == pytest.approx(float((of_all.scores.correct / of_all.scores.tests)[rows].mean()))
    assert sum(score.clients for score in of_some.final.cohorts) == 70
    assert data.groups is not None
    np.testing.assert_array_equal(of_some.client_scores(data).group, data.groups[rows])


def test_whom_it_is_measured_on_does_not_change_a_run(data: FederatedData) -> None:
    of_all, of_some = (run_method("auxo", config, data) for config in (small(), small("run.evaluate_clients=5")))

    for cohort, state in of_all.state.coordinator.cohorts.items():
        np.testing.assert_array_equal(of_some.state.coordinator.cohorts[cohort].server.weights, state.server.weights)
    measured = [[event for event in one.events if not isinstance(event, Evaluated)] for one in (of_all, of_some)]
    assert measured[0] == measured[1]


def test_all_methods_are_measured_on_the_same_sample_which_the_files_name(tmp_path: Path) -> None:
    config = small("run.evaluate_clients=40", "training.rounds=4")
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    run_experiment(config, directory, lambda label, event: None)
    expected = clients_to_evaluate(300, 40, config.seed)

    for method in ("base", "auxo", "oracle"):
        clients = directory.read_clients(method)
        assert clients is not None
        np.testing.assert_array_equal(clients.client, expected)
        assert len(clients.accuracy) == 40
    assert "40 clients" in write_report(directory, gather_facts(directory)).read_text(encoding="utf-8")


def test_files_of_a_run_over_all_clients_need_not_name_them(tmp_path: Path) -> None:
    config = small("training.rounds=2", 'methods=["base"]')
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    run_experiment(config, directory, lambda label, event: None)
    clients = directory.read_clients("base")

    assert clients is not None
    assert clients.client is None
    assert len(clients.accuracy) == 300


def test_perplexity_is_e_to_the_mean_loss_of_clients_under_their_own_cohorts_models(data: FederatedData) -> None:
    config = small("run.perplexity=true")
    run = run_method("auxo", config, data)
    trainer, tree = trainer_for(config, data), run.state.coordinator.tree
    assert len(tree.leaves) > 1
    by_client = []
    for client in range(data.n_clients):
        mine = data.test.of(client)
        (leaf,) = [leaf for leaf in tree.leaves if tree.index[leaf] == run.scores.cohort[client]]
        matrix = run.state.coordinator.cohorts[leaf].server.weights[:-3].reshape(6, 3).astype(np.float64)
        bias = run.state.coordinator.cohorts[leaf].server.weights[-3:].astype(np.float64)
        odds = np.exp(data.inputs(data.test.x_rows[mine]) @ matrix + bias)
        shares = odds[np.arange(len(odds)), data.test.y[mine]] / odds.sum(axis=1)
        by_client.append(-np.log(shares).mean())

    assert trainer.n_params == 6 * 3 + 3
    assert run.final.perplexity == pytest.approx(np.exp(np.mean(by_client)), rel=1e-5)


def test_perplexity_is_measured_only_where_it_is_asked_for_and_changes_nothing_else(data: FederatedData) -> None:
    plain, asked = (run_method("base", small(*more), data) for more in ((), ("run.perplexity=true",)))
    assert plain.final.perplexity is None
    assert asked.final == replace(plain.final, perplexity=asked.final.perplexity)


@pytest.mark.parametrize("loss", [np.nan, np.inf, 1e4])
def test_a_model_that_has_diverged_has_no_perplexity(loss: float, data: FederatedData) -> None:
    run = run_method("base", small("run.perplexity=true", "training.rounds=1"), data)
    diverged = replace(run.scores, loss=np.full(len(run.scores.clients), loss))
    assert evaluated(diverged, run.state, 40, data.groups).perplexity is None


def test_clients_that_compare_models_by_rule_are_not_lost_and_use_the_best(data: FederatedData) -> None:
    run = run_method("ifca", small(), data)
    trainer, tree = trainer_for(small(), data), run.state.coordinator.tree
    assert not run.scores.lost.any()
    np.testing.assert_array_equal(run.scores.matched, run.scores.cohort)
    for client in range(0, data.n_clients, 30):
        mine = data.train.of(client)
        x, y = data.inputs(data.train.x_rows[mine]), data.train.y[mine]
        losses = {
            tree.index[leaf]: trainer.losses(state.server.weights, x, y).mean()
            for leaf, state in run.state.coordinator.cohorts.items()
        }
        assert run.scores.cohort[client] == min(losses, key=lambda leaf: losses[leaf])


def test_lost_clients_are_matched_by_a_comparison_where_the_method_has_them_compare(data: FederatedData) -> None:
    config = small()
    state, trainer = run_method("ifca", config, data).state, trainer_for(config, data)
    leaves = [state.coordinator.tree.index[leaf] for leaf in state.coordinator.tree.leaves]
    lost = Matched(np.full(data.n_clients, leaves[0]), np.zeros(data.n_clients, dtype=np.bool_))

    class Placing:
        def __init__(self, matched: Matched) -> None:
            self.matched = matched

        def placement(self, state: SimulationState, clients: IntArray | None = None) -> Matched:
            return self.matched

    drawn, found = (
        score_clients(trainer, data, cast("Simulation", Placing(one)), state, np.arange(data.n_clients))
        for one in (lost, replace(lost, compares=True))
    )
    np.testing.assert_array_equal(drawn.cohort, found.cohort)
    assert (drawn.matched == leaves[0]).all()
    np.testing.assert_array_equal(found.matched, found.cohort)
    np.testing.assert_array_equal(found.matched_correct, found.correct)
    assert drawn.lost.all()
    assert found.lost.all()


def test_with_one_leaf_everybody_uses_it_and_a_place_that_is_no_leaf_is_refused(data: FederatedData) -> None:
    config = small()
    base, ifca = (run_method(method, config, data).state for method in ("base", "ifca"))
    trainer, clients = trainer_for(config, data), np.arange(3)
    nowhere = Matched(np.full(3, NOWHERE), np.ones(3, dtype=np.bool_))

    assert place_clients(trainer, data, clients, nowhere, base).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match=r"place: expected positions of leaves .* or NOWHERE, got \[0\]"):
        place_clients(trainer, data, clients, Matched(np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.bool_)), ifca)

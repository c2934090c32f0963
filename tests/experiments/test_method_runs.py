"""The runs of a method: its algorithm with the parts that are the same for all."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, TrialSettings
from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.oracle import KnownGroups
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.client_algorithms import LocalSgd
from auxo.core.client_algorithms.fedprox import FedProx
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.layers import Layer
from auxo.core.matching import CheckIns
from auxo.core.rng import stream
from auxo.core.selectors import Uniform
from auxo.core.types import ROOT, CohortId, IntArray
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config
from auxo.experiments.method_runs import client_algorithm, local_training, method_runs, needs_groups
from auxo.experiments.populations import make_population
from auxo.population.federated_data import FederatedData
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import LocalTraining
from tests.registry.own_parts import METHOD, SMALL_PARTS

LAYERS = SoftmaxTrainer(n_features=64, n_classes=10).layers
SMALL = ("population.clients=60", "population.groups=[1.0, 2.0, 1.0]", "training.participants=8")


def small(*overrides: str) -> Config:
    return parse_config("", [*SMALL, *overrides])


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return make_population(small())


def rules(method: str, config: Config, data: FederatedData) -> Federation:
    (run,) = method_runs(method, config, data, layers=LAYERS)
    assert run.label == method.rpartition(":")[2]
    return run.rules


@pytest.mark.parametrize(("method", "kind"), [("base", OneCohort), ("auxo", Auxo), ("ifca", Ifca)])
def test_a_method_runs_once_with_the_parts_that_all_share(method: str, kind: type, data: FederatedData) -> None:
    overrides = ("seed=3", "training.rounds=7", "devices.overcommit=0.5", "training.sketch_size=99")
    made = rules(method, small(*overrides), data)
    assert type(made.algorithm) is kind
    assert (made.n_params, made.total_participants, made.total_rounds) == (650, 8, 7)
    assert (made.seed, made.overcommit, made.sketch_size) == (3, 0.5, 99)
    assert (made.aggregator, made.selector) == (FedYogi(), Uniform())


def test_settings_of_parts_reach_the_federation(data: FederatedData) -> None:
    config = small("training.aggregator=fedavg", "fedavg.server_learning_rate=0.5", "auxo.trial.judges=9")
    made = rules("auxo", config, data)
    assert made.aggregator == FedAvg(server_learning_rate=0.5)
    assert made.algorithm == Auxo(trial=TrialSettings(judges=9))


@pytest.mark.parametrize(
    ("method", "setting", "by_unit"),
    [
        ("auxo", "seed=0", True),
        ("auxo", "auxo.by_unit=false", False),
        ("auxo", "training.fingerprint_by_unit=false", False),
        ("paper", "seed=0", False),
        ("base", "seed=0", False),
        ("ifca", "seed=0", False),
    ],
)
def test_fingerprints_are_by_unit_for_those_who_want_them(
    method: str, setting: str, by_unit: bool, data: FederatedData
) -> None:
    fingerprint = rules(method, small(setting), data).fingerprint
    assert fingerprint.n_params == 650
    assert fingerprint.layers == (LAYERS if by_unit else ())


def test_only_the_oracle_needs_groups() -> None:
    methods = ("base", "auxo", "paper", "oracle", "ifca")
    assert [method for method in methods if needs_groups(method, Config())] == ["oracle"]


def test_the_oracle_runs_once_for_each_start(data: FederatedData) -> None:
    runs = method_runs("oracle", small(), data, layers=(Layer((2,)),))
    assert [run.label for run in runs] == ["oracle 1", "oracle 2"]
    states = [start(run.rules, lambda number: np.zeros(2, dtype=np.float32)) for run in runs]
    assert [len(state.tree.leaves) for state in states] == [3, 1]
    np.testing.assert_allclose(states[0].tree.branches[0].weights, [0.25, 0.5, 0.25])
    (alone,) = method_runs("oracle", small("oracle.starts=[0.1]"), data, layers=(Layer((2,)),))
    assert alone.label == "oracle"
    assert isinstance(alone.rules.algorithm, KnownGroups)
    assert alone.rules.algorithm.at == 0.1


def test_the_oracle_sends_clients_to_their_groups_once_there_are_cohorts(data: FederatedData) -> None:
    first = method_runs("oracle", small(), data, layers=(Layer((2,)),))[0]
    assert data.groups is not None
    clients = np.array([next(int(row) for row in np.flatnonzero(data.groups == group)) for group in (1, 2, 0)])
    check_ins, rng = CheckIns(clients, Requests.silent(CohortTree(), np.zeros(3, dtype=np.int64))), stream(0, "test")
    matching = first.rules.algorithm.matching
    assert matching.match(CoordinatorState(CohortTree(), {}), check_ins, rng).cohort.tolist() == [0, 0, 0]
    tree = CohortTree().partition(ROOT, (0, 1, 2), (0.25, 0.5, 0.25))
    matched = matching.match(CoordinatorState(tree, {}), check_ins, rng)
    assert [tree.cohorts[leaf] for leaf in matched.cohort] == [CohortId(name) for name in ("0.1", "0.2", "0.0")]
    assert matched.vouched.all()


def test_the_oracle_is_refused_without_groups_or_with_more_of_them_than_participants(data: FederatedData) -> None:
    blind = make_population(small("population.heterogeneity=none"))
    with pytest.raises(ConfigError, match=r"methods: oracle needs the groups of the clients, and .* has none"):
        method_runs("oracle", small(), replace(blind, groups=None), layers=(Layer((2,)),))
    with pytest.raises(ConfigError) as error:
        method_runs("oracle", small("training.participants=2"), data, layers=(Layer((2,)),))
    assert "a participant a round for each of the 3 groups of" in str(error.value)
    assert "got training.participants = 2" in str(error.value)
    assert """leave oracle out (--set 'methods=["base", "auxo"]')""" in str(error.value)


@dataclass(frozen=True)
class Tells:
    """A reference that is told the groups and makes what it is asked to of it."""

    algorithms: str = "none"

    def given(self, groups: IntArray) -> tuple[object, ...]:
        return () if self.algorithms == "none" else (FedAvg(),)


@pytest.mark.parametrize(("algorithms", "got"), [("none", "none"), ("strange", "FedAvg")])
def test_a_reference_that_has_nothing_to_run_is_refused(data: FederatedData, algorithms: str, got: str) -> None:
    method = f"{__name__}:Tells"
    config = small(f'methods=["{method}"]', f"Tells.algorithms={algorithms}")
    with pytest.raises(ConfigError) as error:
        method_runs(method, config, data, layers=(Layer((2,)),))
    assert f"methods: {method}: expected one or more algorithms from its `given`" in str(error.value)
    assert f"got {got}; return what to run" in str(error.value)


def test_participants_train_as_the_configuration_says() -> None:
    config = small("training.learning_rate=0.2", "training.batch_size=3", "training.epochs=4")
    assert local_training(config) == LocalTraining(0.2, 3, 4, proximal=0.0)
    assert client_algorithm(config) == LocalSgd()
    held = small("training.client=fedprox", "fedprox.mu=0.3")
    assert local_training(held).proximal == 0.3
    assert client_algorithm(held) == FedProx(mu=0.3)
    assert client_algorithm(held).sends_partial_work


def test_parts_of_ones_own_are_put_together_as_any_others(
    data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_method.py").write_text(METHOD)
    Path("my_parts.py").write_text(SMALL_PARTS)
    config = small(
        'methods=["my_method.py:MyMethod"]',
        "training.aggregator=my_parts.py:Doubled",
        "training.selector=my_parts.py:FirstComeFirstServed",
        "training.client=my_parts.py:Held",
        "MyMethod.strength=0.125",
    )
    made = rules("my_method.py:MyMethod", config, data)
    assert vars(made.algorithm)["strength"] == 0.125
    assert vars(made.aggregator)["factor"] == 2.0
    assert type(made.selector).__name__ == "FirstComeFirstServed"
    assert local_training(config).proximal == 0.7

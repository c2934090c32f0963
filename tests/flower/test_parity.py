"""An Auxo that never partitions and asks for no halves is the base strategy alone, whatever the strategy."""

import random  # noqa: TID251 - Flower's strategies sample by it
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.clientapp.typing import Mod
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
    Strategy,
)

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.algorithms.base import OneCohort
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.flower.client import AuxoClientApp
from auxo.flower.strategy import AuxoStrategy
from tests.flower.linear_app import fill, initial
from tests.flower.local_grid import LocalGrid

NODES, ROUNDS = 9, 4

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "FedAvg": FedAvg,
    "FedAvg that samples": lambda: FedAvg(fraction_train=0.6, fraction_evaluate=0.5),
    "FedAvgM": lambda: FedAvgM(server_learning_rate=0.7, server_momentum=0.8),
    "FedAdam": lambda: FedAdam(eta=0.1),
    "FedAdagrad": lambda: FedAdagrad(eta=0.1),
    "FedYogi": lambda: FedYogi(eta=0.1),
    "FedProx": lambda: FedProx(proximal_mu=0.1),
    "QFedAvg": lambda: QFedAvg(client_learning_rate=0.1, q=0.2),
    "FedMedian": FedMedian,
    "FedTrimmedAvg": lambda: FedTrimmedAvg(beta=0.2),
    "Krum": lambda: Krum(num_malicious_nodes=1),
    "MultiKrum": lambda: MultiKrum(num_malicious_nodes=1, num_nodes_to_select=5),
    "Bulyan": lambda: Bulyan(num_malicious_nodes=1),
}

WITH_NOISE: dict[str, tuple[Callable[[], Strategy], list[Mod]]] = {
    "server side, fixed": (lambda: DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 2.0, NODES), []),
    "server side, adaptive": (lambda: DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 0.1, NODES), []),
    "client side, fixed": (
        lambda: DifferentialPrivacyClientSideFixedClipping(FedAdam(eta=0.1), 0.1, 2.0, NODES),
        [fixedclipping_mod],
    ),
    "client side, adaptive": (
        lambda: DifferentialPrivacyClientSideAdaptiveClipping(FedAvg(), 0.1, NODES),
        [adaptiveclipping_mod],
    ),
    "local": (FedAvg, [LocalDpMod(clipping_norm=2.0, sensitivity=0.1, epsilon=1.0, delta=1e-3)]),
}

NEVER: dict[str, CohortAlgorithm] = {
    "one cohort": OneCohort(),
    "Auxo that never looks": Auxo(clustering=ClusteringSettings(pool_rounds=10_000), trial=TrialSettings(judges=1)),
}


def weights(of: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in of.values()])


def run(strategy: Strategy, app: ClientApp, mods: list[Mod] | None = None) -> tuple[np.ndarray, dict[str, object]]:
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002 - and make noise by this
    result = strategy.start(LocalGrid(_filled(app, mods or []), NODES), initial(), num_rounds=ROUNDS)
    metrics: dict[str, object] = {
        "train": {number: dict(record) for number, record in result.train_metrics_clientapp.items()},
        "evaluate": {number: dict(record) for number, record in result.evaluate_metrics_clientapp.items()},
    }
    return weights({name: array.numpy() for name, array in result.arrays.items()}), metrics


def _filled(app: ClientApp, mods: list[Mod]) -> ClientApp:
    return fill(app, groups=2, train_mods=mods)


@pytest.mark.parametrize("method", NEVER.values(), ids=NEVER)
@pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
def test_auxo_that_never_partitions_is_the_base_alone(make: Callable[[], Strategy], method: CohortAlgorithm) -> None:
    alone, told = run(make(), ClientApp())
    inside, told_inside = run(AuxoStrategy(make, participants=NODES, method=method), AuxoClientApp())
    np.testing.assert_allclose(inside, alone, rtol=0, atol=1e-12)
    assert np.abs(alone).max() > 0.01  # it has learnt something
    for kind in ("train", "evaluate"):
        assert _flat(told_inside[kind]) == pytest.approx(_flat(told[kind]), abs=1e-12)


@pytest.mark.parametrize(("make", "mods"), WITH_NOISE.values(), ids=WITH_NOISE)
def test_privacy_wrappers_and_their_mods_are_the_same_inside(make: Callable[[], Strategy], mods: list[Mod]) -> None:
    alone, told = run(make(), ClientApp(), mods)
    for_cohort = AuxoStrategy(lambda cohort: make(), participants=NODES, method=OneCohort())
    inside, told_inside = run(for_cohort, AuxoClientApp(), mods)
    np.testing.assert_allclose(inside, alone, rtol=0, atol=1e-12)
    assert _flat(told_inside["train"]) == pytest.approx(_flat(told["train"]), abs=1e-12)


def _flat(metrics: object) -> dict[str, float]:
    assert isinstance(metrics, dict)
    return {f"{number}/{name}": value for number, record in metrics.items() for name, value in record.items()}

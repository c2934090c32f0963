"""Federations of a handful of nodes, in which nothing is set but how many there are."""

import pytest
from flwr.serverapp.strategy import FedAvg

from auxo.flower.strategy import AuxoStrategy
from tests.flower.linear_app import auxo_app, initial
from tests.flower.local_grid import LocalGrid
from tests.flower.small import members


@pytest.fixture(autouse=True)
def everybody_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's sampling has no seed; where all are sampled only their order is drawn."""
    monkeypatch.setattr("flwr.serverapp.strategy.strategy_utils.random.sample", lambda nodes, size: nodes[:size])


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("nodes", [4, 6, 8, 12, 16, 30])
def test_two_groups_are_found(nodes: int, halves: bool) -> None:
    grid = LocalGrid(auxo_app(groups=2, halves=halves), nodes)
    result = AuxoStrategy(FedAvg, participants=nodes).start(grid, initial(), num_rounds=20, timeout=5.0)
    even, odd = list(range(0, nodes, 2)), list(range(1, nodes, 2))
    assert sorted(map(sorted, members(result, grid).values())) == [even, odd]


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("nodes", [4, 8, 16])
def test_without_groups_there_is_no_partition(nodes: int, halves: bool) -> None:
    for seed in range(100, 103):
        grid = LocalGrid(auxo_app(groups=1, halves=halves), nodes)
        strategy = AuxoStrategy(FedAvg, participants=nodes, seed=seed)
        assert tuple(strategy.start(grid, initial(), num_rounds=20, timeout=5.0).cohorts) == ("0",)

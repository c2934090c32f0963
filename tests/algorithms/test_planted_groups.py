"""Whole runs of the methods of the literature on planted groups, as a configuration describes them."""

import pytest

from auxo.experiments.config import Config
from auxo.experiments.populations import make_population
from auxo.experiments.runner import MethodResult, run_method

SETTINGS = {"ifca": {"cohorts": 2}, "flexcfl": {"groups": 2}, "random": {"cohorts": 2}, "cfl": {"first_split": 5}}


def outcome(method: str, heterogeneity: str = "concept", **devices: object) -> MethodResult:
    config = Config.model_validate(
        {
            "methods": [method],
            "population": {
                "source": "synthetic",
                "clients": 120,
                "groups": 2,
                "heterogeneity": heterogeneity,
                "features": 16,
                "classes": 4,
            },
            "training": {"rounds": 30, "participants": 40, "aggregator": "fedavg"},
            "devices": devices,
            "run": {"evaluate_every": 30},
            **({method: SETTINGS[method]} if method in SETTINGS else {}),
        }
    )
    return run_method(method, config, make_population(config))


@pytest.mark.parametrize("method", ["cfl", "fl+hc", "flexcfl", "ifca"])
def test_planted_groups_are_found(method: str) -> None:
    assert outcome(method).final.ari == 1.0


@pytest.mark.parametrize("method", ["fl+hc", "flexcfl"])
def test_methods_that_need_a_pass_over_clients_find_groups_although_clients_come_and_go(method: str) -> None:
    result = outcome(method, availability="day-night", share_online=0.3)

    assert result.final.ari is not None
    assert result.final.ari > 0.9


def test_a_pass_over_everybody_waits_for_those_who_are_away() -> None:
    always, sometimes = (
        outcome("fl+hc", availability="day-night", share_online=share).final.time_s for share in (1.0, 0.3)
    )

    assert always < 3600  # seconds
    assert sometimes > 6 * 3600


def test_where_there_is_nothing_to_find_nothing_is_cut() -> None:
    assert len(outcome("cfl", heterogeneity="none").state.coordinator.tree.leaves) == 1


def test_random_groups_mean_nothing() -> None:
    final = outcome("random").final

    assert final.ari is not None
    assert abs(final.ari) < 0.05
    assert len(final.cohorts) == 2

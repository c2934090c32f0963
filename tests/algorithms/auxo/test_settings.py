"""Settings that mean nothing are refused."""

from typing import Any

import pytest

from auxo.algorithms.auxo import ClusteringSettings, TrialSettings


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("clusters", 1, "2 to 8, got 1"),
        ("clusters", 9, "2 to 8, got 9"),
        ("pool_rounds", 0, "at least 1, got 0"),
        ("pool_most", 0, "at least 1, got 0"),
    ],
)
def test_impossible_settings_of_clustering_are_refused_by_name(name: str, value: float, expected: str) -> None:
    setting: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=f"{name}: expected {expected}"):
        ClusteringSettings(**setting)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", 0.0),
        ("alpha", 1.0),
        ("min_gain", 1.0),
        ("min_gain", float("nan")),
        ("most_rounds", 1),
        ("judges", 0),
    ],
)
def test_impossible_settings_of_trials_are_refused_by_name(field: str, value: float) -> None:
    changes: dict[str, Any] = {field: value}

    with pytest.raises(ValueError, match=f"{field}: expected"):
        TrialSettings(**changes)

"""The benchmarks of identification and of departures: which runs they make, and of which populations."""

from pathlib import Path

import departures
import identification
import numpy as np
import pytest
from made_populations import shifted_population, units_population
from workloads import SIZES, WORKLOADS, Workload

from auxo.experiments.config_file import parse_config


def chosen(*options: str) -> dict[str, int]:
    """Return how many seeds of each population are run."""
    arguments = identification._arguments([*options, "--json", "records.json"])
    return {workload.name: seeds for workload, seeds in identification._chosen(arguments)}


def workload(name: str) -> Workload:
    return next(one for one in WORKLOADS if one.name == name)


@pytest.mark.parametrize("settings", [*departures.VARIANTS.values(), *departures.swept().values()])
def test_every_variant_is_made_of_settings_that_there_are(settings: tuple[str, ...]) -> None:
    changed = parse_config("", [f"auxo.{one}" for one in settings]).parts["auxo"]
    assert (changed != parse_config("", []).parts["auxo"]) == bool(settings)


def test_thresholds_are_swept_around_their_defaults() -> None:
    swept = departures.swept()
    for path, values in departures.SWEPT.items():
        assert sum(f"{path} = {value}" in swept for value in values) == len(values) - 1


def test_what_is_named_is_run_also_where_it_is_not_usually() -> None:
    assert "few" not in chosen("--quick")
    assert chosen("--quick", "--only", "few") == {"few": 1}
    assert chosen("--only", "few", "--seeds", "2") == {"few": 2}


def test_every_population_has_a_name_of_its_own() -> None:
    assert len({one.name for one in WORKLOADS}) == len(WORKLOADS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kind", "groups"), [("small", 2), ("small-none", 1)])
def test_everybody_takes_part_in_a_small_federation(size: int, kind: str, groups: int) -> None:
    made = workload(f"{kind}-{size}").make(100, None)
    assert made is not None
    config, data = made
    assert config.training.participants == data.n_clients == size
    assert data.groups is not None
    assert len(np.unique(data.groups)) == groups
    assert data.train.counts().min() >= 40
    assert data.train.counts().max() <= 120


def test_groups_see_inputs_in_units_of_their_own() -> None:
    data = units_population(30, 100)
    assert data.groups is not None
    rows = data.train.x_rows
    group = data.groups[np.repeat(np.arange(data.n_clients), data.train.counts())]
    inputs = data.inputs(rows)
    assert inputs.std(axis=0) == pytest.approx(np.ones(inputs.shape[1]), rel=1e-4)
    spreads = np.array([inputs[group == one].std(axis=0) for one in range(3)])
    assert np.median(spreads.max(axis=0) / spreads.min(axis=0)) > 3


def test_groups_see_inputs_shifted_by_zeros_of_their_own() -> None:
    data = shifted_population(40, 100)
    assert data.groups is not None
    group = data.groups[np.repeat(np.arange(data.n_clients), data.train.counts())]
    inputs = data.inputs(data.train.x_rows)
    means = np.array([inputs[group == one].mean(axis=0) for one in range(4)])
    assert np.median(means.max(axis=0) - means.min(axis=0)) > 0.5


def test_real_clients_are_left_out_without_their_files(tmp_path: Path) -> None:
    for name in ("extra-speakers", "extra-writers-100"):
        assert workload(name).make(100, tmp_path) is None

"""Populations that a configuration names: files, and groups planted among them."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from auxo.core.rng import stream
from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.federated_file import write_federated_file
from auxo.experiments.config import HeterogeneityName
from auxo.experiments.config_file import ConfigError, parse_config
from auxo.experiments.populations import make_population
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import NoGroups
from auxo.population.synthetic import synthetic_population
from tests.population.saved import save_population


def population(*overrides: str) -> FederatedData:
    return make_population(parse_config("", overrides))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clients.npz"
    save_population(path, synthetic_population(clients=40, heterogeneity=NoGroups(), features=6, classes=4))
    return path


def of_file(file: Path, *overrides: str) -> FederatedData:
    named = ("population.source=file", f"population.file={file}", "training.participants=20")
    return population(*named, "population.standardise=false", *overrides)


def test_inputs_of_a_file_are_standardised_unless_they_are_to_stay(tmp_path: Path) -> None:
    path = tmp_path / "levels.npz"
    levels = stream(0, "x").integers(256, size=(40, 4, 4)).astype(np.uint8)
    np.savez(path, x=levels, y=np.arange(40) % 10, client=np.repeat([3, 8], 20), test=np.arange(40) % 2)
    named = ("population.source=file", f"population.file={path}", "training.participants=2")
    scaled, plain = (population(*named, f"population.standardise={setting}") for setting in ("true", "false"))
    assert float(scaled.numbers(scaled.train.x_rows).std()) == pytest.approx(1.0, abs=1e-5)
    seen = plain.numbers(plain.train.x_rows)
    assert 0 <= seen.min() < seen.max() <= 1


def test_groups_are_planted_among_the_clients_of_a_file(file: Path) -> None:
    plain = of_file(file)
    planted = of_file(file, "population.plant=concept", "population.groups=[3.0, 1.0]")

    assert planted.client_names == plain.client_names
    assert planted.groups is not None
    assert np.bincount(planted.groups).tolist() == [30, 10]
    of_client = np.repeat(planted.groups, planted.train.counts())
    is_same = planted.train.y == plain.train.y
    assert is_same[of_client == 0].all()
    assert not is_same[of_client == 1].any()
    np.testing.assert_array_equal(planted.x, plain.x)


@pytest.mark.parametrize("heterogeneity", get_args(HeterogeneityName))
def test_every_kind_of_heterogeneity_draws_its_groups(heterogeneity: str) -> None:
    drawn = population("population.clients=40", "training.participants=10", f"population.heterogeneity={heterogeneity}")
    assert drawn.groups is not None
    assert np.bincount(drawn.groups).tolist() == ([40] if heterogeneity == "none" else [10] * 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("heterogeneity=nested", "groups=3"), r"population\.groups: .* 2 branches.* got 3; plant a multiple"),
        (("heterogeneity=swap", "groups=7"), r"population\.groups: .* which are 12, but there are 10 classes; plant"),
    ],
)
def test_groups_that_the_classes_do_not_suffice_for_name_the_setting(settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        population(*(f"population.{setting}" for setting in settings))


def test_what_cannot_be_planted_names_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "text.arrow"
    tokens, y = np.arange(40, dtype=np.int32).reshape(10, 4), np.arange(10) % 2
    clients = [ClientSamples(name, tokens, y) for name in ("ann", "bob")]
    write_federated_file(SampleSource("notes", path, ("0", "1"), lambda: iter(clients)), path)
    settings = ("population.source=file", f"population.file={path}", "training.participants=2")
    with pytest.raises(ConfigError, match=r"population\.plant: Rotation expects inputs that are numbers"):
        population(*settings, "population.plant=rotation", "population.groups=2")


def test_planting_is_for_clients_that_are_there_already() -> None:
    with pytest.raises(ConfigError, match=r"population\.plant: .* set population\.heterogeneity instead"):
        parse_config('[population]\nplant = "concept"\n')

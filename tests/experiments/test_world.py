"""The world of a run: its devices and availability follow from the configuration, and it knows no groups."""

import math

import numpy as np
import pytest

from auxo.engines.in_process import InProcess
from auxo.experiments.config_file import parse_config
from auxo.experiments.method_runs import local_training
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.world import make_world
from auxo.simulation.availability import AlwaysOnline, DayNight
from auxo.simulation.virtual_time import World

SMALL = ("population.source=synthetic", "population.clients=30", "training.participants=5", "population.groups=2")


def made(*overrides: str, sends_partial_work: bool = False) -> World:
    config = parse_config("", [*SMALL, *overrides])
    data = make_population(config)
    engine = InProcess(trainer_for(config, data), data, local_training(config), config.seed)
    return make_world(config, data, engine, sends_partial_work)


def test_an_empty_configuration_is_a_world_without_hurry() -> None:
    world = made()
    assert isinstance(world.availability, AlwaysOnline)
    assert (world.epochs, world.dropout, world.deadline_s) == (1, 0.0, math.inf)
    assert (world.patience_s, world.cooldown_s, world.sends_partial_work) == (600.0, 0.0, False)
    assert world.devices.n_clients == world.data.n_clients == 30
    assert len(np.unique(world.devices.download_bps)) == 30


def test_settings_are_those_of_the_configuration() -> None:
    world = made(
        "devices.dropout=0.2",
        "devices.deadline_s=60",
        "devices.patience_s=5",
        "devices.cooldown_s=7",
        "devices.forgets=0.1",
        "devices.availability=day-night",
        "training.epochs=3",
        sends_partial_work=True,
    )
    assert isinstance(world.availability, DayNight)
    assert (world.epochs, world.dropout, world.deadline_s) == (3, 0.2, 60.0)
    assert (world.patience_s, world.cooldown_s, world.sends_partial_work, world.forgets) == (5.0, 7.0, True, 0.1)


def test_nothing_in_a_world_knows_the_groups() -> None:
    assert made().data.groups is None


@pytest.mark.parametrize("kind", ["synthetic", "equal"])
def test_a_slowdown_is_for_training_alone(kind: str) -> None:
    plain, slow = made(f"devices.kind={kind}"), made(f"devices.kind={kind}", "devices.slowdown=4")
    np.testing.assert_allclose(slow.devices.compute_s_per_sample, 4 * plain.devices.compute_s_per_sample)
    np.testing.assert_array_equal(slow.devices.download_bps, plain.devices.download_bps)


def test_spread_and_seed_are_heeded() -> None:
    assert len(np.unique(made("devices.spread=0").devices.download_bps)) == 1
    assert len(np.unique(made("devices.kind=equal").devices.download_bps)) == 1
    assert (made("seed=1").devices.download_bps != made("seed=2").devices.download_bps).all()

"""An attack as a configuration describes it: who attacks, from when on, and whose scores are then told."""

from dataclasses import dataclass, replace

import numpy as np

from auxo.attacks.all_mods import mods_of
from auxo.attacks.attackers import Attack, Attackers
from auxo.core.types import BoolArray, IntArray
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.parts import ATTACKS
from auxo.simulation.virtual_time import Simulation, SimulationState


@dataclass(frozen=True)
class Attacked:
    """A simulation without and with its attackers."""

    before: Simulation
    after: Simulation
    start: int  # participations from which on they attack

    def at(self, state: SimulationState) -> Simulation:
        """Return the one that a state goes on with."""
        return self.after if state.spent.participations >= self.start else self.before


def attackers_of(config: Config, clients: int) -> Attackers | None:
    """Return who of so many clients attacks; None: nobody does.

    Raises:
        ConfigError: nobody would be left to tell of.
    """
    attack = config.attack
    if not attack.kinds:
        return None
    attackers = Attackers.drawn(clients, attack.share, config.seed, attack.target)
    if len(attackers.clients) == clients:
        raise ConfigError(
            f"attack.share: expected honest clients beside the attackers, got {attack.share} of {clients}; lower it"
        )
    return attackers if len(attackers.clients) else None


def attacked(simulation: Simulation, config: Config) -> Attacked:
    """Return the simulation with the attackers of the configuration, if it has any; they come before all other mods."""
    attackers = attackers_of(config, simulation.world.data.n_clients)
    if attackers is None:
        return Attacked(simulation, simulation, 0)
    made = [config.maker.make(ATTACKS, kind) for kind in config.attack.kinds]
    mods = mods_of([kind for kind in made if isinstance(kind, Attack)], attackers)
    world = replace(simulation.world, mods=(*mods, *simulation.world.mods))
    return Attacked(simulation, replace(simulation, world=world), config.attack.start * config.training.participants)


def are_honest(config: Config, population: int, clients: IntArray) -> BoolArray:
    """Return who of these clients, of so many that there are, does not attack."""
    attackers = attackers_of(config, population)
    return np.ones(len(clients), dtype=np.bool_) if attackers is None else ~attackers.among(clients)

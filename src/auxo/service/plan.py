"""What a service is to do, from its configuration: the rules of its federation, its initial model, and where it is."""

import socket
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from auxo.core.cohort_algorithm import CohortAlgorithm, NeedsGroups
from auxo.core.guard import Unguarded
from auxo.core.layers import Layer
from auxo.core.own_state import NOTHING
from auxo.core.types import ROOT, Float32Array
from auxo.core.watchful import Watchful
from auxo.experiments.config import Config, ServiceConfig
from auxo.experiments.config_file import ConfigError, load_config, to_toml
from auxo.experiments.method_runs import federation_rules
from auxo.experiments.parts import METHODS
from auxo.files.atomic_write import write_whole
from auxo.files.errors import file_error
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.runtime.made_with import differences, made_with
from auxo.runtime.server import Server
from auxo.service.cohort_desk import RoundSettings
from auxo.service.http_server import Tls
from auxo.service.store import Store

_CONFIG, _INITIAL = "config.toml", "initial.safetensors"


@dataclass(frozen=True)
class ServicePlan:
    """A service's configuration and all that follows from it."""

    config: Config
    rules: Federation
    names: tuple[str, ...]  # of the model's tensors, in the order of the flat weights
    initial: Float32Array
    directory: Path

    @property
    def service(self) -> ServiceConfig:
        """Return the section of the service's own."""
        return self.config.service

    @property
    def rounds(self) -> RoundSettings:
        """Return how rounds go in real time."""
        own = self.service
        return RoundSettings(own.deadline_s, own.window_s, own.least_share, own.waiting)

    @property
    def tls(self) -> Tls | None:
        """Return the files for TLS; None: it is spoken without."""
        own = self.service
        if own.certificate is None or own.key is None:
            return None
        return Tls(own.certificate, own.key, own.client_ca)

    def server(self) -> Server:
        """Return a server that has not begun."""
        return Server.with_rules(self.rules, self.initial)

    def address(self, listener: socket.socket, node: str | None = None) -> str:
        """Return how clients reach a socket, on this machine or on a node of another address."""
        host = node or self.service.public_host or self.service.host
        named = f"[{host}]" if ":" in host else host
        return f"{'http' if self.tls is None else 'https'}://{named}:{listener.getsockname()[1]}"

    def tensors(self, weights: Float32Array) -> bytes:
        """Return a model as a file like that of the initial one."""
        ends = np.cumsum([layer.size for layer in self.rules.layers])[:-1]
        parts = zip(self.names, self.rules.layers, np.split(weights, ends), strict=True)
        return safetensors.numpy.save(
            {name: np.ascontiguousarray(one.reshape(layer.shape)) for name, layer, one in parts}
        )

    def store(self) -> Store:
        """Return the store of the service.

        Raises:
            OSError: it cannot be opened.
        """
        return Store(self.directory, self.rules.own_states)


def plan_of(config: Config) -> ServicePlan:
    """Return what a configuration asks for.

    Raises:
        ConfigError: it is not one of a service.
    """
    if config.service.model is None:
        raise ConfigError("service.model: expected a safetensors file with the initial model, got none; name one")
    if config.run.engine == "ray" and config.run.ray_address is None:
        words = "expected a cluster that outlives this command, got none; start one (ray start --head) and name it"
        raise ConfigError(f"run.ray_address: {words} (--ray-address auto)")
    directory = config.service.directory or Path("runs") / f"{config.name}-service"
    return _planned(config, config.service.model, directory.resolve())


def plan_in(directory: Path) -> ServicePlan:
    """Return what the service in a directory was begun with."""
    return _planned(load_config(directory / _CONFIG), directory / _INITIAL, directory)


def _planned(config: Config, model: Path, directory: Path) -> ServicePlan:
    names, layers, initial = _model_in(model)
    rules, own = federation_rules(_algorithm(config), config, layers), config.service
    guard = Watchful() if own.signed and isinstance(rules.guard, Unguarded) else rules.guard
    rules = replace(rules, overcommit=own.overcommit, signed=own.signed, guard=guard)
    _refuse_one_owner(rules, initial)
    return ServicePlan(config, rules, names, initial, directory)


def _algorithm(config: Config) -> CohortAlgorithm:
    if len(config.methods) != 1:
        named = ", ".join(config.methods)
        raise ConfigError(f'methods: expected one, got {named}; a service has one, such as methods = ["auxo"]')
    found = config.maker.make(METHODS, config.methods[0])
    if isinstance(found, NeedsGroups):
        raise ConfigError(f'methods: {config.methods[0]} needs the clients\' groups; take ["auxo"]')
    assert isinstance(found, CohortAlgorithm)  # noqa: S101 - the registry has checked it
    return found


def _refuse_one_owner(rules: Federation, initial: Float32Array) -> None:
    """Refuse methods whose cohorts cannot be in processes of their own."""
    state = start(rules, lambda _: initial)
    name = type(rules.algorithm).__name__
    if state.table is not NOTHING:
        words = "keeps a table of clients, which all its cohorts share, so that they cannot be processes of their own"
        raise ConfigError(f'methods: {name} {words}; run it in a simulation, or take ["auxo"]')
    if rules.openers(state) != state.tree.leaves or state.tree.leaves != (ROOT,):
        words = "begins with several cohorts, whose rounds may be one"
        raise ConfigError(f'methods: {name} {words}; run it in a simulation, or take ["auxo"]')


def _model_in(path: Path) -> tuple[tuple[str, ...], tuple[Layer, ...], Float32Array]:
    try:
        tensors = safetensors.numpy.load(path.read_bytes())
    except (OSError, safetensors.SafetensorError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise file_error(path, "model", "a safetensors file", f"{why}", "name another as service.model") from error
    names = tuple(sorted(tensors))
    if not names or not all(tensors[name].dtype.kind == "f" and tensors[name].size for name in names):
        raise file_error(path, "model", "tensors of floats", ", ".join(names) or "none", "write another file")
    arrays = [tensors[name] for name in names]
    flat = np.concatenate([one.astype(np.float32).ravel() for one in arrays])
    if not np.isfinite(flat).all():
        raise file_error(path, "model", "finite numbers", "others", "write another file")
    return names, tuple(Layer(one.shape or (1,)) for one in arrays), flat


def begin(plan: ServicePlan, now: float) -> None:
    """Have a service in its directory: a new one, or the one that is there.

    Raises:
        ConfigError: the one that is there was begun with something else.
    """
    plan.directory.mkdir(parents=True, exist_ok=True)
    with plan.store() as store:
        if store.has_begun:
            _check_same(plan, store)
        else:
            write_whole(plan.directory / _INITIAL, plan.tensors(plan.initial))
        write_whole(plan.directory / _CONFIG, to_toml(plan.config).encode())
        store.begin(plan.server().record, now)


def _check_same(plan: ServicePlan, store: Store) -> None:
    changed = differences(store.read(()).record.made_with, made_with(plan.rules))
    _, _, initial = _model_in(plan.directory / _INITIAL)
    if not np.array_equal(initial, plan.initial):
        changed.append("service.model: another initial model")
    if changed:
        raise ConfigError(
            f"{plan.directory}: expected the settings that the service there was begun with, got others "
            f"({'; '.join(changed)}); go on with those, or set another service.directory"
        )

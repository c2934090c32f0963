"""The runs of a method: its algorithm put together with the parts that are the same for all methods."""

from dataclasses import dataclass

from auxo.core.aggregators import Aggregator, at_rate
from auxo.core.client_algorithms import ClientAlgorithm
from auxo.core.cohort_algorithm import CohortAlgorithm, NeedsGroups
from auxo.core.guard import Guard
from auxo.core.layers import Layer
from auxo.core.personalisers import Personaliser, Tuning
from auxo.core.selectors import Selector
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.parts import AGGREGATORS, CLIENTS, GUARDS, METHODS, PERSONALISERS, SELECTORS
from auxo.population.federated_data import FederatedData
from auxo.registry.registry import short_name
from auxo.runtime.federation import Federation
from auxo.training.trainer import LocalTraining


@dataclass(frozen=True)
class MethodRun:
    """One run of a method, ready to be simulated."""

    label: str  # what progress calls it
    rules: Federation


def needs_groups(method: str, config: Config) -> bool:
    """Return whether a method has to be told the groups."""
    return isinstance(config.maker.make(METHODS, method), NeedsGroups)


def method_runs(method: str, config: Config, data: FederatedData, layers: tuple[Layer, ...]) -> tuple[MethodRun, ...]:
    """Return the runs of a method, with a model of these layers: one, or several of which the most accurate counts."""
    found, name = config.maker.make(METHODS, method), short_name(method)
    if not isinstance(found, NeedsGroups):
        assert isinstance(found, CohortAlgorithm)  # noqa: S101 - the registry has checked it, and so below
        return (MethodRun(name, federation_rules(found, config, layers)),)
    if data.groups is None:
        raise ConfigError(f"methods: {name} needs the groups of the clients, and {data.name} has none")
    groups, participants = int(data.groups.max()) + 1, config.training.participants
    if groups > participants:
        others = ", ".join(f'"{other}"' for other in config.methods if other != method) or '"base"'
        raise ConfigError(
            f"methods: {name} needs a participant a round for each of the {groups} groups of {data.name}, got "
            f"training.participants = {participants}; raise it or leave {name} out (--set 'methods=[{others}]')"
        )
    algorithms = found.given(data.groups)
    if not algorithms or not all(isinstance(algorithm, CohortAlgorithm) for algorithm in algorithms):
        got = ", ".join(type(algorithm).__name__ for algorithm in algorithms) or "none"
        raise ConfigError(
            f"methods: {method}: expected one or more algorithms from its `given`, each as "
            f"auxo.core.cohort_algorithm:CohortAlgorithm describes it, got {got}; return what to run"
        )
    labels = [name] if len(algorithms) == 1 else [f"{name} {number}" for number in range(1, len(algorithms) + 1)]
    return tuple(
        MethodRun(label, federation_rules(algorithm, config, layers))
        for label, algorithm in zip(labels, algorithms, strict=True)
    )


def local_training(config: Config) -> LocalTraining:
    """Return how a participant trains."""
    training = config.training
    return LocalTraining(
        training.learning_rate, training.batch_size, training.epochs, proximal=client_algorithm(config).proximal
    )


def client_algorithm(config: Config) -> ClientAlgorithm:
    """Return what participants do besides descending their loss."""
    client = config.maker.make(CLIENTS, config.training.client)
    assert isinstance(client, ClientAlgorithm)  # noqa: S101
    return client


def tuning(config: Config) -> Tuning | None:
    """Return how clients tune the model of their cohort before they use it; None: they use it as it is."""
    found = config.maker.make(PERSONALISERS, config.training.personaliser)
    assert isinstance(found, Personaliser)  # noqa: S101
    said: object = found.tuning
    if said is not None and not isinstance(said, Tuning):
        raise ConfigError(f"training.personaliser: expected a Tuning or None as its `tuning`, got {said!r}; return one")
    return said


def federation_rules(algorithm: CohortAlgorithm, config: Config, layers: tuple[Layer, ...]) -> Federation:
    """Return the rules of a federation with this algorithm and a model of these layers."""
    training, maker = config.training, config.maker
    aggregator, selector = maker.make(AGGREGATORS, training.aggregator), maker.make(SELECTORS, training.selector)
    assert isinstance(aggregator, Aggregator)  # noqa: S101
    assert isinstance(selector, Selector)  # noqa: S101
    guard = maker.make(GUARDS, training.guard)
    assert isinstance(guard, Guard)  # noqa: S101
    return Federation(
        algorithm=algorithm,
        aggregator=at_rate(aggregator, training.learning_rate),
        n_params=sum(layer.size for layer in layers),
        total_participants=training.participants,
        total_rounds=training.rounds,
        seed=config.seed,
        overcommit=config.devices.overcommit,
        selector=selector,
        sketch_size=training.sketch_size,
        layers=layers,
        by_unit=training.fingerprint_by_unit,
        epochs=training.epochs,
        most_weight=training.most_weight,
        guard=guard,
        signed=training.signed_claims,
        most_unproved=training.most_unproved,
    )

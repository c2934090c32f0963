"""The methods a run compares, each put together from the same coordinator, clients and clock."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from auxo.algorithms.auxo import AuxoSettings
from auxo.algorithms.base import Never
from auxo.algorithms.oracle import Scheduled, by_group
from auxo.algorithms.paper_variant import paper_limits, paper_settings
from auxo.core.affinity import Requests
from auxo.core.aggregators import AGGREGATORS, Aggregator
from auxo.core.cohort_tree import CohortTree
from auxo.core.partition import CrossFittedGain, Lemma, Partition, PartitionCriterion, PartitionLimits
from auxo.core.types import IntArray
from auxo.experiments.config import AuxoConfig, Config, DevicesConfig, Method, TrainingConfig
from auxo.experiments.config_file import ConfigError
from auxo.experiments.data_folder import devices_with_files
from auxo.files.errors import FileError
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import Event
from auxo.runtime.coordinator import ByRequest, Coordinator, Matched, Matching
from auxo.runtime.engine import Engine
from auxo.simulation.availability import AlwaysOnline, Availability, DayNightPattern
from auxo.simulation.devices import DeviceSource, EqualDevices, SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.traces.availability import draw_availability
from auxo.traces.devices import TraceDevices
from auxo.traces.flash import read_flash
from auxo.traces.trace import Sessions, Speeds, Trace
from auxo.traces.trace_file import read_trace
from auxo.training.trainer import LocalTraining, Trainer

_T = TypeVar("_T")

_ORACLE_STARTS = (0.0, 0.25)  # parts of the run after which the oracle partitions; the better one counts (our choice)


@dataclass(frozen=True)
class ByGroup:
    """The oracle's matching: every client goes to the cohort of its true group, once there are such cohorts."""

    groups: IntArray  # (clients,)

    def match(self, tree: CohortTree, clients: IntArray, requests: Requests, rng: np.random.Generator) -> Matched:
        """Return the leaf of each client's group; requests do not matter."""
        is_partitioned = len(tree.branches) > 0  # the root is position 0, and its children follow in group order
        leaf = self.groups[clients] + 1 if is_partitioned else np.zeros(len(clients), dtype=np.int64)
        return Matched(leaf, np.ones(len(clients), dtype=np.bool_))

    def place(self, tree: CohortTree, clients: IntArray, requests: Requests, rng: np.random.Generator) -> Matched:
        """Return the leaf of each client's group."""
        return self.match(tree, clients, requests, rng)


@dataclass(frozen=True)
class Plan:
    """One run of a method, ready to be simulated."""

    label: str  # what progress calls it
    settings: AuxoSettings
    matching: Matching
    partition: Partition | None = None  # made before the first round


def plans(method: Method, config: Config, data: FederatedData) -> tuple[Plan, ...]:
    """Return the runs of a method: one, or two for the oracle, of which the better one counts.

    A group's own model gains from the start by being its own, and loses what all groups share; which of the two
    matters more depends on the population.

    Raises:
        ConfigError: the method cannot be run on these data, or a trace file cannot be used.
    """
    _check_traces(devices_with_files(config))
    settings = auxo_settings(config)
    # Both of these partition without evidence, so nobody needs to be judged, and there is nothing to feed back.
    uninformed = replace(settings, cross_fit=False, late_feedback=False, admit_misfits=True)
    match method:
        case "auxo":
            return (Plan("auxo", settings, ByRequest()),)
        case "base":
            return (Plan("base", replace(uninformed, criterion=Never()), ByRequest()),)
        case "oracle":
            starts = enumerate(_ORACLE_STARTS, start=1)
            return tuple(
                _oracle_plan(f"oracle {number}", uninformed, at, config.training, data) for number, at in starts
            )


def _oracle_plan(label: str, settings: AuxoSettings, at: float, training: TrainingConfig, data: FederatedData) -> Plan:
    if data.groups is None:
        raise ConfigError(f"methods: the oracle needs the groups of the clients, and {data.name} has none")
    partition, matching = by_group(data.groups), ByGroup(data.groups)
    groups = len(partition.weights)
    if groups > training.participants:
        raise ConfigError(
            f"methods: the oracle needs a participant a round for each of the {groups} groups of {data.name}, "
            f"got training.participants = {training.participants}; raise it or leave the oracle out "
            """(--set 'methods=["base", "auxo"]')"""
        )
    if at == 0:
        return Plan(label, replace(settings, criterion=Never()), matching, partition)
    return Plan(label, replace(settings, criterion=Scheduled(partition, at)), matching)


def build(
    plan: Plan, config: Config, data: FederatedData, trainer: Trainer, engine: Engine, on_event: Callable[[Event], None]
) -> tuple[Simulation, SimulationState]:
    """Return the simulation of a plan and the state it starts from."""
    coordinator = Coordinator(
        settings=plan.settings,
        n_params=trainer.n_params,
        total_participants=config.training.participants,
        total_rounds=config.training.rounds,
        seed=config.seed,
        overcommit=config.devices.overcommit,
        matching=plan.matching,
    )
    simulation = Simulation(coordinator, world(config, data, engine), on_event)
    return simulation, simulation.start(coordinator.start(trainer.initial_weights(config.seed), plan.partition))


def world(config: Config, data: FederatedData, engine: Engine) -> World:
    """Return the devices, the availability and the clients' data; nothing in it knows the groups.

    Raises:
        ConfigError: a trace file cannot be used.
    """
    devices, clients = devices_with_files(config), data.n_clients
    return World(
        data=replace(data, groups=None),
        devices=_device_source(devices).draw(clients, config.seed),
        availability=_availability(devices, clients, config.seed),
        engine=engine,
        epochs=config.training.epochs,
        dropout=devices.dropout,
        deadline_s=float("inf") if devices.deadline_s is None else devices.deadline_s,
        patience_s=devices.patience_s,
        cooldown_s=devices.cooldown_s,
    )


def local_training(training: TrainingConfig) -> LocalTraining:
    """Return how a participant trains."""
    return LocalTraining(training.learning_rate, training.batch_size, training.epochs)


def auxo_settings(config: Config) -> AuxoSettings:
    """Return the variant's settings with all that the configuration sets."""
    auxo, training = config.auxo, config.training
    variant = paper_settings() if auxo.variant == "paper" else AuxoSettings()
    affinity, clustering, rewards = variant.affinity, variant.clustering, variant.rewards
    return AuxoSettings(
        affinity=replace(
            affinity,
            reward_decay=auxo.reward_decay,
            exploration=auxo.exploration,
            exploration_decay=auxo.exploration_decay,
            label_memory=_first(auxo.label_memory, affinity.label_memory),
            label_trust=_first(auxo.label_trust, affinity.label_trust),
            accumulate_predictions=_first(auxo.accumulate_predictions, affinity.accumulate_predictions),
        ),
        clustering=replace(
            clustering,
            clusters=_first(auxo.max_children, clustering.clusters),
            leave_one_out=_first(auxo.leave_one_out, clustering.leave_one_out),
            centre_memory=_first(auxo.centre_memory, clustering.centre_memory),
            restart_after=_first(auxo.restart_after, clustering.restart_after),
            most_starts=_first(auxo.most_starts, clustering.most_starts),
        ),
        rewards=replace(
            rewards,
            leave_one_out=_first(auxo.leave_one_out, rewards.leave_one_out),
            scale_by_known=_first(auxo.scale_by_known, rewards.scale_by_known),
            weigh_length=_first(auxo.weigh_length, rewards.weigh_length),
        ),
        criterion=_criterion(auxo),
        start_round=_first(auxo.start_round, variant.start_round),
        cross_fit=_first(auxo.cross_fit, variant.cross_fit),
        cross_fit_share=_first(auxo.cross_fit_share, variant.cross_fit_share),
        late_feedback=_first(auxo.late_feedback, variant.late_feedback),
        admit_misfits=_first(auxo.admit_misfits, variant.admit_misfits),
        sketch_size=_first(auxo.sketch_size, variant.sketch_size),
        aggregator=_aggregator(training),
        weighting=training.weighting,
        rate_scaling=_first(training.rate_scaling, variant.rate_scaling),
    )


def _first(configured: _T | None, otherwise: _T) -> _T:
    """Return what is configured, or else what the variant says."""
    return otherwise if configured is None else configured


def _criterion(auxo: AuxoConfig) -> PartitionCriterion:
    is_paper = auxo.variant == "paper"
    limits = paper_limits() if is_paper else PartitionLimits()
    limits = replace(
        limits,
        begin=auxo.partition_from,
        end=auxo.partition_until,
        labelled=_first(auxo.wait_for_labels, limits.labelled),
        labelled_until=auxo.wait_until,
        min_participants=auxo.min_participants,
    )
    if _first(auxo.criterion, "lemma" if is_paper else "gain") == "lemma":
        return Lemma(limits, alpha=auxo.alpha)
    return CrossFittedGain(
        limits,
        rounds=auxo.window,
        min_judged=auxo.min_judged,
        min_gain=auxo.min_gain,
        min_gain_further=auxo.min_gain_further,
        hopeless=auxo.hopeless,
    )


def _aggregator(training: TrainingConfig) -> Aggregator:
    aggregator = AGGREGATORS[training.algorithm]
    rate = training.server_learning_rate
    return aggregator() if rate is None else aggregator(server_learning_rate=rate)


def _device_source(devices: DevicesConfig) -> DeviceSource:
    speeds = _speeds(devices)
    if speeds is not None:
        return TraceDevices(speeds, devices.slowdown)
    if devices.kind == "equal":
        equal = EqualDevices()
        return replace(equal, compute_s_per_sample=devices.slowdown * equal.compute_s_per_sample)
    source = SyntheticDevices(spread=devices.spread)
    return replace(source, training_factor=devices.slowdown * source.training_factor)


def _availability(devices: DevicesConfig, clients: int, seed: int) -> Availability:
    sessions = _sessions(devices)
    if sessions is not None:
        return draw_availability(sessions, clients, seed)
    if devices.availability == "always":
        return AlwaysOnline(clients)
    return DayNightPattern(share=devices.share_online).draw(clients, seed)


def _check_traces(devices: DevicesConfig) -> None:
    """Read the trace files once before anything is written, so that a run that cannot begin leaves nothing behind."""
    _speeds(devices)
    _sessions(devices)


def _speeds(devices: DevicesConfig) -> Speeds | None:
    """Return the speeds of the configured trace; None if there is no such trace."""
    if devices.file is None:
        return None
    speeds = _trace("devices.file", devices.file).speeds
    if speeds is None:
        raise ConfigError(
            f"devices.file: {devices.file} has sessions and no speeds; name it in devices.availability_file, and see "
            "`auxo traces convert --help` for files with speeds"
        )
    return speeds


def _sessions(devices: DevicesConfig) -> Sessions | None:
    """Return the sessions of the configured trace; None if there is no such trace."""
    if devices.sessions_file is None:
        return None
    sessions = _trace("devices.availability_file", devices.sessions_file).sessions
    if sessions is None:
        raise ConfigError(
            f"devices.availability_file: {devices.sessions_file} has speeds and no sessions; name one that has, see "
            "`auxo traces convert --help`"
        )
    return sessions


def _trace(setting: str, path: Path) -> Trace:
    try:
        return Trace(sessions=read_flash(path)) if path.suffix == ".npz" else read_trace(path)
    except FileError as error:
        raise ConfigError(f"{setting}: {error}") from error

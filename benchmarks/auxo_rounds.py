"""Auxo's own rounds on the workload that the peers are given, through the simulation that users run."""

import itertools
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from peers import workload as work

from auxo.core.cohort_algorithm import Closing
from auxo.core.types import Float32Array
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.experiments.config_file import parse_config
from auxo.experiments.method_runs import local_training, method_runs
from auxo.experiments.world import make_world
from auxo.population.federated_data import FederatedData, Samples
from auxo.protocol.events import Event, RoundClosed
from auxo.runtime.closing import Closed, Training
from auxo.runtime.coordinator import start
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.simulation.virtual_time import Simulation
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Trainer

Placed = Literal["one process", "processes", "ray"]


@dataclass(frozen=True)
class How:
    """What is run on a workload; the base with FedAvg is what the peers do."""

    method: str = "base"
    overrides: tuple[str, ...] = ()  # of the configuration
    own_epochs: tuple[int, ...] = ()  # of participants, by turns; none: all have those of the configuration
    clock: Callable[[], float] = time.perf_counter  # or the processor's time, which says nothing of other processes


PLAIN = How()


def rounds_s(
    workload: str, rounds: int, warmup: int, placed: Placed = "processes", how: How = PLAIN
) -> tuple[list[float], float]:
    """Return the seconds of each round after the warm-up, and the training loss after the last one.

    The base method does what the peers do: FedAvg with everybody in every round.
    """
    data = as_population(work.make_samples())
    trainer = _trainer(workload, data)
    return timed(trainer, first_weights(workload, trainer), data, (warmup, rounds), placed, how)


def timed(
    trainer: Trainer,
    weights: Float32Array,
    data: FederatedData,
    rounds: tuple[int, int],
    placed: Placed = "processes",
    how: How = PLAIN,
) -> tuple[list[float], float]:
    """Return the same for any model and population, all of which takes part in every round.

    Args:
        trainer: of the model.
        weights: to start from.
        data: the population.
        rounds: of the warm-up, and those that are timed after it.
        placed: where participants train.
        how: what is run.
    """
    warmup, total = rounds[0], sum(rounds)
    settings = {
        "seed": work.SEED,
        "methods": [how.method],
        "population.clients": data.n_clients,  # not drawn: the data are here
        "training.aggregator": "fedavg",
        "training.rounds": total,
        "training.participants": data.n_clients,
        "training.learning_rate": work.LEARNING_RATE,
        "training.batch_size": work.BATCH_SIZE,
        "devices.kind": "equal",
        "devices.availability": "always",
        "devices.overcommit": 0.0,
    }
    config = parse_config("", [*(f"{key}={json.dumps(value)}" for key, value in settings.items()), *how.overrides])
    rules = method_runs(how.method, config, data, trainer.layers)[0].rules
    inner = InProcess(trainer, data, local_training(config), seed=work.SEED)
    closed_at: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, RoundClosed):
            closed_at.append(how.clock())

    with _engine(inner, placed) as engine:
        simulation = Simulation(rules, make_world(config, data, OwnEpochs(engine, how.own_epochs)), note)
        state = simulation.start(start(rules, lambda number: weights))
        started = how.clock()
        # A cohort that has been partitioned makes several shorter rounds; the benchmark is over before that.
        while not simulation.is_over(state):
            state = simulation.step(state)
    final = next(iter(state.coordinator.cohorts.values())).server.weights
    loss = float(trainer.losses(final, data.inputs(data.train.x_rows), data.train.y).mean())
    return np.diff([started, *closed_at]).tolist()[warmup:], loss


@dataclass(frozen=True)
class OwnEpochs:
    """An engine whose participants have epochs of their own."""

    inner: Engine
    epochs: tuple[int, ...]

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Run the round with them."""
        if self.epochs:
            own = zip(training.jobs, itertools.cycle(self.epochs), strict=False)
            jobs = [replace(job, ask=replace(job.ask, work=epochs / training.epochs)) for job, epochs in own]
            training = replace(training, jobs=jobs)
        return self.inner.run_round(rules, closing, training)


def first_weights(workload: str, trainer: Trainer) -> Float32Array:
    """Return the flat weights that every engine starts from."""
    if workload != "softmax":
        return trainer.initial_weights(work.SEED)  # the network comes with them
    (layer,) = work.initial_weights(workload).values()
    return np.concatenate([layer.weight.ravel(), layer.bias])


def _trainer(workload: str, data: FederatedData) -> Trainer:
    if workload == "softmax":
        return SoftmaxTrainer(work.FEATURES, work.CLASSES)
    # torch is not needed for softmax regression.
    from peers.torch_networks import network  # noqa: PLC0415

    from auxo.training.torch_trainer import TorchTrainer  # noqa: PLC0415

    trainer = TorchTrainer(partial(network, workload), initialise=lambda module, rng: None)
    return trainer.suited_to(data)


def as_population(samples: work.Samples) -> FederatedData:
    """Return the workload's participants as a population without test samples."""
    train = Samples(np.arange(len(samples.y)), samples.y, samples.offsets)
    nothing = np.zeros(0, dtype=np.int64)
    test = Samples(nothing, nothing, np.zeros(len(samples.offsets), dtype=np.int64))
    names = tuple(str(number) for number in range(work.PARTICIPANTS))
    return FederatedData("throughput", samples.x, train, test, work.CLASSES, names)


def _engine(inner: InProcess, placed: Placed) -> AbstractContextManager[Engine]:
    match placed:
        case "one process":
            return inner
        case "processes":
            return WorkerProcesses(inner, work.CORES)
        case "ray":
            from auxo.engines.ray_cluster import RayCluster  # noqa: PLC0415

            return RayCluster(inner, work.CORES)

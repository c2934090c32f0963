"""Runs an experiment: one method after another on the same clients, each event recorded as it happens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.cohort_algorithm import InitialModel, SaysWhyNot
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import OnNote
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.engines import make_engine
from auxo.experiments.evaluation import Scores, clients_to_evaluate, evaluated, score_clients
from auxo.experiments.method_runs import MethodRun, client_algorithm, local_training, method_runs, needs_groups
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.summary import Status, Summary, summarise
from auxo.experiments.troubles import Trouble, at_chance, troubles_of
from auxo.experiments.world import make_world
from auxo.models.catalogue import note_on
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import Evaluated, Event, UpdateRejected
from auxo.registry.registry import short_name
from auxo.runtime.coordinator import start
from auxo.runtime.engine import Engine
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.training.trainer import Trainer

OnEvent = Callable[[str, Event], None]
"""Told what happens, with the label of the method's run it happens to."""


_APART = 1_000_003  # between the seeds of several initial models: no two runs that people compare share one


@dataclass(frozen=True)
class Stage:
    """What is made once for all methods of a run."""

    trainer: Trainer
    world: World


@dataclass(frozen=True)
class MethodResult:
    """What a method came to."""

    label: str  # which of the method's runs this was
    final: Evaluated
    curve: tuple[Evaluated, ...]  # every evaluation, ``final`` the last
    scores: Scores
    state: SimulationState
    events: tuple[Event, ...]  # all of them, evaluations included
    troubles: tuple[Trouble, ...] = ()  # what has to be known before the figures are believed

    def client_scores(self, data: FederatedData) -> ClientScores:
        """Return every evaluated client's part of the last evaluation."""
        scores, names = self.scores, np.array(self.state.coordinator.tree.cohorts)
        return ClientScores(
            accuracy=scores.correct / np.maximum(scores.tests, 1),
            test_samples=scores.tests,
            cohort=names[scores.cohort],
            group=None if data.groups is None else data.groups[scores.clients],
            client=scores.clients if len(scores.clients) < data.n_clients else None,
        )


def run_experiment(
    config: Config, directory: RunDirectory, on_event: OnEvent, on_note: OnNote = lambda note: None
) -> Summary:
    """Run all methods of a configuration and record them; methods that the data do not allow are left out.

    ``on_note`` is told what went wrong and was put right on the way, in a sentence each time.

    Returns:
        What is also in summary.json.

    Raises:
        ConfigError: the configuration does not fit the data or the machine; nothing has been run.
        KeyboardInterrupt: as it came; the directory holds all that was done until then.
        Exception: as it came from a part; the same holds.
    """
    data = make_population(config)
    methods = [method for method in config.methods if has_groups(data) or not needs_groups(method, config)]
    if not methods:
        raise ConfigError(
            f"methods: only {config.methods[0]} is asked for, and {data.name} has no groups that it could know"
        )
    inner = _in_process(config, data)
    # So that the last method's problem shows before the first has run for hours.
    runs = [run for method in methods for run in method_runs(method, config, data, inner.trainer.layers)]
    note = note_on(inner.trainer)
    if note is not None:
        on_note(note)
    why_not = {run.label: words for run in runs if (words := _why_no_partition(run, config)) is not None}
    for label, words in why_not.items():  # before hours of training
        on_note(f"{label}: {words}")
    finished: list[str] = []
    troubles: dict[str, tuple[str, ...]] = {}
    try:
        with make_engine(config, inner, on_note) as engine:
            stage = Stage(inner.trainer, _world(config, data, engine))
            for method in methods:
                found, name = _record(method, config, data, directory, on_event, stage), short_name(method)
                troubles[name] = tuple(trouble.words for trouble in found)
                for words in troubles[name]:
                    if words not in why_not.values():  # it was told at the start
                        on_note(f"{name}: {words}")
                if not any(trouble.is_failure for trouble in found):
                    finished.append(name)
    except KeyboardInterrupt:
        _write_summary(config, data, directory, "interrupted", finished, troubles)
        raise
    except Exception:
        if directory.methods():
            _write_summary(config, data, directory, "interrupted", finished, troubles)
        raise
    status: Status = "finished" if len(finished) == len(methods) else "failed"
    return _write_summary(config, data, directory, status, finished, troubles)


def _why_no_partition(run: MethodRun, config: Config) -> str | None:
    """Return why a method cannot find anything, whatever there is to be found; None: it can, or does not say."""
    algorithm, training = run.rules.algorithm, config.training
    if not isinstance(algorithm, SaysWhyNot):
        return None
    words = algorithm.why_no_partition(training.participants, training.rounds)
    return None if words is None else f"no partition is possible: {words}"


def has_groups(data: FederatedData) -> bool:
    """Return whether there are known groups to tell apart."""
    return data.groups is not None and len(np.unique(data.groups)) > 1


def run_method(
    method: str,
    config: Config,
    data: FederatedData,
    on_event: OnEvent = lambda label, event: None,
    stage: Stage | None = None,
) -> MethodResult:
    """Run one method to its end; of several runs (the oracle has two) the result is the most accurate one's.

    It runs on ``stage``, or on one of its own.

    Raises:
        ConfigError: the method or the model cannot be used with these data, or no round ever succeeds.
    """
    if stage is None:
        inner = _in_process(config, data)
        with make_engine(config, inner, lambda note: None) as engine:
            return run_method(method, config, data, on_event, Stage(inner.trainer, _world(config, data, engine)))
    runs = method_runs(method, config, data, stage.trainer.layers)
    results = [_simulate(run, config, data, stage, on_event) for run in runs]
    return max(results, key=lambda result: result.final.accuracy)


def _initial_models(trainer: Trainer, seed: int) -> InitialModel:
    """Return the model that every method starts from, and other draws of it for those that want several."""
    return lambda number: trainer.initial_weights(seed if number == 0 else seed + number * _APART)


def _in_process(config: Config, data: FederatedData) -> InProcess:
    trainer = trainer_for(config, data)
    return InProcess(trainer, replace(data, groups=None), local_training(config), config.seed)


def _world(config: Config, data: FederatedData, engine: Engine) -> World:
    return make_world(config, data, engine, client_algorithm(config).sends_partial_work)


def _simulate(run: MethodRun, config: Config, data: FederatedData, stage: Stage, on_event: OnEvent) -> MethodResult:
    events: list[Event] = []

    def tell(event: Event) -> None:
        events.append(event)
        on_event(run.label, event)

    trainer, simulation = stage.trainer, Simulation(run.rules, stage.world, tell)
    state = simulation.start(start(run.rules, _initial_models(trainer, config.seed)))
    every = config.run.evaluate_every * config.training.participants
    clients = clients_to_evaluate(data.n_clients, config.run.evaluate_clients, config.seed)

    def evaluate() -> Scores:
        scores = score_clients(trainer, data, simulation, state, clients, config.run.perplexity)
        tell(evaluated(scores, state, config.training.participants, data.groups))
        return scores

    scores: Scores | None = None
    while not simulation.is_over(state):
        due = (state.spent.participations // every + 1) * every
        state = simulation.step(state)
        scores = evaluate() if state.spent.participations >= due else None
    if state.spent.participations == 0 and not any(isinstance(event, UpdateRejected) for event in events):
        raise ConfigError(
            f"devices: expected rounds to succeed, but none of {run.label} did; "
            "raise devices.deadline_s or devices.share_online, or lower devices.dropout"
        )
    if scores is None:
        scores = evaluate()
    curve = tuple(event for event in events if isinstance(event, Evaluated))
    why_not = _why_no_partition(run, config)
    troubles = troubles_of(events, config, data)
    if not any(trouble.is_failure for trouble in troubles):  # that says it all
        chance = at_chance(curve[-1].accuracy, scores.clients, data)
        troubles = (*troubles, *(() if chance is None else (chance,)))
    troubles = (*troubles, *(() if why_not is None else (Trouble(why_not),)))
    return MethodResult(run.label, curve[-1], curve, scores, state, tuple(events), troubles)


def _record(
    method: str, config: Config, data: FederatedData, directory: RunDirectory, on_event: OnEvent, stage: Stage
) -> tuple[Trouble, ...]:
    """Run a method, with its events on the disk as they come: those of its first run until another proves better.

    Returns:
        What has to be known before its figures are believed.
    """
    first: str | None = None
    folder = short_name(method)
    with directory.event_writer(folder) as write:

        def tell(label: str, event: Event) -> None:
            nonlocal first
            first = first or label
            if label == first:
                write(event)
            on_event(label, event)

        result = run_method(method, config, data, tell, stage)
    if result.label != first:
        directory.replace_events(folder, result.events)
    directory.write_clients(folder, result.client_scores(data))
    return result.troubles


def _write_summary(
    config: Config,
    data: FederatedData,
    directory: RunDirectory,
    status: Status,
    finished: list[str],
    troubles: Mapping[str, tuple[str, ...]],
) -> Summary:
    events = {method: directory.events(method).events for method in directory.methods()}
    summary = summarise(data.name, config.seed, status, events, finished, troubles)
    directory.write_summary(summary)
    return summary

"""Runs an experiment: one method after another on the same clients, each event recorded as it happens."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import OnNote
from auxo.experiments.config import Config, Method
from auxo.experiments.config_file import ConfigError
from auxo.experiments.engines import make_engine
from auxo.experiments.evaluation import Scores, clients_to_evaluate, evaluated, score_clients
from auxo.experiments.methods import Plan, build, local_training, plans
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.summary import Status, Summary, summarise
from auxo.models.catalogue import note_on
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import Evaluated, Event
from auxo.runtime.engine import Engine
from auxo.simulation.virtual_time import SimulationState
from auxo.training.trainer import Trainer

OnEvent = Callable[[str, Event], None]
"""Told what happens, with the label of the method's run it happens to."""


@dataclass(frozen=True)
class MethodResult:
    """What a method came to."""

    label: str  # which of the method's runs this was
    final: Evaluated
    curve: tuple[Evaluated, ...]  # every evaluation, ``final`` the last
    scores: Scores
    state: SimulationState
    events: tuple[Event, ...]  # all of them, evaluations included

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
    """
    data = make_population(config)
    methods = [method for method in config.methods if method != "oracle" or has_groups(data)]
    if not methods:
        raise ConfigError(f"methods: only the oracle is asked for, and {data.name} has no groups that it could know")
    for method in methods:  # so that the last method's problem shows before the first has run for hours
        plans(method, config, data)
    inner = _in_process(config, data)
    note = note_on(inner.trainer)
    if note is not None:
        on_note(note)
    finished: list[Method] = []
    try:
        with make_engine(config, inner, on_note) as engine:
            for method in methods:
                _record(method, config, data, directory, on_event, engine)
                finished.append(method)
    except KeyboardInterrupt:
        _write_summary(config, data, directory, "interrupted", finished)
        raise
    return _write_summary(config, data, directory, "finished", finished)


def has_groups(data: FederatedData) -> bool:
    """Return whether there are known groups to tell apart."""
    return data.groups is not None and len(np.unique(data.groups)) > 1


def run_method(
    method: Method,
    config: Config,
    data: FederatedData,
    on_event: OnEvent = lambda label, event: None,
    engine: Engine | None = None,
) -> MethodResult:
    """Run one method to its end; of several runs (the oracle has two) the result is the most accurate one's.

    It runs on ``engine``, or on one of its own.

    Raises:
        ConfigError: the method or the model cannot be used with these data, or no round ever succeeds.
    """
    inner = _in_process(config, data)
    with make_engine(config, inner, lambda note: None) if engine is None else nullcontext(engine) as running:
        results = [
            _simulate(plan, config, data, inner.trainer, running, on_event) for plan in plans(method, config, data)
        ]
    return max(results, key=lambda result: result.final.accuracy)


def _in_process(config: Config, data: FederatedData) -> InProcess:
    trainer = trainer_for(config, data)
    return InProcess(trainer, replace(data, groups=None), local_training(config.training), config.seed)


def _simulate(
    plan: Plan,
    config: Config,
    data: FederatedData,
    trainer: Trainer,
    engine: Engine,
    on_event: OnEvent,
) -> MethodResult:
    events: list[Event] = []

    def tell(event: Event) -> None:
        events.append(event)
        on_event(plan.label, event)

    simulation, state = build(plan, config, data, trainer, engine, tell)
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
    if state.spent.participations == 0:
        raise ConfigError(
            f"devices: expected rounds to succeed, but none of {plan.label} did; "
            "raise devices.deadline_s or devices.share_online, or lower devices.dropout"
        )
    if scores is None:
        scores = evaluate()
    curve = tuple(event for event in events if isinstance(event, Evaluated))
    return MethodResult(plan.label, curve[-1], curve, scores, state, tuple(events))


def _record(
    method: Method, config: Config, data: FederatedData, directory: RunDirectory, on_event: OnEvent, engine: Engine
) -> None:
    """Run a method, with its events on the disk as they come: those of its first run until another proves better."""
    first: str | None = None
    with directory.event_writer(method) as write:

        def tell(label: str, event: Event) -> None:
            nonlocal first
            first = first or label
            if label == first:
                write(event)
            on_event(label, event)

        result = run_method(method, config, data, tell, engine)
    if result.label != first:
        directory.replace_events(method, result.events)
    directory.write_clients(method, result.client_scores(data))


def _write_summary(
    config: Config, data: FederatedData, directory: RunDirectory, status: Status, finished: list[Method]
) -> Summary:
    events = {method: directory.events(method).events for method in directory.methods()}
    summary = summarise(data.name, config.seed, status, events, finished)
    directory.write_summary(summary)
    return summary

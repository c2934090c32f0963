"""Runs an experiment: one method after another on the same clients, each event recorded as it happens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.types import Float32Array
from auxo.engines.in_process import InProcess
from auxo.engines.personal_models import PersonalModels
from auxo.engines.worker_processes import OnNote
from auxo.experiments.attacking import are_honest, attacked
from auxo.experiments.cohort_profiles import profile_cohorts, write_profiles
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.engines import make_engine
from auxo.experiments.evaluation import EvaluationSettings, Scores, clients_to_evaluate, evaluated, score_clients
from auxo.experiments.found_cohorts import begin_with, can_start_from_cohorts, check_fits, find_cohorts
from auxo.experiments.method_runs import (
    MethodRun,
    client_algorithm,
    local_training,
    method_runs,
    needs_groups,
    tuning,
)
from auxo.experiments.model_inputs import ModelInputs
from auxo.experiments.outcome_files import losers_of, write_client_tables, write_outcome
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.private_clients import privacy_notes
from auxo.experiments.refusals import refusal, refusals
from auxo.experiments.run_checkpoints import Found, RunCheckpoints
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.stamp import Stamp, make_stamp
from auxo.experiments.summary import Status, Summary, summarise
from auxo.experiments.troubles import Look, Trouble, at_chance, troubles_of
from auxo.experiments.world import make_world
from auxo.files.checkpoint_pace import parse_interval
from auxo.models.catalogue import note_on
from auxo.population.doubts import doubts
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import Evaluated, Event, OnEvent, UpdateRejected
from auxo.protocol.notes import NOT_IN_TIME, ONE_SAMPLE, TrialsSeen, why_no_partition
from auxo.registry.registry import short_name
from auxo.runtime.coordinator import start
from auxo.runtime.engine import Engine
from auxo.runtime.recorder import Recorder
from auxo.simulation.client_records import ClientRecords
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.training.trainer import Trainer, metric_of, scoring

_CLOSELY = 2  # rounds between evaluations where they are close
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
    number: int  # the same, counted from 0
    final: Evaluated
    curve: tuple[Evaluated, ...]  # every evaluation, ``final`` the last
    scores: Scores
    state: SimulationState
    events: tuple[Event, ...]  # all of them, evaluations included
    troubles: tuple[Trouble, ...] = ()  # what has to be known before the figures are believed

    def client_scores(self, data: FederatedData) -> ClientScores:
        """Return every evaluated client's part of the last evaluation."""
        scores, names = self.scores, np.array(self.state.coordinator.tree.cohorts)
        clients = self.state.clients
        return ClientScores(
            accuracy=scores.correct / np.maximum(scores.tests, 1),
            test_samples=scores.tests,
            cohort=names[scores.cohort],
            group=None if data.groups is None else data.groups[scores.clients],
            client=scores.clients if len(scores.clients) < data.n_clients else None,
            lost=scores.lost & (len(self.state.coordinator.tree.leaves) > 1),
            reward=clients.rewards(scores.clients, scores.cohort) if isinstance(clients, ClientRecords) else None,
            visits=clients.participations(scores.clients),
        )


def run_experiment(
    config: Config,
    directory: RunDirectory,
    on_event: OnEvent,
    on_note: OnNote = lambda note: None,
    data: FederatedData | None = None,
) -> Summary:
    """Run all methods of a configuration and record them; those that the data forbid, or that refuse, are left out.

    A run that was interrupted in this directory goes on from its last checkpoint, and ends with the same bits.
    ``on_note`` is told what went wrong and was put right on the way, in a sentence each time. ``data`` are the clients;
    None: those that the configuration describes.

    Returns:
        What is also in summary.json.

    Raises:
        ConfigError: the configuration does not fit the data, the machine or what the directory holds; nothing has been
            run.
        DirectoryInUse: another process is running in the directory.
        KeyboardInterrupt: as it came; the directory holds all that was done until then.
        Exception: as it came from a part; the same holds.
    """
    with Recorder(directory.path, parse_interval(config.run.checkpoint_every), on_note) as recorder:
        return _run_all(config, directory, recorder, on_event, on_note, data)


def _run_all(
    config: Config,
    directory: RunDirectory,
    recorder: Recorder,
    on_event: OnEvent,
    on_note: OnNote,
    data: FederatedData | None,
) -> Summary:
    data = make_population(config) if data is None else data
    methods, refused = _methods_to_run(config, data)
    inner = _in_process(config, data)
    # All of them, so that the last method's problem shows before the first has run for hours.
    runs = {short_name(method): method_runs(method, config, data, inner.trainer.layers) for method in methods}
    every_run = [run for some in runs.values() for run in some]
    _check_cohorts(config, every_run, inner.trainer, data.client_names)
    for note in (
        *_about_data(config, data, inner.trainer),
        *_refused_words(refused),
        *privacy_notes(config, data.n_clients, inner.trainer.n_params, int(data.train.counts().mean())),
    ):
        on_note(note)
    why_not = {run.label: words for run in every_run if (words := _why_no_partition(run, config, data)) is not None}
    for label, words in why_not.items():  # before hours of training
        on_note(f"{label}: {words}")
    stamp = make_stamp(data)
    checkpoints = RunCheckpoints(directory, config, recorder, stamp.data_sha256)
    done = _done_before(directory, runs, stamp)
    found = _found(checkpoints, directory, runs, done, on_note)
    told = {name: directory.events(name).events for name in done} if found is None else dict(found.finished)
    finished = list(told)
    look = Look(config, data, inner.trainer)
    troubles = {name: _words(_troubles(runs[name][0], events, look)) for name, events in told.items()}

    def write_summary(status: Status) -> Summary:
        # Of a method that was interrupted only the disk has the events.
        events = {method: told.get(method) or directory.events(method).events for method in directory.methods()}
        metric = metric_of(inner.trainer)
        losers = losers_of(directory, data.client_names, scoring(inner.trainer) is None)
        summary = summarise(data.name, config.seed, status, events, finished, troubles)
        ended = {name: replace(method, losers=losers.get(name)) for name, method in summary.methods.items()}
        left_out = {short_name(method): words for method, words in refused.items()}
        summary = replace(summary, methods=ended, metric=metric, refused=left_out)
        directory.write_summary(summary)
        return summary

    try:
        with make_engine(config, inner, on_note) as engine:
            stage = Stage(inner.trainer, _world(config, data, engine))
            if (not finished and found is None) or directory.read_stamp() is None:  # one that goes on keeps its own
                directory.write_inputs(stamp, data.preparation, ModelInputs.of(data))
            for method in methods:
                name = short_name(method)
                if name in finished:
                    continue
                goes_on = found if found is not None and found.method == name else None
                checkpoints.begin(name, finished, goes_on)
                result = _record(method, config, data, directory, on_event, stage, checkpoints)
                told[name], troubles[name] = result.events, _words(result.troubles)
                for words in troubles[name]:
                    if words not in why_not.values():  # it was told at the start
                        on_note(f"{name}: {words}")
                if not any(trouble.is_failure for trouble in result.troubles):
                    finished.append(name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or (isinstance(error, Exception) and directory.methods()):
            with suppress(OSError):  # a disk without room has been told of
                write_summary("interrupted")
        raise
    summary = write_summary("finished" if len(finished) == len(methods) else "failed")
    recorder.clear()
    return summary


def _about_data(config: Config, data: FederatedData, trainer: Trainer) -> Iterator[str]:
    """Yield what there is to know of the clients' samples, and of what is measured, before anything is trained."""
    yield from data.preparation.sentences()
    if not config.population.is_drawn:
        yield from doubts(data)
    if (note := note_on(trainer)) is not None:
        yield note
    if (own := scoring(trainer)) is not None:
        yield f"clients are scored by {own.score_words}"


def _done_before(directory: RunDirectory, methods: Iterable[str], stamp: Stamp) -> list[str]:
    """Return the methods that have come to their end here, with the same data and versions of what computes."""
    summary, before = directory.read_summary(), directory.read_stamp()
    if summary is None or summary.status == "failed" or before is None:
        return []
    is_same = (before.data_sha256, before.versions) == (stamp.data_sha256, stamp.versions)
    return [name for name in methods if is_same and name in summary.finished]


def _found(
    checkpoints: RunCheckpoints,
    directory: RunDirectory,
    runs: Mapping[str, Sequence[MethodRun]],
    done: Sequence[str],
    on_note: OnNote,
) -> Found | None:
    """Return where an interrupted run goes on, with what it would do again out of the way; what is ``done`` stays."""
    kinds = {
        method: tuple(dict.fromkeys(kind for run in some for kind in run.rules.own_states))
        for method, some in runs.items()
    }
    has_begun = bool(directory.methods())
    found = checkpoints.find(kinds)
    directory.forget_methods(but=done if found is None else (*found.finished, found.method))
    if found is not None:
        done = f"; {', '.join(found.finished)} finished before" if found.finished else ""
        on_note(f"{directory.path} goes on after round {found.round} of {found.method}{done}")
    elif has_begun and not done:
        on_note(f"{directory.path} has no checkpoint yet, and begins anew")
    return found


def _why_no_partition(run: MethodRun, config: Config, data: FederatedData) -> str | None:
    training = config.training
    return why_no_partition(run.rules.algorithm, training.participants, training.rounds, data.n_clients)


def _troubles(run: MethodRun, events: Sequence[Event], look: Look) -> tuple[Trouble, ...]:
    """Return what has to be known of a run that has ended, by its events alone: they are all that is left of some."""
    config, data = look.config, look.data
    troubles = troubles_of(events, look)
    curve = [event for event in events if isinstance(event, Evaluated)]
    if scoring(look.trainer) is None and not any(trouble.is_failure for trouble in troubles):  # that says it all
        clients = clients_to_evaluate(data.n_clients, config.run.evaluate_clients, config.seed)
        chance = at_chance(curve[-1].accuracy, clients, data)
        troubles = (*troubles, *(() if chance is None else (chance,)))
    has_two = int(np.max(data.train.counts(np.arange(data.n_clients)), initial=0)) > 1
    unjudged = TrialsSeen.of(events).note(NOT_IN_TIME if has_two else ONE_SAMPLE)
    notes = filter(None, (_why_no_partition(run, config, data), unjudged))
    return (*troubles, *(Trouble(words) for words in notes))


def _words(troubles: Sequence[Trouble]) -> tuple[str, ...]:
    return tuple(trouble.words for trouble in troubles)


def has_groups(data: FederatedData) -> bool:
    """Return whether there are known groups to tell apart."""
    return data.groups is not None and len(np.unique(data.groups)) > 1


def run_method(
    method: str,
    config: Config,
    data: FederatedData,
    on_event: OnEvent = lambda label, event: None,
    stage: Stage | None = None,
    kept: RunCheckpoints | None = None,
) -> MethodResult:
    """Run one method to its end; of several runs (the oracle has two) the result is the most accurate one's.

    It runs on ``stage``, or on one of its own; ``kept`` records it, and says where it goes on.
    """
    why_not = refusal(method, config, data.n_clients)
    if why_not is not None:
        raise ConfigError(f"methods: {short_name(method)} {why_not}")
    if stage is None:
        inner = _in_process(config, data)
        with make_engine(config, inner, lambda note: None) as engine:
            stage = Stage(inner.trainer, _world(config, data, engine))
            return run_method(method, config, data, on_event, stage, kept)
    runs = method_runs(method, config, data, stage.trainer.layers)
    results = [_simulate(run, config, data, stage, on_event, kept, number) for number, run in enumerate(runs)]
    return max(results, key=lambda result: result.final.accuracy)


def _in_process(config: Config, data: FederatedData) -> InProcess:
    trainer = trainer_for(config, data)
    return InProcess(trainer, replace(data, groups=None), local_training(config).fitting(data), config.seed)


def _world(config: Config, data: FederatedData, engine: Engine) -> World:
    return make_world(config, data, engine, client_algorithm(config).sends_partial_work)


def _simulate(  # noqa: PLR0913, PLR0917 - one for each thing that a run is made of
    run: MethodRun,
    config: Config,
    data: FederatedData,
    stage: Stage,
    on_event: OnEvent,
    kept: RunCheckpoints | None,
    number: int,
) -> MethodResult:
    found = None if kept is None else kept.begin_run(number)
    events: list[Event] = [] if found is None else list(found.events)
    for event in events:
        on_event(run.label, event)

    def tell(event: Event) -> None:
        events.append(event)
        if kept is not None:
            kept.note(event)
        on_event(run.label, event)

    trainer, simulation = stage.trainer, Simulation(run.rules, stage.world, tell)
    attack = attacked(simulation, config)
    state = _begin(run, config, simulation, trainer) if found is None else found.state
    clients = clients_to_evaluate(data.n_clients, config.run.evaluate_clients, config.seed)
    honest = are_honest(config, data.n_clients, clients)

    personal = PersonalModels.by(tuning(config), trainer, data, local_training(config), config.seed)
    measured = EvaluationSettings(config.run.perplexity, personal)

    def evaluate() -> Scores:
        everybody = score_clients(trainer, data, attack.at(state), state, clients, measured)
        scores, attacked_too = (everybody, None) if honest.all() else (everybody.of(honest), everybody)
        tell(evaluated(scores, state, config.training.participants, data.groups, metric_of(trainer), attacked_too))
        return scores

    scores: Scores | None = None if found is None else found.scores
    while not simulation.is_over(state):
        due = _due(state.spent.participations, config)
        state = attack.at(state).step(state)
        scores = evaluate() if state.spent.participations >= due else None
        if kept is not None and not simulation.is_over(state):
            kept.reached(state)
    if state.spent.participations == 0 and not any(isinstance(event, UpdateRejected) for event in events):
        raise ConfigError(
            f"devices: expected rounds to succeed, but none of {run.label} did; "
            "raise devices.deadline_s or devices.share_online, or lower devices.dropout"
        )
    if scores is None:
        scores = evaluate()
    if kept is not None:
        kept.end(state, scores)
    curve = tuple(event for event in events if isinstance(event, Evaluated))
    troubles = _troubles(run, events, Look(config, data, trainer))
    return MethodResult(run.label, number, curve[-1], curve, scores, state, tuple(events), troubles)


def _due(participations: int, config: Config) -> int:
    """Return the participations after which clients are evaluated next."""
    a_round = config.training.participants
    every = config.run.evaluate_every
    if participations < config.run.evaluate_closely * a_round:
        every = min(every, _CLOSELY)
    return (participations // (every * a_round) + 1) * every * a_round


def _begin(run: MethodRun, config: Config, simulation: Simulation, trainer: Trainer) -> SimulationState:
    """Return the state at time zero: with the cohorts that the method begins with, or those of an earlier run."""
    rules, training = run.rules, config.training

    def initial(number: int) -> Float32Array:
        """Return the model that every method starts from, and other draws of it for those that want several."""
        return trainer.initial_weights(config.seed + number * _APART)

    if training.cohorts is None or not can_start_from_cohorts(rules.algorithm):
        return simulation.start(start(rules, initial))
    found = find_cohorts(training.cohorts, run.label, trainer, training.cohort_models)
    return begin_with(found, rules, simulation, initial, simulation.world.data.client_names)


def _check_cohorts(config: Config, runs: Sequence[MethodRun], trainer: Trainer, names: Sequence[str]) -> None:
    """Refuse cohorts to start from that cannot be used, before anything has been run."""
    training = config.training
    if training.cohorts is None:
        return
    able = [run for run in runs if can_start_from_cohorts(run.rules.algorithm)]
    if not able:
        raise ConfigError(
            f"training.cohorts: none of the methods {', '.join(config.methods)} can start from cohorts, because their "
            "clients keep no records; add auxo, or remove it"
        )
    for run in able:
        found = find_cohorts(training.cohorts, run.label, trainer, training.cohort_models)
        check_fits(found, run.rules, names)


def _record(  # noqa: PLR0913, PLR0917 - one for each thing that a run is made of
    method: str,
    config: Config,
    data: FederatedData,
    directory: RunDirectory,
    on_event: OnEvent,
    stage: Stage,
    kept: RunCheckpoints,
) -> MethodResult:
    """Run a method, with its events on the disk as they come: those of its first run until another proves better."""
    folder = short_name(method)
    result = run_method(method, config, data, on_event, stage, kept)
    if result.number > 0:
        directory.replace_events(folder, result.events)
    scores = result.client_scores(data)
    directory.write_clients(folder, scores)
    if len(np.unique(scores.cohort)) > 1:
        write_profiles(directory, folder, profile_cohorts(data, scores))
    write_outcome(directory, folder, result.state.coordinator, stage.trainer)
    write_client_tables(directory, data.client_names)
    return result


def _methods_to_run(config: Config, data: FederatedData) -> tuple[list[str], dict[str, str]]:
    """Return the methods that are run, and those that refuse, with the reason."""
    methods = [method for method in config.methods if has_groups(data) or not needs_groups(method, config)]
    if not methods:
        raise ConfigError(
            f"methods: only {config.methods[0]} is asked for, and {data.name} has no groups that it could know"
        )
    refused = refusals(methods, config, data.n_clients)
    if len(refused) == len(methods):
        raise ConfigError("methods: none of them can be run. " + "; ".join(_refused_words(refused)))
    return [method for method in methods if method not in refused], refused


def _refused_words(refused: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{short_name(method)} is left out: {words}" for method, words in refused.items())

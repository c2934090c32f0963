"""Cohorts that an earlier run has found, to start from: another task, or the same with more participants (section 4.4).

Taken over are the tree and which client belongs where, by the clients' names; optionally the models, too. Everything
else begins anew: rounds, optimisers, clustering, the clock. So a cohort looks for groups again, and with more
participants it may find what was too small before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from auxo.core.affinity import AffinityRecords, ClusterIndices, widen
from auxo.core.cohort_algorithm import ClientHalf, CohortAlgorithm, InitialModel
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import CohortId, Float32Array
from auxo.experiments.config_file import ConfigError
from auxo.experiments.outcome_files import ClientRow, read_client_table, read_model, read_tree
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import BASE, ORACLE
from auxo.files.errors import FileError
from auxo.runtime.coordinator import begun
from auxo.runtime.federation import Federation
from auxo.simulation.client_records import ClientRecords
from auxo.simulation.virtual_time import Simulation, SimulationState

_FIRST_REWARD = 0.5  # for the cohort that a client comes from, at least: it is followed, and can be outbid; our choice


@dataclass(frozen=True)
class FoundCohorts:
    """What a finished run knows of its cohorts."""

    tree: CohortTree
    clients: Mapping[str, ClientRow]  # by name
    models: Mapping[CohortId, Float32Array] | None = None  # of the leaves; None: every cohort starts from a new model


def find_cohorts(path: Path, method: str, trainer: object, with_models: bool) -> FoundCohorts:
    """Return the cohorts of a finished run, those of the method of this name or of the only one that made some.

    If the cohorts' models are taken over, too, they must be those of the new run's trainer.
    """
    try:
        run = RunDirectory.open(path)
        begun = run.methods()
        name = method if method in begun else next((one for one in begun if one not in {BASE, ORACLE}), None)
        if name is None:
            raise ConfigError(f"training.cohorts: {path}: expected a method that finds cohorts, got {', '.join(begun)}")
        tree = read_tree(run, name)
        if len(tree.leaves) == 1:
            raise ConfigError(
                f"training.cohorts: {path}: expected several cohorts, but {name} made no partition there; "
                "start without them"
            )
        models = {leaf: read_model(run, name, leaf, trainer) for leaf in tree.leaves} if with_models else None
        return FoundCohorts(tree, {row.name: row for row in read_client_table(run, name)}, models)
    except (FileError, FileNotFoundError) as error:
        hint = "; leave training.cohort_models out to start from new models" if with_models else ""
        raise ConfigError(f"training.cohorts: {error}{hint}") from error


def can_start_from_cohorts(algorithm: CohortAlgorithm) -> bool:
    """Return whether an algorithm can: its clients remember where they belong. The base and others begin as always."""
    return algorithm.client_half is not None


def check_fits(found: FoundCohorts, rules: Federation, names: Sequence[str]) -> None:
    """Check that a federation of clients of these names can start from the cohorts."""
    if len(found.tree.leaves) > rules.total_participants:
        raise ConfigError(
            f"training.participants: expected at least one for each of the {len(found.tree.leaves)} cohorts of "
            f"training.cohorts, got {rules.total_participants}; raise it"
        )
    if not any(name in found.clients for name in names):
        known = ", ".join(list(found.clients)[:3])
        raise ConfigError(
            f"training.cohorts: expected clients of the same names, got none of them: the run has {known} ..., this "
            f"population {', '.join(names[:3])} ...; use the same clients, or start without cohorts"
        )


def begin_with(
    found: FoundCohorts, rules: Federation, simulation: Simulation, initial: InitialModel, names: Sequence[str]
) -> SimulationState:
    """Return the state at time zero of a federation whose cohorts have been found before.

    Clients of other names are newcomers. ``initial`` draws the model that cohorts start from where ``found`` has none.
    """
    half = rules.algorithm.client_half
    assert half is not None  # noqa: S101 - `can_start_from_cohorts`

    def cohort(leaf: CohortId) -> CohortState:
        weights = initial(0) if found.models is None else found.models[leaf]
        server = rules.aggregator.initial(weights)
        return CohortState(server, memory=rules.algorithm.memory(None), selection=rules.selector.begin())

    state = begun(rules, found.tree, {leaf: cohort(leaf) for leaf in found.tree.leaves})
    return replace(simulation.start(state), clients=_records(found, half, names))


def _records(found: FoundCohorts, half: ClientHalf, names: Sequence[str]) -> ClientRecords:
    """Return what clients remember: where they belong, as sure of it as if comparisons had confirmed it."""
    fresh = ClientRecords.empty(len(names), half.clusters, found.tree)
    known = np.array([number for number, name in enumerate(names) if name in found.clients])
    rows = [found.clients[names[number]] for number in known]
    held = widen(AffinityRecords.empty(len(rows), half.clusters), found.tree)
    at = np.arange(len(rows)), np.array([found.tree.index[row.cohort] for row in rows])
    held.heard[:] = len(found.tree.branches)
    held.participations[:] = [max(1, row.visits or 0) for row in rows]
    held.reward[at] = [max(_FIRST_REWARD, row.reward or 0.0) for row in rows]
    held.explored[at] = True
    held.confirmed[at] = half.affinity.confirmations
    fresh.row[known] = np.arange(len(rows))
    return ClientRecords(fresh.row, len(rows), held, ClusterIndices.of(held))

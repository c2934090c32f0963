"""All of a server that must survive a crash, and what is checked before it is taken up again.

A checksum says that bytes are those that were written, and not that what was written makes sense.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from auxo.core.aggregators import ServerState
from auxo.core.cohort_algorithm import held_by
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.types import CohortId
from auxo.protocol.tokens import UsedTokens
from auxo.runtime.federation import Federation
from auxo.runtime.made_with import differences, made_with


@dataclass(frozen=True)
class ServerRecord:
    """A server as bytes."""

    state: CoordinatorState
    attempts: Mapping[CohortId, int]  # matches and openings of each cohort so far; name their random streams
    federation: str  # tells it from others
    made_with: Mapping[str, str]  # all that results follow from besides the initial model
    used: UsedTokens = field(default_factory=UsedTokens)  # where it signs claims: what must not be presented again


def check_record(record: ServerRecord, rules: Federation) -> None:
    """Raise a ValueError unless a server with these rules can go on from a record: same model and arguments, whole."""
    for cohort, kept in record.state.cohorts.items():
        _check_cohort(cohort, kept, rules)
    leaves, there = set(record.state.tree.leaves), set(record.state.cohorts)
    if leaves != there:
        raise ValueError(
            f"cohorts: expected a model of each leaf of the tree ({', '.join(sorted(leaves))}), "
            f"got those of {', '.join(sorted(there)) or 'none'}; use another copy of the record"
        )
    changed = differences(record.made_with, made_with(rules))
    if changed:
        raise ValueError(
            f"expected a record of a server that was made with the same arguments, got another ({'; '.join(changed)}); "
            "make the server with the arguments of the record"
        )
    for cohort, attempts in record.attempts.items():
        if attempts < 0:
            raise ValueError(f"{cohort}: expected at least 0 attempts, got {attempts}; use another copy of the record")


def _check_cohort(cohort: CohortId, kept: CohortState, rules: Federation) -> None:
    trained, compared = held_by(kept)
    for server in (kept.server, *trained):
        _check_server(cohort, server, rules.n_params)
    for weights in compared:
        _check_finite(cohort, "weights", weights)
    if not 0 <= kept.round <= rules.total_rounds:
        raise ValueError(
            f"{cohort}: expected a round from 0 to {rules.total_rounds}, got {kept.round}; "
            "make the server with the arguments of the record"
        )
    if not 0 <= kept.check_ins < float("inf"):
        raise ValueError(
            f"{cohort}: expected a finite mean of check-ins, got {kept.check_ins}; use another copy of the record"
        )


def _check_server(cohort: CohortId, server: ServerState, n_params: int) -> None:
    if server.weights.shape != (n_params,):
        raise ValueError(
            f"{cohort}: expected {n_params} parameters, got {server.weights.size}; "
            "make the server with the model that the record is of"
        )
    _check_finite(cohort, "weights", server.weights)
    for slot in server.slots:
        if slot.shape != (n_params,):
            raise ValueError(f"{cohort}: expected optimiser slots of {n_params} parameters, got {slot.shape}")
        _check_finite(cohort, "the optimiser's slots", slot)


def _check_finite(cohort: CohortId, what: str, values: "np.ndarray[tuple[int, ...], np.dtype[np.floating]]") -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            f"{cohort}: expected finite numbers in {what}, got {int((~np.isfinite(values)).sum())} that are not; "
            "use an earlier record"
        )

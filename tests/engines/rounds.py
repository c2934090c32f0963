"""Rounds to give to any engine, and what must be the same whichever runs them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo import Auxo, ClusteringSettings, OnTrial, Pooling
from auxo.algorithms.auxo.evidence import Evidence
from auxo.algorithms.auxo.trial import Shadow
from auxo.algorithms.auxo.views import Prints, View
from auxo.algorithms.ifca import Ifca
from auxo.core.aggregators import FedYogi
from auxo.core.asking import Asks
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Closing, Participants
from auxo.core.cohort_state import CohortState
from auxo.core.partition import Outlook
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.protocol.codec import to_bytes
from auxo.runtime.closing import Closed, Training, models_of
from auxo.runtime.federation import Federation
from auxo.training.trainer import Job


@dataclass(frozen=True)
class Round:
    """The three arguments of `Engine.run_round`."""

    rules: Federation
    closing: Closing
    training: Training


def round_of(weights: Float32Array, jobs: list[Job], number: int = 6) -> Round:
    """Return a round of a cohort among others, in which some are known and every fifth answer is late."""
    n = len(jobs)
    claims = Claims(
        vouched=np.ones(n, dtype=np.bool_),
        known=np.arange(n) < n // 2,
        label=np.full(n, -1),
        generation=np.full(n, -1),
    )
    state = CohortState(server=FedYogi().initial(weights), round=number - 1, memory=Pooling())
    rules = Federation(Auxo(), FedYogi(), len(weights), total_participants=max(2 * n, 1), total_rounds=20, seed=5)
    outlook = Outlook(progress=0.3, total_participants=2 * n, cohorts=2, check_ins=10.0 * n)
    closing = Closing(ROOT, (state,), _participants((ROOT,), jobs, claims), outlook, share=n)
    return Round(rules, closing, _training((weights,), jobs))


def round_of_several(models: Sequence[Float32Array], jobs: list[Job], number: int = 6) -> Round:
    """Return a round in which every job trains the model that it names, or the best one; every fifth is late."""
    n, leaves = len(jobs), tuple(CohortId(f"{ROOT}.{place}") for place in range(len(models)))
    states = tuple(CohortState(server=FedYogi().initial(weights), round=number - 1) for weights in models)
    rules = Federation(Ifca(len(models)), FedYogi(), len(models[0]), total_participants=n, total_rounds=20, seed=5)
    outlook = Outlook(progress=0.3, total_participants=n, cohorts=len(models), check_ins=10.0 * n)
    closing = Closing(ROOT, states, _participants(leaves, jobs), outlook, share=n)
    return Round(rules, closing, _training(tuple(models), jobs))


def round_on_trial(weights: Float32Array, jobs: list[Job], number: int = 6) -> Round:
    """Return a round in which two candidates are on trial, and all that train on half of their samples judge.

    Every other participant trains a branch of the first, as where everybody judges; updates of the cohort's own model
    move a branch of the second as well.
    """
    n, branches = len(jobs), (3, 2)
    method = Auxo(clustering=ClusteringSettings(clusters=sum(branches)))
    rules = Federation(method, FedYogi(), len(weights), total_participants=max(n, 1), total_rounds=20, seed=5)
    width, server, rng = rules.fingerprint.width, FedYogi().initial(weights), stream(0, "centres")
    trial = OnTrial(
        resumes=Pooling(trials=1, everybody=True),
        generation=1,
        common=Prints(*(np.zeros((1, size)) for size in (width, 0, 0))),
        blocks=rules.fingerprint.blocks,
        others=False,
        shadows=tuple(
            Shadow(
                View(),
                rng.standard_normal((count, width)),
                tuple(replace(server, weights=np.float32(0.5 + branch / 2) * weights) for branch in range(count)),
            )
            for count in branches
        ),
        evidence=Evidence.begin(branches, everybody=True),
        seen=np.zeros(0, dtype=np.int64),
        rounds=3,
    )
    models = range(1 + sum(branches))
    trained = np.where(np.arange(n) % 2 == 1, 1 + np.arange(n) // 2 % branches[0], 0)
    asked = np.array([models if job.ask.fold is not None else (-1,) * len(models) for job in jobs]).reshape(
        n, len(models)
    )
    jobs = [
        replace(
            job,
            ask=replace(
                job.ask,
                model=int(trained[place]),
                choices=1,
                judges=tuple(int(one) for one in asked[place] if one >= 0),
            ),
        )
        for place, job in enumerate(jobs)
    ]
    claims = Claims(
        vouched=np.ones(n, dtype=np.bool_),
        known=np.ones(n, dtype=np.bool_),
        label=np.full(n, -1),
        generation=np.full(n, -1),
    )
    state = CohortState(server=server, round=number - 1, memory=trial)
    outlook = Outlook(progress=0.3, total_participants=n, cohorts=1, check_ins=10.0 * n)
    participants = _participants((ROOT,), jobs, claims)
    participants = replace(participants, asks=replace(participants.asks, judges=asked))
    closing = Closing(ROOT, (state,), participants, outlook, share=n)
    return Round(rules, closing, _training(models_of(closing), jobs))


def _participants(offered: tuple[CohortId, ...], jobs: list[Job], claims: Claims | None = None) -> Participants:
    asked = Participants(
        np.array([job.client_row for job in jobs], dtype=np.int64),
        offered,
        Asks(
            np.array([-1 if job.ask.fold is None else job.ask.fold for job in jobs], dtype=np.int64),
            np.array([job.ask.model for job in jobs], dtype=np.int64),
        ),
    )
    return asked if claims is None else replace(asked, notes=claims)


def _training(models: tuple[Float32Array, ...], jobs: list[Job]) -> Training:
    rows = np.arange(len(jobs))
    return Training(rows, jobs, rows % 5 == 4, models)


def without(task: Round, client_row: int) -> Round:
    """Return a round in which one client has been asked and gives no answer."""
    trained = task.training
    kept = np.array([job.client_row != client_row for job in trained.jobs])
    jobs = [job for job, is_kept in zip(trained.jobs, kept, strict=True) if is_kept]
    return replace(task, training=replace(trained, rows=trained.rows[kept], jobs=jobs, late=trained.late[kept]))


def bits(closed: Closed) -> tuple[bytes, ...]:
    """Return all that a round leaves behind, bit by bit."""
    gathered, outcome = closed.gathered, closed.outcome
    assert outcome is not None
    movements = [b"" if movement is None else movement.tobytes() for movement in gathered.movements]
    columns = [gathered.rows, gathered.late, gathered.model, gathered.losses, gathered.directions, gathered.lengths]
    columns += [gathered.aggregated, gathered.judged.loss, gathered.judged.other_score]
    said = outcome.affinities
    columns += [] if said is None else [said.instant_reward, said.similarity]
    return (
        *(to_bytes(state) for state in outcome.states),
        *movements,
        *(column.tobytes() for column in columns),
        repr((gathered.misfits, gathered.rejected, outcome.decision, outcome.notes)).encode(),
    )

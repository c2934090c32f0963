"""The suite of trainers; those that come with Auxo keep it in tests/models/test_catalogue.py."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest

from auxo.core.asking import Answer
from auxo.core.layers import Layer
from auxo.core.types import Float32Array, FloatArray, InputArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.testing import ContractBroken, check_trainer, trainers
from auxo.testing.contract import Check
from auxo.testing.trainers import TrainerTrial
from auxo.training.job_losses import job_losses
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

TURNS = count()


@dataclass(frozen=True)
class Bent:
    """Softmax regression that does one thing wrong."""

    kind: str = ""
    inner: SoftmaxTrainer = SoftmaxTrainer(n_features=64, n_classes=4)  # noqa: RUF009 - it is frozen

    @property
    def n_params(self) -> int:
        return self.inner.n_params

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.inner.layers[:1] if self.kind == "no bias" else self.inner.layers

    def initial_weights(self, seed: int) -> Float32Array:
        weights = self.inner.initial_weights(seed)
        return weights + np.float32(next(TURNS)) if self.kind == "moody" else weights

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        jobs: Sequence[Job],
        settings: LocalTraining,
        seed: int,
        out: Float32Array | None = None,
    ) -> Iterator[Answer]:
        jobs = [self._other(job) for job in jobs]
        updates = list(self.inner.train(weights, data, jobs, settings, seed, None if self.kind == "elsewhere" else out))
        if self.kind == "averages" and len(updates) > 1:
            mean = np.mean([answer.update for answer in updates], axis=0)
            updates = [replace(answer, update=answer.update + np.float32(1e-3) * mean) for answer in updates]
        if self.kind == "in place":
            weights += np.float32(1.0)
        if self.kind == "modest":
            updates = [
                answer if job.ask.fold is None else replace(answer, examples=answer.examples // 2)
                for job, answer in zip(jobs, updates, strict=True)
            ]
        if self.kind == "guesses":
            updates = [
                replace(answer, loss=7.0 if job.ask.reports_loss else None)
                for job, answer in zip(jobs, updates, strict=True)
            ]
        yield from (self._bent(answer) for answer in updates)

    def _other(self, job: Job) -> Job:
        if self.kind == "wholes":
            return replace(job, ask=replace(job.ask, fold=None))
        if self.kind == "own steps":
            return replace(job, ask=replace(job.ask, steps=None))
        return replace(job, ask=replace(job.ask, work=1.0)) if self.kind == "own pace" else job

    def _bent(self, answer: Answer) -> Answer:
        match self.kind:
            case "double":
                return replace(answer, update=answer.update.astype(np.float64))
            case "generous":
                return replace(answer, examples=answer.examples + (answer.examples == 0))
            case "mends":
                return replace(answer, update=np.nan_to_num(answer.update))
            case "talks":
                return replace(answer, loss=0.5)
            case "backwards":
                return replace(answer, update=-answer.update)
            case _:
                return answer

    def job_losses(self, weights: Float32Array, data: FederatedData, jobs: Sequence[Job]) -> list[FloatArray]:
        found = job_losses(self.inner, weights, data, jobs)
        if self.kind == "shares losses" and len(jobs):
            found = [one + 1e-9 * np.concatenate(found).mean() for one in found]
        return [one * 10 for one in found] if self.kind == "sums losses" else found

    def predict(self, weights: Float32Array, x: InputArray) -> IntArray:
        found = self.inner.predict(weights, x)
        return found[:, None] if self.kind == "columns" else found

    def losses(self, weights: Float32Array, x: InputArray, y: IntArray) -> FloatArray:
        losses = self.inner.losses(weights, x, y)
        return -losses if self.kind == "likelihood" else losses


def trial(kind: str) -> TrainerTrial:
    return TrainerTrial(Bent(kind))


BROKEN: list[tuple[Check[TrainerTrial], TrainerTrial]] = [
    (trainers.begins_with_flat_weights, trial("moody")),
    (trainers.layers_cover_the_weights, trial("no bias")),
    (trainers.answers_every_job, trial("double")),
    (trainers.a_job_is_its_own_affair, trial("averages")),
    (trainers.leaves_arguments_alone, trial("in place")),
    (trainers.writes_where_it_is_told, trial("elsewhere")),
    (trainers.trains_on_halves, trial("wholes")),
    (trainers.trains_on_halves, trial("modest")),
    (trainers.obeys_the_settings, trial("own pace")),
    (trainers.obeys_the_settings, trial("own steps")),
    (trainers.a_client_without_samples_stays, trial("generous")),
    (trainers.divergence_is_a_value, trial("mends")),
    (trainers.predicts_every_row, trial("columns")),
    (trainers.predicts_every_row, trial("likelihood")),
    (trainers.tells_losses_of_jobs, trial("shares losses")),
    (trainers.tells_losses_of_jobs, trial("sums losses")),
    (trainers.tells_losses_with_training, trial("talks")),
    (trainers.tells_losses_with_training, trial("guesses")),
    (trainers.learns, trial("backwards")),
]


@every(trainers.CONTRACT.checks)
def test_a_bent_trainer_that_is_not_bent_keeps_the_contract(check: Check[TrainerTrial]) -> None:
    check(trial("not at all"))


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[TrainerTrial], part: TrainerTrial) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(trainers.CONTRACT.checks, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="Bent breaks a promise of a trainer: Updates are written to the rows of"):
        check_trainer(Bent("elsewhere"))

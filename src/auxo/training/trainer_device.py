"""The devices of simulated participants: a trainer with their samples, many participants at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.asking import Answer, Ask, Losses, Part
from auxo.core.partial_uploads import without
from auxo.core.rng import random_bits
from auxo.core.sample_clipping import SampleClipping
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.population.wrong_labels import mislabelled
from auxo.training.job_losses import job_losses, mean, mean_square
from auxo.training.local_centres import local_centres
from auxo.training.local_samples import local_positions, most_passes
from auxo.training.trainer import ClipsGradients, Job, LocalTraining, Trainer, scoring


@dataclass(frozen=True)
class TrainerDevice:
    """Where the participants of a batch of jobs train."""

    trainer: Trainer
    data: FederatedData
    settings: LocalTraining
    seed: int
    weights: Sequence[Float32Array]  # of the models of the round
    jobs: Sequence[Job]
    out: Float32Array | None = None  # (jobs, parameters) memory for the updates; None: each has its own

    @property
    def clients(self) -> IntArray:
        """Return the participants' rows in the population."""
        return np.array([job.client_row for job in self.jobs], dtype=np.int64)

    @property
    def visits(self) -> IntArray:
        """Return how often each has trained before."""
        return np.array([job.visit for job in self.jobs], dtype=np.int64)

    @property
    def samples(self) -> IntArray:
        """Return how many samples each has."""
        return self.data.train.counts(self.clients)

    @property
    def models(self) -> int:
        """Return the number of models of the round."""
        return len(self.weights)

    def model(self, place: int) -> Float32Array:
        """Return a model."""
        return self.weights[place]

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses:
        """Return the losses of a part of each row's samples."""
        some = job_losses(self.trainer, self.weights[model], self.data, self._looking(rows, asks, part))
        samples = self.settings.samples
        if samples is not None:  # one of them counts for so much at most, a loss that is no number as well
            some = [np.fmin(one, samples.loss_bound) for one in some]
        means, squares = np.array([mean(one) for one in some]), np.array([mean_square(one) for one in some])
        return Losses(means, squares, each=some)

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> FloatArray:
        """Return the mean scores likewise: most often the share of samples whose class is right."""
        jobs = self._looking(rows, asks, part)
        return np.array([self._mean_score(self.weights[model], job) for job in jobs])

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer]:
        """Yield what training gives, in the rows' places of ``out`` if there is one."""
        jobs = [self._job(row, ask) for row, ask in zip(rows, asks, strict=True)]
        if any(job.ask.centres is not None for job in jobs):  # then it is so for all
            yield from (self._centres(job) for job in jobs)
            return
        is_whole = len(jobs) == len(self.jobs)  # then nothing has to be put in order
        answers = self.trainer.train(
            self.weights[model], self.data, jobs, self.settings, self.seed, self.out if is_whole else None
        )
        for row, job, answer in zip(rows, jobs, answers, strict=True):
            if job.ask.skipped:
                answer.update[:] = without(answer.update, self.trainer.layers, job.ask.skipped)
            if self.out is not None and not is_whole:
                self.out[row] = answer.update
                answer = replace(answer, update=self.out[row])  # noqa: PLW2901 - the same answer, in its place
            yield answer

    def clipping(self, samples: SampleClipping) -> "TrainerDevice | None":
        """Return the same device, whose trainer keeps each sample from showing; see `ClipsSamples`."""
        if not isinstance(self.trainer, ClipsGradients) or not self.trainer.clips_gradients:
            return None
        return replace(self, settings=replace(self.settings, samples=samples))

    def passes(self, row: int, ask: Ask) -> int:
        """Return how many steps of a row's training a sample is in, at most."""
        return most_passes(self.data, self._job(row, ask), self.settings)

    def mislabelled(self, rows: Sequence[int]) -> "TrainerDevice":
        """Return the same with wrong labels on the samples of these rows' clients: for attacks that are simulated."""
        return replace(self, data=mislabelled(self.data, self.clients[list(rows)], self.seed))

    def disguised(self, rows: Sequence[int], client: int) -> "TrainerDevice":
        """Return the same with another client's samples for these rows: likewise."""
        jobs = [replace(job, client_row=client) if row in rows else job for row, job in enumerate(self.jobs)]
        return replace(self, jobs=jobs)

    def _job(self, row: int, ask: Ask) -> Job:
        """Return a row's job as it is asked now."""
        job = self.jobs[row]
        return job if job.ask is ask else replace(job, ask=ask)

    def _looking(self, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> list[Job]:
        """Return jobs whose samples are that part of each row's."""
        if part == "trained":
            return [self._job(row, ask) for row, ask in zip(rows, asks, strict=True)]
        halves = [replace(ask, fold=ask.half(part)) for ask in asks]
        return [replace(self.jobs[row], ask=half) for row, half in zip(rows, halves, strict=True)]

    def _centres(self, job: Job) -> Answer:
        """Return the centres of a client's samples, and that nothing moves."""
        owned = self.data.train.of(job.client_row)
        x = self.data.inputs(self.data.train.x_rows[owned])
        samples = x.reshape(len(x), -1).astype(np.float64)
        named = random_bits(self.seed, "centres", np.array([job.client_row]))
        found = local_centres(samples, job.ask.centres or 1, seed=int(named[0] % np.uint64(2**31)))
        return Answer(np.zeros(len(self.weights[0]), dtype=np.float32), len(x), centres=found)

    def _mean_score(self, weights: Float32Array, job: Job) -> float:
        positions = local_positions(self.data, job)
        if len(positions) == 0:
            return 0.0
        x, y = self.data.inputs(self.data.train.x_rows[positions]), self.data.train.y[positions]
        own = scoring(self.trainer)
        if own is not None:
            return float(own.scores(weights, x, self.data.answers(y)).mean())
        return float((self.trainer.predict(weights, x) == y).mean())

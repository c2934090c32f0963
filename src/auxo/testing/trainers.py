"""The contract of trainers: models behind flat weights, and the local training of participants."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from auxo.core.aggregators import FedAvg, Report
from auxo.core.asking import Answer, Ask
from auxo.core.rng import stream
from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData, Samples
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect, expect_array, expect_finite
from auxo.training.job_losses import samples_of
from auxo.training.trainer import Job, LocalTraining, TellsJobLosses, Trainer

_CLASSES, _SIDE, _CLIENTS, _SAMPLES_EACH = 4, 8, 6, 20
_ENOUGH = 0.9  # of the test samples that a trained model is right about
_SEED = 1
_CLOSE = 1e-4  # of a loss: rounding gives 1e-6


@cache
def separable_population() -> FederatedData:
    """Return six clients whose samples are noisy copies of one image of 8 x 8 pixels for each of four classes."""
    rng = stream(1, "separable")
    prototypes = rng.normal(size=(_CLASSES, _SIDE * _SIDE))
    y_train, y_test = rng.integers(_CLASSES, size=(2, _CLIENTS * _SAMPLES_EACH))
    y = np.concatenate([y_train, y_test])
    x = (prototypes[y] + rng.normal(scale=0.5, size=(len(y), _SIDE * _SIDE))).astype(np.float32)
    offsets = np.arange(_CLIENTS + 1) * _SAMPLES_EACH
    train = Samples(np.arange(len(y_train)), y_train, offsets)
    test = Samples(np.arange(len(y_train), len(y)), y_test, offsets)
    return FederatedData("separable", x, train, test, _CLASSES, tuple(map(str, range(_CLIENTS))))


@dataclass(frozen=True)
class TrainerTrial:
    """A trainer, and data that it can learn in a few rounds of federated averaging with all clients."""

    trainer: Trainer
    data: FederatedData = field(default_factory=separable_population)
    rounds: int = 5
    training: LocalTraining = field(default_factory=LocalTraining)

    @property
    def weights(self) -> Float32Array:
        """Return the weights to start from."""
        return self.trainer.initial_weights(_SEED)

    def updates(
        self, jobs: list[Job], training: LocalTraining | None = None, out: Float32Array | None = None
    ) -> list[Answer]:
        """Return the updates of some jobs from these weights."""
        found = self.trainer.train(self.weights, self.data, jobs, training or LocalTraining(), _SEED, out)
        return list(found)

    @property
    def jobs(self) -> list[Job]:
        """Return a few jobs: of some clients, whole and halved."""
        return [Job(row, visit=row, ask=Ask(fold=(0, 1, None)[row % 3])) for row in range(min(self.data.n_clients, 6))]


CONTRACT = Contract[TrainerTrial](
    "a trainer", "Trainer in auxo.training.trainer", lambda trial: type(trial.trainer).__name__
)


@CONTRACT.promise
def begins_with_flat_weights(trial: TrainerTrial) -> None:
    """Initial weights are one flat vector of float32, the same for the same seed, and finite."""
    one, other = trial.weights, trial.weights
    expect_array(one, "float32", (trial.trainer.n_params,), "weights")
    expect_same(one, other, "the same weights twice")
    expect_finite(one, what="finite weights")


@CONTRACT.promise
def layers_cover_the_weights(trial: TrainerTrial) -> None:
    """The layers are tensors of as many parameters, in all, as there are flat weights."""
    found = sum(layer.size for layer in trial.trainer.layers)
    expect(found == trial.trainer.n_params, f"layers of {trial.trainer.n_params} parameters", found)


@CONTRACT.promise
def answers_every_job(trial: TrainerTrial) -> None:
    """There is an update of float32 for each job, in the order of the jobs, and none without a job."""
    jobs = trial.jobs
    updates = trial.updates(jobs)
    expect(len(updates) == len(jobs), f"{len(jobs)} updates", len(updates))
    for answer in updates:
        expect_array(answer.update, "float32", (trial.trainer.n_params,), "an update")
    different = len({answer.update.tobytes() for answer in updates})
    expect(different == len(jobs), "another update for each client", f"{different} of {len(jobs)}")
    nothing = trial.updates([])
    expect(nothing == [], "no update without a job", nothing)


@CONTRACT.promise
def a_job_is_its_own_affair(trial: TrainerTrial) -> None:
    """The same job gives the same bits, whatever the other jobs are."""
    jobs = trial.jobs
    together = trial.updates(jobs)
    expect_same(together, trial.updates(jobs[::-1])[::-1], "the same updates in another order")
    for place in (0, len(jobs) - 1):
        expect_same(together[place], trial.updates([jobs[place]])[0], "the same update of a job that is alone")


@CONTRACT.promise
def leaves_arguments_alone(trial: TrainerTrial) -> None:
    """Training, predicting and losses change neither the weights nor the data."""
    weights, data, trainer = trial.weights, trial.data, trial.trainer
    columns = {"weights": weights, "x": data.x, "y": data.train.y, "x_rows": data.train.x_rows}
    before = {name: column.copy() for name, column in columns.items()}
    for _ in trainer.train(weights, data, trial.jobs, LocalTraining(), _SEED):
        pass
    x, y = data.inputs(data.test.x_rows[:8]), data.test.y[:8]
    inputs = x.copy()
    trainer.predict(weights, x)
    trainer.losses(weights, x, y)
    expect_same(before, columns, "weights and data as they were")
    expect_same(inputs, x, "inputs as they were")


@CONTRACT.promise
def writes_where_it_is_told(trial: TrainerTrial) -> None:
    """Updates are written to the rows of ``out``, where there is one, with the same bits."""
    jobs = trial.jobs
    out = np.full((len(jobs), trial.trainer.n_params), np.nan, dtype=np.float32)
    inside, outside = trial.updates(jobs, out=out), trial.updates(jobs)
    expect_same(outside, inside, "the updates that there are without it")
    for row, answer in enumerate(inside):
        expect(np.shares_memory(answer.update, out[row]), f"an update in row {row}", "one elsewhere")
        expect_same(answer.update, out[row], f"the update in row {row}")


@CONTRACT.promise
def trains_on_halves(trial: TrainerTrial) -> None:
    """Half 0 and half 1 of a client's samples are other samples; examples are all that the client has."""
    row = int(np.argmax(trial.data.train.counts()))
    count = int(trial.data.train.counts()[row])
    whole, first, second = trial.updates([Job(row, 0, Ask(fold=fold)) for fold in (None, 0, 1)])
    found, expected = (whole.examples, first.examples, second.examples), (count, count, count)
    expect(found == expected, f"{expected} examples", found)
    different = {answer.update.tobytes() for answer in (whole, first, second)}
    expect(len(different) == 3, "three different updates", len(different))


@CONTRACT.promise
def obeys_the_settings(trial: TrainerTrial) -> None:
    """Epochs of a job stand for those of all, or its steps of SGD; another learning rate makes another update."""
    (plain,) = trial.updates([Job(0, 0)])
    (own,) = trial.updates([Job(0, 0, Ask(work=2))])
    (common,) = trial.updates([Job(0, 0)], LocalTraining(epochs=2))
    (slower,) = trial.updates([Job(0, 0)], LocalTraining(learning_rate=0.01))
    a_pass = -(-int(trial.data.train.counts()[0]) // LocalTraining().batch_size)
    (stepped,) = trial.updates([Job(0, 0, Ask(steps=2 * a_pass))])
    expect_same(common, own, "two epochs, whoever says so")
    expect_same(common, stepped, "as many steps of SGD as two epochs have")
    expect(plain.update.tobytes() != own.update.tobytes(), "another update after two epochs", "the same")
    expect(plain.update.tobytes() != slower.update.tobytes(), "another update at another rate", "the same")


@CONTRACT.promise
def a_client_without_samples_stays(trial: TrainerTrial) -> None:
    """A client without samples gives an update of zero, of no examples, and disturbs nobody."""
    data, empty = trial.data, trial.data.n_clients
    train = replace(data.train, offsets=np.append(data.train.offsets, data.train.offsets[-1]))
    test = replace(data.test, offsets=np.append(data.test.offsets, data.test.offsets[-1]))
    wider = replace(data, train=train, test=test, client_names=(*data.client_names, "nothing"), groups=None)
    other = replace(trial, data=wider)
    answer, beside = other.updates([Job(empty, 0), Job(0, 0)])
    found = (answer.examples, bool(answer.update.any()))
    expect(found == (0, False), "0 examples and zeros", f"{found[0]} examples and {answer.update[:5]}")
    expect_same(trial.updates([Job(0, 0)])[0], beside, "the update of its neighbour as ever")


@CONTRACT.promise
def divergence_is_a_value(trial: TrainerTrial) -> None:
    """A participant that diverges gives an update that is not finite, and no exception."""
    reckless = LocalTraining(learning_rate=1e30, weight_decay=1.0)
    (answer,) = trial.updates([Job(0, 0)], reckless)
    expect(not np.isfinite(answer.update).all(), "an update that is not finite", "a finite one")


@CONTRACT.promise
def predicts_every_row(trial: TrainerTrial) -> None:
    """There is a class for each input, and a finite loss that is not negative."""
    data, trainer = trial.data, trial.trainer
    for rows in (data.test.x_rows[:9], data.test.x_rows[:0]):
        x = data.inputs(rows)
        found = trainer.predict(trial.weights, x)
        is_fit = found.shape == (len(rows),) and found.dtype.kind == "i"
        expect(is_fit, f"whole numbers of shape ({len(rows)},)", f"{found.dtype} {found.shape}")
        expect(bool(((found >= 0) & (found < data.n_classes)).all()), f"classes in 0..{data.n_classes - 1}", found)
    losses = trainer.losses(trial.weights, data.inputs(data.test.x_rows[:9]), data.test.y[:9])
    expect(losses.shape == data.test.y[:9].shape, f"a loss for each of {len(data.test.y[:9])} inputs", losses.shape)
    expect(bool((np.isfinite(losses) & (losses >= 0)).all()), "finite losses that are not negative", losses)


@CONTRACT.promise
def tells_losses_of_jobs(trial: TrainerTrial) -> None:
    """Where it tells losses of many jobs at once, they are those of each job alone, to the bit, and of its samples."""
    trainer, data, jobs = trial.trainer, trial.data, trial.jobs
    if not isinstance(trainer, TellsJobLosses):
        return
    weights = trial.weights + trial.updates(jobs[:1])[0].update  # to begin with all losses may be the same
    for asked in (jobs, [replace(job, ask=replace(job.ask, reports_loss=True)) for job in jobs]):
        together = trainer.job_losses(weights, data, asked)
        expect(len(together) == len(asked), f"losses of each of {len(asked)} jobs", len(together))
        alone = [one for job in asked for one in trainer.job_losses(weights, data, [job])]
        expected = [trainer.losses(weights, x, y) for x, y in samples_of(data, asked)]
        for mine, of_one, of_samples in zip(together, alone, expected, strict=True):
            expect_same(of_one, mine, "the losses of a job that is alone")
            close = mine.shape == of_samples.shape and np.allclose(mine, of_samples, rtol=_CLOSE)
            expect(close, f"the losses {of_samples} of the job's samples", mine)
    expect(not trainer.job_losses(weights, data, []), "no loss without a job", "some")


@CONTRACT.promise
def tells_losses_with_training(trial: TrainerTrial) -> None:
    """Where losses come with training, they are those of the samples before it, and change nothing of an update."""
    trainer, data, silent = trial.trainer, trial.data, trial.jobs
    asked = [replace(job, ask=replace(job.ask, reports_loss=True)) for job in silent]
    together, plain = trial.updates(asked), trial.updates(silent)
    expect_same(
        [one.update for one in plain], [one.update for one in together], "the updates that nobody asked more of"
    )
    told = [one.loss for one in plain if one.loss is not None]
    expect(not told, "no loss of jobs that report none", told)
    expect_same(together[-1], trial.updates(asked[-1:])[0], "the same of a job that is alone")
    for answer, (x, y) in zip(together, samples_of(data, asked), strict=True):
        if answer.loss is not None:
            losses = trainer.losses(trial.weights, x, y)
            close = np.isclose(answer.loss, losses.mean(), rtol=_CLOSE)
            expect(bool(close), f"the mean loss {losses.mean()} of the job's samples", answer.loss)


@CONTRACT.promise
def learns(trial: TrainerTrial) -> None:
    """A few rounds of federated averaging learn the data: predictions are right, and losses fall."""
    aggregator, data, trainer = FedAvg(), trial.data, trial.trainer
    state = aggregator.initial(trial.weights)
    for visit in range(trial.rounds):
        jobs = [Job(row, visit) for row in range(data.n_clients)]
        mean = aggregator.accumulate(state)
        for answer in trainer.train(state.weights, data, jobs, trial.training, _SEED):
            mean.add(answer.update, Report(answer.examples))
        movement = mean.result()
        expect(movement is not None, "updates to move by", None)
        if movement is not None:
            state = aggregator.step(state, movement)
    x, y = data.inputs(data.test.x_rows), data.test.y
    accuracy = float(np.mean(trainer.predict(state.weights, x) == y))
    expect(accuracy > _ENOUGH, f"an accuracy above {_ENOUGH} after {trial.rounds} rounds", accuracy)
    before, after = (float(trainer.losses(weights, x, y).mean()) for weights in (trial.weights, state.weights))
    expect(after < before, f"a mean loss below {before}", after)


def check_trainer(
    trainer: Trainer,
    data: FederatedData | None = None,
    rounds: int = 5,
    training: LocalTraining | None = None,
) -> None:
    """Check that a trainer keeps its contract.

    Args:
        trainer: made for the data.
        data: that the model can learn, none of whose clients is without samples; None: `separable_population`.
        rounds: of federated averaging that are enough to learn it.
        training: with which they are.

    Raises:
        ContractBroken: it does not.

    >>> from auxo.training.softmax_trainer import SoftmaxTrainer
    >>> check_trainer(SoftmaxTrainer(n_features=64, n_classes=4))
    """
    trial = TrainerTrial(trainer, data or separable_population(), rounds, training or LocalTraining())
    CONTRACT.check(trial)

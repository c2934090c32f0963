"""FedProx's term (Li et al., MLSys 2020) in every trainer: each step adds mu * (weights - start) to the gradient."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from auxo.core.asking import Ask
from auxo.core.rng import stream
from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData, Samples
from auxo.training.local_samples import PADDING, local_batches
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining, Trainer
from tests.training.side_by_side import CLASSES, all_jobs, largest_difference, population, updates

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from auxo.models.small_models import LeafCnn, Mlp  # noqa: E402
from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.kernels import Stacking  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402


@pytest.mark.parametrize("mu", [-0.1, float("inf"), float("nan")])
def test_mu_is_finite_and_not_negative(mu: float) -> None:
    with pytest.raises(ValueError, match="proximal: expected a number >= 0, got"):
        LocalTraining(proximal=mu)


# Two steps by hand. One client with the same sample twice, x = 1 of class 0; two classes; rate 1, batches of one. All
# four weights (a row for the feature, and the bias, each with a number for both classes) start from 0.3.
#
# First step: both logits are 0.6, so both likelihoods 1/2, and the gradient is -1/2 for class 0 and 1/2 for class 1,
# by the feature and by the bias. There is no way back to the start yet. The weights become 0.8 and -0.2.
# Second step: the logits are 1.6 and -0.4, so the gradient is -q and q with q = 1 / (1 + exp(2)). The weights are
# 0.5 and -0.5 from the start, which adds 0.5 mu and -0.5 mu.

Q = 1 / (1 + np.exp(2.0))
TWICE = Samples(np.array([0, 0]), np.array([0, 0]), np.array([0, 2]))
ONE_CLIENT = FederatedData("by hand", np.ones((1, 1), dtype=np.float32), TWICE, TWICE, 2, ("client",))
BY_HAND: dict[str, tuple[LocalTraining, float, float]] = {  # the update for class 0 and for class 1
    "no term": (LocalTraining(1.0, 1), 0.5 + Q, -0.5 - Q),
    "mu = 1/2": (LocalTraining(1.0, 1, proximal=0.5), 0.5 + Q - 0.25, -0.5 - Q + 0.25),
    # rate * mu = 1: each step forgets what was before, and what is left is the last gradient.
    "mu = 1": (LocalTraining(1.0, 1, proximal=1.0), Q, -Q),
    # The first gradient comes back by half: 0.25 and -0.25, which is what the term takes.
    "momentum": (LocalTraining(1.0, 1, momentum=0.5, proximal=0.5), 0.5 + Q, -0.5 - Q),
    # Decay takes 0.2 * 0.3 in the first step, from both: 0.74 and -0.26, still 1 apart, so q is the same. In the second
    # it takes 0.2 * 0.74 and 0.2 * -0.26, and the term 0.5 * 0.44 and 0.5 * -0.56.
    "decay": (LocalTraining(1.0, 1, weight_decay=0.2, proximal=0.5), 0.44 + Q - 0.148 - 0.22, -0.56 - Q + 0.052 + 0.28),
}


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 2))


TRAINERS: dict[str, Trainer] = {
    "softmax": SoftmaxTrainer(1, 2),
    "one by one": TorchTrainer(linear),
    "vmap": TorchTrainer(linear, batching=BatchingPlan("vmap", 2)),
    "stacked": TorchTrainer(linear, batching=BatchingPlan("stacked", 2)),
    "deferred": TorchTrainer(linear, batching=BatchingPlan("stacked", 2, Stacking(("0",)))),
    "chain": TorchTrainer(linear, batching=BatchingPlan("stacked", 2, Stacking(is_sequential=True))),
    "deferred chain": TorchTrainer(linear, batching=BatchingPlan("stacked", 2, Stacking(("0",), is_sequential=True))),
}


@pytest.mark.parametrize(("training", "first", "second"), BY_HAND.values(), ids=BY_HAND)
@pytest.mark.parametrize("name", TRAINERS)
def test_two_steps_are_those_worked_out_by_hand(
    name: str, training: LocalTraining, first: float, second: float
) -> None:
    weights = np.full(4, 0.3, dtype=np.float32)

    (answer,) = TRAINERS[name].train(weights, ONE_CLIENT, [Job(0, 0)], training, seed=1)

    np.testing.assert_allclose(answer.update, [first, second, first, second], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("training", "first", "second"), BY_HAND.values(), ids=BY_HAND)
def test_two_steps_of_deferred_softmax_are_those_worked_out_by_hand(
    training: LocalTraining, first: float, second: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auxo.training.softmax_trainer._MANY_PARAMETERS", 1)
    test_two_steps_are_those_worked_out_by_hand("softmax", training, first, second)


# Against the objective of the paper.


def minimise_objective(trainer: TorchTrainer, data: FederatedData, job: Job, training: LocalTraining) -> Float32Array:
    """The update by `torch.optim.SGD` on the loss plus mu / 2 times the squared distance from the start."""
    module = trainer.module_factory()
    nn.utils.vector_to_parameters(torch.from_numpy(trainer.initial_weights(7).copy()), module.parameters())
    start = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    optimizer = torch.optim.SGD(
        module.parameters(), training.learning_rate, training.momentum, weight_decay=training.weight_decay
    )
    for batch in local_batches(data, [job], training, seed=3)[0]:
        positions = batch[batch != PADDING]
        logits = module(torch.from_numpy(data.inputs(data.train.x_rows[positions])))
        distance = nn.utils.parameters_to_vector(module.parameters()) - start
        loss = functional.cross_entropy(logits, torch.from_numpy(data.train.y[positions]))
        optimizer.zero_grad()
        torch.autograd.backward(loss + training.proximal / 2 * distance.square().sum())
        optimizer.step()
    found: Float32Array = (nn.utils.parameters_to_vector(module.parameters()).detach() - start).numpy()
    return found


SETTINGS = {
    "alone": LocalTraining(0.02, batch_size=4, epochs=2, proximal=5.0),
    "with momentum": LocalTraining(0.01, batch_size=6, momentum=0.9, proximal=2.0),
    "with decay": LocalTraining(0.02, batch_size=6, weight_decay=0.5, proximal=2.0),
    "with both": LocalTraining(0.01, batch_size=5, momentum=0.9, weight_decay=0.1, proximal=2.0),
}
MLP = partial(Mlp, 64, CLASSES, 12)
CNN = partial(LeafCnn, 8, CLASSES, hidden=16)
WAYS: dict[str, tuple[Callable[[], nn.Module], BatchingPlan]] = {
    "mlp, one by one": (MLP, BatchingPlan()),
    "mlp, vmap": (MLP, BatchingPlan("vmap", 4)),
    "mlp, stacked": (MLP, BatchingPlan("stacked", 4)),
    "mlp, deferred": (MLP, BatchingPlan("stacked", 4, Stacking(("layers.1",)))),
    "mlp, chain": (MLP, BatchingPlan("stacked", 4, Stacking(is_sequential=True))),
    "mlp, deferred chain": (MLP, BatchingPlan("stacked", 4, Stacking(("layers.1",), is_sequential=True))),
    "cnn, stacked": (CNN, BatchingPlan("stacked", 4)),
    "cnn, chain": (CNN, BatchingPlan("stacked", 4, Stacking(is_sequential=True))),
}
# One client needs three stretches and more, one exactly one, others a part of one or nothing.
DATA = population((8, 8), counts=(160, 96, 0, 1, 30))
JOBS = [Job(row, 0, Ask(fold=fold)) for row in range(DATA.n_clients) for fold in (None, 1)]


@pytest.mark.parametrize("training", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", WAYS)
def test_every_way_minimises_the_objective_of_the_paper(name: str, training: LocalTraining) -> None:
    factory, plan = WAYS[name]
    trainer = TorchTrainer(factory, batching=plan)
    expected = np.stack([minimise_objective(trainer, DATA, job, training) for job in JOBS])

    found = updates(trainer, DATA, JOBS, training)

    assert largest_difference(found, expected) < 1e-4
    plain = updates(trainer, DATA, JOBS, replace(training, proximal=0.0))
    assert largest_difference(plain, expected) > 1e-2  # the term is not lost in what is allowed


@pytest.mark.parametrize("kind", ["softmax", *WAYS])
def test_the_larger_mu_the_nearer_to_the_start(kind: str) -> None:
    trainer: Trainer = SoftmaxTrainer(64, CLASSES)
    if kind in WAYS:
        factory, plan = WAYS[kind]
        trainer = TorchTrainer(factory, batching=plan)

    lengths = [
        np.linalg.norm(updates(trainer, DATA, JOBS[:4], LocalTraining(0.02, epochs=3, proximal=mu)), axis=1)
        for mu in (0.0, 0.3, 3.0, 30.0)
    ]

    assert (np.diff(lengths, axis=0) < 0).all()


# Bits.


@pytest.mark.parametrize("name", WAYS)
def test_term_too_small_for_float32_changes_no_bit(name: str) -> None:
    # 1 - rate * mu is 1, so all that is done for the sake of the term must come to nothing.
    factory, plan = WAYS[name]
    trainer, training = TorchTrainer(factory, batching=plan), LocalTraining(epochs=2)

    found = updates(trainer, DATA, JOBS, replace(training, proximal=1e-30))

    assert found.tobytes() == updates(trainer, DATA, JOBS, training).tobytes()


@pytest.mark.parametrize("many", [1, 10**9], ids=["deferred", "at every step"])
def test_term_too_small_for_float32_changes_no_bit_of_softmax(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auxo.training.softmax_trainer._MANY_PARAMETERS", many)
    trainer = SoftmaxTrainer(64, CLASSES)
    weights = stream(1, "weights").normal(size=trainer.n_params).astype(np.float32)

    found, expected = (
        np.stack([answer.update for answer in trainer.train(weights, DATA, JOBS, training, seed=3)])
        for training in (LocalTraining(epochs=2, proximal=1e-30), LocalTraining(epochs=2))
    )

    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", [name for name in WAYS if "one by one" not in name])
def test_update_has_the_same_bits_whatever_the_other_jobs_are(name: str) -> None:
    factory, plan = WAYS[name]
    jobs = all_jobs(DATA)

    together = updates(TorchTrainer(factory, batching=replace(plan, at_once=len(jobs))), DATA, jobs, SETTINGS["alone"])
    alone = updates(TorchTrainer(factory, batching=replace(plan, at_once=1)), DATA, jobs, SETTINGS["alone"])

    assert [job for job, a, b in zip(jobs, together, alone, strict=True) if a.tobytes() != b.tobytes()] == []

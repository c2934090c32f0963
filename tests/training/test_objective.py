"""Losses and scores of other tasks than classification, and of the user's own."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from auxo.core.asking import Ask
from auxo.core.metric import Metric
from auxo.core.rng import stream
from auxo.models.catalogue import make_trainer
from auxo.population.federated_data import FederatedData, Samples
from auxo.population.preparation import LearningTask
from auxo.training.objective import LEAST_SCORE, Objective, objective_for
from auxo.training.torch_trainer import TorchTrainer
from auxo.training.trainer import Batching, Job, LocalTraining, scoring

OWN = """
import torch

def absolute(outputs, targets):
    return (outputs - targets).abs().mean(dim=-1)

absolute.smaller_is_better = True

def mean(outputs, targets):
    return (outputs - targets).abs().mean()

def without_gradient(outputs, targets):
    return torch.zeros(len(targets))

def failing(outputs, targets):
    raise RuntimeError("no")
"""


def data(task: LearningTask, clients: int = 6, samples: int = 12) -> FederatedData:
    """Return clients whose answers follow from their inputs."""
    rng = stream(0, "test", task)
    rows = clients * samples
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    answers = x @ np.array([[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]], dtype=np.float32)
    targets = (answers > 0).astype(np.float32) if task == "multi-label" else answers
    offsets = np.arange(clients + 1) * samples
    every = Samples(np.arange(rows), np.arange(rows), offsets)
    names = tuple(f"c{client}" for client in range(clients))
    return FederatedData("toy", x, every, every, 2, names, task=task, targets=targets)


def own(tmp_path: Path, name: str) -> str:
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    return f"{tmp_path / 'mine.py'}:{name}"


@pytest.mark.parametrize("task", ["regression", "multi-label"])
def test_a_linear_model_learns_other_tasks_and_scores_nearly_one(task: LearningTask) -> None:
    toy = data(task)
    trainer = make_trainer("linear", toy)
    weights = trainer.initial_weights(0)
    for visit in range(30):
        updates = trainer.train(weights, toy, [Job(client, visit) for client in range(6)], LocalTraining(0.2), 0)
        weights = weights + np.mean([answer.update for answer in updates], axis=0)
    scored = scoring(trainer)
    assert scored is not None
    assert scored.scores(weights, toy.inputs(toy.test.x_rows), toy.answers(toy.test.y)).mean() > 0.9


@pytest.mark.parametrize("task", ["regression", "multi-label"])
@pytest.mark.parametrize("loss", [None, "absolute"])
def test_participants_side_by_side_get_the_updates_of_one_by_one(
    tmp_path: Path, task: LearningTask, loss: str | None
) -> None:
    toy, path = data(task), None if loss is None else own(tmp_path, loss)
    jobs = [Job(client, 0, Ask(fold=fold)) for client, fold in ((0, None), (1, 0), (2, 1))]
    ways: tuple[Batching, ...] = ("one-by-one", "vmap")
    trainers = [make_trainer("mlp", toy, batching, loss=path) for batching in ways]
    weights = trainers[0].initial_weights(0)
    alone, together = (
        np.array([answer.update.copy() for answer in trainer.train(weights, toy, jobs, LocalTraining(), 0)])
        for trainer in trainers
    )
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5 * np.abs(alone).max())


def test_a_step_follows_the_gradient_of_the_squared_error() -> None:
    toy = data("regression", clients=1, samples=4)
    trainer = make_trainer("linear", toy, "one-by-one")
    weights = trainer.initial_weights(0)
    (answer,) = trainer.train(weights, toy, [Job(0, 0)], LocalTraining(0.1, batch_size=4), 0)
    matrix = torch.from_numpy(weights[:6].copy()).reshape(2, 3).requires_grad_()
    bias = torch.from_numpy(weights[6:].copy()).requires_grad_()
    loss = functional.mse_loss(torch.from_numpy(toy.x) @ matrix.T + bias, torch.from_numpy(toy.answers(toy.train.y)))
    step = -0.1 * np.concatenate([one.numpy().ravel() for one in torch.autograd.grad(loss, (matrix, bias))])
    np.testing.assert_allclose(answer.update, step, rtol=1e-4, atol=1e-7)


def test_the_score_of_the_mean_is_zero_and_of_the_answers_one() -> None:
    toy = data("regression")
    objective = objective_for(toy)
    answers = torch.from_numpy(toy.answers(toy.train.y))
    assert objective.scores(answers, answers).mean() == pytest.approx(1)
    mean = answers.mean(dim=0).expand_as(answers)
    assert objective.scores(mean, answers).mean() == pytest.approx(0, abs=1e-6)


def test_labels_told_and_true_are_shared_by_labels_told_or_true() -> None:
    outputs = torch.tensor([[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0], [1.0, -1.0, -1.0]])
    answers = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert Objective("multi-label").scores(outputs, answers) == pytest.approx([1 / 3, 1, 1])


def test_scores_of_a_model_that_has_diverged_are_finite() -> None:
    found = Objective("regression", variances=(1.0,)).scores(torch.tensor([[np.nan], [1e30]]), torch.zeros(2, 1))
    assert found.tolist() == [LEAST_SCORE, LEAST_SCORE]


def test_a_metric_of_which_less_is_better_is_turned_around(tmp_path: Path) -> None:
    toy = data("regression")
    objective = objective_for(toy, metric=own(tmp_path, "absolute"))
    answers = torch.from_numpy(toy.answers(toy.train.y[:5]))
    np.testing.assert_allclose(objective.scores(answers + 2, answers), -2, rtol=1e-6)
    assert objective.measured == Metric("absolute", "", smaller_is_better=True)
    assert not objective.counts_hits


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mean", r"expected a number for each of 3 samples, .* got shape \(\); take no mean over samples"),
        ("without_gradient", "got one without a gradient"),
        ("failing", r"got RuntimeError \(no\) at .*mine\.py, line 16, in failing: .*; mend it"),
        ("absolut", 'did you mean "absolute"'),
    ],
)
def test_a_loss_that_cannot_be_used_is_told_before_anything_is_trained(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        objective_for(data("regression"), loss=own(tmp_path, name))


def test_softmax_regression_is_for_classes_alone() -> None:
    with pytest.raises(ValueError, match='the data ask for regression; choose "linear" or "mlp"'):
        make_trainer("softmax", data("regression"))


def test_classes_are_scored_as_they_were() -> None:
    assert scoring(TorchTrainer(lambda: torch.nn.Linear(2, 2))) is None


def test_probabilities_are_told_of_classes_and_labels_but_not_of_numbers_or_with_a_loss_of_ones_own(
    tmp_path: Path,
) -> None:
    outputs = torch.tensor([[0.0, 0.0, 2.0]])
    likely, each = Objective().likely, Objective("multi-label").likely
    assert likely is not None
    assert each is not None
    assert likely(outputs).sum() == pytest.approx(1)
    assert each(outputs)[0].tolist() == pytest.approx([0.5, 0.5, 0.8808], abs=1e-4)
    assert Objective("regression").likely is None
    assert objective_for(data("multi-label"), loss=own(tmp_path, "absolute")).likely is None


def test_a_metric_of_ones_own_says_its_unit(tmp_path: Path) -> None:
    path = tmp_path / "priced.py"
    path.write_text(f"{OWN}\n\nabsolute.unit = 'EUR'\n", encoding="utf-8")
    objective = objective_for(data("regression"), metric=f"{path}:absolute")
    assert objective.measured == Metric("absolute", "EUR", smaller_is_better=True)
    assert objective.words() == "absolute, its mean over a client's test samples in EUR; smaller is better"

"""A client in a loop of one's own that keeps to itself what it can."""

from pathlib import Path
from time import monotonic

import numpy as np

from auxo.core.asking import LEAST_LOSS, Ask
from auxo.core.types import CohortId, Float32Array, FloatArray
from auxo.privacy.accounting import PrivacyBudget
from auxo.privacy.accounts import OnDevice
from auxo.privacy.local_privacy import LocalPrivacy
from auxo.privacy.terms import Terms
from auxo.protocol.messages import Task, TaskFailure, TaskResult
from auxo.runtime.client import Client

TERMS = Terms("client", PrivacyBudget(8.0, 1e-6), clip=1.0, noise=6.0, choice_epsilon=1.0)
X = np.arange(20.0)


def _task(number: int) -> Task:
    names = (CohortId("0.0"), CohortId("0.1"))
    return Task(
        "me", names[0], number, names, Ask(model=LEAST_LOSS, judges=(0, 1), reports_loss=True, work=float(number))
    )


def _model(name: CohortId) -> Float32Array:
    return np.full(3, float(name[-1]), dtype=np.float32)


def _loss(model: Float32Array, x: FloatArray) -> float:
    return float(model[0] + x.mean())


def _train(model: Float32Array, x: FloatArray) -> Float32Array:
    return np.full(3, x.sum(), dtype=np.float32)


def _client(folder: Path) -> Client:
    account = OnDevice.at(folder / "ledger" / "me", folder / "record" / "me.enrolled", "client")
    return Client("me", mods=[LocalPrivacy(TERMS, account)])


def test_all_that_a_client_says_is_private_and_ends_with_its_budget(tmp_path: Path) -> None:
    results = []
    for number in range(1, 40):  # a new process each time: it has its files alone
        results.append(_client(tmp_path).do(_task(number), _model, _loss, _train, X, clock=monotonic))
        if isinstance(results[-1], TaskFailure):
            break
    refused = results.pop()
    assert isinstance(refused, TaskFailure)
    assert refused.reason.startswith("the privacy budget is spent")
    assert len(results) >= 3
    for result in results:
        assert isinstance(result, TaskResult)
        answer = result.answer
        assert answer.examples == 1
        assert answer.model in (0, 1)
        assert (answer.loss, answer.squared_loss, answer.judged, answer.judged_by) == (None, None, (), None)
        assert (answer.took_s, answer.training_s, answer.centres) == (None, None, None)


def test_a_task_that_comes_again_is_answered_as_before(tmp_path: Path) -> None:
    first, again = (_client(tmp_path).do(_task(1), _model, _loss, _train, X) for _ in range(2))
    assert isinstance(first, TaskResult)
    assert isinstance(again, TaskResult)
    assert first.answer.update.tolist() == again.answer.update.tolist()
    assert first.answer.model == again.answer.model

"""A private node: nothing leaves it but what has passed through its mods."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, Metadata, MetricRecord, RecordDict
from flwr.client.mod import LocalDpMod

from auxo.core.asking import LEAST_LOSS, Ask
from auxo.core.types import CohortId
from auxo.flower.client import AuxoClientApp
from auxo.flower.wire import Trying, ask, message_of, take_said
from auxo.privacy.accounting import Gaussian, PrivacyBudget
from auxo.privacy.accounts import OnDevice
from auxo.privacy.local_privacy import LocalPrivacy
from auxo.privacy.terms import Terms
from auxo.protocol.messages import Task
from tests.flower.linear_app import auxo_app, fill, initial
from tests.flower.small import federation
from tests.flower.test_client import HEAD, asking, context, flat, training

TERMS = Terms("client", PrivacyBudget(8.0, 1e-6), clip=0.01, noise=4.0, choice_epsilon=1.0, participations=3)
MOD = LocalPrivacy.simulated(TERMS, seed=100)


def _on_device(folder: Path) -> LocalPrivacy:
    return LocalPrivacy(TERMS, OnDevice.at(folder / "a" / "ledger", folder / "b" / "mark", "client"))


def _plain(kind: str) -> Message:
    content = RecordDict({"arrays": initial(), "config": ConfigRecord()})
    return message_of(content, Metadata(1, "m", 1, 103, "", "", 0.0, 1e12, kind))


def test_a_task_is_answered_with_a_noised_update_and_nothing_else() -> None:
    reply = auxo_app(client_mods=[MOD])(training((0, 1)), context())
    assert take_said(reply).result is None  # there is nothing to be said beside the update
    assert {name: dict(record) for name, record in reply.content.metric_records.items()} == {
        "metrics": {"num-examples": 1}
    }
    assert sorted(reply.content) == ["arrays", "metrics"]
    assert np.linalg.norm(flat(reply)) < 1  # it was more than 1, before it was clipped to .01
    assert np.linalg.norm(flat(reply)) > TERMS.clip


@pytest.mark.parametrize("kind", [MessageType.TRAIN, MessageType.EVALUATE])
def test_a_server_without_auxo_and_an_evaluation_learn_nothing(kind: str) -> None:
    reply = auxo_app(client_mods=[MOD])(_plain(kind), context())
    assert reply.has_error()
    assert "this client is private" in str(reply.error.reason)


def test_a_check_in_is_answered() -> None:
    assert not auxo_app(client_mods=[MOD])(asking(), context()).has_error()


def test_what_an_app_says_of_its_trouble_stays_at_home(caplog: pytest.LogCaptureFixture) -> None:
    app = AuxoClientApp(client_mods=[MOD])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise RuntimeError("sample 17 is 3.14")

    reply = app(training(), context())
    assert reply.has_error()
    assert reply.error.reason == "the app gives no reply, or an error"
    assert "sample 17 is 3.14" in caplog.text  # on the node
    other = AuxoClientApp()
    other.train()(train)
    with pytest.raises(RuntimeError, match="sample 17"):
        other(training(), context())


def test_whole_numbers_among_the_arrays_are_those_that_came() -> None:
    app = AuxoClientApp(client_mods=[MOD])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = ArrayRecord({"w": Array(np.ones(3)), "batches": Array(np.array([417]))})  # how much data there is
        metrics = MetricRecord({"num-examples": 5, "seen": 417})
        return Message(
            RecordDict({"arrays": arrays, "metrics": metrics, "c": ConfigRecord({"n": 417})}), reply_to=message
        )

    begin = ArrayRecord({"w": Array(np.zeros(3)), "batches": Array(np.array([7]))})
    task = Task(0, CohortId("0"), 1, (CohortId("0"),), Ask())
    content = ask(RecordDict({"arrays": begin, "config": ConfigRecord()}), HEAD, task)
    reply = app(message_of(content, Metadata(1, "m", 1, 103, "", "", 0.0, 1e12, MessageType.TRAIN)), context())
    assert reply.content.array_records["arrays"]["batches"].numpy().tolist() == [7]
    assert sorted(reply.content) == ["arrays", "metrics"]
    assert dict(reply.content.metric_records["metrics"]) == {"num-examples": 1}


def test_a_ledger_counts_on_a_node_and_the_same_task_has_the_same_answer(tmp_path: Path) -> None:
    app, where = auxo_app(client_mods=[_on_device(tmp_path)]), context()
    first, again = app(training(), where), auxo_app(client_mods=[_on_device(tmp_path)])(training(), context())
    assert flat(first).tolist() == flat(again).tolist()
    account = _on_device(tmp_path).account
    assert isinstance(account, OnDevice)
    assert account.ledger.spent().releases == {Gaussian(2.0): 1}
    (tmp_path / "a" / "ledger").write_bytes(b"")
    refused = app(training(), where)
    assert refused.has_error()
    assert "cannot be relied on" in str(refused.error.reason)


def test_a_node_chooses_among_models_before_it_trains(tmp_path: Path) -> None:
    names = (CohortId("0.0"), CohortId("0.1"))
    task = Task(0, names[0], 1, names, Ask(model=LEAST_LOSS))
    other = ArrayRecord({name: Array(array.numpy() + 50.0) for name, array in initial().items()})
    chosen = set()
    for number in range(30):
        content = RecordDict({"arrays": initial(), "config": ConfigRecord()})
        whole = ask(content, HEAD, task, Trying({names[1]: other}, ConfigRecord()))
        message = message_of(whole, Metadata(1, "m", 1, 103, "", "", 0.0, 1e12, MessageType.TRAIN))
        reply = auxo_app(client_mods=[_on_device(tmp_path / str(number))])(message, context())
        said = take_said(reply).result
        assert said is not None
        assert said.answer.model in (0, 1)
        chosen.add(said.answer.model)
        assert (np.abs(flat(reply)).mean() > 25) == (said.answer.model == 1)  # it has trained what it names
    assert chosen == {0, 1}  # the second fits nobody, and is named all the same


def test_a_federation_of_private_nodes_goes_on_until_budgets_are_spent() -> None:
    many = LocalPrivacy.simulated(replace(TERMS, clip=1.0, noise=0.01, participations=5), seed=100)
    app = auxo_app(groups=2, client_mods=[many])
    result, _, _ = federation(app=app, rounds=4)  # evaluations fail, and the rounds go on
    assert set(result.cohorts) == {"0"}
    weights = result.cohorts["0"].arrays["w"].numpy()
    assert np.isfinite(weights).all()
    assert np.abs(weights).max() > 0.1


def test_noise_on_updates_alone_is_called_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    fill(AuxoClientApp(mods=[LocalDpMod(1.0, 1.0, 1.0, 1e-6)]))
    assert "LocalDpMod has noise for the update alone" in caplog.text
    caplog.clear()
    AuxoClientApp(mods=[LocalDpMod(1.0, 1.0, 1.0, 1e-6)], client_mods=[MOD])
    assert not caplog.text

"""The client half: it keeps its record over runs and restarts, and needs little."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, Metadata, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp.typing import ClientAppCallable

from auxo.core.affinity import AffinitySettings
from auxo.core.asking import Ask
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import CohortId, Float32Array
from auxo.core.words import Words
from auxo.flower.affinity_file import keep_client, load_client
from auxo.flower.client import AuxoClientApp, half_of, third_of
from auxo.flower.model_arrays import ModelArrays
from auxo.flower.wire import FEEDBACK, FOR_REPORT, HALF, KEY, Letterhead, Trying, ask, give, message_of, take_said
from auxo.protocol.messages import AffinityFeedback, Task
from auxo.runtime.client import Client
from tests.core.made_mods import Careful
from tests.flower.linear_app import auxo_app, fill, initial
from tests.flower.local_grid import LocalGrid
from tests.flower.small import NODES, federation

FEDERATION = "ab12"
HEAD = Letterhead.of(FEDERATION, AffinitySettings())
TREE = CohortTree().partition(CohortId("0"), (0, 1), (0.5, 0.5))


def context(folder: Path | None = None, common: Path | None = None) -> Context:
    node: dict[str, float | int | str] = {"partition-id": 3}
    if folder is not None:
        node["auxo-state"] = str(folder)
    return Context(1, 103, node, RecordDict(), {} if common is None else {"auxo-state": str(common)})


def feedback(number: int = 1, client: int = 103) -> AffinityFeedback:
    cohort = CohortId("0.1")
    return AffinityFeedback(client, cohort, TREE, 0.9, (0.1, 0.8), None, 1, cohort, number, FEDERATION)


def asking(given: AffinityFeedback | None = None, kind: str = "query.auxo") -> Message:
    metadata = Metadata(1, "m", 1, 103, "", "", 0.0, 1e12, kind)
    message = message_of(ask(RecordDict(), Letterhead.of(FEDERATION, AffinitySettings())), metadata)
    give(message, given)
    return message


def wish(app: AuxoClientApp, where: Context, given: AffinityFeedback | None = None) -> str | None:
    said = take_said(app(asking(given), where)).check_in
    return None if said is None or said.request is None else said.request.cohort


def test_a_newcomer_wants_nothing_and_one_with_feedback_wants_its_cohort() -> None:
    app, where = auxo_app(), context()
    assert wish(app, where) is None
    assert wish(app, where, feedback()) == "0.1"
    assert wish(app, where) == "0.1"


@pytest.mark.fault(32)
def test_the_record_comes_back_after_a_restart_from_its_file(tmp_path: Path) -> None:
    assert wish(auxo_app(), context(tmp_path), feedback()) == "0.1"
    assert wish(auxo_app(), context(tmp_path)) == "0.1"
    assert wish(auxo_app(), context()) is None


def test_nodes_of_a_simulation_have_a_folder_each(tmp_path: Path) -> None:
    assert wish(auxo_app(), context(common=tmp_path), feedback()) == "0.1"
    assert [path.parent.name for path in tmp_path.rglob("*.affinity")] == ["node-3"]


@pytest.mark.fault(32)
@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 4096])
def test_a_damaged_file_means_exploring_again_with_a_warning(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wish(auxo_app(), context(tmp_path), feedback())
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    caplog.clear()
    assert wish(auxo_app(), context(tmp_path)) is None
    assert "starts exploring again" in caplog.text
    assert wish(auxo_app(), context(tmp_path), feedback()) == "0.1"  # and the file is good again
    assert wish(auxo_app(), context(tmp_path)) == "0.1"


def test_another_federation_has_another_file(tmp_path: Path) -> None:
    where = context(tmp_path)
    client = load_client(where, 103, "cd34", AffinitySettings())
    keep_client(where, client, "cd34", to_file=True)
    assert wish(auxo_app(), context(tmp_path)) is None
    assert {path.name for path in tmp_path.iterdir()} == {"cd34.affinity"}


@pytest.mark.fault(36)
def test_a_name_that_leads_elsewhere_is_no_file(tmp_path: Path) -> None:
    where = context(tmp_path / "mine")
    keep_client(where, Client(103), "../../evil", to_file=True)
    assert not (tmp_path / "mine").exists()
    assert not list(tmp_path.rglob("*evil*"))


def test_feedback_for_somebody_else_is_left_out() -> None:
    app, where = auxo_app(), context()
    assert wish(app, where, feedback(client=7)) is None


def test_the_same_feedback_counts_once() -> None:
    app, where = auxo_app(), context()
    wish(app, where, feedback())
    said = take_said(app(asking(feedback()), where)).check_in
    assert said is not None
    assert said.participations == 1


@pytest.mark.parametrize("record", [ConfigRecord(), ConfigRecord({"federation": 7, "task": "{", "affinity": "[]"})])
@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_a_message_that_means_nothing_is_answered_all_the_same(record: ConfigRecord, text: str) -> None:
    message = asking()
    message.content = RecordDict({KEY: record})
    message.metadata.group_id = f"{FEEDBACK}{text}"
    assert not auxo_app()(message, context()).has_error()


def test_an_app_and_its_mods_find_the_group_id_that_a_strategy_has_given() -> None:
    seen: list[str] = []
    app = AuxoClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        seen.append(message.metadata.group_id)
        return Message(RecordDict(), reply_to=message)

    message = asking(feedback(), "train")
    message.metadata.group_id = "7" + message.metadata.group_id
    reply = app(message, context())
    assert seen == ["7"]
    assert take_said(reply).check_in is not None
    assert reply.metadata.group_id == "7"


def test_what_a_node_alone_is_told_or_says_needs_no_object_of_its_own() -> None:
    app, where = auxo_app(), context()
    plain, told = asking(), asking(feedback())
    assert list(plain.content) == list(told.content) == [KEY]
    reply = app(told, where)
    assert not reply.content
    assert take_said(reply).check_in is not None


def test_secure_aggregation_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="compares clients by their updates"):
        AuxoClientApp(mods=[secaggplus_mod])


@pytest.mark.parametrize(("half", "rows"), [(0, [0, 2, 4]), (1, [1, 3]), (None, [0, 1, 2, 3, 4]), (7, [0, 1, 2, 3, 4])])
def test_halves_share_no_sample(half: int | None, rows: list[int]) -> None:
    config = ConfigRecord({} if half is None else {HALF: half})
    message = message_of(RecordDict({"config": config}), Metadata(1, "m", 1, 2, "", "", 0.0, 1e12, MessageType.TRAIN))
    assert list(range(5))[half_of(message, 5)] == rows


@pytest.mark.parametrize(
    ("part", "samples", "rows"),
    [(0, 7, [0, 1, 3, 4, 6]), (1, 7, [2, 5]), (None, 4, [0, 1, 2, 3]), (7, 4, [0, 1, 2, 3]), (1, 2, [0, 1])],
)
def test_what_is_reported_shares_no_sample_with_what_decides(part: int | None, samples: int, rows: list[int]) -> None:
    config = ConfigRecord({} if part is None else {FOR_REPORT: part})
    message = message_of(RecordDict({"config": config}), Metadata(1, "m", 1, 2, "", "", 0.0, 1e12, "evaluate"))
    assert third_of(message, samples).tolist() == rows


def test_the_client_half_needs_no_more_than_numpy_and_flwr() -> None:
    program = (
        "import sys, flwr.clientapp, numpy; before = set(sys.modules)\n"
        "import auxo.flower.client\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(name for name in new if name not in sys.stdlib_module_names and not name.startswith('_')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert set(done.stdout.split()) <= {"auxo", "numpy", "safetensors"}


def test_clients_come_back_with_their_affinity_in_a_new_process_of_the_server(tmp_path: Path) -> None:
    """Contexts are lost, as with SuperNodes that restart; files and the server's directory are not."""

    def grid() -> LocalGrid:
        return LocalGrid(auxo_app(2), NODES, run_config={"auxo-state": str(tmp_path / "nodes")})

    federation(rounds=10, grid=grid(), directory=tmp_path / "server")
    fresh = grid()
    result, _, _ = federation(rounds=12, grid=fresh, directory=tmp_path / "server")
    assert result.tree.leaves == ("0.0", "0.1")
    asked = {}
    for node, where in fresh.contexts.items():
        client = load_client(where, node, _federation(where), AffinitySettings())
        request = client.check_in(explore=False).request
        asked[node] = None if request is None else request.cohort
    assert len({asked[100], asked[102], asked[104], asked[106]}) == 1
    assert len({asked[101], asked[103], asked[105], asked[107]}) == 1
    assert set(asked.values()) == {"0.0", "0.1"}


def _federation(where: Context) -> str:
    return str(where.state.config_records[KEY]["federation"])


def training(judges: tuple[int, ...] = (), words: Words | None = None) -> Message:
    """Return a task to train the model of zeros, and to judge it and another."""
    task = Task(0, CohortId("0"), 1, (CohortId("0"), CohortId("0~0")), Ask(choices=1, judges=judges, words=words))
    other = ArrayRecord({name: Array(array.numpy() + 0.5) for name, array in initial().items()})
    content = RecordDict({"arrays": initial(), "config": ConfigRecord()})
    whole = ask(content, HEAD, task, Trying({CohortId("0~0"): other}, ConfigRecord()))
    return message_of(whole, Metadata(1, "m", 1, 103, "", "", 0.0, 1e12, MessageType.TRAIN))


def flat(reply: Message) -> Float32Array:
    (arrays,) = reply.content.array_records.values()
    return ModelArrays.of(initial()).flat(arrays).astype(np.float32)


def test_a_client_mod_has_its_hand_on_the_update_and_on_all_that_is_said_beside_it() -> None:
    mod = Careful(longest=0.1)
    plain, careful = (auxo_app(client_mods=mods)(training((0, 1)), context()) for mods in ((), (mod,)))
    before, after = take_said(plain).result, take_said(careful).result
    assert before is not None
    assert after is not None

    assert np.linalg.norm(flat(plain)) > 1
    np.testing.assert_allclose(flat(careful), mod.clipped(flat(plain)), rtol=1e-5)
    assert [one.loss for one in after.answer.judged] == [round(one.loss, 2) for one in before.answer.judged]
    assert careful.content["metrics"] == plain.content["metrics"]


def test_words_travel_beside_an_update_that_stays_as_it_is() -> None:
    plain = flat(auxo_app()(training(), context()))
    centres = tuple(tuple(row) for row in np.eye(len(plain))[:2].tolist())
    words = Words("0#1", 1, 32, sketch=0.0, label=0.0, gain=0.0, centres=centres)

    reply = auxo_app()(training((0, 1), words), context())
    said = take_said(reply).result

    assert said is not None
    np.testing.assert_allclose(said.answer.sketch, plain / np.linalg.norm(plain), rtol=1e-5)
    assert said.answer.label in {0, 1}
    assert said.answer.gain is not None
    assert said.answer.judged == ()
    np.testing.assert_array_equal(flat(reply), plain)


def test_a_client_mod_that_changes_nothing_leaves_the_apps_reply_as_it_is() -> None:
    plain, careful = (auxo_app(client_mods=mods)(training((0, 1)), context()) for mods in ((), (Careful(longest=1e9),)))
    assert careful.content == plain.content


def test_a_client_mod_may_refuse_a_task_and_round_a_request() -> None:
    app, where = auxo_app(client_mods=[Careful(refuses=103)]), context()
    reply = app(training(), where)
    assert reply.has_error()
    assert reply.error.reason == "no"
    told = take_said(app(asking(replace(feedback(), instant_reward=0.123)), where)).check_in
    assert told is not None
    assert told.request is not None
    assert told.request.reward == round(told.request.reward, 1)


def test_with_a_client_mod_a_reply_that_it_could_not_look_into_does_not_leave_the_node() -> None:
    app = AuxoClientApp(client_mods=[Careful()])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(RecordDict({"arrays": initial(), "more": initial()}), reply_to=message)

    reply = app(training(), context())
    assert reply.has_error()
    assert "client_mods: expected a reply with the arrays of the model" in str(reply.error.reason)


def test_mods_can_tell_evaluations_of_models_on_trial_from_those_of_the_strategy() -> None:
    seen: list[object] = []

    def note(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if message.metadata.message_type == "evaluate":
            seen.append(message.content.config_records["config"].get("auxo-tries"))
        return call_next(message, context)

    result, _, _ = federation(app=fill(AuxoClientApp(mods=[note]), groups=2), rounds=8)
    assert len(result.cohorts) == 2
    assert {"0", "0~0", "0~1"} <= set(seen)
    assert seen.count(None) == NODES * 7  # in all rounds but that of the partition

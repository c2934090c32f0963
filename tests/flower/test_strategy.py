"""Cohorts over one grid: they are found, each with a strategy of its own; nothing that a node sends ends the run."""

import errno
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedXgbBagging,
    QFedAvg,
    Strategy,
)

from auxo.algorithms.auxo import Auxo
from auxo.algorithms.base import OneCohort
from auxo.algorithms.cfl import Cfl
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.types import CohortId
from auxo.files.checkpoint_store import Disk
from auxo.files.directory_lock import DirectoryInUse, locked_directory
from auxo.flower.client import AuxoClientApp, AuxoMod
from auxo.flower.failing import RunFailed
from auxo.flower.foreign_step import CohortSeen
from auxo.flower.roll_call import CheckInBy
from auxo.flower.strategy import AuxoStrategy
from auxo.flower.wire import ANSWER, CHECK_IN, FOR_REPORT, HALF
from auxo.protocol.codec import to_parts
from auxo.protocol.event_log import EventLog, read_events
from auxo.protocol.events import EmptyRound, Event, Measured, Partitioned, RoundClosed, UpdateRejected, from_json
from auxo.protocol.messages import AffinityRequest, CheckIn
from tests.flower.linear_app import SAMPLES, auxo_app, fill, initial
from tests.flower.local_grid import LocalGrid
from tests.flower.small import NODES, federation, members

Change = Callable[[Message], Iterable[Message]]


@pytest.fixture(autouse=True)
def _samples_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's strategies sample by a global generator; here two runs are to have the same participants."""
    monkeypatch.setattr("flwr.serverapp.strategy.strategy_utils.random.sample", lambda nodes, size: nodes[:size])


def flat(arrays: ArrayRecord) -> np.ndarray:
    return np.concatenate([array.numpy().ravel() for array in arrays.values()])


@pytest.mark.parametrize("check_in", ["piggyback", "query"])
def test_groups_are_found_and_every_node_is_in_its_own(check_in: str) -> None:
    result, events, grid = federation(check_in=check_in)  # type: ignore[arg-type]
    assert sorted(map(sorted, members(result, grid).values())) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert [event.children for event in events if isinstance(event, Partitioned)] == [("0.0", "0.1")]
    assert grid.most_in_flight == 1
    assert result.tree.leaves == ("0.0", "0.1")


@pytest.mark.parametrize(
    "make",
    [
        lambda: FedAdam(eta=0.3),
        lambda: FedAvgM(server_momentum=0.3),
        FedMedian,
        lambda: QFedAvg(client_learning_rate=0.1, q=0.05),
    ],
)
def test_groups_are_found_with_strategies_that_remember(make: Callable[[], Strategy]) -> None:
    result, _, grid = federation(base=make, rounds=14)
    assert sorted(map(sorted, members(result, grid).values())) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_strategies_of_different_cohorts_do_not_share_what_they_remember() -> None:
    made: list[Strategy] = []

    def base() -> Strategy:
        made.append(FedAdam(eta=0.3))
        return made[-1]

    result, _, _ = federation(base=base)
    one, other = (flat(result.cohorts[cohort].arrays) for cohort in ("0.0", "0.1"))
    assert np.abs(one - other).max() > 1


def test_every_model_on_trial_has_its_strategy_configured_in_every_round() -> None:
    rounds: list[int] = []

    class Watched(FedAdam):
        def aggregate_train(
            self, server_round: int, replies: Iterable[Message]
        ) -> tuple[ArrayRecord | None, MetricRecord | None]:
            rounds.append(server_round)
            return super().aggregate_train(server_round, replies)

    federation(base=lambda: Watched(eta=0.3), rounds=7)
    assert rounds == sorted(rounds)
    assert rounds.count(6) > 2


def test_a_strategy_that_empties_the_replies_it_is_given_leaves_them_to_the_others() -> None:
    counts: list[int] = []

    class Emptying(FedMedian):
        def aggregate_train(
            self, server_round: int, replies: Iterable[Message]
        ) -> tuple[ArrayRecord | None, MetricRecord | None]:
            given = list(replies)
            counts.extend(len(reply.content.array_records["arrays"]) for reply in given)
            return super().aggregate_train(server_round, given)

    federation(base=Emptying, rounds=7)
    assert set(counts) == {2}


def test_each_cohort_has_its_model_and_its_metrics() -> None:
    result, _, _ = federation()
    for cohort in ("0.0", "0.1"):
        losses = result.cohorts[cohort].evaluate_metrics_clientapp
        assert float(losses[12]["eval_loss"]) < 0.5  # type: ignore[arg-type]
    assert float(result.history["0"].evaluate_metrics_clientapp[1]["eval_loss"]) > 1  # type: ignore[arg-type]
    assert set(result.evaluate_metrics_clientapp[12]) == {"cohort-0.0/eval_loss", "cohort-0.1/eval_loss"}
    assert set(result.evaluate_metrics_clientapp[1]) == {"eval_loss"}


def test_evaluate_fn_sees_every_cohorts_model() -> None:
    seen: list[int] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        seen.append(number)
        return MetricRecord({"norm": float(np.linalg.norm(flat(arrays)))})

    strategy = AuxoStrategy(FedAvg, participants=NODES)
    result = strategy.start(LocalGrid(auxo_app(2), NODES), initial(), num_rounds=10, evaluate_fn=evaluate)
    assert seen[:2] == [0, 1]
    assert seen.count(10) == 2
    assert set(result.evaluate_metrics_serverapp[10]) == {"cohort-0.0/norm", "cohort-0.1/norm"}


def test_the_share_bounds_whom_the_strategy_samples_unless_the_method_wants_everybody() -> None:
    def participants(method: CohortAlgorithm) -> set[int]:
        events: list[Event] = []
        strategy = AuxoStrategy(FedAvg, participants=4, method=method, on_event=events.append)
        strategy.start(LocalGrid(auxo_app(groups=2), NODES), initial(), num_rounds=2, timeout=5.0)
        return {event.participants for event in events if isinstance(event, RoundClosed)}

    assert participants(OneCohort()) == {4}
    assert participants(Cfl()) == {NODES}


def test_one_group_stays_one_cohort() -> None:
    result, events, _ = federation(app=auxo_app(groups=1), rounds=14)
    assert result.tree.leaves == ("0",)
    assert not any(isinstance(event, Partitioned) for event in events)


def test_the_maker_of_strategies_is_told_the_cohort_and_its_participants() -> None:
    told: list[CohortSeen] = []

    def base(cohort: CohortSeen) -> Strategy:
        told.append(cohort)
        return DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.0, 5.0, cohort.participants)

    result, _, _ = federation(base=base, rounds=14)
    assert result.tree.leaves == ("0.0", "0.1")
    assert CohortSeen("0", NODES) in told
    shares = {one.name: one.participants for one in told if one.name in result.tree.leaves}
    assert set(shares) == {"0.0", "0.1"}
    assert sum(shares.values()) == NODES


def test_a_mod_finds_the_same_groups_as_the_class() -> None:
    from flwr.clientapp import ClientApp  # noqa: PLC0415

    mod = AuxoMod()
    app = mod.of(fill(ClientApp(mods=[mod]), groups=2))
    by_mod, _, grid = federation(app=app, check_in="query")
    assert sorted(map(sorted, members(by_mod, grid).values())) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_an_app_that_honours_halves_trains_and_judges_by_them() -> None:
    seen: list[tuple[str, object]] = []
    app = auxo_app(groups=2, halves=True, seen=seen)
    result, _, _ = federation(app=app)
    assert result.tree.leaves == ("0.0", "0.1")
    assert {half for kind, half in seen if kind == "train"} == {None, 0}
    assert {half for kind, half in seen if kind == "evaluate"} == {None, 0, 1}


def test_an_app_without_halves_is_not_told_of_any() -> None:
    seen: list[tuple[str, object]] = []
    result, _, _ = federation(app=auxo_app(groups=2, seen=seen))
    assert result.tree.leaves == ("0.0", "0.1")
    assert {half for _, half in seen} == {None}


def test_the_log_says_by_what_models_are_judged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="flwr")
    federation(app=auxo_app(groups=2, halves=True))
    assert "clients train on all their samples" not in caplog.text
    federation(app=auxo_app(groups=2))
    assert caplog.text.count("clients train on all their samples, for the app does not honour halves") == 1
    assert "nobody judges models" not in caplog.text
    caplog.clear()
    silent = fill(AuxoClientApp(losses=("unheard-of",)), groups=2)
    result, _, _ = federation(app=silent)
    assert result.tree.leaves == ("0",)
    assert caplog.text.count("nobody judges models, and without that no cohort is ever partitioned") == 1
    why = "the app's evaluation names no loss: it gives eval_loss, num-examples, and looked for were unheard-of"
    assert f"nobody judged a partition on trial, so that nobody knows what it would bring: {why}" in caplog.text
    assert "a partition was judged by nobody, and is undone" in caplog.text
    assert "did not pay" not in caplog.text
    assert "clients train on all their samples" not in caplog.text


@pytest.mark.parametrize("check_in", ["piggyback", "query"])
@pytest.mark.parametrize("halves", [False, True])
def test_an_app_that_keeps_a_third_of_its_samples_for_the_report_decides_by_none_of_them(
    check_in: CheckInBy, halves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="flwr")
    parts: set[tuple[object, ...]] = set()

    def note(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        config, kind = message.content.config_records["config"], message.metadata.message_type
        reply = call_next(message, context)
        examples = reply.content.metric_records["metrics"]["num-examples"]
        if HALF not in config:  # halves are of other samples
            parts.add((kind, config.get(FOR_REPORT), examples))
        return reply

    app = AuxoClientApp(halves=halves, thirds=True, mods=[note])
    fill(app, groups=2)
    result, _, _ = federation(app=app, check_in=check_in)
    assert result.tree.leaves == ("0.0", "0.1")
    assert parts == {("train", None, SAMPLES), ("evaluate", 0, 2 * SAMPLES // 3), ("evaluate", 1, SAMPLES // 3)}
    assert "are of a third of their samples, by which nothing was decided" in caplog.text
    assert "gains look better than they are" not in caplog.text


def test_the_log_says_that_metrics_are_of_the_samples_that_have_decided(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="flwr")
    federation()
    assert (
        caplog.text.count("gains look better than they are. An app that takes its evaluation samples by third_of") == 1
    )
    caplog.clear()
    federation(app=auxo_app(groups=1))
    assert "gains look better" not in caplog.text


def test_the_log_has_the_lines_that_users_of_flower_know_and_whose_they_are(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="flwr")

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord({"norm": float(number)})

    strategy = AuxoStrategy(FedAvg, participants=NODES)
    result = strategy.start(LocalGrid(auxo_app(2), NODES), initial(), num_rounds=9, evaluate_fn=evaluate)
    lines = [one.getMessage() for one in caplog.records]
    assert lines[0] == "Starting AuxoStrategy strategy:"
    assert "\t├── Number of rounds: 9" in lines
    assert "Initial global evaluation results: {'norm': 0.0}" in lines
    assert lines.index("[ROUND 1/9]") < lines.index("configure_train: Sampled 8 nodes (out of 8)")
    assert lines.count("[ROUND 9/9] of cohort 0.0") == lines.count("[ROUND 9/9] of cohort 0.1") == 1
    first = result.history["0"].train_metrics_clientapp[1]
    assert f"\t└──> Aggregated MetricRecord: {first}" in lines
    last = result.cohorts["0.1"].evaluate_metrics_clientapp[9]
    assert f"\t└──> Aggregated MetricRecord of cohort 0.1, round 9: {last}" in lines
    assert lines[lines.index("Global evaluation of cohort 0.1, round 9") + 1] == "\t└──> MetricRecord: {'norm': 9.0}"
    assert any(line.startswith("Strategy execution finished in ") for line in lines)
    end = lines[lines.index("Final results:") :]
    assert "\tCohorts:" in end
    assert any("0.1: 9 rounds" in line for line in end)


def test_the_log_says_when_a_partition_is_tried_and_that_more_rounds_decide(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="flwr")
    _, events, _ = federation()
    (parted,) = [event.round for event in events if isinstance(event, Partitioned)]
    assert caplog.text.count("a partition is on trial") == 1
    assert "more rounds decide" not in caplog.text
    federation(rounds=parted - 1)
    assert caplog.text.count("the run has ended while a partition of cohort 0 was on trial; more rounds decide") == 1


def test_too_few_rounds_or_participants_are_told_in_arguments_of_the_strategy(caplog: pytest.LogCaptureFixture) -> None:
    federation(rounds=2)
    assert "raise num_rounds of start()" in caplog.text
    AuxoStrategy(FedAvg, participants=1).start(LocalGrid(auxo_app(2), NODES), initial(), num_rounds=1, timeout=5.0)
    assert "raise participants of AuxoStrategy" in caplog.text
    assert "training." not in caplog.text


def test_a_strategy_that_evaluates_on_nobody_is_not_asked_whom_and_another_is() -> None:
    class Own(FedAvg):
        def configure_evaluate(  # type: ignore[no-untyped-def]
            self, server_round, arrays, config, grid
        ):
            asked.append(server_round)
            return []

    asked: list[int] = []
    result, _, _ = federation(rounds=2, base=lambda: FedAvg(fraction_evaluate=0.0))
    assert not result.evaluate_metrics_clientapp
    federation(rounds=2, base=lambda: Own(fraction_evaluate=0.0))
    assert asked == [1, 2]


def test_apps_without_the_client_half_are_trained_as_one_cohort() -> None:
    from flwr.clientapp import ClientApp  # noqa: PLC0415

    result, _, _ = federation(app=fill(ClientApp(), groups=2), rounds=4)
    assert result.tree.leaves == ("0",)
    assert len(result.train_metrics_clientapp) == 4


def warned_of(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    """Return the warnings in the log that begin so, or say so."""
    return [one.getMessage() for one in caplog.records if one.levelname == "WARNING" and words in one.getMessage()]


def test_a_loss_under_another_name_is_told_in_the_first_round_with_the_metrics_that_came_and_the_cure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def rename(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        reply = call_next(message, context)
        metrics = reply.content.metric_records["metrics"]
        if "eval_loss" in metrics:
            metrics["test_logloss"] = metrics.pop("eval_loss")
        return reply

    app = AuxoClientApp(mods=[rename])
    federation(app=fill(app, groups=2), rounds=1)
    (told,) = warned_of(caplog, "nodes can judge no models")
    assert "8 of 8" in told
    assert "it gives num-examples, test_logloss" in told
    assert "AuxoClientApp(losses=('test_logloss',))" in told
    assert "(nodes 100, 101, 102, 103, 104, 105, 106, 107)" in told
    caplog.clear()
    federation(app=fill(AuxoClientApp(mods=[rename], losses=("test_logloss",)), groups=2), rounds=7)
    assert not warned_of(caplog, "judge")


def test_an_evaluation_that_fails_on_models_on_trial_is_told_with_its_error(caplog: pytest.LogCaptureFixture) -> None:
    def break_it(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if message.metadata.message_type == "evaluate":
            raise ZeroDivisionError("no samples")
        return call_next(message, context)

    base = partial(FedAvg, fraction_evaluate=0.0)
    federation(app=fill(AuxoClientApp(mods=[break_it]), groups=2), rounds=7, base=base)
    (told,) = warned_of(caplog, "nodes can judge no models")
    assert "the app's evaluation failed: ZeroDivisionError('no samples')" in told
    assert warned_of(caplog, "nobody judges models") == [
        "nobody judges models, and without that no cohort is ever partitioned: the app's evaluation failed: "
        "ZeroDivisionError('no samples')"
    ]


@pytest.mark.parametrize("bare", [{100, 102}, set(range(100, 100 + NODES))], ids=["some", "all"])
def test_nodes_without_the_client_half_are_named_in_the_first_round(
    bare: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    from flwr.clientapp import ClientApp  # noqa: PLC0415

    ours, plain = auxo_app(2), fill(ClientApp(), 2)

    class Mixed(ClientApp):
        def __call__(self, message: Message, context: Context) -> Message:
            return (plain if context.node_id in bare else ours)(message, context)

    federation(app=Mixed(), rounds=1)
    (told,) = warned_of(caplog, "have not the client half")
    assert told.startswith(f"{len(bare)} of 8 nodes have not the client half")
    assert told.endswith(": " + ", ".join(map(str, sorted(bare))))
    caplog.clear()
    federation(app=Mixed(), rounds=7)
    assert len(warned_of(caplog, "of 8 nodes have not the client half: they train")) == 1
    assert bool(warned_of(caplog, "nobody judged a partition on trial")) is (len(bare) == NODES)
    assert "did not pay" not in caplog.text


def test_nodes_without_the_client_half_that_are_asked_to_check_in_are_named(caplog: pytest.LogCaptureFixture) -> None:
    from flwr.clientapp import ClientApp  # noqa: PLC0415

    with pytest.raises(RunFailed, match="0 are there for it"):
        federation(app=fill(ClientApp(), groups=2), rounds=1, check_in="query", timeout=0.2)
    (told,) = warned_of(caplog, "nodes cannot check in")
    assert "8 nodes cannot check in, and so do not take part; their app has to be an AuxoClientApp" in told


def test_a_run_that_ends_on_a_trial_that_nobody_judges_does_not_ask_for_more_rounds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="flwr")
    federation(app=fill(AuxoClientApp(losses=("unheard-of",)), groups=2), rounds=6)
    (told,) = warned_of(caplog, "the run has ended while a partition of cohort 0 was on trial")
    assert "nobody judges it: the app's evaluation names no loss: it gives eval_loss" in told
    assert "more rounds decide" not in caplog.text


# What nodes may send.

BAD_NODE = 103


def on_train(tamper: Callable[[Message], Message | None], kind: str = "train") -> Change:
    def change(reply: Message) -> Iterator[Message]:
        is_bad = reply.metadata.src_node_id == BAD_NODE and reply.metadata.message_type == kind
        answer = tamper(reply) if is_bad and not reply.has_error() else reply
        if answer is not None:
            yield answer

    return change


def with_arrays(**arrays: np.ndarray) -> Callable[[Message], Message]:
    def tamper(reply: Message) -> Message:
        kept = {
            name: Array(arrays.get(name, array.numpy()))
            for name, array in reply.content.array_records["arrays"].items()
        }
        kept.update({name: Array(values) for name, values in arrays.items() if name not in kept})
        reply.content["arrays"] = ArrayRecord(kept)
        return reply

    return tamper


def with_metric(name: str, value: float | list[float]) -> Callable[[Message], Message]:
    def tamper(reply: Message) -> Message:
        reply.content.metric_records["metrics"][name] = value
        return reply

    return tamper


def without(name: str) -> Callable[[Message], Message]:
    def tamper(reply: Message) -> Message:
        del reply.content[name]
        return reply

    return tamper


def with_header_that_lies(reply: Message) -> Message:
    whole = reply.content.array_records["arrays"]["w"]
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 9), }"
    reply.content.array_records["arrays"]["w"] = Array(whole.dtype, whole.shape, whole.stype, header.ljust(128) + b"x")
    return reply


def as_error(reply: Message) -> Message:
    metadata = reply.metadata
    error = Message(Error(code=5, reason="Node Unavailable"), reply_to=reply)
    error.__dict__["_metadata"] = metadata
    return error


BAD = {
    "not a number": (with_arrays(w=np.full((3, 6), np.nan)), "NON_FINITE"),
    "infinite": (with_arrays(b=np.full(3, np.inf)), "NON_FINITE"),
    "another shape": (with_arrays(w=np.zeros((3, 7))), "SCHEMA_MISMATCH"),
    "a shape that broadcasts": (with_arrays(b=np.zeros(1)), "SCHEMA_MISMATCH"),
    "one tensor more": (with_arrays(extra=np.zeros(1)), "SCHEMA_MISMATCH"),
    "whole numbers": (with_arrays(w=np.zeros((3, 6), dtype=np.int64)), "SCHEMA_MISMATCH"),
    "a header that lies": (with_header_that_lies, "SCHEMA_MISMATCH"),
    "no arrays": (without("arrays"), "SCHEMA_MISMATCH"),
    "no metrics": (without("metrics"), "SCHEMA_MISMATCH"),
    "huge": (with_arrays(w=np.full((3, 6), 1e6)), "UNUSUAL_LENGTH"),
    "far too many examples": (with_metric("num-examples", 10**12), "BAD_WEIGHT"),
    "examples below zero": (with_metric("num-examples", -19), "BAD_WEIGHT"),
    "no examples": (with_metric("num-examples", 0), "BAD_WEIGHT"),
    "examples that are no number": (with_metric("num-examples", float("nan")), "SCHEMA_MISMATCH"),
    "a list of examples": (with_metric("num-examples", [1.0, 2.0]), "SCHEMA_MISMATCH"),
    "a metric that others have not": (with_metric("more", 1.0), "SCHEMA_MISMATCH"),
    "a loss that is no number": (with_metric("train_loss", float("inf")), "SCHEMA_MISMATCH"),
    "an error": (as_error, None),
}


@pytest.mark.parametrize(("tamper", "reason"), BAD.values(), ids=BAD)
def test_a_bad_reply_is_refused_with_its_reason_and_changes_nothing_for_others(
    tamper: Callable[[Message], Message | None], reason: str | None
) -> None:
    bad, events, _ = federation(rounds=3, change=on_train(tamper))
    silent, _, _ = federation(rounds=3, change=on_train(as_error))
    np.testing.assert_array_equal(flat(bad.arrays), flat(silent.arrays))
    refused = [(event.client, event.reason) for event in events if isinstance(event, UpdateRejected)]
    assert refused == ([] if reason is None else [(str(BAD_NODE), reason)] * 3)
    assert [event.failed for event in events if isinstance(event, RoundClosed)] == [int(reason is None)] * 3


def test_a_node_that_never_answers_is_not_asked_again_before_long_and_holds_nobody_up() -> None:
    result, events, grid = federation(rounds=3, change=on_train(lambda reply: None), timeout=0.5)
    assert [event.participants for event in events if isinstance(event, RoundClosed)] == [NODES - 1] * 3
    assert next(event.failed for event in events if isinstance(event, RoundClosed)) == 1
    assert grid.most_in_flight == 1
    assert len(result.train_metrics_clientapp) == 3


def test_replies_twice_or_to_nothing_count_once() -> None:
    def twice(reply: Message) -> Iterator[Message]:
        yield reply
        yield Message(RecordDict(dict(reply.content)), reply_to=_asking(reply))

    doubled, _, _ = federation(rounds=3, change=twice)
    plain, _, _ = federation(rounds=3)
    np.testing.assert_array_equal(flat(doubled.arrays), flat(plain.arrays))


def _asking(reply: Message) -> Message:
    """Return a message of the node to which a reply is one to a message that nobody has sent."""
    return Message(RecordDict(), reply.metadata.src_node_id, "train")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        '{"version":1,"kind":"CheckIn","state":{"client":1,"request":null,"participations":-5}}',
        f"{{{ANSWER}[{ANSWER}",
        "",
    ],
    ids=lambda text: text[:40],
)
def test_affinity_that_means_nothing_counts_as_nothing_said(text: str) -> None:
    def garble(reply: Message) -> Message:
        reply.metadata.group_id = f"{CHECK_IN}{text}"
        return reply

    result, events, _ = federation(rounds=3, change=on_train(garble))
    assert len(result.train_metrics_clientapp) == 3
    assert all(event.participants == NODES for event in events if isinstance(event, RoundClosed))


@pytest.mark.parametrize("cohort", ["7.7", "0" + ".0" * 10_000, "", "../../etc"])
def test_cohorts_that_never_were_count_as_no_preference(cohort: str) -> None:
    def claim(reply: Message) -> Message:
        request = AffinityRequest(CohortId(cohort), 1.0, 10**9, 1, True, 9)
        reply.metadata.group_id = f"{CHECK_IN}{to_parts(CheckIn(BAD_NODE, request, 5))[0]}"
        return reply

    result, _, _ = federation(rounds=4, change=on_train(claim))
    assert len(result.train_metrics_clientapp) == 4


def test_the_log_says_why_nodes_fail(caplog: pytest.LogCaptureFixture) -> None:
    app = AuxoClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise FileNotFoundError("no such folder: data")

    with pytest.raises(RunFailed, match=r"ClientApp of 8 nodes raised an error, most often FileNotFoundError.*: data"):
        federation(app=app, rounds=1, timeout=20.0)
    assert "cohort 0, round 1: 8 of 8 nodes failed, most often by: " in caplog.text
    assert "no such folder: data" in caplog.text


def test_clients_that_fail_later_are_waited_for_and_what_was_trained_is_not_lost() -> None:
    def failing_from(number: int) -> Change:
        def change(reply: Message) -> Iterator[Message]:
            is_late = reply.metadata.message_type == "train" and grid.pulled > number
            yield as_error(reply) if is_late else reply

        return change

    grid = LocalGrid(auxo_app(2), NODES)
    grid.change = failing_from(4)
    result, events, _ = federation(rounds=8, grid=grid, timeout=0.2)
    assert 1 <= len(result.train_metrics_clientapp) < 8
    assert any(isinstance(event, EmptyRound) for event in events)


def test_nodes_that_are_away_in_the_first_round_are_waited_for() -> None:
    def change(reply: Message) -> Iterator[Message]:
        yield as_error(reply) if grid.pulled < 3 else reply

    grid = LocalGrid(auxo_app(2), NODES)
    grid.change = change
    result, _, _ = federation(rounds=2, grid=grid)
    assert sorted(result.train_metrics_clientapp) == [1, 2]


def test_the_error_says_what_a_reply_needs_where_none_can_be_used() -> None:
    app = AuxoClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"loss": 1.0})}), reply_to=message)

    with pytest.raises(RunFailed, match=r"8 replies were refused, .* one MetricRecord .* with 'num-examples' in it"):
        federation(app=app, rounds=1, timeout=20.0)


class AggregatesBadly(FedAvg):
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        raise KeyError("lr")


class MakesAnotherModel(FedAvg):
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        return ArrayRecord({"w": Array(np.zeros(2))}), None


class EvaluatesBadly(FedAvg):
    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        raise KeyError("lr")


@pytest.mark.parametrize(
    ("base", "error"),
    [(AggregatesBadly, "lr"), (EvaluatesBadly, "lr"), (MakesAnotherModel, r"got w \(2,\); it has to")],
)
def test_what_a_strategy_raises_ends_the_run_at_once_as_in_flower(
    base: type[Strategy], error: str, tmp_path: Path
) -> None:
    with pytest.raises((KeyError, ValueError), match=error):
        federation(base=base, directory=tmp_path, timeout=20.0)
    assert (tmp_path / "report.html").exists()


def test_a_strategy_that_waits_for_more_nodes_than_ever_come_ends_with_an_error() -> None:
    with pytest.raises(RunFailed, match=r"nothing was trained: cohort 0 is given up.*50 nodes"):
        federation(rounds=2, base=lambda: FedAvg(min_available_nodes=50), timeout=0.2)


@pytest.mark.parametrize(
    "metrics",
    [
        {"eval_loss": 1.0},
        {"eval_loss": 1.0, "num-examples": -24 * (NODES - 1)},
        {"eval_loss": [1.0], "num-examples": 24},
        {"eval_loss": 1.0, "num-examples": [1.0, 2.0]},
        {},
    ],
)
def test_no_single_nodes_evaluation_can_make_a_strategy_fail(metrics: dict[str, float | list[float]]) -> None:
    def change(reply: Message) -> Iterator[Message]:
        if reply.metadata.message_type == "evaluate" and reply.metadata.src_node_id == BAD_NODE:
            reply.content["metrics"] = MetricRecord(dict(metrics))
        yield reply

    result, _, _ = federation(rounds=2, change=change)
    silent, _, _ = federation(rounds=2, change=on_train(as_error, "evaluate"))
    assert result.evaluate_metrics_clientapp == silent.evaluate_metrics_clientapp
    assert sorted(result.evaluate_metrics_clientapp) == [1, 2]


def test_a_cohort_whose_nodes_vanish_does_not_hold_up_the_other() -> None:
    class Leaving(LocalGrid):
        def get_node_ids(self) -> list[int]:
            gone = self.pulled > 24
            return [node for node in super().get_node_ids() if not gone or node % 2 == 0]

    result, _, _ = federation(rounds=20, grid=Leaving(auxo_app(2), NODES), timeout=0.5)
    done = sorted(max(one.train_metrics_clientapp) for one in result.cohorts.values())
    assert done[1] == 20
    assert done[0] < 20


# Refusals.


def test_secure_aggregation_is_refused_with_the_reason() -> None:
    from flwr.server.workflow import SecAggPlusWorkflow  # noqa: PLC0415

    with pytest.raises(ValueError, match="hides clients' updates"):
        AuxoStrategy(lambda: SecAggPlusWorkflow(3, 2), participants=4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "error"), [(FedXgbBagging, "trees"), (lambda: AuxoStrategy(FedAvg, participants=4), "AuxoStrategy")]
)
def test_strategies_that_cannot_work_are_refused(base: Callable[[], Strategy], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        AuxoStrategy(base, participants=4)


def test_what_is_no_strategy_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a strategy"):
        AuxoStrategy(7, participants=4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"flwr\.serverapp\.strategy"):
        AuxoStrategy(dict, participants=4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"participants": "8"}, TypeError, "participants: expected a whole number, got '8'"),
        ({"participants": 8.0}, TypeError, "participants: expected a whole number, got 8.0"),
        ({"participants": True}, TypeError, "participants: expected a whole number, got True"),
        ({"participants": 0}, ValueError, "participants: expected at least 1, got 0"),
        ({"participants": 8, "total_rounds": "9"}, TypeError, "total_rounds: expected a whole number, got '9'"),
        ({"participants": 8, "method": "auxo"}, TypeError, "method: expected a method, such as .*, got 'auxo'"),
        ({"participants": 8, "method": Auxo}, TypeError, "method: expected a method, such as .*, got <class"),
    ],
)
def test_arguments_of_another_kind_are_refused_where_they_are_written(
    arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        AuxoStrategy(FedAvg, **arguments)  # type: ignore[arg-type]


def test_a_wrapper_around_auxo_is_told_to_go_inside() -> None:
    wrapped = DifferentialPrivacyServerSideFixedClipping(AuxoStrategy(FedAvg, participants=4), 0.1, 1.0, 4)
    with pytest.raises(NotImplementedError, match="put it inside"):
        wrapped.start(LocalGrid(auxo_app(), 4), initial(), num_rounds=1)


def test_a_strategy_itself_can_be_given() -> None:
    given, _, _ = federation(rounds=3, base=FedAvg(fraction_evaluate=0.5))
    assert len(given.train_metrics_clientapp) == 3


def test_bulyan_in_a_cohort_too_small_for_it_costs_rounds_and_not_the_run() -> None:
    result, _, _ = federation(rounds=10, base=lambda: Bulyan(num_malicious_nodes=1), timeout=0.5)
    assert result.cohorts


# Runs that go on.


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, events, _ = federation(rounds=12, base=lambda: FedAdam(eta=0.3), directory=tmp_path / "whole")
    grid, tmp_path = LocalGrid(auxo_app(2), NODES), tmp_path / "parts"
    for rounds in (1, 6, 9):
        federation(rounds=rounds, base=lambda: FedAdam(eta=0.3), grid=grid, directory=tmp_path)
    parts, _, _ = federation(rounds=12, base=lambda: FedAdam(eta=0.3), grid=grid, directory=tmp_path)
    assert parts.tree == whole.tree
    for cohort in whole.cohorts:
        np.testing.assert_array_equal(flat(parts.cohorts[cohort].arrays), flat(whole.cohorts[cohort].arrays))
    assert parts.evaluate_metrics_clientapp == whole.evaluate_metrics_clientapp
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    written = [from_json(line) for line in lines]
    assert [type(one) for one in written if isinstance(one, RoundClosed | Partitioned)] == [
        type(one) for one in events if isinstance(one, RoundClosed | Partitioned)
    ]


def test_a_damaged_checkpoint_is_put_aside_and_the_one_before_is_used(tmp_path: Path) -> None:
    grid = LocalGrid(auxo_app(2), NODES)
    federation(rounds=4, grid=grid, directory=tmp_path)
    newest = max((tmp_path / "checkpoints").glob("*-whole.safetensors"), key=lambda path: path.name.split("-")[1])
    newest.write_bytes(newest.read_bytes()[:-7])
    result, _, _ = federation(rounds=6, grid=grid, directory=tmp_path)
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3, 4, 5, 6]


def test_a_full_disk_costs_the_record_and_not_the_run_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: object, *written: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(EventLog, "write", full)
    monkeypatch.setattr(Disk, "write", full)
    result, _, _ = federation(rounds=4, directory=tmp_path)
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3, 4]
    for what in ("a checkpoint", "an event"):
        assert caplog.text.count(f"{what} could not be written (No space left on device: {tmp_path})") == 1


def test_events_that_somebody_has_changed_are_written_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = LocalGrid(auxo_app(2), NODES)
    federation(rounds=2, grid=grid, directory=tmp_path)
    (tmp_path / "events.jsonl").write_text("something else\n" * 99)
    federation(rounds=3, grid=grid, directory=tmp_path)
    assert "events are written anew" in caplog.text
    written = read_events(tmp_path / "events.jsonl").events
    assert [one.round for one in written if isinstance(one, RoundClosed)] == [3]


def test_a_run_of_other_settings_is_not_gone_on_with(tmp_path: Path) -> None:
    federation(rounds=2, directory=tmp_path)
    with pytest.raises(ValueError, match="same arguments"):
        federation(rounds=3, directory=tmp_path, method=Auxo(late_feedback=False))
    with pytest.raises(ValueError, match="expected FedAvg"):
        federation(rounds=3, directory=tmp_path, base=FedMedian)


def test_what_a_checkpoint_does_not_hold_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class WithHistory(FedAvg):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def aggregate_train(
            self, server_round: int, replies: Iterable[Message]
        ) -> tuple[ArrayRecord | None, MetricRecord | None]:
            self.seen.append(f"round {server_round}")
            return super().aggregate_train(server_round, replies)

    federation(base=WithHistory, directory=tmp_path)
    (told,) = warned_of(caplog, "checkpoints do not hold")
    assert "WithHistory.seen" in told


def test_a_run_in_a_directory_leaves_a_report_of_its_cohorts_and_metrics(tmp_path: Path) -> None:
    result, events, _ = federation(rounds=12, directory=tmp_path)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{len(result.cohorts)} cohorts found, after 12 rounds." in html
    assert "eval_loss" in html
    told = [event for event in events if isinstance(event, Measured) and event.source == "evaluation"]
    numbers = {(event.cohort, event.round): dict(zip(event.names, event.values, strict=True)) for event in told}
    for cohort, one in result.history.items():
        for number, metrics in one.evaluate_metrics_clientapp.items():
            assert numbers[cohort, number] == dict(metrics)


def test_two_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    with locked_directory(tmp_path), pytest.raises(DirectoryInUse):
        federation(rounds=1, directory=tmp_path)


def test_names_of_cohorts_are_those_of_the_tree() -> None:
    result, _, _ = federation()
    assert set(result.cohorts) == set(map(CohortId, result.tree.leaves))

"""The runner: real small runs of every method, what they leave behind, and what must not matter to them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from auxo.cli import app
from auxo.core.rng import stream
from auxo.experiments import runner
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_checkpoints import RunCheckpoints
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import MethodResult, Stage, has_groups, run_experiment, run_method
from auxo.experiments.summary import Summary
from auxo.population.federated_data import FederatedData
from auxo.protocol.codec import to_bytes
from auxo.protocol.event_log import RecordedEvents
from auxo.protocol.events import Evaluated, Event, OnEvent, Partitioned
from auxo.reporting.facts import gather_facts
from auxo.reporting.report import write_report
from tests.population.saved import save_population
from tests.registry.own_parts import METHOD

# Two groups that name the classes differently: a partition pays, and is found within a few rounds.
SMALL = """
[population]
source = "synthetic"
clients = 90
groups = 2
heterogeneity = "concept"
features = 6
classes = 3
samples = [20, 30]
test_samples = 10

[training]
aggregator = "fedavg"
rounds = 24
participants = 40
learning_rate = 0.1
batch_size = 10

[ifca]
cohorts = 2
warm_start = 2

[run]
evaluate_every = 6
"""


def small(*overrides: str) -> Config:
    return parse_config(SMALL, overrides)


def ignore(label: str, event: Event) -> None:
    pass


def run(path: Path, config: Config) -> tuple[RunDirectory, Summary]:
    directory = RunDirectory.create(path, to_toml(config))
    return directory, run_experiment(config, directory, ignore)


def weights(result: MethodResult) -> dict[str, bytes]:
    cohorts = result.state.coordinator.cohorts
    return {cohort: state.server.weights.tobytes() for cohort, state in cohorts.items()}


def evaluations(events: Sequence[Event]) -> list[Evaluated]:
    return [event for event in events if isinstance(event, Evaluated)]


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return make_population(small())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, Summary]:
    return run(tmp_path_factory.mktemp("runs") / "finished", small())


def test_auxo_beats_the_base_where_groups_contradict_each_other(
    finished: tuple[RunDirectory, Summary],
) -> None:
    directory, summary = finished
    base, auxo, oracle = (summary.methods[method].final_accuracy for method in ("base", "auxo", "oracle"))
    assert base < auxo <= oracle + 0.05
    assert any(isinstance(event, Partitioned) for event in directory.events("auxo").events)
    assert summary.methods["auxo"].brought.oracle_gain_share == pytest.approx((auxo - base) / (oracle - base))


# Auxo as it is by default, on few enough clients for a test.
FEW_CLIENTS = """
[population]
clients = 300
noise = 0.6

[devices]
kind = "equal"
overcommit = 0.0

[training]
aggregator = "fedavg"
rounds = 60
participants = 60
learning_rate = 0.1
batch_size = 10

[run]
evaluate_every = 60
"""


def base_and_auxo(*overrides: str) -> tuple[MethodResult, MethodResult]:
    config = parse_config(FEW_CLIENTS, overrides)
    data = make_population(config)
    return run_method("base", config, data), run_method("auxo", config, data)


def partitions(result: MethodResult) -> int:
    return sum(isinstance(event, Partitioned) for event in result.events)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_population_without_groups_is_left_alone(seed: int) -> None:
    base, auxo = base_and_auxo("population.heterogeneity=none", f"seed={seed}")
    assert partitions(auxo) == 0
    assert auxo.state.coordinator.tree.leaves == base.state.coordinator.tree.leaves
    assert auxo.final.lost == 0
    # Not the same bits: while a partition is possible, some clients train on one half of their samples.
    assert auxo.final.accuracy == pytest.approx(base.final.accuracy, abs=0.01)


def test_the_same_clients_are_partitioned_once_they_are_of_two_groups() -> None:
    base, auxo = base_and_auxo("population.heterogeneity=concept", "population.groups=2")
    assert partitions(auxo) >= 1
    assert auxo.final.accuracy > base.final.accuracy + 0.2


def test_the_summary_is_written_as_it_is_returned(finished: tuple[RunDirectory, Summary]) -> None:
    directory, summary = finished
    assert directory.read_summary() == summary
    assert summary.status == "finished"
    assert tuple(summary.finished) == ("base", "auxo", "oracle")


def test_recorded_events_end_with_the_evaluation_the_summary_tells(
    finished: tuple[RunDirectory, Summary],
) -> None:
    directory, summary = finished
    for method in directory.methods():
        last = directory.events(method).events[-1]
        assert isinstance(last, Evaluated)
        assert last.accuracy == summary.methods[method].final_accuracy
        assert last.participations == summary.methods[method].participations


def test_client_scores_are_those_of_the_last_evaluation(finished: tuple[RunDirectory, Summary]) -> None:
    directory, summary = finished
    clients = directory.read_clients("auxo")
    assert clients is not None
    assert clients.accuracy.mean() == pytest.approx(summary.methods["auxo"].final_accuracy)
    last = evaluations(directory.events("auxo").events)[-1]
    names, counts = np.unique(clients.cohort, return_counts=True)
    assert {score.cohort: score.clients for score in last.cohorts} == dict(zip(names, counts, strict=True))
    assert clients.group is not None


def test_every_cohort_is_counted(finished: tuple[RunDirectory, Summary]) -> None:
    directory, summary = finished
    partitions = [event for event in directory.events("auxo").events if isinstance(event, Partitioned)]
    assert summary.methods["auxo"].cohorts == 1 + sum(len(partition.children) - 1 for partition in partitions)


def test_evaluations_come_every_so_many_whole_rounds_and_at_the_end(data: FederatedData) -> None:
    curve = run_method("base", small("training.rounds=20"), data).curve
    assert [point.round for point in curve] == [6, 12, 18, 20]
    curve = run_method("base", small("training.rounds=12"), data).curve
    assert [point.round for point in curve] == [6, 12]


def test_two_runs_are_equal(finished: tuple[RunDirectory, Summary], tmp_path: Path) -> None:
    directory, summary = finished
    again, again_summary = run(tmp_path / "again", small())
    assert again_summary == summary
    for method in directory.methods():
        first, second = (one.path / method / "events.jsonl" for one in (directory, again))
        assert first.read_bytes() == second.read_bytes()


def test_another_seed_is_another_run(data: FederatedData) -> None:
    assert weights(run_method("base", small("seed=1"), data)) != weights(run_method("base", small(), data))


@pytest.mark.parametrize("method", ["auxo", "ifca", "paper"])
def test_workers_do_not_change_a_bit(method: str, data: FederatedData) -> None:
    alone, together = (run_method(method, small(f"run.workers={workers}"), data) for workers in (1, 2))
    assert len(weights(alone)) > 1 or method == "paper"
    assert to_bytes(alone.state) == to_bytes(together.state)
    assert alone.events == together.events


def test_groups_are_hidden_from_auxo(data: FederatedData) -> None:
    assert data.groups is not None
    shuffled = replace(data, groups=stream(1, "groups").permutation(data.groups))
    told, lied, blind = (run_method("auxo", small(), one) for one in (data, shuffled, replace(data, groups=None)))
    assert len(weights(told)) > 1
    assert weights(told) == weights(lied) == weights(blind)
    assert told.final.ari != lied.final.ari
    assert blind.final.ari is None


def test_the_base_keeps_one_cohort(data: FederatedData) -> None:
    result = run_method("base", small(), data)
    assert result.state.coordinator.tree.leaves == ("0",)
    assert result.final.participations == 24 * 40


def test_the_better_one_of_the_oracles_two_runs_counts(tmp_path: Path) -> None:
    told: dict[str, list[Event]] = {}
    config = small('methods=["oracle"]')
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    summary = run_experiment(config, directory, lambda label, event: told.setdefault(label, []).append(event))
    ends = {label: evaluations(events)[-1] for label, events in told.items()}
    assert len(ends) == 2
    best = max(ends, key=lambda label: ends[label].accuracy)
    assert directory.events("oracle").events == tuple(told[best])
    assert summary.methods["oracle"].final_accuracy == ends[best].accuracy
    assert all(end.ari == 1.0 and len(end.cohorts) == 2 for end in ends.values())
    assert list(summary.methods) == ["oracle"]
    assert summary.methods["oracle"].against_base is None


def test_events_of_the_second_oracle_replace_those_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: FederatedData
) -> None:
    second = replace(run_method("base", small("training.rounds=2"), data), number=1)

    def run_two(
        method: str, config: Config, data: FederatedData, on_event: OnEvent, stage: Stage, kept: RunCheckpoints
    ) -> MethodResult:
        kept.begin_run(0)
        kept.note(second.events[0])
        on_event("first", second.events[0])
        for event in second.events:
            on_event(second.label, event)
        return second

    monkeypatch.setattr(runner, "run_method", run_two)
    directory, _ = run(tmp_path / "run", small('methods=["oracle"]'))
    assert directory.events("oracle").events == second.events


def test_a_run_writes_its_summary_without_reading_its_events_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def events(self: RunDirectory, method: str) -> RecordedEvents:
        raise AssertionError(method)

    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, "events", events)
        directory, summary = run(tmp_path / "run", small("training.rounds=2"))
    ends = {method: evaluations(directory.events(method).events)[-1] for method in directory.methods()}
    assert {method: end.accuracy for method, end in ends.items()} == {
        method: end.final_accuracy for method, end in summary.methods.items()
    }


@pytest.mark.parametrize("has_one_group", [False, True])
def test_the_oracle_is_left_out_without_groups_to_tell_apart(tmp_path: Path, has_one_group: bool) -> None:
    path, data = tmp_path / "clients.npz", make_population(small())
    save_population(path, replace(data, groups=np.zeros(90, dtype=np.int64) if has_one_group else None))
    settings = ("population.source=file", f"population.file={path}", "training.rounds=2")
    directory, summary = run(tmp_path / "run", small(*settings))
    assert directory.methods() == ("base", "auxo")
    assert list(summary.methods) == ["base", "auxo"]
    assert summary.methods["auxo"].brought.oracle_gain_share is None
    assert summary.population == "clients"


def test_a_population_file_gives_the_run_of_the_population_in_it(tmp_path: Path) -> None:
    path = tmp_path / "clients.npz"
    save_population(path, make_population(small()))
    _, summary = run(tmp_path / "run", small("population.source=file", f"population.file={path}"))
    base, auxo = (summary.methods[method].final_accuracy for method in ("base", "auxo"))
    assert auxo > base


def test_an_interrupted_run_keeps_all_that_was_done(tmp_path: Path) -> None:
    config = small()
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    told: list[Event] = []

    def interrupt(label: str, event: Event) -> None:
        if label == "auxo":
            told.append(event)
            if len(evaluations(told)) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(config, directory, interrupt)
    summary = RunDirectory.open(directory.path).read_summary()
    assert summary is not None
    assert summary.status == "interrupted"
    assert summary.methods["base"].participations == 24 * 40
    assert list(summary.methods) == ["base", "auxo"]
    assert list(summary.finished) == ["base"]
    assert directory.events("auxo").events == tuple(told)
    assert directory.read_clients("base") is not None
    assert directory.read_clients("auxo") is None
    assert "This run did not finish" in write_report(directory, gather_facts(directory)).read_text(encoding="utf-8")


def test_an_interrupted_oracle_leaves_its_first_run(tmp_path: Path) -> None:
    config = small('methods=["oracle"]')
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    first: list[Event] = []

    def interrupt(label: str, event: Event) -> None:
        if label == "oracle 2":
            raise KeyboardInterrupt
        first.append(event)

    with pytest.raises(KeyboardInterrupt):
        run_experiment(config, directory, interrupt)
    assert directory.events("oracle").events == tuple(first)


def test_the_papers_variant_runs_to_its_end(data: FederatedData) -> None:
    result = run_method("paper", small("paper.start_round=2"), data)
    assert all(cohort.round == 24 for cohort in result.state.coordinator.cohorts.values())
    assert result.final.accuracy > 0.5


@pytest.mark.parametrize(
    "settings",
    [
        ["devices.availability=day-night", "devices.share_online=0.6"],
        ["devices.kind=equal", "devices.dropout=0.3", "devices.deadline_s=60"],
        ["training.aggregator=fedyogi", "training.model=mlp"],
        ["population.source=digits", "population.heterogeneity=affine", "population.noise=0.3"],
        ["population.source=digits", "population.heterogeneity=label", "training.model=cnn"],
    ],
)
def test_other_worlds_and_models_run_to_their_end(settings: list[str]) -> None:
    config = small("training.rounds=3", "training.participants=20", *settings)
    result = run_method("auxo", config, make_population(config))
    assert all(cohort.round == 3 for cohort in result.state.coordinator.cohorts.values())


def test_slower_devices_take_longer(data: FederatedData) -> None:
    fast, slow = (run_method("base", small(f"devices.slowdown={factor}"), data) for factor in (1, 20))
    assert slow.final.time_s > 10 * fast.final.time_s


def test_no_heterogeneity_means_no_groups() -> None:
    assert not has_groups(make_population(small("population.heterogeneity=none")))
    assert has_groups(make_population(small()))


def test_a_run_in_which_no_round_succeeds_ends_with_the_way_out(data: FederatedData) -> None:
    with pytest.raises(ConfigError, match=r"none of base did; raise devices\.deadline_s"):
        run_method("base", small("devices.deadline_s=0.001"), data)


def test_more_participants_than_clients_in_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "clients.npz"
    save_population(path, make_population(small()))
    config = small("population.source=file", f"population.file={path}", "training.participants=91")
    with pytest.raises(ConfigError, match="expected at most the 90 clients of clients, got 91; lower it"):
        make_population(config)


def test_a_model_that_cannot_take_the_inputs_is_refused(tmp_path: Path, data: FederatedData) -> None:
    path = tmp_path / "clients.npz"
    save_population(path, data)
    config = small("population.source=file", f"population.file={path}", "training.model=cnn")
    with pytest.raises(ConfigError, match=r'training\.model: "cnn" cannot be used: .* square images'):
        trainer_for(config, data)


def test_what_the_generators_refuse_names_the_setting() -> None:
    with pytest.raises(ConfigError, match=r"population\.groups: .* at most one group for each of the 3 classes"):
        make_population(small("population.groups=4"))


def test_the_last_methods_problem_shows_before_the_first_has_run(tmp_path: Path) -> None:
    config = small("population.heterogeneity=rotation", "population.groups=45")
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    with pytest.raises(ConfigError, match="oracle needs a participant a round for each of the 45 groups"):
        run_experiment(config, directory, ignore)
    assert directory.methods() == ()


def test_a_population_that_cannot_be_used_is_one_message_and_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.npz").write_bytes(b"PK")
    result = CliRunner().invoke(app, ["run", "--population", "bad.npz", "--out", "run"])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"auxo: {tmp_path / 'bad.npz'}: file: expected an npz archive")
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ctrl_c_ends_a_real_process_with_130_and_a_report(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SMALL)
    # A process started in the background may have been told to ignore SIGINT, and its children with it.
    (tmp_path / "start.py").write_text(
        "import signal\nfrom auxo.cli import main\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nmain()\n"
    )
    with subprocess.Popen(
        [sys.executable, "start.py", "run", "study.toml", "--set", "training.rounds=20000", "--out", "run"],
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("note: [ifca] is set, but not in use")
        assert process.stderr.readline() == "writing to run\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.splitlines()[-1].startswith("auxo: interrupted; the report of what was done so far: ")
    assert "Traceback" not in told
    directory = RunDirectory.open(tmp_path / "run")
    summary = directory.read_summary()
    assert summary is not None
    assert summary.status == "interrupted"
    assert directory.events("base").events
    assert (directory.path / "report.html").is_file()


def test_the_oracle_alone_without_groups_is_refused(tmp_path: Path) -> None:
    config = small('methods=["oracle"]', 'population.heterogeneity="none"')
    with pytest.raises(ConfigError, match="only oracle is asked for"):
        run(tmp_path / "run", config)


def test_ifca_finds_the_groups_that_the_base_cannot_serve(tmp_path: Path) -> None:
    config = small('methods=["base", "ifca"]')
    told: dict[str, list[Event]] = {}
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    run_experiment(config, directory, lambda label, event: told.setdefault(label, []).append(event))
    base, ifca = (evaluations(directory.events(method).events)[-1] for method in ("base", "ifca"))
    assert directory.methods() == ("base", "ifca")
    assert directory.events("ifca").events == tuple(told["ifca"])
    assert ifca.accuracy > base.accuracy + 0.1
    assert ifca.ari == 1.0
    assert (len(ifca.cohorts), ifca.lost) == (2, 0)
    # A quarter more are invited than count; two rounds of the warm start send one model, all others send both.
    assert (base.downloads, ifca.downloads) == (24 * 50, 2 * 50 + 22 * 50 * 2)
    assert (ifca.matched_accuracy, ifca.matched_ari) == (ifca.accuracy, ifca.ari)
    clients = directory.read_clients("ifca")
    assert clients is not None
    assert set(clients.cohort) == {"0.0", "0.1"}


def test_ifca_that_is_told_of_one_cohort_is_the_base(data: FederatedData) -> None:
    base, ifca = run_method("base", small(), data), run_method("ifca", small("ifca.cohorts=1"), data)
    assert weights(ifca) == weights(base)
    assert ifca.events == base.events


def test_several_initial_models_are_drawn_apart_and_the_first_is_everybodys() -> None:
    config = small("training.model=mlp", "training.rounds=1", "ifca.cohorts=3", "fedavg.server_learning_rate=1e-9")
    data = make_population(config)
    trainer = trainer_for(config, data)
    drawn = [state.server.weights for state in run_method("ifca", config, data).state.coordinator.cohorts.values()]
    np.testing.assert_allclose(drawn[0], trainer.initial_weights(config.seed), atol=1e-6)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(drawn[one] - drawn[other]).max() > 0.01


def test_fedprox_holds_participants_near_the_model_that_they_were_sent(data: FederatedData) -> None:
    few = ("training.rounds=1", "training.epochs=5")
    plain, free, held = (
        run_method("base", small(*few, *more), data)
        for more in (
            (),
            ("training.client=fedprox", "fedprox.mu=0.0"),
            ("training.client=fedprox", "fedprox.mu=1.0"),
        )
    )
    assert weights(free) == weights(plain)
    start = trainer_for(small(), data).initial_weights(0)
    moved = [np.linalg.norm(np.frombuffer(weights(one)["0"], np.float32) - start) for one in (plain, held)]
    assert moved[1] < 0.95 * moved[0]


def test_stragglers_send_partial_work_with_fedprox_and_are_late_without(data: FederatedData) -> None:
    slow = ("training.epochs=5", "training.rounds=3", "devices.deadline_s=20", "devices.overcommit=0")
    plain, partial, whole = (
        run_method("base", small(*slow, *more), data)
        for more in (
            (),
            ("training.client=fedprox", "fedprox.mu=0.0"),
            ("training.client=fedprox", "fedprox.mu=0.0", "fedprox.sends_partial_work=false"),
        )
    )
    assert partial.final.participations > plain.final.participations
    assert weights(whole) == weights(plain)


def test_a_method_of_ones_own_runs_beside_the_base_under_its_short_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_method.py").write_text(METHOD)
    config = small('methods=["base", "my_method.py:MyMethod"]', "training.rounds=2", "run.workers=2")
    directory, _ = run(tmp_path / "run", config)
    assert directory.methods() == ("base", "MyMethod")
    assert directory.events("MyMethod").events == directory.events("base").events


FAILING = (
    METHOD
    + '''

@dataclass(frozen=True)
class Failing(MyMethod):
    """Works until its third round."""

    def close(self, closing, *arguments, **named):
        if closing.states[0].round == 2:
            raise ZeroDivisionError("in my own code")
        return super().close(closing, *arguments, **named)


@dataclass(frozen=True)
class Reading(MyMethod):
    """Wants a file."""

    def close(self, *arguments, **named):
        open("no such file")


@dataclass(frozen=True)
class Reference:
    """Is told the groups, and makes nothing of them."""

    def given(self, groups):
        return (MyMethod(),)
'''
)


def test_a_method_of_ones_own_that_fails_leaves_what_had_finished_and_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("failing.py").write_text(FAILING)
    Path("study.toml").write_text(SMALL)
    settings = ["training.rounds=4", 'methods=["base", "failing.py:Failing", "auxo"]']
    arguments = [word for setting in settings for word in ("--set", setting)]
    result = CliRunner().invoke(app, ["run", "study.toml", *arguments, "--out", "failed"])
    assert result.exit_code == 1
    assert re.search(
        r"auxo: code of your own raised ZeroDivisionError: in my own code at \S*failing.py, line \d+, in close: .*\n"
        r"auxo: Failing \(\S*failing.py:Failing\) failed; what was done so far is in failed, see it with: auxo report",
        result.stderr,
    )
    summary = RunDirectory.open(Path("failed")).read_summary()
    assert summary is not None
    assert summary.status == "interrupted"
    assert list(summary.finished) == ["base"]
    assert CliRunner().invoke(app, ["report", "failed"]).exit_code == 0


def test_an_error_of_the_system_in_ones_own_code_is_that_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reading.py").write_text(FAILING)
    Path("study.toml").write_text(SMALL)
    result = CliRunner().invoke(app, ["run", "study.toml", "--set", 'methods=["reading.py:Reading"]'])
    assert result.exit_code == 1
    assert re.search(r"raised FileNotFoundError: .*'no such file' at \S*reading.py, line \d+, in close", result.stderr)


def test_a_reference_of_ones_own_is_left_out_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("references.py").write_text(FAILING)
    Path("study.toml").write_text(SMALL)
    settings = ["training.rounds=2", "population.heterogeneity=none", 'methods=["base", "references.py:Reference"]']
    arguments = [word for setting in settings for word in ("--set", setting)]
    result = CliRunner().invoke(app, ["run", "study.toml", *arguments])
    assert result.exit_code == 0, result.output
    assert "Reference: left out, because these clients have no known groups to tell apart" in result.stdout
    assert "oracle" not in result.stdout


def test_a_method_that_refuses_is_left_out_with_its_reason_and_the_others_run(tmp_path: Path) -> None:
    notes: list[str] = []
    config = small('methods=["base", "cfl"]', "training.rounds=2", "devices.dropout=0.25")
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    summary = run_experiment(config, directory, ignore, notes.append)

    assert summary.status == "finished"
    assert list(summary.methods) == ["base"]
    assert "in every round, but devices.dropout = 0.25; set" in summary.refused["cfl"]
    assert directory.read_summary() == summary
    assert f"cfl is left out: {summary.refused['cfl']}" in notes


def test_where_every_method_refuses_nothing_is_run(tmp_path: Path, data: FederatedData) -> None:
    config = small('methods=["cfl"]', "devices.deadline_s=60")
    with pytest.raises(ConfigError, match=r"none of them can be run. cfl is left out: needs every one of the"):
        run(tmp_path / "run", config)
    with pytest.raises(ConfigError, match="methods: cfl needs every one of the"):
        run_method("cfl", config, data)


@pytest.mark.parametrize("method", ["fl+hc", "flexcfl", "kfed"])
def test_workers_do_not_change_a_bit_of_what_is_pre_trained_or_sent_besides(method: str, data: FederatedData) -> None:
    settings = ("training.rounds=6", "fl+hc.after=2", "flexcfl.groups=2", "kfed.cohorts=2")
    one, two = (run_method(method, small(*settings, f"run.workers={workers}"), data) for workers in (1, 2))

    assert len(weights(one)) > 1
    assert weights(one) == weights(two)
    assert one.events == two.events


def test_a_method_with_a_sign_in_its_name_has_a_section_and_a_folder(tmp_path: Path) -> None:
    config = small('methods=["fl+hc"]', "training.rounds=3", "fl+hc.after=1")
    assert '["fl+hc"]\nafter = 1' in to_toml(config)
    assert parse_config(to_toml(config)).parts["fl+hc"] == config.parts["fl+hc"]

    directory, summary = run(tmp_path / "run", config)
    assert list(summary.methods) == ["fl+hc"]
    assert directory.events("fl+hc").events

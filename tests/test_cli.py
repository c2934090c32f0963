"""The command line: help, configurations, exit codes and Ctrl-C; what a run computes is tested with the runner."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import Result
from typer.main import get_command
from typer.testing import CliRunner

from auxo.cli import COMMANDS, AuxoCommands, app
from auxo.experiments.config import Config
from auxo.experiments.config_file import load_config, parse_config
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Summary
from auxo.protocol.event_log import RecordedEvents
from auxo.protocol.events import OnEvent, Partitioned
from tests.experiments.made_summaries import brought, made_method, made_summary

OnNote = Callable[[str], None]
RunExperiment = Callable[[Config, RunDirectory, OnEvent, OnNote], Summary]
SUMMARY = made_summary(
    population="digits",
    base=made_method(0.5),
    auxo=made_method(0.5, cohorts=2, ari=1.0, against_base=brought(2.0, 2.0)),
)


def auxo(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def replace_runner(monkeypatch: pytest.MonkeyPatch, run_experiment: RunExperiment) -> None:
    """Let runs take no time: only what the command line makes of them is tested here."""
    module = ModuleType("auxo.experiments.runner")
    vars(module)["run_experiment"] = run_experiment
    monkeypatch.setitem(sys.modules, "auxo.experiments.runner", module)


def partition_and_finish(config: Config, directory: RunDirectory, on_event: OnEvent, on_note: OnNote) -> Summary:
    event = Partitioned(7200.0, "0", 10, ("0.0", "0.1"), (5, 5), 0.42)
    directory.replace_events("auxo", [event])
    on_event("auxo", event)
    return replace(SUMMARY, seed=config.seed)


def partition_and_be_interrupted(
    config: Config, directory: RunDirectory, on_event: OnEvent, on_note: OnNote
) -> Summary:
    partition_and_finish(config, directory, on_event, on_note)
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["run"], ["report"], ["config"], ["config", "show"], ["config", "init"]]
)
def test_every_command_explains_itself_with_examples(command: list[str]) -> None:
    result = auxo(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert "Examples:" in result.output


def test_the_version_is_printed() -> None:
    result = auxo("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("auxo ")


def test_python_dash_m_auxo_is_the_command_line() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # found from any directory
    result = subprocess.run(
        [sys.executable, "-m", "auxo", "--version"], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("auxo ")


def test_config_show_prints_a_file_that_loads_again() -> None:
    assert parse_config(auxo("config", "show").stdout) == Config()
    changed = auxo("config", "show", "--explain", "--set", "training.rounds=7", "--set", "name=other").stdout
    assert parse_config(changed) == parse_config("name = 'other'\n[training]\nrounds = 7\n")


def test_a_population_option_sets_source_and_file() -> None:
    population = parse_config(auxo("config", "show", "--population", "my clients.npz").stdout).population
    assert (population.source, population.file) == ("file", Path("my clients.npz").resolve())


def test_config_init_writes_the_defaults_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    assert auxo("config", "init", path).exit_code == 0
    assert load_config(path) == Config()
    path.write_text("seed = 5\n")
    result = auxo("config", "init", path)
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert path.read_text() == "seed = 5\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.toml"], "absent.toml: no such file"),
        (["run", "--set", "training.ruonds=3"], "did you mean training.rounds?"),
        (["config", "show", "--set", "training.participants=5000"], "at most population.clients (2000), got 5000"),
        (["config", "init", "absent/study.toml"], "absent/study.toml: No such file or directory"),
        (["report", "absent"], "absent: expected a run directory"),
        (["run", "--ray-address", "auto"], 'set run.engine = "ray" (--engine ray) or remove run.ray_address'),
        (["run", "--json", "absent/result.json"], "expected a file in an existing directory"),
        (["run", "--out", "taken"], "taken: expected a new or empty directory"),
    ],
)
def test_bad_input_is_one_message_on_stderr_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").touch()
    result = auxo(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("auxo: ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_a_damaged_run_is_bad_input_for_a_report(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", "")
    (run.path / "summary.json").write_text("{")
    result = auxo("report", run.path)
    assert result.exit_code == 2
    assert "summary.json: expected the summary of a run as JSON" in result.stderr
    assert "Traceback" not in result.output


def test_a_report_is_written_again_and_its_path_printed(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", "")
    result = auxo("report", run.path)
    assert result.exit_code == 0
    assert result.stdout.strip() == str(run.path / "report.html")
    assert (run.path / "report.html").is_file()


def test_a_run_shows_its_result_and_writes_report_json_and_config(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace_runner(monkeypatch, partition_and_finish)
    result = auxo("run", "--set", "seed=3", "--set", "name=study", "--json", "result.json")
    assert result.exit_code == 0
    run = Path("runs/study-3")
    assert "0  partitioned in round 10" in result.stdout
    assert "Auxo: cohorts found" in result.stdout
    assert f"report: {run / 'report.html'}" in result.stdout
    assert (run / "report.html").is_file()
    assert load_config(run / "config.toml").seed == 3
    written = json.loads((tmp_path / "result.json").read_text())
    findings = {"status", "speedup", "cohorts", "ari", "oracle_gain_share", "lost", "matched_accuracy", "matched_ari"}
    assert set(written) == {"base", "auxo", *findings}


def test_progress_goes_to_stderr_so_that_stdout_is_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_runner(monkeypatch, partition_and_finish)
    result = auxo("run")
    line = "auxo, round 10: cohort 0 -> 0.0 0.1, gain 0.42"
    assert line in result.stderr
    assert line not in result.stdout
    assert "\x1b" not in result.output


def test_notes_of_a_run_go_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_a_worker(config: Config, directory: RunDirectory, on_event: OnEvent, on_note: OnNote) -> Summary:
        on_note("worker 1 of [2] was lost")
        return SUMMARY

    replace_runner(monkeypatch, lose_a_worker)
    assert auxo("run").stderr == "note: worker 1 of [2] was lost\n"


def test_options_for_ray_are_settings_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_runner(monkeypatch, partition_and_finish)
    assert auxo("run", "--engine", "ray", "--ray-address", "10.0.0.1:6379", "--out", "run").exit_code == 0
    settings = load_config(Path("run/config.toml")).run
    assert (settings.engine, settings.ray_address) == ("ray", "10.0.0.1:6379")


def test_a_run_never_writes_into_the_directory_of_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace_runner(monkeypatch, partition_and_finish)
    for _ in range(3):
        assert auxo("run").exit_code == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"run-0", "run-0-2", "run-0-3"}


def test_sections_without_effect_are_noted_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_runner(monkeypatch, partition_and_finish)
    unused = ("--set", "fedprox.mu=0.1", "--set", "ifca.cohorts=3")
    for command in ("run", "compare"):
        result = auxo(command, *unused, "--out", f"out-{command}")
        assert result.exit_code == 0, result.output
        notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
        assert notes == [
            'note: [fedprox] is set, but not in use; training.client = "fedprox" would use it',
            'note: [ifca] is set, but not in use; methods = [..., "ifca"] would use it',
        ]
    assert "not in use" not in auxo("run", "out-run/config.toml").stderr
    assert "not in use" not in auxo("run", "--set", "training.client=fedprox", *unused[:2]).stderr


def test_ctrl_c_keeps_and_reports_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_runner(monkeypatch, partition_and_be_interrupted)
    result = auxo("run", "--out", "stopped", "--json", "result.json")
    assert result.exit_code == 130
    assert f"auxo: interrupted; the report of what was done so far: {Path('stopped/report.html')}" in result.stderr
    assert "Traceback" not in result.output
    assert len(RunDirectory.open(Path("stopped")).events("auxo").events) == 1
    assert Path("stopped/report.html").is_file()
    assert not Path("result.json").exists()


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(config: Config, directory: RunDirectory, on_event: OnEvent, on_note: OnNote) -> Summary:
        raise ValueError("shapes differ")

    replace_runner(monkeypatch, fail)
    result = auxo("run")
    assert isinstance(result.exception, ValueError)


def test_a_run_s_events_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, methods = RunDirectory.events, list[str]()

    def counted(self: RunDirectory, method: str) -> RecordedEvents:
        methods.append(method)
        return read(self, method)

    monkeypatch.setattr(RunDirectory, "events", counted)
    replace_runner(monkeypatch, partition_and_finish)
    assert auxo("run").exit_code == 0
    assert methods == ["auxo"]


def test_a_run_of_any_methods_shows_the_tree_of_each_and_tells_scripts_under_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def finish(config: Config, directory: RunDirectory, on_event: OnEvent, on_note: OnNote) -> Summary:
        for method in ("base", "own-1"):
            event = Partitioned(7200.0, "0", 10, (f"{method}.0", f"{method}.1"), (5, 5), 0.42)
            directory.replace_events(method, [event])
        summary = partition_and_finish(config, directory, on_event, on_note)
        return replace(summary, methods={**summary.methods, "own-1": made_method(0.7, cohorts=2)})

    replace_runner(monkeypatch, finish)
    result = auxo("run", "--json", "result.json")
    assert result.exit_code == 0, result.output
    lines = [line.lstrip("│├└─ ") for line in result.stdout.splitlines()]
    at = lines.index("own-1")
    assert lines[at + 1 : at + 4] == ["0  partitioned in round 10 (2.0 h), gain 0.42", "own-1.0", "own-1.1"]
    assert "Auxo" in lines
    assert "base.0" not in lines
    written = json.loads(Path("result.json").read_text())
    assert written["own-1"]["final_accuracy"] == 0.7
    assert written["own-1"]["cohorts"] == 2


def test_the_main_numbers_may_go_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_runner(monkeypatch, partition_and_finish)
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(Path("pipe").read_text)
        assert auxo("run", "--json", "pipe").exit_code == 0
        assert json.loads(read.result())["cohorts"] == 2


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    context = get_command(app).make_context("auxo", ["--help"], resilient_parsing=True)
    for one in COMMANDS:
        help_text = one.load().help or ""
        assert help_text.split("\n\n")[0].replace("\n", " ").strip() == one.about
    assert [one.name for one in COMMANDS] == AuxoCommands.list_commands(get_command(app), context)  # type: ignore[arg-type]


def test_the_help_page_imports_no_library_that_takes_long() -> None:
    program = (
        "import sys\nfrom auxo.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "slow = {'numpy', 'pydantic', 'torch', 'sklearn', 'pyarrow', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("rnu",), "Did you mean 'run'?"),
        (("data", "convrt"), "Did you mean 'convert'?"),
        (("run", "--rounds", "5"), "It is a setting: --set training.rounds=VALUE"),
        (("compare", "--by-unit=5"), "It is a setting: --set auxo.by_unit=VALUE"),
        (("compare", "writer"), "did you mean writers?"),
        (("data", "convert", "femnits", "a", "b.arrow"), "did you mean femnist?"),
    ],
)
def test_what_was_probably_meant_is_said_once(arguments: tuple[str, ...], hint: str) -> None:
    result = auxo(*arguments)
    assert result.exit_code == 2
    told = " ".join(result.stderr.replace("│", " ").split())
    assert told.count(hint) == 1


@pytest.mark.parametrize("name", ["mine.csv", "mine.parquet", "mine.arrow", "mine.npz"])
def test_data_in_place_of_a_configuration_are_told_where_to_go(name: str) -> None:
    Path(name).write_bytes(b"client,label\n")
    result = auxo("run", name)
    assert result.exit_code == 2
    assert f"got clients' data; run on them with `auxo run --population {name}`" in result.stderr
    assert ("auxo data convert" in result.stderr) == (name in ("mine.csv", "mine.parquet"))


@pytest.mark.parametrize("out", [(), ("--out", "a/b/c")])
def test_a_command_that_fails_leaves_no_folder(out: tuple[str, ...]) -> None:
    result = auxo("run", "--population", "none.arrow", *out)
    assert result.exit_code == 2
    assert list(Path().iterdir()) == []


def test_a_place_for_json_that_cannot_be_written_to_is_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # whoever runs the tests may be allowed everything
    result = auxo("run", "--json", "there.json")
    assert result.exit_code == 2
    assert "--json there.json: expected a place that can be written to" in result.stderr
    assert list(Path().iterdir()) == []

"""Which engine a configuration gets, and a run on Ray from the command line to Ctrl-C."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.experiments.config_file import ConfigError, parse_config
from auxo.experiments.engines import make_engine
from auxo.experiments.run_directory import RunDirectory
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import LocalTraining

INNER = InProcess(
    SoftmaxTrainer(32, 10),
    synthetic_population(clients=4, groups=1, heterogeneity=LabelPermutation()),
    LocalTraining(),
    seed=0,
)
WAIT_MS = 60_000

STUDY = """
[population]
source = "synthetic"
clients = 90
groups = 2
heterogeneity = "concept"
features = 6
classes = 3

[training]
rounds = 20000
participants = 40

[run]
engine = "ray"
workers = 1
"""


def ignore(note: str) -> None:
    pass


@pytest.mark.parametrize("settings", [[], ["run.workers=1"]])
def test_without_workers_of_its_own_a_run_trains_in_this_process(settings: list[str]) -> None:
    with make_engine(parse_config("", settings), INNER, ignore) as engine:
        assert engine is INNER


def test_several_workers_are_processes_that_pass_on_their_notes() -> None:
    with make_engine(parse_config("", ["run.workers=3"]), INNER, ignore) as engine:
        assert isinstance(engine, WorkerProcesses)
        assert (engine.workers, engine.on_note) == (3, ignore)


def test_ray_that_is_not_installed_is_an_error_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("auxo.engines.ray_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ConfigError, match=r'run\.engine: "ray" needs Ray.* pip install "auxo\[ray\]"'),
        make_engine(parse_config("", ["run.engine=ray"]), INNER, ignore),
    ):
        pass


def test_an_address_is_for_ray_only() -> None:
    with pytest.raises(ConfigError, match=r"run\.ray_address: 'auto' is given, but run\.engine = \"local\"; set"):
        parse_config("", ["run.ray_address=auto"])


def test_a_cluster_that_cannot_be_used_is_a_matter_of_the_configuration() -> None:
    config = parse_config("", ["run.engine=ray", "run.ray_address=head-node"])
    with (
        pytest.raises(ConfigError, match=r'run\.engine: "ray" cannot be used: address: expected "auto" or host:port'),
        make_engine(config, INNER, ignore),
    ):
        pass


def processes_of(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def assert_end(processes: list[int]) -> None:
    for process in processes:
        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            continue
        ending = select.poll()
        ending.register(descriptor, select.POLLIN)
        assert ending.poll(WAIT_MS)
        os.close(descriptor)


@pytest.mark.fault(33, where="ray")
@pytest.mark.slow
def test_ctrl_c_ends_a_run_on_ray_with_130_and_a_report_and_leaves_nobody_behind(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    # A process started in the background may have been told to ignore SIGINT, and its children with it.
    (tmp_path / "start.py").write_text(
        "import signal\nfrom auxo.cli import main\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nmain()\n"
    )
    with subprocess.Popen(
        [sys.executable, "start.py", "run", "study.toml", "--out", "run"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "writing to run\n"
        started = processes_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # to all of them, as a terminal does
        printed, told = process.communicate(timeout=60)
    assert len(started) > 3
    assert process.returncode == 130
    assert printed == ""
    assert told.splitlines()[-1].startswith("auxo: interrupted; the report of what was done so far: ")
    assert all("rounds" in line for line in told.splitlines()[:-1])  # nothing but progress
    directory = RunDirectory.open(tmp_path / "run")
    summary = directory.read_summary()
    assert summary is not None
    assert summary.status == "interrupted"
    assert directory.events("base").events
    assert_end([*started, *processes_of(process.pid)])

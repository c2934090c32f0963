"""Runs on Ray whose processes are killed or stopped: each goes on to the bits of one that was left alone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.live_runs import PATIENCE_S, LiveRun, check_invariants, live_run, models_of

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(900)]

STUDY = """
methods = ["auxo"]

[population]
source = "synthetic"
clients = 200
groups = 2
heterogeneity = "concept"
features = 16
classes = 3
samples = [20, 30]
test_samples = 10

[training]
rounds = {rounds}
participants = 60
learning_rate = 0.1
batch_size = 10

[auxo.clustering]
pool_rounds = 2

[run]
workers = 2
checkpoint_every = "5r"
"""
ROUNDS = 150


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.toml"
    path.write_text(STUDY.format(rounds=ROUNDS))
    return path


@pytest.fixture(scope="module")
def undisturbed(study: Path) -> dict[str, bytes]:
    with live_run(["run", str(study), "--out", str(study.parent / "whole")], study.parent / "whole") as run:
        assert run.finish()[0] == 0
    return models_of(study.parent / "whole")


@pytest.fixture
def on_ray(study: Path, tmp_path: Path) -> Iterator[LiveRun]:
    with live_run(["run", str(study), "--engine", "ray", "--out", str(tmp_path / "run")], tmp_path / "run") as run:
        run.wait_rounds(3)
        yield run


AGAIN = {"trainer": "its participants train again", "cohort": "its round is run again"}


@pytest.mark.parametrize(
    ("role", "number"),
    [
        pytest.param(role, number, id=f"{role} {number.name}", marks=pytest.mark.fault(*faults, where="ray"))
        for role, number, faults in [
            ("trainer", signal.SIGKILL, (34,)),
            ("trainer", signal.SIGSTOP, (7,)),
            ("cohort", signal.SIGKILL, (1,)),
            ("cohort", signal.SIGSTOP, (7,)),
            ("raylet", signal.SIGKILL, (5,)),
            ("gcs_server", signal.SIGKILL, (5,)),
        ]
    ],
)
def test_a_run_goes_on_by_itself_whatever_is_killed_or_stopped(
    on_ray: LiveRun, undisturbed: dict[str, bytes], role: str, number: signal.Signals
) -> None:
    before = on_ray.rounds()
    os.kill(on_ray.parts(role)[0], number)
    on_ray.wait_rounds(before + 5)
    code, said = on_ray.finish()
    assert code == 0, said
    assert AGAIN.get(role, f"Ray's {role} was lost; a new cluster is started") in said
    assert models_of(on_ray.directory) == undisturbed
    check_invariants(on_ray.directory)


@pytest.mark.fault(3, where="ray")
def test_a_run_whose_driver_is_killed_goes_on_by_resuming_it(on_ray: LiveRun, undisturbed: dict[str, bytes]) -> None:
    on_ray.wait_rounds(10)
    on_ray.process.kill()
    on_ray.process.wait(PATIENCE_S)
    with live_run(["resume", str(on_ray.directory)], on_ray.directory) as again:
        code, said = again.finish()
    assert code == 0, said
    assert models_of(on_ray.directory) == undisturbed
    check_invariants(on_ray.directory)

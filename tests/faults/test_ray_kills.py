"""Runs on Ray whose processes are killed or stopped: each goes on to the bits of one that was left alone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from auxo.commands.command_group import BAD_INPUT
from tests.faults.live_runs import STUDY, LiveRun, check_invariants, live_run, models_of
from tests.faults.ray_nodes import two_nodes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.timeout(900),
    # What Ray itself leaves behind when it starts and ends.
    pytest.mark.filterwarnings("ignore:unclosed file .*/dev/null:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

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
    code, said = on_ray.finish()
    assert code == -signal.SIGKILL
    assert "ended without a word" in said
    assert "auxo resume" in said
    with live_run(["resume", str(on_ray.directory)], on_ray.directory) as again:
        code, said = again.finish()
    assert code == 0, said
    assert models_of(on_ray.directory) == undisturbed
    check_invariants(on_ray.directory)


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with two_nodes() as cluster:
        yield cluster


@pytest.fixture
def on_nodes(study: Path, tmp_path: Path, nodes: Cluster) -> Iterator[LiveRun]:
    where = ["--engine", "ray", "--ray-address", nodes.address]
    with live_run(["run", str(study), *where, "--out", str(tmp_path / "run")], tmp_path / "run") as run:
        run.wait_rounds(3)
        yield run


@pytest.mark.fault(1, 5, where="ray")
def test_a_run_goes_on_without_a_node_that_is_lost(
    on_nodes: LiveRun, nodes: Cluster, undisturbed: dict[str, bytes]
) -> None:
    (other,) = nodes.worker_nodes
    nodes.remove_node(other, allow_graceful=False)
    code, said = on_nodes.finish()
    assert code == 0, said
    assert "was lost" in said
    assert models_of(on_nodes.directory) == undisturbed
    check_invariants(on_nodes.directory)


@pytest.mark.fault(3, where="ray")
def test_a_run_whose_cluster_is_lost_says_so_and_goes_on_elsewhere(
    on_nodes: LiveRun, nodes: Cluster, undisturbed: dict[str, bytes]
) -> None:
    on_nodes.wait_rounds(10)
    nodes.head_node.kill_gcs_server()
    code, said = on_nodes.finish()
    assert code == BAD_INPUT, said
    assert "auxo: the Ray cluster is lost: its gcs_server does not answer any more" in said
    with live_run(["resume", str(on_nodes.directory), "--engine", "local"], on_nodes.directory) as again:
        code, said = again.finish()
    assert code == 0, said
    assert models_of(on_nodes.directory) == undisturbed


@pytest.mark.fault(33, where="ray")
@pytest.mark.parametrize("part", ["gcs_server", "raylet", "trainer"])
def test_ctrl_c_while_ray_starts_ends_it_with_130_and_leaves_nothing(study: Path, tmp_path: Path, part: str) -> None:
    with live_run(["run", str(study), "--engine", "ray", "--out", str(tmp_path / "run")], tmp_path / "run") as run:
        run.wait(part, lambda: bool(run.parts(part)))
        os.killpg(run.process.pid, signal.SIGINT)  # to all of them, as a terminal does
        code, said = run.finish()
    assert code == 130, said
    assert said == "auxo: interrupted; nothing of it had been done yet, and nothing is left\n"
    assert not (tmp_path / "run").exists()

"""Getting at a Ray cluster: addresses that lead nowhere, and a cluster that runs already."""

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import ray

from auxo.core.rng import stream
from auxo.engines.in_process import InProcess
from auxo.engines.ray_cluster import RayCluster
from auxo.engines.ray_connection import ClusterError, check_installation, connect
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.engines.rounds import bits, round_of

TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
DATA = synthetic_population(
    clients=50, groups=2, heterogeneity=LabelPermutation(), features=6, classes=4, samples=(5, 12), test_samples=1
)
HERE = InProcess(TRAINER, DATA, LocalTraining(), seed=3)
ROUND = round_of(stream(0, "weights").standard_normal(TRAINER.n_params).astype(np.float32), [Job(1, 0)] * 60)


@pytest.mark.parametrize("error", [Exception, OSError, RuntimeError])
def test_whatever_ray_raises_as_it_starts_is_an_error_that_says_what_to_do(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", fails)
    said = r"Ray could not be started on this machine: The current node timed out during startup; make room in /dev/shm"
    with pytest.raises(ClusterError, match=said), connect(None, 1):
        pass


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_an_address_at_which_nothing_answers_is_an_error_at_once(closed_port: int) -> None:
    with pytest.raises(ClusterError, match=rf"nothing answers at 127\.0\.0\.1:{closed_port} \(Connection refused\)"):
        connect(f"127.0.0.1:{closed_port}").__enter__()


def test_the_cluster_that_is_found_may_be_one_that_has_ended(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed_port}")
    with pytest.raises(ClusterError, match=rf"nothing answers at 127\.0\.0\.1:{closed_port}"):
        connect("auto").__enter__()


def test_a_name_that_nobody_knows_is_an_error_at_once() -> None:
    with pytest.raises(ClusterError, match=r"nothing answers at head\.invalid:6379"):
        connect("head.invalid:6379").__enter__()


@pytest.mark.parametrize("address", ["", "10.0.0.1", "10.0.0.1:", ":6379", "10.0.0.1:ray", "ray://10.0.0.1:10001"])
def test_what_is_no_address_is_refused_with_what_an_address_is(address: str) -> None:
    with pytest.raises(ClusterError, match=r'expected "auto" or host:port, such as 10\.0\.0\.1:6379, got'):
        connect(address).__enter__()


def test_nodes_must_have_the_same_installed() -> None:
    here = {"Python": "3.11.7", "Auxo": "with code 12ab"}
    check_installation("10.0.0.2", here, here)
    with pytest.raises(ClusterError, match=r"node 10\.0\.0\.2 .* expected Auxo with code 12ab, .* got none; install"):
        check_installation("10.0.0.2", here, here | {"Auxo": "none"})
    with pytest.raises(ClusterError, match=r"expected Python 3\.11\.7, as on this machine, got 3\.12\.1"):
        check_installation("10.0.0.2", here, here | {"Python": "3.12.1"})


@pytest.fixture
def head(closed_port: int, tmp_path: Path) -> Iterator[str]:
    """Run the head node of a cluster, whose workers prefer Python packages in ``tmp_path``; the address is its own."""
    options = ("--num-cpus=2", "--object-store-memory=100000000", "--include-dashboard=false", "--disable-usage-stats")
    start = (sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={closed_port}")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    with (
        TemporaryDirectory(prefix="auxo-") as directory,  # not the test's, because names of sockets must be short
        subprocess.Popen(  # noqa: S603 - nothing in it comes from elsewhere
            [*start, *options, f"--temp-dir={directory}/ray"],
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        started = any("Ray runtime started" in line for line in process.stdout)
        try:
            assert started
            yield f"127.0.0.1:{closed_port}"
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.mark.slow
def test_a_running_cluster_is_used_and_left_running_if_its_nodes_run_the_same_code(head: str, tmp_path: Path) -> None:
    before = dict(os.environ)
    with RayCluster(HERE, workers=2, address=head) as engine:
        outcome = engine.run_round(ROUND.rules, ROUND.closing, ROUND.training)
    assert bits(outcome) == bits(HERE.run_round(ROUND.rules, ROUND.closing, ROUND.training))
    assert os.environ == before
    other = tmp_path / "auxo"
    other.mkdir()
    (other / "__init__.py").write_text("")
    with (
        pytest.raises(ClusterError, match=r"expected Auxo with code .*, as on this machine, got with code .*; install"),
        RayCluster(replace(HERE, seed=4), address=head),
    ):
        pass
    gc.collect()

"""`flwr run` in the example, in Flower's own simulation on Ray, as its users run it."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("ray")

from loopback.processes import MarkedProcesses

pytestmark = [pytest.mark.slow, pytest.mark.quick, pytest.mark.processes, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
FARMS = "num-supernodes=8 client-resources-num-cpus=1 init-args-num-cpus=2"


def test_flwr_run_finds_the_cohorts_of_the_example(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLWR_")}
    environment = kept | {
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(ROOT / "src"),
        "FLWR_HOME": str(tmp_path / "flwr-home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "OMP_NUM_THREADS": "1",
    }
    processes = MarkedProcesses(environment, tmp_path / "logs")
    try:
        app = ROOT / "examples" / "flower_numpy" / "after"
        done = processes.call([tools / "flwr", "run", app, "--stream", "--federation-config", FARMS], 400)
        assert done.returncode == 0, done.stderr[-4000:]
        assert "cohorts: 0.0, 0.1" in done.stdout + done.stderr
    finally:
        left = processes.end_all()  # Flower starts a SuperLink of its own, which stays
    assert left == {}

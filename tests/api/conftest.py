"""One run for all tests of this folder that only look at what it has left."""

from pathlib import Path

import pytest

from auxo.api.finished_run import FinishedRun
from auxo.api.simulate import simulate
from tests.api.small_clients import QUICK, clients


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    path: Path = tmp_path_factory.mktemp("api") / "run"
    found = simulate(clients(), rounds=40, participants=30, settings=QUICK, out=path)
    assert found.tree.leaves == ("0.0", "0.1")
    return found

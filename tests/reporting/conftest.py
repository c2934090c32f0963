"""What tests of the report share."""

from pathlib import Path

import pytest

from auxo.experiments.run_directory import RunDirectory

CONFIG = 'name = "<b>digits</b>"\nmethods = ["base", "auxo", "fedavg-2", "grouped+", "oracle"]\n'


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", CONFIG)

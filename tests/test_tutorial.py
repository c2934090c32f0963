"""The tutorial: its files and its commands, as a reader would use them, one after another."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
FILES = re.compile(r"^```\w+ title=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_step_of_the_tutorial_works_and_auxo_finds_what_nobody_wrote_down(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")
    text = TUTORIAL.read_text(encoding="utf-8")
    for name, content in FILES.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = [line for body in COMMANDS.findall(text) for line in body.splitlines()]
    assert len(commands) == 5

    for line in commands:
        program, *arguments = shlex.split(line)
        start = [sys.executable] if program == "python" else [sys.executable, "-m", program]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(  # noqa: S603 - ours
            [*start, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr)

    found = json.loads((tmp_path / "runs" / "scans-seeds" / "comparison.json").read_text(encoding="utf-8"))
    accuracy = next(row for row in found["rows"] if row["measure"]["key"] == "final_accuracy")
    assert found["by_seed"]["auxo"]["cohorts"] == [2, 2]
    assert accuracy["differences"]["auxo"]["mean"] > 2
    assert len(list((tmp_path / "runs" / "scans-seeds").glob("seed-*/report.html"))) == 2

"""The tutorial: its files and its commands, as a reader would use them, one after another."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import auxo
from auxo.experiments.run_directory import RunDirectory

ROOT = Path(__file__).parents[1]
FILES = re.compile(r"^```\w+ title=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def follow(document: str, folder: Path) -> list[str]:
    """Write the files that a document shows, run its commands one after another, and return these."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    for name, content in FILES.findall(text):
        (folder / name).write_text(content, encoding="utf-8")
    commands = [line for body in COMMANDS.findall(text) for line in body.splitlines()]
    for line in commands:
        program, *arguments = shlex.split(line)
        start = [sys.executable] if program == "python" else [sys.executable, "-m", program]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(  # noqa: S603 - ours
            [*start, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr)
    return commands


@pytest.mark.slow
def test_every_step_of_the_tutorial_works_and_auxo_finds_what_nobody_wrote_down(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")

    assert len(follow("tutorial.md", tmp_path)) == 10

    found = json.loads((tmp_path / "runs" / "scans-seeds" / "comparison.json").read_text(encoding="utf-8"))
    accuracy = next(row for row in found["rows"] if row["measure"]["key"] == "final_accuracy")
    assert found["by_seed"]["auxo"]["cohorts"] == [2, 2]
    assert accuracy["differences"]["auxo"]["mean"] > 2
    assert len(list((tmp_path / "runs" / "scans-seeds").glob("seed-*/report.html"))) == 2
    with (tmp_path / "predictions.csv").open(encoding="utf-8", newline="") as file:
        predictions = list(csv.DictReader(file))
    assert {row["name"] for row in predictions} == {"new clinic"}
    assert len(predictions) == 60
    assert sum(row["label"] == row["prediction"] for row in predictions) > 45
    # The upside-down clinics are every third one: the new one is in their cohort.
    run = auxo.load(tmp_path / "runs" / "scans-seeds" / "seed-0")
    assert {row["cohort"] for row in predictions} == {run.clients["clinic-000"].cohort}
    assert run.clients["clinic-000"].cohort != run.clients["clinic-001"].cohort


@pytest.mark.slow
def test_a_method_of_one_s_own_in_one_file_keeps_the_contract_and_finds_the_groups(tmp_path: Path) -> None:
    assert len(follow("own-method.md", tmp_path)) == 2

    summary = RunDirectory.open(tmp_path / "runs" / "one-shot-0").read_summary()
    assert summary is not None
    own, base = summary.methods["OneShot"], summary.methods["base"]
    assert own.final_accuracy > base.final_accuracy + 0.3
    assert own.ari is not None
    assert own.ari > 0.9

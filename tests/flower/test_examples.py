"""The apps before and after: they work, cohorts are found after, and the diff is the documentation."""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

ROOT = Path(__file__).parents[2]

RUN = """
import sys, tomllib
from flwr.app import Context, RecordDict
from tests.flower.local_grid import LocalGrid
import {package}.client_app, {package}.server_app

config = tomllib.load(open("pyproject.toml", "rb"))["tool"]["flwr"]["app"]["config"]
grid = LocalGrid({package}.client_app.app, {nodes}, run_config=config)
{package}.server_app.app(grid, Context(1, 1, {{}}, RecordDict(), config))
"""


def ran(folder: str, package: str, nodes: int) -> str:
    """Return what an app prints, run by itself in its folder."""
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", RUN.format(package=package, nodes=nodes)],
        cwd=ROOT / "examples" / folder,
        env=os.environ | {"PYTHONPATH": f".:{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def losses(printed: str) -> list[float]:
    return [float(number) for number in re.findall(r"eval_loss': ([\d.e-]+)", printed)]


def test_farms_of_two_soils_are_served_better_after_than_before() -> None:
    before, after = ran("flower_numpy/before", "soil", 8), ran("flower_numpy/after", "soil", 8)
    assert "cohorts: 0.0, 0.1" in after
    assert max(losses(after)) < 0.2
    assert min(losses(before)) > 2


@pytest.mark.slow
def test_digits_that_some_see_turned_are_found_in_torch() -> None:
    pytest.importorskip("torch")
    before, after = ran("flower_torch/before", "digits", 16), ran("flower_torch/after", "digits", 16)
    assert "cohorts: 0.0, 0.1" in after
    assert max(losses(after)) < min(losses(before))


@pytest.mark.parametrize(("folder", "package"), [("flower_numpy", "soil"), ("flower_torch", "digits")])
def test_only_the_strategy_and_the_app_differ(folder: str, package: str) -> None:
    before, after = (ROOT / "examples" / folder / which for which in ("before", "after"))
    names = [path.relative_to(before) for path in before.rglob("*.*") if "__pycache__" not in path.parts]
    changed = {str(name) for name in names if (before / name).read_text() != (after / name).read_text()}
    assert changed == {"pyproject.toml", f"{package}/client_app.py", f"{package}/server_app.py"}


def test_the_document_shows_the_whole_difference() -> None:
    folder = ROOT / "examples" / "flower_numpy"
    lines: list[str] = []
    for name in ("client_app.py", "server_app.py"):
        one, other = ((folder / which / "soil" / name).read_text().splitlines() for which in ("before", "after"))
        lines += difflib.unified_diff(one, other, f"before/soil/{name}", f"after/soil/{name}", lineterm="", n=1)
    (shown,) = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "docs" / "flower.md").read_text(), re.MULTILINE | re.DOTALL)
    assert shown.splitlines() == lines

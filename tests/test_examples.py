import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "plain_numpy.py"
IN_PYTHON = EXAMPLE.with_name("cohorts_in_python.py")


def test_a_loop_in_plain_numpy_finds_both_groups() -> None:
    scores = runpy.run_path(str(EXAMPLE))["main"]()

    assert sorted(scores) == ["0.0", "0.1"]
    assert min(scores.values()) > 0.95


def test_the_example_prints_each_cohorts_accuracy() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    lines = done.stdout.splitlines()

    assert done.stderr == ""
    assert [line.split(":")[0] for line in lines] == ["cohort 0.0", "cohort 0.1"]
    assert all("accuracy 0.9" in line for line in lines)


def test_the_program_in_python_finds_both_kinds_of_shops_and_draws_its_plots(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, IN_PYTHON, tmp_path], capture_output=True, text=True, check=True, env=environment
    )

    assert "auxo: 9" in done.stdout
    assert re.search(r"auxo: .* [23] cohorts", done.stdout)  # one of the kinds may end as two cohorts
    assert re.search(r"cohort 0\.\d: 30 shops", done.stdout)  # and the other as one, with all its shops
    plots = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert set(plots) == {"accuracy-over-time.svg", "accuracy-over-work.svg", "clients.svg", "cohort-tree.svg"}
    assert all(text.startswith("<svg ") for text in plots.values())


@pytest.mark.parametrize("path", sorted(EXAMPLE.parent.glob("*.py")), ids=lambda path: path.name)
def test_examples_use_the_public_interface_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]

    assert "auxo" in modules
    assert not [module for module in modules if module.startswith("auxo.")]


def test_the_loop_in_plain_numpy_fits_on_a_screen() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 65

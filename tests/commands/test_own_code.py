"""A model of one's own that fails: its own error is shown in few words, with its line, wherever it was raised."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from auxo.registry.own_errors import error_words, place_in

MODEL = """
import torch


class OddError(Exception):
    def __init__(self, what, how):
        super().__init__(f"{what} is odd")
        self.how = lambda: how


class Net(torch.nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.layer = torch.nn.Linear(inputs, classes)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if x.shape[0] > 3:  # more than it is tried with beforehand
            raise OddError(f"batch {tuple(x.shape)}", self)
        return self.layer(x)
"""


AT_ONCE = MODEL.replace("x.shape[0] > 3", "True")
LINE = MODEL.splitlines().index('            raise OddError(f"batch {tuple(x.shape)}", self)') + 1


def run_with(tmp_path: Path, model: str, workers: int) -> "subprocess.CompletedProcess[str]":
    (tmp_path / "my_net.py").write_text(model)
    settings = {
        "training.model": "my_net.py:Net",
        "training.batching": "one-by-one",
        "training.rounds": 2,
        "training.participants": 5,
        "population.clients": 10,
        "devices.availability": "always",
        "run.workers": workers,
        "methods": '["base"]',
    }
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "auxo", "run", *options, "--out", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_a_model_that_fails_while_it_trains_is_shown_with_its_line_and_little_else(
    tmp_path: Path, workers: int
) -> None:
    done = run_with(tmp_path, MODEL, workers)
    assert done.returncode == 1
    assert "OddError: batch (" in done.stderr
    assert f"is odd at {tmp_path}/my_net.py, line {LINE}, in forward: `raise OddError(" in done.stderr
    assert len(done.stderr.splitlines()) <= 4
    assert "want of memory" not in done.stderr
    assert "ickl" not in done.stderr


def test_the_error_of_a_model_that_fails_at_once_is_shown_with_its_line(tmp_path: Path) -> None:
    done = run_with(tmp_path, AT_ONCE, 1)
    assert done.returncode == 2
    assert f"OddError (batch (3, 64) is odd) at {tmp_path}/my_net.py, line {LINE}, in forward: `raise" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_error_of_another_process_is_found_in_its_notes() -> None:
    error = RuntimeError("odd")
    error.add_note(
        'It was raised elsewhere:\n  File "a/net.py", line 3, in forward\n    x\n  File "b.py", line 1, in f'
    )
    assert place_in(error, [Path("a/net.py")]) == "a/net.py, line 3, in forward: ``"
    assert place_in(error, [Path("net.py")]) is None
    assert error_words(error, None) == "RuntimeError (odd)"

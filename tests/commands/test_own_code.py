"""A model of one's own that fails while it trains: its own error is shown, wherever it was raised."""

import os
import subprocess
import sys
from pathlib import Path

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


def test_the_error_of_a_model_in_a_worker_is_shown_with_its_name_and_its_words(tmp_path: Path) -> None:
    (tmp_path / "my_net.py").write_text(MODEL)
    settings = {
        "training.model": "my_net.py:Net",
        "training.batching": "one-by-one",
        "training.rounds": 2,
        "training.participants": 5,
        "population.clients": 10,
        "devices.availability": "always",
        "run.workers": 2,
        "methods": '["base"]',
    }
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "auxo", "run", *options, "--out", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 1
    assert "OddError" in done.stderr
    assert "is odd" in done.stderr
    assert "want of memory" not in done.stderr
    assert "ickl" not in done.stderr

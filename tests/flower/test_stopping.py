"""Fault 33: a ServerApp that is told to stop, or killed, ends with the bits of one that was not, when it goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.app import Message
from loopback.looking import events_in, partitions_in, rounds_in

from auxo.flower import stopping
from auxo.flower.stopping import polite_stopping
from auxo.protocol.events import RoundClosed
from tests.flower.small import NODES as FEW_NODES
from tests.flower.small import federation

ROOT = Path(__file__).parents[2]
NODES, ROUNDS = 8, 14
COMMAND = "import signal\nfrom auxo.cli import main\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nmain()\n"
APP = """
import sys, time
import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from auxo.algorithms.auxo import Auxo
from auxo.flower import AuxoStrategy
from tests.flower.linear_app import auxo_app, initial


class EverybodyInOrder(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        time.sleep(0.1)
        config["server-round"] = server_round
        content = RecordDict({"arrays": arrays, "config": config})
        return self._construct_messages(content, sorted(grid.get_node_ids()), "train")

server = ServerApp()

@server.main()
def main(grid, context):
    config = context.run_config
    base = lambda: EverybodyInOrder(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    strategy = AuxoStrategy(base, participants=8, method=Auxo(), directory=config["directory"])
    found = strategy.start(grid, initial(), num_rounds=int(config["rounds"]), timeout=30.0)
    cohorts = found.cohorts.items()
    models = {f"{name}/{key}": array.numpy() for name, one in cohorts for key, array in one.arrays.items()}
    np.savez(config["directory"] + "/models.npz", **models)

client = auxo_app(2, halves=True)
"""


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """What the process's own handler of SIGTERM is told."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGTERM, before)


def stop_at(reply: int, times: int = 1) -> Callable[[Message], Iterable[Message]]:
    """Tell this process to stop as a reply comes."""
    seen: list[Message] = []

    def change(message: Message) -> Iterable[Message]:
        seen.append(message)
        if len(seen) == reply:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)
        return [message]

    return change


def test_who_is_told_to_stop_waits_for_nodes_that_are_at_work_and_opens_no_more_rounds(heard: list[int]) -> None:
    # A round has a message of training and one of evaluation for each node: this is in the midst of the second.
    _, events, grid = federation(rounds=9, change=stop_at(2 * FEW_NODES + 3))
    assert [event.round for event in events if isinstance(event, RoundClosed)] == [1, 2]
    assert not grid.waiting
    assert heard == [signal.SIGTERM]


def test_nodes_that_do_not_answer_are_not_waited_for_without_end(
    heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "_GRACE_S", 0.2)
    answered = stop_at(2 * FEW_NODES + 3)
    seen: list[Message] = []

    def silent(message: Message) -> Iterable[Message]:
        seen.append(message)
        found = list(answered(message))
        return [] if len(seen) > 2 * FEW_NODES else found

    _, events, _ = federation(rounds=9, change=silent, timeout=60.0)
    assert [event.round for event in events if isinstance(event, RoundClosed)] == [1]
    assert heard == [signal.SIGTERM]


def test_a_second_signal_does_at_once_what_the_first_was_to_do(heard: list[int]) -> None:
    with polite_stopping() as told:
        os.kill(os.getpid(), signal.SIGTERM)
        assert told.is_told
        assert heard == []
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]


def test_what_is_ignored_stays_ignored_and_stops_nothing() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with polite_stopping() as told:
            os.kill(os.getpid(), signal.SIGINT)
            assert not told.is_told
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopping") / "app"
    folder.mkdir()
    (folder / "stoppable_app.py").write_text(APP)
    (folder / "pyproject.toml").write_text(
        '[tool.flwr.app.components]\nserverapp = "stoppable_app:server"\nclientapp = "stoppable_app:client"\n'
        f'[tool.flwr.app.config]\nrounds = {ROUNDS}\ndirectory = ""\nauxo-state = ""\n'
    )
    return folder


@pytest.fixture(scope="module")
def undisturbed(app: Path) -> Path:
    directory = app.parent / "undisturbed"
    assert started(app, directory).wait(120) == 0
    return directory


def started(app: Path, directory: Path) -> subprocess.Popen[bytes]:
    # Nodes keep their records in files, as on machines of their own: they outlive the server's process.
    settings = {"directory": str(directory), "auxo-state": str(directory / "nodes")}
    state = [word for name, value in settings.items() for word in ("--run-config", f"{name}={value}")]
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", COMMAND, "flower", "run", str(app), "--nodes", str(NODES), *state],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.fault(33)
@pytest.mark.slow
@pytest.mark.xdist_group("stopping")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_run_that_was_stopped_ends_with_the_bits_of_one_that_was_not(
    app: Path, undisturbed: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    stopped = tmp_path / "stopped"
    process = started(app, stopped)
    until = time.monotonic() + 120
    while max(rounds_in(stopped).values(), default=0) < 4 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == code
    reached = max(rounds_in(stopped).values())
    assert 4 <= reached < ROUNDS
    assert started(app, stopped).wait(120) == 0
    assert (stopped / "models.npz").read_bytes() == (undisturbed / "models.npz").read_bytes()
    assert len(partitions_in(stopped)) == 1
    names = [[type(event).__name__ for event in events_in(one)] for one in (undisturbed, stopped)]
    assert names[0] == names[1]

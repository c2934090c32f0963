"""Processes that are found again by a mark, whoever they have become the children of; and a federation's errors."""

import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from loopback import FederationError, LoopbackFederation, Node
from loopback.federation import free_port
from loopback.keys import NodeKey
from loopback.processes import MarkedProcesses, end

ORPHAN = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""


def marked(tmp_path: Path) -> MarkedProcesses:
    return MarkedProcesses({"PATH": "/usr/bin:/bin"}, tmp_path / "logs")


def test_what_a_process_has_started_and_left_behind_is_ended_with_it(tmp_path: Path) -> None:
    processes, others = marked(tmp_path), marked(tmp_path / "others")
    processes.start("parent", [sys.executable, "-c", ORPHAN]).wait(30)
    assert list(processes.running("time.sleep"))
    assert not others.running()
    assert processes.end_all() == {}
    assert processes.running() == {}


def test_processes_that_have_hardly_begun_are_ended_and_taken_leave_of(tmp_path: Path) -> None:
    processes = marked(tmp_path)
    started = [processes.start("sleeper", ["/bin/sleep", "60"]) for _ in range(20)]

    assert processes.end_all() == {}
    assert [process.returncode for process in started if process.returncode not in (-15, -9)] == []


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopback.processes._GRACE_S", 0.5)
    processes = marked(tmp_path)
    process = processes.start("stubborn", [sys.executable, "-c", STUBBORN])
    until = time.monotonic() + 30
    while "deaf" not in processes.log("stubborn").read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert processes.end_all() == {}
    assert process.wait(10) == -9
    end(process.pid)  # it is no error that nobody is there


def test_free_ports_are_free() -> None:
    assert len({free_port() for _ in range(5)}) > 1


def test_a_federation_that_was_not_entered_says_so(tmp_path: Path) -> None:
    federation = LoopbackFederation(tmp_path)
    with pytest.raises(FederationError, match="has not been entered"):
        federation.start_link()
    with pytest.raises(FederationError, match="expected one ServerApp to run, got 0"):
        federation.kill_server_app()


def test_waiting_in_vain_says_for_what_and_shows_the_end_of_the_log(tmp_path: Path) -> None:
    federation = LoopbackFederation(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "node-7.log").write_text("first\nlast words\n")
    with pytest.raises(FederationError, match=r"waited 0 s for rain, in vain:\nfirst\nlast words"):
        federation.wait_for("rain", lambda: False, 0.1, log="node-7")


def test_a_node_that_a_run_has_left_out_of_step_is_started_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation, sleeper = LoopbackFederation(tmp_path), marked(tmp_path)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "node-0.log").write_text("Ignoring message of an earlier process\n")
    (logs / "node-1.log").write_text("Run ID 7 is not in `RUNNING` status. Ignoring message 9f.\n")
    (logs / "node-2.log").write_text("Run ID 7 is not in `RUNNING` status. Ignoring reply message 9f.\n")
    process = sleeper.start("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"])
    key = NodeKey(tmp_path / "private", tmp_path / "public")
    federation.nodes = [Node(f"node-{number}", key, {}, process=process) for number in range(4)]
    federation.nodes[0].seen = len(federation.log_of("node-0"))
    done: list[str] = []
    monkeypatch.setattr(LoopbackFederation, "stop_node", lambda self, node: done.append(f"stop {node.name}"))
    monkeypatch.setattr(LoopbackFederation, "start_node", lambda self, node: done.append(f"start {node.name}"))
    try:
        assert [node.name for node in federation.restart_out_of_step()] == ["node-1"]
        assert federation.restart_out_of_step() == []
    finally:
        sleeper.end_all()
    assert done == ["stop node-1", "start node-1"]

"""A SuperLink and its SuperNodes on loopback: started, watched, troubled and taken down from one place."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from loopback.keys import Certificates, NodeKey, make_certificates, make_node_key
from loopback.processes import MarkedProcesses, end

RunStatus = Literal["pending", "starting", "running", "finished:completed", "finished:failed", "finished:stopped"]
ConfigValue = bool | int | float | str

_LINK = "loopback"  # the SuperLink's name in Flower's configuration
_LOOK_AGAIN_S = 0.5
_COMMAND_S = 60.0  # that a command of Flower's may take; our choice
_START_S = 60.0  # that a process may take until it answers; our choice
_RESTART_S = 120.0  # that a SuperLink may take to let a killed node in again
_RETRY_S = 5.0  # between starts of such a node; our choice
_CONNECTED = "SuperNode ID:"  # what a SuperNode logs once it is taken
_OUT_OF_STEP = "Ignoring message"  # what it logs when a run has ended while it took a message of it
_TAIL = 30  # lines of a log that an error shows


class FederationError(RuntimeError):
    """Something of the federation did not do as it should; the message has the end of its log."""


@dataclass
class Node:
    """A SuperNode: who it is, and its process while it runs."""

    name: str
    key: NodeKey
    config: Mapping[str, ConfigValue]
    node_id: int | None = None  # None: not registered
    process: subprocess.Popen[bytes] | None = None
    seen: int = 0  # characters of its log that its present process has not written, or that were looked at

    @property
    def is_running(self) -> bool:
        """Return whether its process lives."""
        return self.process is not None and self.process.poll() is None


@dataclass
class LoopbackFederation:
    """A federation with TLS and node authentication; use as a context manager, which leaves no process behind.

    Certificates, keys, logs and Flower's own files are in ``folder``. Nothing listens beyond 127.0.0.1.
    """

    folder: Path
    nodes: list[Node] = field(default_factory=list, init=False)
    address: str = field(default="", init=False)
    _certificates: Certificates | None = field(default=None, init=False)
    _processes: MarkedProcesses = field(init=False)
    _link: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self._processes = MarkedProcesses(self._environment(), self.folder / "logs")

    def __enter__(self) -> Self:
        """Start the SuperLink and return when it answers."""
        try:
            self._certificates = make_certificates(self.folder / "certificates")
            self.start_link()
        except BaseException:
            self._processes.end_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take everything down."""
        left = self._processes.end_all()
        if left:
            raise FederationError(f"expected every process of the federation to end, but these live on: {left}")

    def start_link(self) -> None:
        """Start the SuperLink, where it was if it has run before, with what its database remembers."""
        made = self._certificates
        if made is None:
            raise FederationError("the federation has not been entered; use `with LoopbackFederation(...) as it:`")
        if not self.address:
            self.address = f"127.0.0.1:{free_port()}"
            self._write_connection(made)
        port = self.address.partition(":")[2]
        self._link = self._processes.start(
            "superlink",
            [
                *(_tool("flower-superlink"), "--host", "127.0.0.1", "--port", port, "--enable-supernode-auth"),
                *("--ssl-ca-certfile", made.authority, "--ssl-certfile", made.certificate),
                *("--ssl-keyfile", made.key, "--database", self.folder / "superlink.db"),
                "--disable-runtime-dependency-installation",
            ],
        )
        self.wait_for("the SuperLink to answer", lambda: self._answers(port), _START_S, log="superlink")

    def kill_link(self) -> None:
        """End the SuperLink and what it has started, without a word of warning."""
        if self._link is not None:
            self._kill_with_children(self._link)

    def add_node(self, name: str, config: Mapping[str, ConfigValue], *, registered: bool = True) -> Node:
        """Make a node's key, register it, and start its SuperNode; return at once."""
        node = Node(name, make_node_key(self.folder / "keys" / name), config)
        self.nodes.append(node)
        if registered:
            self.register(node)
        self.start_node(node)
        return node

    def register(self, node: Node) -> None:
        """Let the SuperLink know a node's public key."""
        said = self._flwr("supernode", "register", node.key.public, _LINK, "--format", "json")
        node.node_id = int(_json_of(said)["node-id"])

    def unregister(self, node: Node) -> None:
        """Let the SuperLink forget a node: it is refused from now on."""
        self._flwr("supernode", "unregister", str(node.node_id), _LINK, "--format", "json")

    def start_node(self, node: Node, *, max_retries: int | None = None) -> None:
        """Start a SuperNode, again if it has run before: with the same key it is the same node."""
        made = self._certificates
        assert made is not None  # noqa: S101 - nodes are registered with a SuperLink that runs
        words = " ".join(f"{key}={json.dumps(value)}" for key, value in node.config.items())
        node.seen = len(self.log_of(node.name))
        node.process = self._processes.start(
            node.name,
            [
                *(_tool("flower-supernode"), "--superlink", self.address, "--root-certificates", made.authority),
                *("--auth-supernode-private-key", node.key.private, "--host", "127.0.0.1"),
                *("--port", str(free_port()), "--node-config", words),
                *(() if max_retries is None else ("--max-retries", str(max_retries))),
            ],
        )

    def restart_node(self, node: Node, timeout_s: float = _RESTART_S) -> int:
        """Start a SuperNode that was killed until the SuperLink takes it; return how many starts it took.

        A SuperLink refuses a key that it holds for on line, and it notices that a node was killed only after two missed
        heartbeats, which takes up to a minute. A supervisor that starts the node again and again does the same.
        """
        until, starts = time.monotonic() + timeout_s, 0
        while True:
            starts += 1
            already = len(self.log_of(node.name))
            self.start_node(node)

            def is_decided(already: int = already) -> bool:
                return not node.is_running or _CONNECTED in self.log_of(node.name)[already:]

            self.wait_for(f"{node.name} to be taken", is_decided, max(1.0, until - time.monotonic()), log=node.name)
            if node.is_running:
                return starts
            time.sleep(_RETRY_S)

    def stop_node(self, node: Node) -> None:
        """Have a SuperNode end, and tell the SuperLink that it does: it may come back at once."""
        if node.process is not None:
            node.process.terminate()
            self.wait_for(f"{node.name} to end", lambda: not node.is_running, _START_S, log=node.name)

    def kill_node(self, node: Node) -> None:
        """End a SuperNode and what it has started, without a word of warning."""
        if node.process is not None:
            self._kill_with_children(node.process)

    def restart_out_of_step(self) -> list[Node]:
        """Start again the SuperNodes that a run has left out of step, as their logs say; return which these were.

        When a run ends while a SuperNode takes a message of it, Flower 1.41 runs the task all the same. Its reply is
        never asked for, and stands before all that follow: the node answers each message only when the next one comes.
        """
        found = []
        for node in self.nodes:
            log = self.log_of(node.name)
            if node.is_running and _OUT_OF_STEP in log[node.seen :]:
                node.seen = len(log)
                self.stop_node(node)
                self.start_node(node)
                found.append(node)
        return found

    def online(self) -> set[int]:
        """Return the ids of nodes that the SuperLink holds for on line."""
        listed = _json_of(self._flwr("supernode", "list", _LINK, "--format", "json"))["nodes"]
        return {int(node["node-id"]) for node in listed if node["status"] == "online"}

    def wait_online(self, nodes: int, timeout_s: float = _START_S) -> None:
        """Wait until so many nodes are on line."""
        self.wait_for(f"{nodes} nodes to be on line", lambda: len(self.online()) >= nodes, timeout_s, log="superlink")

    def submit(self, app: Path, config: Mapping[str, ConfigValue]) -> str:
        """Have the SuperLink run an app, and return the number of the run."""
        words = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        said = self._flwr("run", app, _LINK, "--format", "json", *(("--run-config", words) if words else ()))
        return str(_json_of(said)["run-id"])

    def status(self, run: str) -> str:
        """Return what the SuperLink says of a run, such as `running` or `finished:failed`."""
        return str(_json_of(self._flwr("list", _LINK, "--run-id", run, "--format", "json"))["runs"][0]["status"])

    def wait_finished(self, run: str, timeout_s: float) -> str:
        """Wait until a run has ended, and return how."""
        seen = ""

        def is_finished() -> bool:
            nonlocal seen
            seen = self.status(run)
            return seen.startswith("finished")

        self.wait_for(f"run {run} to end", is_finished, timeout_s, log="superlink")
        return seen

    def stop_run(self, run: str) -> None:
        """Have the SuperLink stop a run."""
        self._flwr("stop", run, _LINK, "--format", "json")

    def server_apps(self) -> list[int]:
        """Return the process ids of the ServerApps that run."""
        return list(self._processes.running("flwr-serverapp"))

    def kill_server_app(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Send the ServerApp a signal, and return the id of its process."""
        found = self.server_apps()
        if len(found) != 1:
            raise FederationError(f"expected one ServerApp to run, got {len(found)}")
        end(found[0], number)
        return found[0]

    def running(self) -> dict[int, str]:
        """Return the command lines of all processes of the federation, by process id."""
        return self._processes.running()

    def log_of(self, name: str) -> str:
        """Return what a node, or the `superlink`, has printed."""
        path = self._processes.log(name)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait_for(self, what: str, happens: Callable[[], bool], timeout_s: float, *, log: str) -> None:
        """Wait until something happens; say what was awaited, and the end of that log, if it does not.

        Meanwhile nodes are looked after, as by a supervisor: see `restart_out_of_step`.
        """
        until = time.monotonic() + timeout_s
        while not happens():
            self.restart_out_of_step()
            if self._link is not None and self._link.poll() is not None:
                raise FederationError(f"the SuperLink ended with code {self._link.returncode}:\n{self._tail(log)}")
            if time.monotonic() > until:
                raise FederationError(f"waited {timeout_s:.0f} s for {what}, in vain:\n{self._tail(log)}")
            time.sleep(_LOOK_AGAIN_S)

    def _kill_with_children(self, process: subprocess.Popen[bytes]) -> None:
        # A SuperNode's and a SuperLink's helpers watch their parent and end after it; a session is ended at once.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _tail(self, log: str) -> str:
        return "\n".join(self.log_of(log).splitlines()[-_TAIL:])

    def _answers(self, port: str) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", int(port)), timeout=1.0):
                return True
        except OSError:
            return False

    def _write_connection(self, made: Certificates) -> None:
        home = self.folder / "flwr-home"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{_LINK}"\n\n[superlink.{_LINK}]\naddress = "{self.address}"\n'
            f"root-certificates = {json.dumps(str(made.authority))}\n",
            encoding="utf-8",
        )

    def _flwr(self, *words: str | Path) -> str:
        done = self._processes.call([_tool("flwr"), *words], _COMMAND_S)
        if done.returncode != 0:
            said = f"{done.stdout}\n{done.stderr}".strip()
            raise FederationError(f"`flwr {' '.join(str(word) for word in words)}` failed:\n{said}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLWR_")}
        return kept | {
            # Flower starts its helpers by name.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self.folder / "flwr-home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FederationError(f'expected the command {name}, which comes with Flower; install "auxo[flower]"')
    return found


def _json_of(text: str) -> dict[str, Any]:
    """Return the JSON object in what a command printed."""
    start = text.find("{")
    try:
        found = json.loads(text[start:]) if start >= 0 else None
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise FederationError(f"expected an object of JSON, got: {text!r}")
    if found.get("success") is False:
        raise FederationError(f"Flower refused: {found}")
    return found

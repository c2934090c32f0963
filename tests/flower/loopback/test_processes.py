"""Faults of whole processes, in one small federation on loopback with TLS and node keys: each leaves it as it found it.

What happens to a killed SuperNode, an unregistered one and a killed ServerApp is in examples/federation/run.py, which
`make federation` runs.
"""

import signal
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from loopback import LoopbackFederation, Node
from loopback.looking import events_in, participations_in

from auxo.core.rng import stream
from auxo.protocol.codec import CodecError
from auxo.protocol.events import RoundClosed

# One federation for all of them: they go to one worker, in this order.
pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(900)]

APP = Path(__file__).parents[3] / "examples" / "federation" / "app"
NODES, STEP_S = 4, 240.0
ENOUGH = 10_000  # rounds: a run that is ended from outside


class Small:
    """A federation of a few nodes and the run that it is at."""

    def __init__(self, federation: LoopbackFederation) -> None:
        self.federation = federation
        self.directory = federation.folder / "run"
        self.run = ""

    def state_of(self, node: Node) -> Path:
        return Path(str(node.config["auxo-state"]))

    def round(self) -> int:
        # Of parted cohorts too: their children have closed none as yet.
        return max((one.round for one in events_in(self.directory) if isinstance(one, RoundClosed)), default=0)

    def submit(self) -> None:
        limits: dict[str, str | float] = {"nodes": NODES, "rounds": ENOUGH, "timeout": 20.0}
        self.run = self.federation.submit(APP, limits | {"directory": str(self.directory)})

    def wait_rounds(self, more: int) -> int:
        """Wait for more rounds to close, and return how many there are."""
        wanted = self.round() + more
        self.federation.wait_for(f"round {wanted}", lambda: self.round() >= wanted, STEP_S, log="superlink")
        return self.round()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    folder = tmp_path_factory.mktemp("federation")
    with LoopbackFederation(folder) as federation:
        for number in range(NODES):
            config: dict[str, str | int] = {"partition-id": number, "num-partitions": NODES}
            federation.add_node(f"node-{number}", config | {"auxo-state": str(folder / f"state-{number}")})
        federation.wait_online(NODES, STEP_S)
        small = Small(federation)
        small.submit()
        small.wait_rounds(2)
        yield small
    assert federation.running() == {}


@pytest.mark.fault(22)
def test_fault_22_garbage_at_the_superlinks_door_is_answered_and_nothing_dies(small: Small) -> None:
    host, port = small.federation.address.split(":")
    rng = stream(0, "garbage")
    for size in (1, 100, 50_000):
        with socket.create_connection((host, int(port)), timeout=10) as door:
            door.sendall(rng.bytes(size))
    trusted = ssl.create_default_context(cafile=str(small.federation.folder / "certificates" / "authority.pem"))
    for path in ("/", "/v1/fleet/pull-messages", "/v1/runtime/push-messages", "/v1/control/list-runs", "/../etc"):
        asked = urllib.request.Request(f"https://{host}:{port}{path}", data=rng.bytes(2000), method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, context=trusted, timeout=10)  # noqa: S310 - our own address
        said = refused.value.read()
        assert 400 <= refused.value.code < 600
        assert b"Traceback" not in said
    small.wait_rounds(1)


def test_without_the_federations_own_authority_nobody_is_trusted(small: Small) -> None:
    host, port = small.federation.address.split(":")
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"https://{host}:{port}/", timeout=10)


@pytest.mark.fault(28)
def test_fault_28_a_second_process_with_a_key_that_is_on_line_is_refused(small: Small) -> None:
    first = small.federation.nodes[0]
    twin = Node("twin", first.key, first.config)
    small.federation.start_node(twin)
    small.federation.wait_for("the twin to be refused", lambda: not twin.is_running, STEP_S, log="twin")
    assert "Exit Code: 305" in small.federation.log_of("twin")
    assert first.is_running
    small.wait_rounds(1)


@pytest.mark.fault(32)
def test_fault_32_a_node_that_restarts_with_a_damaged_record_explores_again_with_a_warning(small: Small) -> None:
    node = small.federation.nodes[1]
    state = small.state_of(node)
    small.federation.wait_for("three participations", lambda: participations_in(state) >= 3, STEP_S, log=node.name)
    small.federation.stop_node(node)
    (record,) = state.glob("*.affinity")
    record.write_bytes(record.read_bytes()[:-20])
    small.federation.start_node(node)

    def has_trained() -> bool:
        try:
            return participations_in(state) > 0
        except CodecError:  # nobody has written a new one yet
            return False

    small.federation.wait_for("the node to train", has_trained, STEP_S, log=node.name)
    assert participations_in(state) < 3
    assert "is damaged; this client starts exploring again" in small.federation.log_of(node.name)


@pytest.mark.fault(33)
def test_fault_33_a_server_app_that_is_told_to_stop_goes_on_from_its_checkpoint(small: Small) -> None:
    before = small.round()
    small.federation.kill_server_app(signal.SIGTERM)
    assert small.federation.wait_finished(small.run, STEP_S).startswith("finished")
    stopped = small.round()
    small.submit()
    assert small.wait_rounds(1) > stopped >= before


@pytest.mark.fault(31)
def test_fault_31_a_superlink_that_is_killed_fails_the_run_which_goes_on_when_submitted_again(small: Small) -> None:
    before = small.round()
    small.federation.kill_link()
    small.federation.start_link()
    small.federation.wait_online(NODES, STEP_S)
    assert small.federation.wait_finished(small.run, STEP_S) == "finished:failed"
    small.submit()
    assert small.wait_rounds(1) > before


@pytest.mark.fault(20)
def test_fault_20_a_node_that_is_banned_is_refused_with_its_key_and_with_a_new_one(small: Small) -> None:
    node = small.federation.nodes[-1]
    small.federation.unregister(node)
    small.federation.stop_node(node)
    small.federation.start_node(node)
    small.federation.wait_for("the node to be refused", lambda: not node.is_running, STEP_S, log=node.name)
    assert small.federation.log_of(node.name).count("Exit Code: 305") == 1
    again = small.federation.add_node("new-key", node.config, registered=False)
    small.federation.wait_for("the new key to be refused", lambda: not again.is_running, STEP_S, log="new-key")
    assert len(small.federation.online()) == NODES - 1
    small.wait_rounds(1)

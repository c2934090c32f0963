"""A service whose cohorts are actors on the two nodes of a Ray cluster: whatever is lost, it trains on."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from auxo.core.types import ROOT
from auxo.protocol.events import OwnerChanged
from auxo.service.pulses import COORDINATOR
from tests.faults.ray_nodes import two_nodes
from tests.service.live_service import LiveService, live_service

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.timeout(600),
    # What Ray itself leaves behind when it starts and ends.
    pytest.mark.filterwarnings("ignore:unclosed file .*/dev/null:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with two_nodes() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def live(nodes: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """Give a service on the cluster whose clients have been partitioned; in the end no actor of it is left."""
    more = ["--engine", "ray", "--ray-address", nodes.address]
    with live_service(tmp_path_factory.mktemp("live"), more=more) as found:
        found.wait("a partition", lambda: ROOT not in found.owners)
        found.trains_again()
        yield found
        found.check_invariants()
    assert not actors(), "something was left behind"


def actors() -> dict[int, str]:
    """Return the processes of a service's actors on this machine's nodes."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text()
        except OSError:  # it has just ended
            continue
        if words.startswith(("ray::CohortHost", "ray::Door")):
            found[int(path.parent.name)] = words
    return found


def raylet_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_cohorts_are_actors_on_both_nodes(live: LiveService) -> None:
    pids = [live.pid(one) for one in live.owners]
    assert set(pids) < set(actors())
    assert len({raylet_of(pid) for pid in pids}) == 2


@pytest.mark.fault(1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_cohort_that_is_killed_or_stopped_is_started_again_from_its_last_commit(
    live: LiveService, number: signal.Signals
) -> None:
    cohort, other = live.owners
    epochs, pid = {one: owner.epoch for one, owner in live.owners.items()}, live.pid(other)
    live.kill(cohort, number=number)
    live.wait("the next owner", lambda: live.owners[cohort].epoch > epochs[cohort])
    live.trains_again()
    assert live.owners[other].epoch == epochs[other]
    assert live.pid(other) == pid


@pytest.mark.fault(3)
def test_without_a_coordinator_cohorts_end_their_rounds_commit_and_wait_and_the_next_one_adopts_them(
    live: LiveService,
) -> None:
    pids, epochs = {one: live.pid(one) for one in live.owners}, {one: own.epoch for one, own in live.owners.items()}
    live.keeper.send_signal(signal.SIGSTOP)  # so that nobody starts the next one yet
    live.kill(COORDINATOR)
    live.wait("cohorts to wait", lambda: {live.state(one) for one in pids} == {"waiting for coordinator"})
    live.keeper.send_signal(signal.SIGCONT)
    live.trains_again()
    assert {one: live.pid(one) for one in live.owners} == pids
    assert {one: own.epoch for one, own in live.owners.items()} == epochs


@pytest.mark.fault(8)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_without_the_way_to_the_store_cohorts_go_on_in_memory_and_commit_when_it_is_back(
    live: LiveService, number: signal.Signals
) -> None:
    epochs = {one: owner.epoch for one, owner in live.owners.items()}
    os.kill(live.pid("door"), number)
    live.trains_again()
    live.trains_again()
    assert {one: owner.epoch for one, owner in live.owners.items()} == epochs


@pytest.mark.fault(1, 5)
def test_cohorts_of_a_node_that_is_lost_go_on_on_another(live: LiveService, nodes: Cluster) -> None:
    (node,) = nodes.worker_nodes
    count = len(live.events)
    nodes.remove_node(node, allow_graceful=False)
    live.wait("the next owner", lambda: any(isinstance(one, OwnerChanged) for one in live.events[count:]))
    live.trains_again()
    assert len({raylet_of(live.pid(one)) for one in live.owners}) == 1

"""Faults of a live service: real processes are killed and stopped, one after another, while clients train."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from auxo.core.types import ROOT, CohortId
from auxo.protocol.events import OwnerChanged, Partitioned
from auxo.service.pulses import COORDINATOR
from tests.service.live_service import CONFIG, LiveService, live_service, processes_of, serve

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """Give a service whose clients have been partitioned; its coordinator was killed when that happened."""
    with live_service(tmp_path_factory.mktemp("live")) as found:
        found.wait("a partition", lambda: ROOT not in found.owners)
        found.kill(COORDINATOR)
        yield found
        found.check_invariants()


def _respawned(live: LiveService, cohort: CohortId) -> list[OwnerChanged]:
    return [one for one in live.events if isinstance(one, OwnerChanged) and one.cohort == cohort]


@pytest.mark.fault(4)
def test_a_coordinator_killed_as_a_cohort_is_partitioned_leaves_all_children_with_a_model(live: LiveService) -> None:
    (told,) = [one for one in live.events if isinstance(one, Partitioned)]
    assert set(told.children) == set(live.owners) == {LEFT, RIGHT}
    live.trains_again()
    assert all(live.store.model(leaf).any() for leaf in (LEFT, RIGHT))


@pytest.mark.fault(1)
def test_a_cohort_that_is_killed_does_its_round_again_and_no_other_notices(live: LiveService) -> None:
    live.trains_again()
    live.wait("a round", lambda: live.state(LEFT) == "training")
    epochs, pid = {one: owner.epoch for one, owner in live.owners.items()}, live.pid(RIGHT)
    before = live.rounds
    live.kill(LEFT)
    live.wait("the next owner", lambda: live.owners[LEFT].epoch > epochs[LEFT])
    live.trains_again(LEFT)
    assert live.owners[LEFT].epoch == epochs[LEFT] + 1
    assert "SIGKILL" in _respawned(live, LEFT)[-1].reason or "ended" in _respawned(live, LEFT)[-1].reason
    assert _respawned(live, LEFT)[-1].round >= before[LEFT]
    assert live.pid(RIGHT) == pid
    assert live.owners[RIGHT].epoch == epochs[RIGHT]
    assert live.rounds[RIGHT] > before[RIGHT]


@pytest.mark.fault(3)
def test_without_a_coordinator_cohorts_end_their_rounds_and_wait_and_the_next_one_adopts_them(
    live: LiveService,
) -> None:
    pids, epochs = {one: live.pid(one) for one in live.owners}, {one: own.epoch for one, own in live.owners.items()}
    tree = live.store.read(()).record.state.tree
    live.keeper.send_signal(signal.SIGSTOP)  # so that nobody starts the next one yet
    live.kill(COORDINATOR)
    live.wait("cohorts to wait", lambda: {live.state(one) for one in pids} == {"waiting for coordinator"})
    rounds = live.rounds
    time.sleep(1.0)
    assert live.rounds == rounds
    live.keeper.send_signal(signal.SIGCONT)
    live.trains_again()
    assert {one: live.pid(one) for one in live.owners} == pids
    assert {one: own.epoch for one, own in live.owners.items()} == epochs
    assert live.store.read(()).record.state.tree == tree


@pytest.mark.fault(5)
def test_coordinator_and_cohort_killed_together_go_on_from_the_disk(live: LiveService) -> None:
    epochs = {one: owner.epoch for one, owner in live.owners.items()}
    live.kill(COORDINATOR, RIGHT)
    live.wait("the next owner", lambda: live.owners[RIGHT].epoch > epochs[RIGHT])
    live.trains_again()
    assert live.owners[LEFT].epoch == epochs[LEFT]


@pytest.mark.fault(7)
def test_a_cohort_that_is_stopped_is_followed_by_another_and_writes_nothing_more(live: LiveService) -> None:
    epoch, pid = live.owners[LEFT].epoch, live.pid(LEFT)
    live.kill(LEFT, number=signal.SIGSTOP)
    live.wait("the next owner", lambda: live.owners[LEFT].epoch > epoch)
    assert "no sign of life" in _respawned(live, LEFT)[-1].reason
    live.trains_again()
    assert pid not in processes_of(live.directory)


@pytest.mark.fault(7)
def test_a_coordinator_that_is_stopped_is_followed_by_another(live: LiveService) -> None:
    epoch = live.store.coordinator
    live.kill(COORDINATOR, number=signal.SIGSTOP)
    live.wait("the next coordinator", lambda: live.store.coordinator > epoch)
    live.trains_again()


@pytest.mark.fault(6)
def test_a_second_service_and_a_second_coordinator_are_refused(live: LiveService) -> None:
    second = serve(live.folder)
    said, _ = second.communicate(timeout=60)
    assert second.returncode not in {0, 130}
    assert re.search(r"process \d+ is running there", said.replace("\n", " "))
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-m", "auxo.service.coordinator_process", str(live.directory)]
    other = subprocess.run(  # noqa: S603 - our own command
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert other.returncode != 0
    assert "is running there" in other.stderr
    live.trains_again()


def test_ctrl_c_ends_all_of_it_and_the_same_command_goes_on(live: LiveService) -> None:
    rounds = live.rounds
    live.keeper.send_signal(signal.SIGINT)
    said, _ = live.keeper.communicate(timeout=60)
    assert live.keeper.returncode == 130
    assert "to go on: auxo serve" in said
    assert "serving at" in said
    assert not processes_of(live.directory)
    assert all(live.rounds[one] >= number for one, number in rounds.items())
    assert not list(live.directory.rglob("*.part"))
    live.keeper = serve(live.folder)
    live.trains_again()


def test_other_settings_are_refused_where_a_service_has_begun(live: LiveService) -> None:
    live.keeper.send_signal(signal.SIGINT)
    live.keeper.communicate(timeout=60)
    (live.folder / "service.toml").write_text(CONFIG.replace("participants = 8", "participants = 6"))
    refused = serve(live.folder)
    said, _ = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert "participants: 8 in the record, 6 here" in said.replace("\n", " ")

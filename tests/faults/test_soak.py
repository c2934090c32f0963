"""A short soak; `make soak` has a long one."""

from pathlib import Path

import pytest

from tests.faults.service_soak import soak_service
from tests.faults.soak import soak

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(1200)]


@pytest.mark.fault(38)
def test_a_run_whose_processes_are_killed_at_random_completes_with_the_same_bytes(tmp_path: Path) -> None:
    done = soak(tmp_path, minutes=1.0, on_ray=False, rounds=500)
    assert sum(done.killed.values()) >= 3
    assert done.completed >= 1


@pytest.mark.fault(38, where="ray")
def test_a_run_on_ray_whose_processes_are_killed_at_random_completes_with_the_same_bytes(tmp_path: Path) -> None:
    done = soak(tmp_path, minutes=1.5, on_ray=True, rounds=100)
    assert sum(done.killed.values()) >= 3
    assert done.completed >= 1


@pytest.mark.fault(38, where="service")
def test_a_service_whose_processes_are_killed_at_random_trains_on_and_counts_every_round_once(tmp_path: Path) -> None:
    assert sum(soak_service(tmp_path, minutes=1.0).values()) >= 3

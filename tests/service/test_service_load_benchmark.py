"""The benchmark of a service, in small, against `auxo serve` itself: everybody is answered, and trains."""

from pathlib import Path

import pytest
from service_load import measure_check_ins, measure_training

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.mark.fault(29)
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "over TLS"])
def test_all_who_check_in_at_the_same_moment_are_answered(tmp_path: Path, with_tls: bool) -> None:
    found = measure_check_ins(tmp_path, clients=500, bursts=2, with_tls=with_tls)
    assert [one["statuses"] for one in found["bursts"]] == [{200: 500}] * 2
    assert found["coordinator_mb"] < 400


def test_clients_train_through_a_service_without_errors(tmp_path: Path) -> None:
    found = measure_training(tmp_path, clients=20, participants=8, seconds=10)
    assert found["errors"] == 0
    assert found["rounds_a_minute"] > 0
    assert found["outcomes"]["counted"] >= 8

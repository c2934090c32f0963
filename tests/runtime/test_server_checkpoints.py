"""A live server on disk: it goes on after a crash as if there had been none, and says what it cannot do."""

import os
from pathlib import Path

import numpy as np
import pytest

from auxo.files.directory_lock import DirectoryInUse
from auxo.runtime.server_checkpoints import ServerCheckpoints
from tests.files.test_checkpoint_store import FullDisk
from tests.runtime.test_server import LEAVES, Loop, everybody, new_server


def records(loop: Loop) -> dict[str, "np.ndarray[tuple[int], np.dtype[np.uint8]]"]:
    """Return the clients' records, which in a real federation stay with them."""
    return {str(row): np.frombuffer(one.record_to_bytes(), np.uint8) for row, one in enumerate(loop.clients)}


def begun(folder: Path, *, signed: bool = False) -> Loop:
    """Return what a process that starts now goes on with, as a loop of one's own would."""
    loop = Loop()
    with ServerCheckpoints(folder, signed=signed) as kept:
        found = kept.restore(loop.server)
        for row, client in enumerate(loop.clients if found is not None else ()):
            assert found is not None
            client.record_from_bytes(found.arrays[str(row)].tobytes())
    return loop


@pytest.mark.fault(3)
@pytest.mark.parametrize("crashes", [(1,), (3, 4), (2, 2, 5, 1)])
def test_a_loop_that_crashes_and_goes_on_ends_with_the_same_bytes(tmp_path: Path, crashes: tuple[int, ...]) -> None:
    whole = Loop().play(12)
    folder, done = tmp_path / "deep" / "federation", 0
    for more in crashes:
        loop = begun(folder).play(more)
        done += more
        with ServerCheckpoints(folder) as kept:
            kept.save(loop.server, {"loops": done}, records(loop))
        loop.play(1)  # lost in the crash
    loop = begun(folder).play(12 - done)
    assert len(loop.server.cohorts) > 1
    assert loop.to_bytes() == whole.to_bytes()


def test_a_server_that_signs_goes_on_after_a_crash_and_still_knows_what_it_has_signed(tmp_path: Path) -> None:
    loop = begun(tmp_path, signed=True).play(4)
    with ServerCheckpoints(tmp_path) as kept:
        kept.save(loop.server, {}, records(loop))
    assert len(loop.server.record.used.digests)
    whole = loop.play(8)
    again = begun(tmp_path, signed=True).play(8)
    assert again.to_bytes() == whole.to_bytes()


def test_what_is_kept_with_a_server_comes_back(tmp_path: Path) -> None:
    with ServerCheckpoints(tmp_path) as kept:
        assert kept.restore(new_server()) is None
        assert kept.save(new_server(), {"round": 7}, {"moments": np.arange(6.0).reshape(2, 3)})
    found = ServerCheckpoints(tmp_path).restore(new_server())
    assert found is not None
    assert found.about == {"round": 7}
    np.testing.assert_array_equal(found.arrays["moments"], np.arange(6.0).reshape(2, 3))


@pytest.mark.fault(35)
def test_a_server_that_was_made_otherwise_is_refused_and_the_checkpoint_stays(tmp_path: Path) -> None:
    ServerCheckpoints(tmp_path).save(Loop().play(2).server)
    before = sorted(path.name for path in tmp_path.iterdir())
    other = new_server(seed=4)
    as_made = other.to_bytes()
    with pytest.raises(ValueError, match="seed: 3 in the record, 4 here"):
        ServerCheckpoints(tmp_path).restore(other)
    assert other.to_bytes() == as_made
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.fault(9)
def test_a_damaged_checkpoint_is_put_aside_and_the_one_before_is_taken(tmp_path: Path) -> None:
    kept, loop = ServerCheckpoints(tmp_path), Loop().play(1)
    kept.save(loop.server)
    first = loop.server.to_bytes()
    kept.save(loop.play(1).server)
    damaged = next(tmp_path.glob("1-*-whole.safetensors"))
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    server = new_server()
    with pytest.warns(RuntimeWarning, match="put aside"):
        assert ServerCheckpoints(tmp_path).restore(server) is not None
    assert server.to_bytes() == first


@pytest.mark.fault(8)
def test_a_disk_without_room_is_told_and_the_last_one_stays(tmp_path: Path) -> None:
    problems: list[str] = []
    disk = FullDisk()
    kept, loop = ServerCheckpoints(tmp_path, on_problem=problems.append, disk=disk), Loop().play(1)
    assert kept.save(loop.server)
    first = loop.server.to_bytes()
    disk.at = disk.steps + 1
    assert not kept.save(loop.play(1).server)
    assert "No space left on device" in problems[0]
    server = new_server()
    ServerCheckpoints(tmp_path).restore(server)
    assert server.to_bytes() == first


@pytest.mark.fault(6)
def test_a_folder_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    with ServerCheckpoints(tmp_path), pytest.raises(DirectoryInUse, match=str(os.getpid())):
        ServerCheckpoints(tmp_path).__enter__()
    with ServerCheckpoints(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_one_is_due_after_the_time_asked_for_or_less_often_where_it_takes_long(tmp_path: Path) -> None:
    times = iter([0.0, 9.9, 10.0, 10.0, 10.0, 19.0, 20.0])
    kept = ServerCheckpoints(tmp_path, every_s=10.0, clock=lambda: next(times))
    assert [kept.is_due for _ in range(2)] == [False, True]
    kept.save(new_server())
    assert [kept.is_due for _ in range(2)] == [False, True]

    times = iter([0.0, 20.0, 22.0, 100.0, 119.9, 120.1])  # one that takes two seconds: 98 of work after it
    slow = ServerCheckpoints(tmp_path, every_s=10.0, clock=lambda: next(times))
    slow.save(new_server())
    assert [slow.is_due for _ in range(3)] == [False, False, True]


@pytest.mark.fault(4)
def test_clients_that_live_on_never_hear_of_a_partition_that_a_crash_undoes(tmp_path: Path) -> None:
    # Kept seldom, but always before anybody is told of a partition, as the docs have it; then the server crashes.
    server, clients, rounds, partitions = new_server(), Loop().clients, 0, 0
    with ServerCheckpoints(tmp_path) as kept:
        while not server.is_over:
            for cohort, check_ins in server.match([client.check_in() for client in clients]).items():
                known = server.cohorts
                feedback = server.close_round(cohort, everybody(server.open_round(cohort, check_ins)))
                is_partitioned, rounds = server.cohorts != known, rounds + 1
                if is_partitioned or rounds % 4 == 0:
                    kept.save(server)
                for one in feedback:
                    clients[int(one.client)].receive(one)
                if is_partitioned or rounds % 7 == 0:
                    partitions += is_partitioned
                    server = new_server()
                    kept.restore(server)
                    break  # what was going on is gone
    assert partitions == 2
    assert set(server.match([client.check_in(explore=False) for client in clients], everybody=True)) == set(LEAVES)

"""The lock on a directory: one holder at a time, in this process or another, and none once the holder is dead."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from auxo.files.directory_lock import DirectoryInUse, locked_directory

HOLDER = """
import os, sys, time
from pathlib import Path
from auxo.files.directory_lock import locked_directory
with locked_directory(Path(sys.argv[1])):
    child = os.fork()  # as worker processes are
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    time.sleep(60)
"""


def test_it_is_held_once_and_leaves_nothing(tmp_path: Path) -> None:
    with locked_directory(tmp_path):
        with (
            pytest.raises(DirectoryInUse, match=rf"process {os.getpid()}, this one, is running there; wait for it"),
            locked_directory(tmp_path),
        ):
            pass
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())
    with locked_directory(tmp_path):
        pass


@pytest.mark.fault(6)
def test_another_process_is_named_and_its_death_gives_the_directory_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own code
    assert holder.stdout is not None
    orphan = int(holder.stdout.readline())
    try:
        with (
            pytest.raises(DirectoryInUse, match=rf"process {holder.pid} is running there"),
            locked_directory(tmp_path),
        ):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with locked_directory(tmp_path):  # although a process that it has forked lives on
            os.kill(orphan, 0)
    finally:
        os.kill(orphan, signal.SIGKILL)
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert not list(tmp_path.iterdir())

"""What there is to know of a Ray cluster at work: whether its own processes answer, and whether actors live."""

import socket
from typing import Any

import ray
from ray import exceptions as ray_errors
from ray._private import state, worker

from auxo.runtime.patience import LOOK_S, Patience

HEALTH = "health"
"""The concurrency group in which actors say that they live, whatever else they do."""

START_S = 180.0  # how long an actor may take to start: on a busy machine a minute was too little; our choice
_CONNECT_S = 5.0  # how long a process of Ray may take to answer; our choice


def lost_part() -> str | None:
    """Return which of Ray's own processes that this one depends on does not answer any more; None where all do."""
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError:
        return "gcs_server"
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(_CONNECT_S)
        try:
            door.connect(worker._global_node.raylet_socket_name)
        except OSError:
            return "raylet"
    return None


def is_running(actor: Any) -> bool:
    """Return whether Ray believes that an actor's process runs, as opposed to one that is yet to be started."""
    return bool(state.actors(actor_id=actor._actor_id.hex()).get("State") == "ALIVE")


class Pulse:
    """An actor that has something to do; it is asked for a sign of life only when nothing else is heard of it."""

    def __init__(self, actor: Any, patience: Patience) -> None:
        self._actor = actor
        self._patience = patience
        self._at_work = patience.begin()
        self._asked: Any = None  # reference

    def begin(self) -> None:
        """Something has been begun, or gone on with, just now."""
        self._patience.go_on(self._at_work)

    def finish(self, units: int) -> None:
        """So many units of work are done; another begins."""
        self._patience.finish(self._at_work, units)
        self.begin()

    def why_lost(self, units: int | None = None) -> str | None:
        """Look; return why it is taken for lost, if it is: also for its units of work, unless they are None."""
        if self._asked is None and self._patience.silent_s(self._at_work) > LOOK_S:
            self._asked = self._actor.live.options(concurrency_group=HEALTH).remote()
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            answer, self._asked = self._asked, None
            try:
                self._patience.hear(self._at_work, ray.get(answer))
            except ray_errors.RayError:  # it is dead, and whoever waits for its work is told
                self.begin()
        return self._patience.why_lost(self._at_work, units)

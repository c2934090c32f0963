"""A process of a service: an app over HTTP, a pulse that beats, and turns of its own, until one says that it ends."""

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from starlette.types import ASGIApp

from auxo.service.commit_point import PulseBoard
from auxo.service.desks import Pulse
from auxo.service.http_limits import HttpLimits
from auxo.service.http_server import collect_seldom, http_server
from auxo.service.plan import ServicePlan
from auxo.service.pulses import BEAT_S

_TURN_S = 0.05  # between two turns; our choice: little beside what a client takes to answer
_BACKLOG = 2048

Turn = Callable[[], int | None]
"""Does what is due; returns the process's exit code when there is nothing more to do."""

_FAILED = 1


def run_process(app: ASGIApp, listener: socket.socket, plan: ServicePlan, beats: "Beats", turn: Turn) -> int:
    """Serve until a turn says that it is over, or a signal comes; return the exit code.

    Requests, turns and beats each have a thread: a beat comes however busy the others are, and says whether both of
    them go on.
    """
    collect_seldom()
    server = http_server(app, HttpLimits(), plan.tls)
    ended = threading.Event()
    code: list[int] = []

    def turns() -> None:
        try:
            while not ended.wait(_TURN_S):
                said = turn()
                if said is not None:
                    code.append(said)
                    break
        except Exception:
            logging.getLogger("auxo.service").exception("the process ends, and is started again from its last commit")
            code.append(_FAILED)
        server.should_exit = True

    async def serve() -> None:
        looping = asyncio.create_task(beats.loop())
        try:
            await server.serve(sockets=[listener])
        finally:
            looping.cancel()

    threading.Thread(target=beats.beat, args=(ended,), name="beats", daemon=True).start()
    worker = threading.Thread(target=turns, name="turns", daemon=True)
    worker.start()
    try:
        asyncio.run(serve())
    finally:
        ended.set()
        worker.join(plan.service.silent_s)
    return code[0] if code else 0


@dataclass
class Beats:
    """The pulse of this process; its progress is that of requests and turns, whichever of them stands still."""

    pulses: PulseBoard
    pulse: Callable[[], Pulse]
    _loops: int = 0  # turns of the event loop
    _seen: tuple[int, int] = (0, -1)  # these and those of the work, when both had last gone on
    _progress: int = 0

    async def loop(self) -> None:
        """Count turns of the event loop."""
        while True:
            self._loops += 1
            await asyncio.sleep(BEAT_S / 2)

    def beat(self, ended: threading.Event) -> None:
        """Tell the pulse again and again."""
        while True:
            try:
                self.pulses.tell(self._now())
            except Exception:  # one that cannot be told is no reason to be taken for dead
                logging.getLogger("auxo.service").exception("a pulse could not be told")
            if ended.wait(BEAT_S):
                return

    def _now(self) -> Pulse:
        pulse, (loops, turns) = self.pulse(), self._seen
        if self._loops != loops and pulse.progress != turns:
            self._seen, self._progress = (self._loops, pulse.progress), self._progress + 1
        return replace(pulse, progress=self._progress)


def listen(host: str, ports: range) -> socket.socket:
    """Return a socket on the first port that is free.

    Raises:
        OSError: none is; the message names them.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    refused: OSError | None = None
    for port in ports:
        try:
            return socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            refused = error
    words = f"{host}, port {ports[0]}" + (f" to {ports[-1]}" if len(ports) > 1 else "")
    raise OSError(
        refused.errno if refused else None,
        f"{words}: expected a free port, got {refused.strerror if refused else 'none'}; choose another (service.port)",
    )


def log_to_standard_error(who: str) -> None:
    """Have what goes wrong in a process in the log of its service, with who says so."""
    form = f"%(asctime)s {who} %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form, force=True)


LOG_FILE = "service.log"


def log_path(directory: Path) -> Path:
    """Return where the processes of a service write what goes wrong."""
    return directory / LOG_FILE

"""What people find in a service's directory while it runs: events, bans, keys; the coordinator keeps it up to date."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from auxo.core.guard import Bans
from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError
from auxo.protocol.events import ClientBanned, Event, from_json
from auxo.runtime.ban_files import BanFiles
from auxo.runtime.client_numbers import client_number
from auxo.runtime.server import Server
from auxo.runtime.server_record import ServerRecord
from auxo.runtime.signing_keys import SigningKeys
from auxo.service.plan import ServicePlan
from auxo.service.store import Store

_EVENTS = "events.jsonl"
_EVERY_S = 1.0
_LOG = logging.getLogger("auxo.service")


class FilesForPeople:
    """The files of one service."""

    def __init__(self, plan: ServicePlan, store: Store, server: Server, epoch: int) -> None:
        """Begin.

        Args:
            plan: of the service.
            store: which has all of it.
            server: of the coordinator.
            epoch: of the coordinator.
        """
        self._plan, self._store, self._server, self._epoch = plan, store, server, epoch
        self._keys, self._last, self._looked_s = SigningKeys.of(plan.directory), 0, float("-inf")
        self._names = dict[int, str]()  # of those who were ever banned
        self._bans = BanFiles(plan.directory, _names=self._names)
        self.troubles: list[str] = []
        """What could not be written."""

    def update(self, is_last: bool = False) -> None:
        """Write what is new, once in a while."""
        if time.monotonic() - self._looked_s < _EVERY_S and not is_last:
            return
        self._looked_s = time.monotonic()
        try:
            self._write_events()
            if self._plan.rules.signed:
                self._keys.update(self._server)
            self._update_bans()
            self.troubles = []
        except (OSError, FileError) as error:
            self.troubles = [f"what people read is not up to date: {error}"]

    def _write_events(self) -> None:
        found = self._store.events(self._last)
        if not found:
            return
        path, content = self._plan.directory / _EVENTS, "".join(f"{line}\n" for _, line in found).encode()
        if self._last == 0:  # anew, so that every event is there once, whatever a crash has left
            write_whole(path, content)
        else:
            with path.open("ab") as file:
                self._last = 0  # all is written anew, should half of it be written now
                file.write(content)
        self._last = found[-1][0]
        for event in (from_json(line) for _, line in found if "ClientBanned" in line):
            number = client_number(event.client) if isinstance(event, ClientBanned) else None
            if number is not None and isinstance(event, ClientBanned):
                self._names[number] = event.client

    def _update_bans(self) -> None:
        """Write down the bans that hold, and end those that somebody has lifted."""
        before = self._server.bans
        self._bans.update(self._server)
        lifted = [ban for ban in before if ban not in self._server.bans]
        if not lifted:
            return

        def step(record: ServerRecord) -> tuple[ServerRecord, Sequence[Event]]:
            guard, clients = self._plan.rules.guard, [ban.client for ban in lifted]
            assert isinstance(guard, Bans)  # noqa: S101 - or there were no bans
            return replace(record, state=replace(record.state, guard=guard.lift(record.state.guard, clients))), ()

        self._store.change_shared(self._epoch, step)

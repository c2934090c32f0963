"""Bans in a server's directory: who is banned, for people to read, and which bans a person has lifted.

The bans themselves are in the server's record, which survives restarts; ``bans.json`` shows them. Who lifts one writes
it into ``lifted.json``, which a server reads between rounds, so that it need not be stopped for that.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from auxo.core.guard import Ban
from auxo.core.types import ClientId
from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError
from auxo.runtime.server import Server

_BANS, _LIFTED = "bans.json", "lifted.json"


@dataclass(frozen=True)
class NamedBan:
    """A ban, with what the client calls itself."""

    name: str
    ban: Ban


@dataclass
class BanFiles:
    """Keeps the two files of a server up to date."""

    directory: Path
    _shown: tuple[Ban, ...] | None = None
    _names: dict[int, str] = field(default_factory=dict)

    def update(self, server: Server) -> None:
        """End the bans that somebody has lifted, and write down those that hold, if they are others than before.

        Raises:
            FileError: a file is damaged.
            OSError: there is no room for it.
        """
        if self._shown is None:
            self._names = {one.ban.client: one.name for one in read_bans(self.directory)}
        self._names |= _named(server.banned)
        lifted = read_lifted(self.directory)
        server.lift(ban for ban in server.bans if (ban.client, ban.since) in lifted)
        if server.bans != self._shown and (server.bans or (self.directory / _BANS).exists()):
            told = [{"name": self._names.get(ban.client, str(ban.client)), **asdict(ban)} for ban in server.bans]
            write_whole(self.directory / _BANS, json.dumps({"bans": told}, indent=1).encode())
        self._shown = server.bans


def read_bans(directory: Path) -> tuple[NamedBan, ...]:
    """Return the bans of the server in a directory, as it has last told them.

    Raises:
        FileError: the file is damaged.
    """
    path = directory / _BANS
    try:
        told = json.loads(path.read_text(encoding="utf-8"))["bans"]
        return tuple(NamedBan(one.pop("name"), Ban(**one)) for one in told)
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: expected bans, got something else; delete it: the server writes it anew") from error


def read_lifted(directory: Path) -> frozenset[tuple[int, int]]:
    """Return which bans have been lifted: client and the round of the ban.

    Raises:
        FileError: the file is damaged.
    """
    path = directory / _LIFTED
    try:
        return frozenset((int(client), int(since)) for client, since in json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return frozenset()
    except (ValueError, TypeError) as error:
        raise FileError(f"{path}: expected lifted bans, got something else; delete it, and lift them again") from error


def lift_ban(directory: Path, client: str) -> NamedBan:
    """Have a server end a client's ban, between its next rounds or when it goes on.

    Args:
        directory: of the server.
        client: its name, or its number.

    Raises:
        FileError: there is no such ban, or a file is damaged.
    """
    bans = read_bans(directory)
    found = next((one for one in bans if client in {one.name, str(one.ban.client)}), None)
    if found is None:
        named = ", ".join(one.name for one in bans) or "nobody"
        raise FileError(f"{directory}: expected a client that is banned there, got {client}; banned: {named}")
    lifted = sorted({*read_lifted(directory), (found.ban.client, found.ban.since)})
    write_whole(directory / _LIFTED, json.dumps(lifted).encode())
    return found


def _named(banned: Mapping[ClientId, Ban]) -> dict[int, str]:
    return {ban.client: str(name) for name, ban in banned.items()}

"""The keys in a server's directory, as the server uses them: one that is added while it runs signs from then on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from auxo.files.key_file import Key, keys_at
from auxo.runtime.server import Server
from auxo.runtime.signing import VALID_ROUNDS


@dataclass
class SigningKeys:
    """Has a server sign with the keys in its directory, or with those that somebody reads for it."""

    read: Callable[[int], tuple[Key, ...]]  # given the server's round
    _keys: tuple[Key, ...] = ()

    @staticmethod
    def of(directory: Path) -> "SigningKeys":
        """Return those in a directory."""
        return SigningKeys(lambda now: keys_at(directory, now, VALID_ROUNDS))

    def update(self, server: Server) -> None:
        """Give the server its keys, if they are others than before.

        Raises:
            FileError: the file is damaged, or others than its owner can read it.
            OSError: there is no room for it.
        """
        keys = self.read(server.farthest)
        if keys != self._keys:
            server.sign_with(keys)
            self._keys = keys

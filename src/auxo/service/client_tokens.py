"""Who sends a request: every client has a token, which its service can tell from all others without a table of them.

A token is the client's id and its HMAC-SHA256 under a key that is in the service's directory, and that its owner alone
can read. With another key all tokens are another's. The service's own processes have a token as well.
"""

import base64
import binascii
import hmac
import json
from dataclasses import dataclass, field
from pathlib import Path

from auxo.core.types import ClientId
from auxo.files.key_file import lasting_secret
from auxo.runtime.client_numbers import plain_id

CLIENT_KEY_FILE = "clients.key"
"""Its name in a service's directory."""

_LONGEST = 8192  # characters; the longest name has fewer, whatever its letters


@dataclass(frozen=True)
class ClientTokens:
    """Issues and recognises the tokens of one service."""

    secret: bytes = field(repr=False)

    def issue(self, client: ClientId) -> str:
        """Return the token of a client.

        Raises:
            ValueError: the id is nothing that a client can be called.
        """
        name = plain_id(client)
        if name is None:
            raise ValueError(
                f"client: expected a number of up to 64 bits or a name of 1 to 1024 characters, got {client!r:.80}"
            )
        said = base64.urlsafe_b64encode(json.dumps(name).encode()).decode().rstrip("=")
        return f"{said}.{self._mac('client', said)}"

    def client_of(self, token: str) -> ClientId | None:
        """Return whose token it is; None: it is none of this service's."""
        said, dot, mac = token.partition(".")
        if not dot or len(token) > _LONGEST or not self._is(mac, "client", said):
            return None
        return named_by(token)

    @property
    def own(self) -> str:
        """Return the token by which the service's processes know each other."""
        return self._mac("service", "")

    def is_own(self, token: str) -> bool:
        """Return whether a process of this service speaks."""
        return self._is(token, "service", "")

    def _mac(self, kind: str, said: str) -> str:
        return hmac.digest(self.secret, _bytes(f"auxo {kind} {said}"), "sha256").hex()

    def _is(self, mac: str, kind: str, said: str) -> bool:
        return hmac.compare_digest(_bytes(mac), _bytes(self._mac(kind, said)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # whatever text comes, it is no reason to fail


def named_by(token: str) -> ClientId | None:
    """Return the client that a token speaks of, whoever has made it; None: it is no token.

    >>> named_by(ClientTokens(b"secret").issue("phone-7"))
    'phone-7'
    """
    said = token.partition(".")[0]
    try:
        return plain_id(json.loads(base64.b64decode(said + "=" * (-len(said) % 4), altchars="-_", validate=True)))
    except (binascii.Error, ValueError):
        return None


def client_tokens(directory: Path) -> ClientTokens:
    """Return the tokens of the service in a directory; its key is made when it is first asked for.

    Raises:
        FileError: the key is damaged, or others than its owner can read it.
    """
    return ClientTokens(lasting_secret(directory / CLIENT_KEY_FILE))

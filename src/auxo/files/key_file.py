"""The keys that a server signs with: a file beside its checkpoints that its owner alone can read.

Who has it can make any claim true, so that it is in no message, no event and no report. The newest key signs; older
ones verify until the last token that they have signed has expired, and are deleted then. Whoever rotates the keys does
not know how far the server is, so that the server itself says until when (`keys_at`).
"""

import json
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from auxo.files.atomic_write import new_file, whole_file
from auxo.files.errors import FileError

KEY_FILE = "affinity.key"
"""Its name in a server's directory."""

_SECRET_BYTES = 32
_LOST_CLAIMS = "clients then have to prove anew where they belong, which takes them a visit or two"
_LOST_TOKENS = "all clients then need new tokens"
_OWNER_ONLY = 0o600


@dataclass(frozen=True)
class Key:
    """A server's secret for signing, and until when it verifies."""

    secret: str = field(repr=False)  # hexadecimal
    until: int | None = None  # the first round in which no token of it holds any more; None: nobody has said so


def keys_at(directory: Path, now: int, valid_rounds: int) -> tuple[Key, ...]:
    """Return the keys in a directory, the newest last; where there are none, one is made.

    Keys that another has taken the place of get the round in which their last token expires, and go when it has come.

    Args:
        directory: of a server.
        now: its round.
        valid_rounds: for which a token holds.

    Raises:
        FileError: the file is damaged, or others than its owner can read it.
    """
    path = directory / KEY_FILE
    held = _read(path)
    *older, newest = held or (_new_key(),)
    ends = [now + valid_rounds if key.until is None else key.until for key in older]
    keys = (*(Key(key.secret, until) for key, until in zip(older, ends, strict=True) if now < until), newest)
    if keys != held:
        _write(path, keys)
    return keys


def rotate_keys(directory: Path) -> None:
    """Add a new key, which a server signs with from its next round on; those before it verify for a while.

    Raises:
        FileError: there is no key, the file is damaged, or others than its owner can read it.
    """
    path = directory / KEY_FILE
    held = _read(path)
    if not held:
        raise FileError(f"{path}: expected the key of a server that signs, got no file; is this its directory?")
    _write(path, (*held, _new_key()))


def lasting_secret(path: Path) -> bytes:
    """Return the secret in a file of its own, which stays; of several that make it at the same time one succeeds.

    Raises:
        FileError: the file is damaged, or others than its owner can read it.
    """
    held = _read(path, _LOST_TOKENS)
    if not held:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            new_file(path, _content((_new_key(),)), mode=_OWNER_ONLY)
        held = _read(path, _LOST_TOKENS)
    return bytes.fromhex(held[-1].secret)


def _new_key() -> Key:
    return Key(secrets.token_hex(_SECRET_BYTES))


def _read(path: Path, lost: str = _LOST_CLAIMS) -> tuple[Key, ...]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    if mode & ~_OWNER_ONLY:
        raise FileError(
            f"{path}: expected that its owner alone can read it (mode 0600), got {mode:04o}: whoever has read it can "
            f"sign; delete it: {lost}"
        )
    return _parsed(path, text, lost)


def _write(path: Path, keys: tuple[Key, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        os.fchmod(file.fileno(), _OWNER_ONLY)  # before there is anything in it
        file.write(_content(keys))


def _content(keys: tuple[Key, ...]) -> bytes:
    return json.dumps({"keys": [{"secret": key.secret, "until": key.until} for key in keys]}, indent=1).encode()


def _parsed(path: Path, text: str, lost: str) -> tuple[Key, ...]:
    try:
        keys = tuple(Key(one["secret"], one["until"]) for one in json.loads(text)["keys"])
        if not keys or any(len(bytes.fromhex(key.secret)) != _SECRET_BYTES for key in keys):
            raise ValueError("no keys")
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path}: expected keys, got something else; restore it from a copy, or delete it: {lost}"
        ) from error
    return keys

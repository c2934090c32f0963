"""The keys that a server signs with: a file beside its checkpoints that its owner alone can read.

Who has it can make any claim true, so that it is in no message, no event and no report. The newest key signs; older
ones still verify until the last token that they have signed has expired.
"""

import json
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from auxo.files.atomic_write import whole_file
from auxo.files.errors import FileError

KEY_FILE = "affinity.key"
"""Its name in a server's directory."""

_SECRET_BYTES = 32
_OWNER_ONLY = 0o600


@dataclass(frozen=True)
class Key:
    """A server's secret for signing, and until when it verifies."""

    secret: str = field(repr=False)  # hexadecimal
    until: int | None = None  # the first round in which no token of it holds any more; None: the newest


def keys_in(directory: Path) -> tuple[Key, ...]:
    """Return the keys in a directory, the newest last; where there are none, one is made.

    Raises:
        FileError: the file is damaged, or others than its owner can read it.
    """
    path = directory / KEY_FILE
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        _write(path, (new := (Key(secrets.token_hex(_SECRET_BYTES)),)))
        return new
    if mode & ~_OWNER_ONLY:
        raise FileError(
            f"{path}: expected that its owner alone can read it (mode 0600), got {mode:04o}: whoever has read it can "
            "sign; rotate the key (`auxo bans rotate-key`), then chmod 600 it"
        )
    return _parsed(path, text)


def rotate_keys(directory: Path, until: int) -> tuple[Key, ...]:
    """Add a new key, which signs from now on; those before it verify up to round ``until``. Return all of them.

    Raises:
        FileError: the file is damaged.
    """
    path = directory / KEY_FILE
    try:
        before = _parsed(path, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        before = ()
    old = tuple(Key(key.secret, until if key.until is None else key.until) for key in before)
    keys = (*old, Key(secrets.token_hex(_SECRET_BYTES)))
    _write(path, keys)
    return keys


def _write(path: Path, keys: tuple[Key, ...]) -> None:
    content = json.dumps({"keys": [{"secret": key.secret, "until": key.until} for key in keys]}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        os.fchmod(file.fileno(), _OWNER_ONLY)  # before there is anything in it
        file.write(content.encode())


def _parsed(path: Path, text: str) -> tuple[Key, ...]:
    try:
        keys = tuple(Key(one["secret"], one["until"]) for one in json.loads(text)["keys"])
        if not keys or any(len(bytes.fromhex(key.secret)) != _SECRET_BYTES for key in keys):
            raise ValueError("no keys")
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path}: expected keys, got something else; restore it from a copy, or delete it: clients then have to "
            "prove anew where they belong, which takes them a visit or two"
        ) from error
    return keys

"""Clients' ids as numbers of 64 bits: what columns of clients hold, whatever a federation calls its clients."""

import hashlib

import numpy as np

from auxo.core.types import ClientId

_OWN_NUMBERS = 2**62  # ids below it are their own numbers; all others get one above it
_MOST_BITS = 64  # of an id that is a number: transports have them signed or unsigned
_LONGEST_NAME = 1024  # characters; our choice


def plain_id(client: object) -> ClientId | None:
    """Return an id as a plain number or text; None: it is none that a client could have.

    >>> plain_id(np.int32(7)), plain_id("phone-7"), plain_id(2**64 - 1), plain_id(2**64), plain_id(7.0), plain_id("")
    (7, 'phone-7', 18446744073709551615, None, None, None)
    """
    if isinstance(client, str):
        return str(client) if 0 < len(client) <= _LONGEST_NAME else None
    if isinstance(client, bool | np.bool_) or not isinstance(client, int | np.integer):
        return None
    number = int(client)
    return number if number.bit_length() <= _MOST_BITS else None


def client_number(client: object) -> int | None:
    """Return the number that stands for a client in columns; None: it is nothing that a client could be called.

    A number that is not too large stands for itself. Names, and numbers of all 64 bits, are hashed: that two clients of
    a federation of a million share a number has a chance of one in ten million.
    """
    name = plain_id(client)
    if isinstance(name, int) and abs(name) < _OWN_NUMBERS:
        return name
    if name is None:
        return None
    kind = "i" if isinstance(name, int) else "s"
    digest = hashlib.blake2b(f"{kind}{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return _OWN_NUMBERS + int.from_bytes(digest, "little") % _OWN_NUMBERS

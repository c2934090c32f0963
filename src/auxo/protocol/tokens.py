"""Tokens: what a server has observed of a client, signed, for the client to keep in the server's stead.

A token holds the running record of `auxo.core.affinity.observe`: rewards and how many there were, and similarities to
clusters, by cohort; whose it is, in which round it was made, and until when it holds. HMAC-SHA256 signs it under one of
the server's keys, which the token names, and the federation. Nothing here reads a clock or a file.
"""

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from auxo.core.affinity import FOLDS, AffinityRecords, widen
from auxo.core.cohort_tree import CohortTree
from auxo.files.key_file import Key

Flaw = Literal["missing", "unknown key", "forged", "expired", "another's", "used", "older than a ban", "of no use"]
"""Why a token proves nothing; of these only a forged one is held against who brings it, for feedback may be lost."""

_VERSION = 1
_HEAD = struct.Struct(
    "<B8sqiiIHHB"
)  # version, key, client, round, expires, participations, branches, cohorts, clusters
_VECTOR = struct.Struct("<Hq")  # of which cohort, and of which start of its clustering
_DIGEST_BYTES = 32
_KEY_ID_BYTES = 8
_LONGEST = 200_000  # characters; our choice: a tree of thousands of cohorts has fewer


@dataclass(frozen=True)
class Token:
    """What a token says, once its signature has been found to be ours."""

    client: int  # number, see `auxo.runtime.client_numbers`
    round: int  # in which it was made: of the cohort that is farthest
    expires: int  # the first round in which it does not hold
    participations: int
    branches: int  # of the server's tree that the client had heard of
    cohorts: int
    clusters: int
    body: bytes = field(repr=False)  # with the record in it, see `records_of`


@dataclass(frozen=True)
class Signer:
    """Signs and verifies tokens of one federation; the last key signs."""

    keys: tuple[Key, ...]
    federation: str
    valid_rounds: int

    def sign(self, client: int, now: int, records: AffinityRecords, row: int = 0) -> str:
        """Return a token with a client's row of records, made in round ``now``."""
        key, cohorts, clusters = self.keys[-1], records.reward.shape[1], records.similarity.shape[-1]
        head = _HEAD.pack(
            _VERSION,
            _name(key.secret),
            client,
            now,
            now + self.valid_rounds,
            int(records.participations[row]),
            int(records.heard[row]),
            cohorts,
            clusters,
        )
        said = ~np.isnan(records.similarity[row]).all(axis=(1, 2))
        vectors = [
            _VECTOR.pack(place, int(records.generation[row, place]))
            + records.similarity[row, place].astype("<f8").tobytes()
            for place in np.flatnonzero(said).tolist()
        ]
        body = b"".join(
            (
                head,
                records.reward[row].astype("<f8").tobytes(),
                records.rewarded[row].astype("<i4").tobytes(),
                *vectors,
            )
        )
        return base64.urlsafe_b64encode(body + self._mac(key, body)).decode()

    def read(self, text: str, tree: CohortTree, client: int, now: int) -> Token | Flaw:  # noqa: PLR0911 - one each
        """Return what a client's token says, or why it proves nothing; ``tree`` is the server's in round ``now``."""
        if not text:
            return "missing"
        data = _bytes_of(text)
        if data is None:
            return "unknown key"
        body, mac = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        version, name, whose, made, expires, taken, branches, cohorts, clusters = _HEAD.unpack_from(body)
        key = next((one for one in self.keys if _name(one.secret) == name), None)
        if key is None or version != _VERSION:
            return "unknown key"
        if not hmac.compare_digest(self._mac(key, body), mac):
            return "forged"
        if whose != client:
            return "another's"
        if not made <= now < expires:
            return "expired"
        if branches > len(tree.branches) or cohorts > len(tree.cohorts):
            return "of no use"  # the server has gone back to an earlier state
        return Token(whose, made, expires, taken, branches, cohorts, clusters, body)

    def _mac(self, key: Key, body: bytes) -> bytes:
        return hmac.digest(_signing_key(key.secret, self.federation), body, "sha256")


@lru_cache(maxsize=64)
def _name(secret: str) -> bytes:
    """Return what tokens call a key; it tells nothing of the secret."""
    return hashlib.blake2b(bytes.fromhex(secret), digest_size=_KEY_ID_BYTES, person=b"auxo key").digest()


@lru_cache(maxsize=64)
def _signing_key(secret: str, federation: str) -> bytes:
    """Return a key of this federation alone: a directory may see another one after it."""
    return hmac.digest(bytes.fromhex(secret), f"auxo affinity {federation}".encode(), "sha256")


def _bytes_of(text: str) -> bytes | None:
    """Return the bytes of a token; None: nobody has made it with a key."""
    if len(text) > _LONGEST:
        return None
    try:
        data = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if len(data) >= _HEAD.size + _DIGEST_BYTES else None


def records_of(tokens: Sequence[Token | None], tree: CohortTree, clusters: int) -> AffinityRecords:
    """Return the records in tokens that have been verified, one row each, in the server's tree; None: an empty one."""
    held = widen(AffinityRecords.empty(len(tokens), clusters), tree)
    for row, token in enumerate(tokens):
        if token is None or token.clusters != clusters:
            continue
        body, cohorts, at = token.body, token.cohorts, _HEAD.size
        held.heard[row], held.participations[row] = token.branches, token.participations
        held.reward[row, :cohorts] = np.frombuffer(body, "<f8", cohorts, at)
        held.rewarded[row, :cohorts] = np.frombuffer(body, "<i4", cohorts, at + 8 * cohorts)
        at += 12 * cohorts
        while at < len(body):
            place, generation = _VECTOR.unpack_from(body, at)
            numbers = np.frombuffer(body, "<f8", FOLDS * clusters, at + _VECTOR.size)
            held.similarity[row, place], held.generation[row, place] = numbers.reshape(FOLDS, clusters), generation
            at += _VECTOR.size + numbers.nbytes
    return held


def token_digest(text: str) -> int:
    """Return 8 bytes that stand for a token among those that were used."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _no_numbers() -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class UsedTokens:
    """Tokens that were replaced by newer ones, until they expire: participants x rounds of validity at most."""

    digests: "np.ndarray[tuple[int], np.dtype[np.int64]]" = field(default_factory=_no_numbers)  # ascending
    expires: "np.ndarray[tuple[int], np.dtype[np.int64]]" = field(default_factory=_no_numbers)  # (digests,) a round

    def have(self, digests: Sequence[int]) -> list[bool]:
        """Return which of these were used."""
        asked = np.array(digests, dtype=np.int64)
        places = np.searchsorted(self.digests, asked).clip(max=max(len(self.digests) - 1, 0))
        found = self.digests[places] == asked if len(self.digests) else np.zeros(len(asked), dtype=np.bool_)
        return [bool(one) for one in found]

    def after(self, used: Iterable[tuple[int, int]], now: int) -> "UsedTokens":
        """Return these and some more, each with the round in which it expires, without those that have expired."""
        held = dict(zip(self.digests.tolist(), self.expires.tolist(), strict=True)) | dict(used)
        stay = sorted((digest, expires) for digest, expires in held.items() if expires > now)
        digests, expires = zip(*stay, strict=True) if stay else ((), ())
        return UsedTokens(np.array(digests, dtype=np.int64), np.array(expires, dtype=np.int64))

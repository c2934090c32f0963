"""Tokens: what a server has observed of a client, signed, for the client to keep in the server's stead.

A token holds the running record of `auxo.core.affinity.observe`: rewards and how many there were, and similarities to
clusters, by cohort; whose it is, in which round it was made, and until when it holds. HMAC-SHA256 signs it under one of
the server's keys, which the token names, and the federation. Nothing here reads a clock or a file.
"""

import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from auxo.core.affinity import FOLDS, AffinityRecords, widen
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import BoolArray, IntArray
from auxo.files.key_file import Key

Flaw = Literal["missing", "unknown key", "forged", "expired", "another's", "used", "older than a ban", "of no use"]
"""Why a token proves nothing; of these only a forged one is held against who brings it, for feedback may be lost."""

_VERSION = 2
_HEAD = np.dtype(
    [
        ("version", "u1"),
        ("key", "V8"),  # see `_name`
        ("client", "<i8"),  # number, see `auxo.runtime.client_numbers`
        ("round", "<i4"),  # in which it was made: of the cohort that is farthest
        ("expires", "<i4"),  # the first round in which it does not hold
        ("participations", "<u4"),
        ("branches", "<u2"),  # of the server's tree that the client had heard of
        ("cohorts", "<u2"),
        ("vectors", "<u2"),  # cohorts that similarities are held of
        ("clusters", "u1"),
    ]
)
_KEY_NAME = slice(1, 9)  # in the bytes of a head
_DIGEST_BYTES = 32
_MARK_BYTES = 8  # of a signature: enough to stand for a token among those that were used
_LONGEST = 200_000  # characters; our choice: a tree of thousands of cohorts has fewer


@lru_cache(maxsize=1024)
def _layout(cohorts: int, vectors: int, clusters: int) -> "np.dtype[np.void]":
    """Return how the bytes of a token lie: all of one kind are written, and read, at once."""
    vector = np.dtype([("cohort", "<u2"), ("generation", "<i8"), ("similarity", "<f8", (FOLDS, clusters))])
    return np.dtype(
        [
            ("head", _HEAD),
            ("reward", "<f8", (cohorts,)),
            ("rewarded", "<i4", (cohorts,)),
            ("vectors", vector, (vectors,)),
        ]
    )


@dataclass(frozen=True)
class Tokens:
    """What the tokens of some clients say, or why they prove nothing; row aligned with who has brought them."""

    flaws: tuple[Flaw | None, ...]  # None: it is ours, and holds
    marks: IntArray  # (rows,) stand for tokens among those that were used; of signatures, so one token has one mark
    heads: NDArray[Any] = field(repr=False)  # (rows,) of `_HEAD`; zeros where a token is not ours
    bodies: tuple[bytes, ...] = field(repr=False)  # with the records in them, see `records_of`

    @cached_property
    def hold(self) -> BoolArray:
        """Return which hold."""
        return np.array([flaw is None for flaw in self.flaws], dtype=np.bool_)

    @property
    def expires(self) -> IntArray:
        """Return the first rounds in which they do not hold."""
        return np.asarray(self.heads["expires"], dtype=np.int64)

    def but(self, flaws: Sequence[tuple[BoolArray, Flaw]]) -> "Tokens":
        """Return these with flaws that were found since; of several of one token the first counts."""
        after = list(self.flaws)
        for found, flaw in flaws:
            for row in np.flatnonzero(found).tolist():
                after[row] = after[row] or flaw
        return Tokens(tuple(after), self.marks, self.heads, self.bodies)

    @property
    def rounds(self) -> IntArray:
        """Return the rounds in which they were made."""
        return np.asarray(self.heads["round"], dtype=np.int64)


@dataclass(frozen=True)
class Signer:
    """Signs and verifies tokens of one federation; the last key signs."""

    keys: tuple[Key, ...]
    federation: str
    valid_rounds: int

    def __post_init__(self) -> None:
        if not self.keys or self.keys[-1].until is not None:
            raise ValueError("keys: expected a last one without an end, got none: it signs; add one (rotate_keys)")

    def sign(self, clients: IntArray, now: int, records: AffinityRecords) -> list[str]:
        """Return a token for each client with its row of records, made in round ``now``."""
        key, (_, cohorts, _, clusters) = self.keys[-1], records.similarity.shape
        said: BoolArray = np.asarray(~np.isnan(records.similarity).all(axis=(2, 3)))
        vectors = said.sum(axis=1)
        tokens = [""] * len(clients)
        for count in np.unique(vectors).tolist():
            rows = np.flatnonzero(vectors == count)
            written = np.zeros(len(rows), _layout(cohorts, count, clusters))
            head, vector = written["head"], written["vectors"]
            head["version"], head["key"], head["client"] = (
                _VERSION,
                np.void(_name(key.secret, self.federation)),
                clients[rows],
            )
            head["round"], head["expires"] = now, now + self.valid_rounds
            head["participations"], head["branches"] = records.participations[rows], records.heard[rows]
            head["cohorts"], head["vectors"], head["clusters"] = cohorts, count, clusters
            written["reward"], written["rewarded"] = records.reward[rows], records.rewarded[rows]
            places = np.nonzero(said[rows])[1].reshape(len(rows), count)
            vector["cohort"], vector["generation"] = places, records.generation[rows[:, None], places]
            vector["similarity"] = records.similarity[rows[:, None], places]
            secret, size, joined = _signature(key.secret, self.federation), written.itemsize, written.tobytes()
            for row, at in zip(rows.tolist(), range(0, len(joined), size), strict=True):
                body = joined[at : at + size]
                tokens[row] = binascii.b2a_base64(body + _signed(secret, body), newline=False).decode()
        return tokens

    def read(self, texts: Sequence[str], clients: IntArray, tree: CohortTree, now: int) -> Tokens:
        """Return what clients' tokens say, or why they prove nothing; ``tree`` is the server's in round ``now``."""
        secrets = {
            _name(key.secret, self.federation): _signature(key.secret, self.federation)
            for key in self.keys
            if key.until is None or now < key.until
        }
        sorted_out = [_verified(text, secrets) for text in texts]
        flaws, bodies, macs = zip(*sorted_out, strict=True) if sorted_out else ((), (), ())
        heads = np.frombuffer(b"".join(body[: _HEAD.itemsize] or _NO_HEAD for body in bodies), _HEAD)
        marks = np.frombuffer(b"".join(mac[:_MARK_BYTES] or _NO_MARK for mac in macs), "<i8").astype(np.int64)
        has_gone_back = (heads["branches"] > len(tree.branches)) | (heads["cohorts"] > len(tree.cohorts))
        return Tokens(flaws, marks, heads, bodies).but(
            [
                (heads["client"] != clients, "another's"),
                ((heads["round"] > now) | (heads["expires"] <= now), "expired"),
                (has_gone_back, "of no use"),  # the server, to an earlier state
            ]
        )


_NO_HEAD, _NO_MARK = bytes(_HEAD.itemsize), bytes(_MARK_BYTES)


def _verified(text: str, secrets: "dict[bytes, hmac.HMAC]") -> tuple[Flaw | None, bytes, bytes]:
    """Return the body and the signature of a token that is ours, or its flaw and nothing else."""
    if not text:
        return "missing", b"", b""
    try:
        data = binascii.a2b_base64(text, strict_mode=True) if len(text) <= _LONGEST else b""
    except ValueError:  # binascii.Error, or characters beyond ASCII
        return "unknown key", b"", b""
    body, mac = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    secret = secrets.get(body[_KEY_NAME])
    if secret is None or body[0] != _VERSION or len(body) < _HEAD.itemsize:
        return "unknown key", b"", b""
    if not hmac.compare_digest(_signed(secret, body), mac):
        return "forged", b"", b""
    return None, body, mac


@lru_cache(maxsize=64)
def _name(secret: str, federation: str) -> bytes:
    """Return what tokens call a key of this federation; it tells nothing of the secret.

    In another federation a token is of a key that nobody knows, and not a forgery.
    """
    named = _signing_key(secret, federation)
    return hashlib.blake2b(named, digest_size=_HEAD["key"].itemsize, person=b"auxo key").digest()


@lru_cache(maxsize=64)
def _signing_key(secret: str, federation: str) -> bytes:
    """Return a key of this federation alone: a directory may see another one after it."""
    return hmac.digest(bytes.fromhex(secret), f"auxo affinity {federation}".encode(), "sha256")


@lru_cache(maxsize=64)
def _signature(secret: str, federation: str) -> hmac.HMAC:
    """Return a signature of nothing yet, to copy: half of the time of a short one goes into its key."""
    return hmac.new(_signing_key(secret, federation), digestmod="sha256")


def _signed(empty: hmac.HMAC, body: bytes) -> bytes:
    """Return the signature of a body."""
    signature = empty.copy()
    signature.update(body)
    return signature.digest()


def records_of(tokens: Tokens, tree: CohortTree, clusters: int) -> AffinityRecords:
    """Return the records in tokens, one row each, in the server's tree; an empty one where a token does not hold."""
    held = widen(AffinityRecords.empty(len(tokens.flaws), clusters), tree)
    usable = np.flatnonzero(tokens.hold & (tokens.heads["clusters"] == clusters))
    kinds: dict[tuple[int, int], list[int]] = {}
    for row, *kind in zip(
        usable.tolist(), *(tokens.heads[name][usable].tolist() for name in ("cohorts", "vectors")), strict=True
    ):
        kinds.setdefault((kind[0], kind[1]), []).append(row)
    for (cohorts, vectors), some in kinds.items():
        rows, joined = np.array(some), b"".join(tokens.bodies[row] for row in some)
        read = np.frombuffer(joined, _layout(cohorts, vectors, clusters))
        head, vector, places = read["head"], read["vectors"], read["vectors"]["cohort"].astype(np.int64)
        held.heard[rows], held.participations[rows] = head["branches"], head["participations"]
        held.reward[rows, :cohorts], held.rewarded[rows, :cohorts] = read["reward"], read["rewarded"]
        held.generation[rows[:, None], places] = vector["generation"]
        held.similarity[rows[:, None], places] = vector["similarity"]
    return held


def _no_numbers() -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class UsedTokens:
    """Tokens that were replaced by newer ones, until they expire: participants x rounds of validity at most."""

    digests: "np.ndarray[tuple[int], np.dtype[np.int64]]" = field(default_factory=_no_numbers)  # ascending
    expires: "np.ndarray[tuple[int], np.dtype[np.int64]]" = field(default_factory=_no_numbers)  # (digests,) a round

    def have(self, marks: IntArray) -> BoolArray:
        """Return which of these were used."""
        if not len(self.digests):
            return np.zeros(len(marks), dtype=np.bool_)
        places = np.searchsorted(self.digests, marks).clip(max=len(self.digests) - 1)
        return np.asarray(self.digests[places] == marks)

    def after(self, marks: IntArray, expires: IntArray, now: int) -> "UsedTokens":
        """Return these and some more, each with the round in which it expires, without those that have expired."""
        digests, first = np.unique(np.concatenate((marks, self.digests)), return_index=True)
        until = np.concatenate((expires, self.expires))[first]
        return UsedTokens(digests[until > now], until[until > now])

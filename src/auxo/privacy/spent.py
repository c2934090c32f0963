"""What a client has spent so far: a value, with the text that a ledger keeps of it."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Literal

from auxo.privacy.accounting import Exponential, Gaussian, Pure, RandomisedResponse, Release, Releases

Promise = Literal["client", "sample"]
"""What looks alike: any two data sets of a client, or two of which one sample differs. They are never added up."""

_VERSION = 1
_KINDS: Mapping[str, type[Gaussian] | type[RandomisedResponse] | type[Exponential] | type[Pure]] = {
    "gaussian": Gaussian,
    "response": RandomisedResponse,
    "exponential": Exponential,
    "pure": Pure,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class LedgerError(Exception):
    """A ledger that cannot be relied on: nothing may leave the client."""


@dataclass(frozen=True)
class PrivacySpent:
    """What has been released under a promise."""

    promise: Promise
    name: str  # of the ledger, by which it is known again
    releases: Releases = field(default_factory=dict)

    @staticmethod
    def nothing(promise: Promise) -> "PrivacySpent":
        """Return that of a client which has released nothing, with a name that nobody else has."""
        return PrivacySpent(promise, secrets.token_hex(16))

    def after(self, releases: Releases) -> "PrivacySpent":
        """Return what is spent once these have left, too."""
        counts = dict(self.releases)
        for release, count in releases.items():
            counts[release] = counts.get(release, 0) + count
        return replace(self, releases=counts)

    def to_bytes(self) -> bytes:
        """Return it as a ledger keeps it: JSON, with a checksum in its first line."""
        content = json.dumps(
            {
                "version": _VERSION,
                "promise": self.promise,
                "name": self.name,
                "releases": [[_NAMES[type(one)], *astuple(one), count] for one, count in self.releases.items()],
            }
        )
        return f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}\n".encode()

    @staticmethod
    def from_bytes(data: bytes) -> "PrivacySpent":
        """Return what a ledger says.

        Raises:
            LedgerError: it is damaged, or of another release.
        """
        try:
            checksum, content, end = data.decode().split("\n")
            if hashlib.sha256(content.encode()).hexdigest() != checksum or end:
                raise LedgerError("its checksum does not fit")
            said = json.loads(content)
            if said["version"] != _VERSION:
                raise LedgerError(f"expected version {_VERSION}, got {said['version']}")
            releases: dict[Release, int] = {_KINDS[kind](*numbers): count for kind, *numbers, count in said["releases"]}
            return PrivacySpent(said["promise"], said["name"], releases)
        except (ValueError, TypeError, LookupError) as error:
            raise LedgerError("it is no ledger, or a part of one") from error

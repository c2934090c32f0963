"""`auxo.connect`: a client's half of a live service, in a handful of lines."""

import ipaddress
import warnings
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from auxo.core.affinity import AffinitySettings
from auxo.core.client_mod import ClientMod
from auxo.runtime.client import Client
from auxo.service.client_tokens import named_by
from auxo.service.link import ClientPatience, Link
from auxo.service.record_file import RecordFile
from auxo.service.session import Session


def connect(  # noqa: PLR0913 - by name, all but the first two
    url: str,
    token: str,
    *,
    state: str | Path | None = None,
    ca: str | Path | None = None,
    certificate: tuple[str | Path, str | Path] | None = None,
    mods: Sequence[ClientMod] = (),
    settings: AffinitySettings | None = None,
    patience: ClientPatience | None = None,
) -> Session:
    """Return a client of the service at an address; nothing is sent before it takes part.

    Args:
        url: of the coordinator, as the service has printed it.
        token: of this client, as ``auxo clients invite`` has printed it; it says who the client is.
        state: file in which the client keeps what it has learnt of its cohorts; None: it forgets that with its process,
            and explores anew.
        ca: file with the certificate that the service's own is signed by; None: those that the machine trusts.
        certificate: files with the client's own certificate and its key, where the service asks for one.
        mods: that all pass through what the client says, such as ``LocalPrivacy``.
        settings: how it weighs and explores cohorts.
        patience: how long it tries where nobody answers.

    Raises:
        ValueError: the address or the token is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"url: expected one such as https://coordinator.example:8443, got {url!r:.80}")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        words = f"{url}: without TLS everybody on the way reads this client's token and updates; use https"
        warnings.warn(words, RuntimeWarning, stacklevel=2)
    client = named_by(token)
    if client is None:
        raise ValueError(f"token: expected one that `auxo clients invite` has printed, got {token!r:.20}")
    own = None if certificate is None else (Path(certificate[0]), Path(certificate[1]))
    link = Link(token, patience or ClientPatience(), None if ca is None else Path(ca), own, parts.scheme == "https")
    return Session(
        url.rstrip("/"),
        link,
        RecordFile(None if state is None else Path(state)),
        lambda: Client(client, settings=settings, mods=mods),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

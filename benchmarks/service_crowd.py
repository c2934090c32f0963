"""A crowd of clients on one event loop: each keeps its connection, and all of them speak at the same moment.

It speaks as little HTTP as it needs, so that the crowd costs less than the service that it measures.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass

from auxo.core.types import ClientId
from auxo.service.client_tokens import ClientTokens

_AT_A_TIME = 200  # connections that are opened at once


@dataclass(frozen=True)
class Spoken:
    """How one request went."""

    status: int  # 0: the connection was lost
    seconds: float  # from the moment at which all spoke


class Speaker(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, client: ClientId, token: str) -> None:
        body = json.dumps({"client": client}).encode()
        self._request = (
            f"POST /v1/check-ins HTTP/1.1\r\nhost: service\r\nauthorization: Bearer {token}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode() + body
        self._got = b""
        self._heard: asyncio.Future[Spoken] | None = None
        self._begun_s = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as a stream's is
        """Keep the connection."""
        self.transport = transport

    def speak(self, begun_s: float) -> "asyncio.Future[Spoken]":
        """Check in; what is returned is there when the whole answer is."""
        assert self.transport is not None  # noqa: S101 - it is connected
        self._got, self._begun_s = b"", begun_s
        self._heard = asyncio.get_running_loop().create_future()
        self.transport.write(self._request)
        return self._heard

    def data_received(self, data: bytes) -> None:
        """Look whether the whole answer is there."""
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            self._tell(int(head[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that there will be no answer."""
        self._tell(0)

    def _tell(self, status: int) -> None:
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(Spoken(status, time.perf_counter() - self._begun_s))


async def connected(
    address: tuple[str, int], clients: Sequence[ClientId], tokens: ClientTokens, tls: ssl.SSLContext | None
) -> list[Speaker]:
    """Return a connection for each client."""
    gate, loop = asyncio.Semaphore(_AT_A_TIME), asyncio.get_running_loop()
    name = None if tls is None else "127.0.0.1"

    async def one(client: ClientId) -> Speaker:
        async with gate:
            speaker = Speaker(client, tokens.issue(client))
            await loop.create_connection(lambda: speaker, *address, ssl=tls, server_hostname=name)
            return speaker

    return list(await asyncio.gather(*(one(client) for client in clients)))


async def all_check_in(speakers: Sequence[Speaker]) -> list[Spoken]:
    """Have all check in at the same moment, and return how each went."""
    begun_s = time.perf_counter()
    return list(await asyncio.gather(*[one.speak(begun_s) for one in speakers]))

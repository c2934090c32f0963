"""A crowd of clients on one event loop: each keeps its connection, and all of them speak at the same moment."""

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

from auxo.core.types import ClientId
from auxo.service.client_tokens import ClientTokens

_AT_A_TIME = 200  # connections that are opened at once


@dataclass(frozen=True)
class Spoken:
    """How one request went."""

    status: int  # 0: the connection was lost
    seconds: float  # from the moment at which all spoke
    sent_bytes: int
    got_bytes: int
    body: bytes = b""


class Speaker:
    """One client's connection; it speaks as little HTTP as it needs, so that the crowd costs less than the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._token = token

    def ask(self, method: str, path: str, body: bytes = b"") -> int:
        """Send a request, and return its length."""
        said = (
            f"{method} {path} HTTP/1.1\r\nhost: service\r\nauthorization: Bearer {self._token}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode() + body
        self._writer.write(said)
        return len(said)

    async def answer(self) -> tuple[int, bytes, int]:
        """Return the status, the body, and how long all of it was."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
        body = await self._reader.readexactly(int(fields[b"content-length"]))
        return int(head[9:12]), body, len(head) + len(body)

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, int]:
        """Return the answer to a request, with the bytes of both."""
        sent = self.ask(method, path, body)
        status, answered, got = await self.answer()
        return status, answered, sent + got

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def connected(
    address: tuple[str, int], clients: list[ClientId], tokens: ClientTokens, tls: ssl.SSLContext | None
) -> list[Speaker]:
    """Return a connection for each client."""
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def one(client: ClientId) -> Speaker:
        async with gate:
            reader, writer = await asyncio.open_connection(
                *address, ssl=tls, server_hostname="127.0.0.1" if tls else None
            )
            return Speaker(reader, writer, tokens.issue(client))

    return list(await asyncio.gather(*(one(client) for client in clients)))


async def all_check_in(speakers: Mapping[ClientId, Speaker]) -> list[Spoken]:
    """Have all check in at the same moment, and return how each went."""
    bodies = {client: json.dumps({"client": client}).encode() for client in speakers}
    begun = time.perf_counter()

    async def hear(speaker: Speaker, sent: int) -> Spoken:
        try:
            status, body, got = await speaker.answer()
        except (OSError, asyncio.IncompleteReadError):
            return Spoken(0, time.perf_counter() - begun, sent, 0)
        return Spoken(status, time.perf_counter() - begun, sent, got, body)

    sent = {client: one.ask("POST", "/v1/check-ins", bodies[client]) for client, one in speakers.items()}
    return list(await asyncio.gather(*(hear(one, sent[client]) for client, one in speakers.items())))

"""Crowds of clients on one event loop: some all check in at the same moment, others take part as `auxo.connect` does.

They speak as little HTTP as they need, so that a crowd costs less than the service that it measures.
"""

import asyncio
import hashlib
import json
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import safetensors.numpy

from auxo.core.types import ClientId, CohortId, Float32Array
from auxo.files.typed_json import json_reader
from auxo.protocol.codec import to_bytes
from auxo.protocol.messages import AffinityFeedback, CheckIn
from auxo.runtime.client import Client, Column
from auxo.service.client_tokens import ClientTokens
from auxo.service.desks import Assigned
from auxo.service.model_files import TENSOR
from auxo.service.wire import Joining, json_bytes

_read_assigned, _read_feedback = json_reader(Assigned), json_reader(AffinityFeedback)


@dataclass(frozen=True)
class Work:
    """What a client trains with."""

    loss: Callable[..., float]
    train: Callable[..., object]
    samples: tuple[Column, ...]


_AT_A_TIME = 200  # connections that are opened at once
_PAUSES_S = (0.2, 0.4, 0.8, 1.6)  # after which a request is made again whose connection was lost


@dataclass(frozen=True)
class Spoken:
    """How one request went."""

    status: int  # 0: the connection was lost
    seconds: float  # from the moment at which all spoke


class Speaker(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, client: ClientId, token: str) -> None:
        body = json_bytes(Joining(CheckIn(client), "crowd"))
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
    """Return a connection for each client, which has been spoken on once."""
    gate, loop = asyncio.Semaphore(_AT_A_TIME), asyncio.get_running_loop()
    name = None if tls is None else "127.0.0.1"

    async def one(client: ClientId) -> Speaker:
        async with gate:
            speaker = Speaker(client, tokens.issue(client))
            await loop.create_connection(lambda: speaker, *address, ssl=tls, server_hostname=name)
            await speaker.speak(time.perf_counter())  # or else it would be closed before all others are there
            return speaker

    return list(await asyncio.gather(*(one(client) for client in clients)))


async def all_check_in(speakers: Sequence[Speaker]) -> list[Spoken]:
    """Have all check in at the same moment, and return how each went."""
    begun_s = time.perf_counter()
    return list(await asyncio.gather(*[one.speak(begun_s) for one in speakers]))


# Clients that train


class Trainee:
    """One client that takes part again and again; its half of the protocol is `Client`, as everywhere."""

    def __init__(self, name: int, place: tuple[str, int], token: str, work: Work) -> None:
        self._client = Client(name)
        self._coordinator = place
        self._token = token
        self._work = work
        self._ways: dict[tuple[str, int], tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self.carried = 0  # bytes of requests and answers, headers included
        self.lost = 0  # connections

    async def take_part(self) -> str:
        """Take part once; return the word for what came of it."""
        joining = json_bytes(Joining(self._client.check_in(), "crowd"))
        found = json.loads(await self._until(self._coordinator, "POST", "/v1/check-ins", joining))
        there = place_of(found["address"])
        status, said = await self._ask(there, "POST", "/v1/join", joining)
        while status == 202 and json.loads(said)["why"] == "BUSY":
            await asyncio.sleep(json.loads(said)["after_s"])
            status, said = await self._ask(there, "POST", "/v1/join", joining)
        if status != 200:
            return str(json.loads(said).get("code", "CLOSED"))
        assigned = _read_assigned(said)
        task = assigned.task
        models: dict[CohortId, Float32Array] = {}
        for name in task.models:
            status, said = await self._ask(there, "GET", f"/v1/models/{name}?round={task.round}")
            if status != 200:
                return str(json.loads(said)["code"])
            models[name] = safetensors.numpy.load(said)[TENSOR]
        done = to_bytes(
            self._client.do(task, models.__getitem__, self._work.loss, self._work.train, *self._work.samples)
        )
        query = f"epoch={assigned.epoch}&total={len(done)}&sha256={hashlib.sha256(done).hexdigest()}"
        status, said = await self._ask(there, "PUT", f"/v1/answers/{assigned.nonce}?{query}", done)
        if status != 200:
            return str(json.loads(said)["code"])
        await asyncio.sleep(json.loads(said)["feedback_after_s"])
        status, said = await self._ask(there, "GET", f"/v1/feedback?round={task.round}")
        while status == 202:
            await asyncio.sleep(json.loads(said)["after_s"])
            status, said = await self._ask(there, "GET", f"/v1/feedback?round={task.round}")
        if status != 200:
            return str(json.loads(said)["code"])
        self._client.receive(_read_feedback(said))
        return "counted"

    async def _until(self, place: tuple[str, int], method: str, path: str, body: bytes) -> bytes:
        while True:
            status, said = await self._ask(place, method, path, body)
            if status == 200:
                return said
            await asyncio.sleep(json.loads(said)["after_s"])

    async def _ask(self, place: tuple[str, int], method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body; a request whose connection is lost is made again, as `auxo.connect` does."""
        for pause_s in _PAUSES_S:
            try:
                return await self._ask_once(place, method, path, body)
            except (OSError, asyncio.IncompleteReadError):
                self._ways.pop(place, None)
                self.lost += 1
                await asyncio.sleep(pause_s)
        return await self._ask_once(place, method, path, body)

    async def _ask_once(self, place: tuple[str, int], method: str, path: str, body: bytes) -> tuple[int, bytes]:
        reader, writer = await self._way(place)
        request = (
            f"{method} {path} HTTP/1.1\r\nhost: service\r\nauthorization: Bearer {self._token}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode() + body
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        answer = await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        self.carried += len(request) + len(head) + len(answer)
        if b"connection: close" in head.lower():
            self._ways.pop(place)
        return int(head[9:12]), answer

    async def _way(self, place: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        held = self._ways.get(place)
        if held is None or held[0].at_eof() or held[1].is_closing():
            held = self._ways[place] = await asyncio.open_connection(*place)
        return held


def place_of(address: str) -> tuple[str, int]:
    """Return host and port of an address."""
    host, _, port = address.partition("://")[2].rpartition(":")
    return host, int(port)

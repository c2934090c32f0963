"""Serves an app over HTTP on a socket: TLS by files, and bounds on what comes before an app sees a request."""

import asyncio
import gc
import ssl
from asyncio.sslproto import SSLProtocol
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from auxo.service.http_limits import HttpLimits
from auxo.service.problems import SHOWN_HEADERS, Problem, busy
from auxo.service.wire import json_bytes

_TLS_BUFFER_BYTES = 16 * 1024  # as much as a record of TLS holds
_ENDING_S = 2  # that requests have to end by themselves when their process ends, such as stalled downloads; our choice


@dataclass(frozen=True)
class Tls:
    """Files of a service that speaks TLS, in PEM."""

    certificate: Path  # of the service, with those that it follows from
    key: Path  # of that certificate
    client_ca: Path | None = None  # whose certificates clients must have; None: they need none


def collect_seldom() -> None:
    """Have this process look for garbage less often: with ten thousand requests open, looking takes half of the time.

    A process calls it once, when all that it needs is loaded. The numbers are our choice.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def http_server(app: ASGIApp, limits: HttpLimits, tls: Tls | None = None) -> uvicorn.Server:
    """Return a server; ``run(sockets=[...])`` serves until a signal, or until its ``should_exit`` is true."""
    files: dict[str, Any] = {}
    if tls is not None:
        # It is allocated for every connection, and ten thousand of asyncio's own 256 KiB are 2.5 GB.
        SSLProtocol.max_size = _TLS_BUFFER_BYTES
        files = {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
        if tls.client_ca is not None:
            files |= {"ssl_ca_certs": str(tls.client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    config = uvicorn.Config(
        app,
        http=_bounded(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(limits.kept_s),
        timeout_graceful_shutdown=_ENDING_S,
        **files,
    )
    return uvicorn.Server(config)


def _bounded(limits: HttpLimits) -> type[asyncio.Protocol]:
    """Return the protocol of connections with these limits; uvicorn's own has none for what comes before a request."""

    class BoundedHttp(HttpToolsProtocol):
        """One connection."""

        _head = 0  # bytes of the line and the headers that are being read
        _in_head = False
        _waiting: asyncio.TimerHandle | None = None  # for the end of a head

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                most = f"at most {limits.connections} connections at a time"
                self._refuse(busy(most, "one more", limits.again_s))
                return
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_no_more()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            self._head = self._head + len(data) if self._in_head else 0
            if self._head > limits.head_bytes:
                most = f"a line and headers of at most {limits.head_bytes} bytes"
                self._refuse(Problem("TOO_LARGE", most, "more", "send what is long in a body"))
            elif self._in_head and self._waiting is None:
                self._wait()

        def on_message_begin(self) -> None:
            self._in_head = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._wait_no_more()
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            self._refuse(
                Problem("SCHEMA_MISMATCH", "a request in HTTP/1.1", "something else", "is it TLS? mind the URL")
            )

        def _wait(self) -> None:
            self._waiting = self.loop.call_later(limits.head_s, self._too_slow)

        def _wait_no_more(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _too_slow(self) -> None:
            within = f"a request's line and headers within {limits.head_s:g} s"
            self._refuse(Problem("SLOW", within, "a part of them", "send it again"))

        def _refuse(self, problem: Problem) -> None:
            self._wait_no_more()
            if not self.transport.is_closing():
                self.transport.write(_raw(problem))
                self.transport.close()

    return BoundedHttp


def _raw(problem: Problem) -> bytes:
    """Return an answer that ends its connection, before there is a request that it could belong to."""
    status = 400 if problem.code == "SCHEMA_MISMATCH" else 431 if problem.code == "TOO_LARGE" else problem.status
    body = json_bytes(problem)
    headers = SHOWN_HEADERS | {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
    }
    if problem.after_s is not None:
        headers["retry-after"] = str(round(problem.after_s) + 1)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {problem.code}\r\n{lines}\r\n".encode() + body

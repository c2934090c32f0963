"""The gate of a process that serves HTTP: every request passes it, and what passes is known, whole and bounded.

It asks for a token before it reads anything, and reads no more than a message may be long, in no more time than it may
take. Who is refused hears why; nobody else waits for it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auxo.core.types import ClientId
from auxo.service.client_tokens import ClientTokens
from auxo.service.http_limits import HttpLimits
from auxo.service.problems import Problem, ProblemFound, busy, problem_response

DESCRIPTION = "/openapi.json"
"""What anybody may read: it says what the service is, and nothing of who takes part."""

PULSE = "/v1/pulse"
"""For the service's own processes alone."""

ANSWERS = "/v1/answers/"
"""Where pieces of answers go, which may be longer than other messages."""

_LOG = logging.getLogger("auxo.service")
_OF_ONE = 2  # messages of one sender that are held at a time; our choice
_RESERVED = 8  # one part in so many of the room is for messages without an update; our choice
_LENGTH_DIGITS = 18  # of a Content-Length that is worth reading as a number


Quick = Callable[[ClientId, bytes], Awaitable[Response]]
"""Answers a client's message."""


class HttpGate:
    """ASGI middleware in front of a desk; puts who asks, and the whole body, into the request's state.

    Messages to a path among ``quick``, which take no parameters, are answered from here: the way through the framework
    costs more than the answer, where ten thousand come at a time.
    """

    def __init__(
        self, app: ASGIApp, tokens: ClientTokens, limits: HttpLimits, quick: Mapping[str, Quick] | None = None
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._limits = limits
        self._quick = quick or {}
        self._held = 0  # bytes of messages that are being read or worked on
        self._held_by: Counter[tuple[ClientId | None, int]] = Counter()  # the same, by sender and kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] != "http":  # the process's own beginning and end
            await self._app(scope, receive, send)
            return
        begun = _Begun(send)
        try:
            headers = dict(scope["headers"])
            client = self._client(scope["path"], headers)
            most = self._limits.piece_bytes if scope["path"].startswith(ANSWERS) else self._limits.message_bytes
            with self._room(client, most) as room:
                body = await self._read(headers, receive, most, room)
                quick = self._quick.get(scope["path"]) if scope["method"] == "POST" else None
                if quick is not None and client is not None:
                    await (await quick(client, body))(scope, receive, begun)
                    return
                scope["state"].update(client=client, body=body)
                await self._app(scope, receive, begun)
        except ProblemFound as found:
            # What is left of a body is not read, so that nobody can speak on this connection any more.
            await problem_response(found.problem, close=scope["method"] not in {"GET", "HEAD"})(scope, receive, send)
        except Exception:
            _LOG.exception("%s %s: failed, and its sender was told so", scope["method"], scope["path"])
            if begun.has_begun:
                raise
            await problem_response(_FAILED)(scope, receive, send)

    def _client(self, path: str, headers: Mapping[bytes, bytes]) -> ClientId | None:
        """Return who asks; None: a process of the service itself, or anybody."""
        if path == DESCRIPTION:
            return None
        if b"origin" in headers:
            raise ProblemFound(
                Problem(
                    "NOT_YOURS", "a request of a client", "one of a web page (it has an Origin)", "use auxo.connect"
                )
            )
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else ""
        if path == PULSE:
            if self._tokens.is_own(token):
                return None
            raise ProblemFound(_not_own(_told(token)))
        client = self._tokens.client_of(token)
        if client is None:
            remedy = "send 'Authorization: Bearer TOKEN' with the token that `auxo clients invite` has printed"
            raise ProblemFound(Problem("AUTH", "the token of a client of this service", _told(token), remedy))
        return client

    async def _read(self, headers: Mapping[bytes, bytes], receive: Receive, most: int, room: "_Room") -> bytes:
        encoding = headers.get(b"content-encoding", b"identity").lower()
        if encoding != b"identity":
            raise ProblemFound(
                Problem(
                    "UNSUPPORTED", "a body as it is", f"one in {encoding.decode('latin-1')!r:.40}", "do not compress"
                )
            )
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            return b""
        if length is not None:
            said = int(length) if len(length) <= _LENGTH_DIGITS else 10**_LENGTH_DIGITS
            if said > most:
                raise ProblemFound(_too_large(most, f"{said} bytes"))
        try:
            async with asyncio.timeout(self._limits.body_s):
                return await self._whole(receive, most, room)
        except TimeoutError:
            problem = Problem(
                "SLOW", f"a whole message within {self._limits.body_s:g} s", "a part of it", "send it again, in pieces"
            )
            raise ProblemFound(problem) from None

    async def _whole(self, receive: Receive, most: int, room: "_Room") -> bytes:
        parts: list[bytes] = []
        length, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ProblemFound(Problem("DAMAGED", "a whole message", f"{length} bytes of it", "send it again"))
            part = message.get("body", b"")
            more = message.get("more_body", False)
            length += len(part)
            if length > most:
                raise ProblemFound(_too_large(most, f"more than {most}"))
            room.take(len(part))
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @contextmanager
    def _room(self, client: ClientId | None, most: int) -> Iterator["_Room"]:
        room = _Room(self, client, most)
        try:
            yield room
        finally:
            self._held -= room.taken
            self._held_by[client, most] -= room.taken
            if not self._held_by[client, most]:
                del self._held_by[client, most]

    def hold(self, client: ClientId | None, most: int, count: int) -> None:
        """Count bytes of a client's message as held, which may have so many at most.

        Nobody holds more than two such messages, so that none shuts out the others, and pieces of answers leave room
        for messages without one.

        Raises:
            ProblemFound: there is no room for them.
        """
        all_of_them = self._limits.held_bytes
        if most > self._limits.message_bytes:
            all_of_them -= all_of_them // _RESERVED
        if self._held + count > all_of_them or self._held_by[client, most] + count > _OF_ONE * most:
            words = f"messages of {all_of_them} bytes together, and of {_OF_ONE * most} of one sender"
            raise ProblemFound(busy(words, "more at the same time", self._limits.again_s))
        self._held += count
        self._held_by[client, most] += count


class _Room:
    """What a request holds."""

    def __init__(self, gate: HttpGate, client: ClientId | None, most: int) -> None:
        self._gate = gate
        self._client = client
        self._most = most
        self.taken = 0

    def take(self, count: int) -> None:
        self._gate.hold(self._client, self._most, count)
        self.taken += count


class _Begun:
    """Sends, and remembers that an answer has begun: then no other can be given."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)


_FAILED = Problem(
    "INTERNAL", "an answer", "a failure, which is in the service's log", "try again; if it stays so, tell its operator"
)


def _told(token: str) -> str:
    return "another" if token else "none"


def _too_large(most: int, got: str) -> Problem:
    return Problem("TOO_LARGE", f"at most {most} bytes", got, "send an answer in pieces, and messages without more")


def body_of(request: Request) -> bytes:
    """Return the whole body."""
    body: bytes = request.state.body
    return body


def client_of(request: Request) -> ClientId:
    """Return who asks."""
    client: ClientId = request.state.client
    return client


def check_own(request: Request) -> None:
    """Refuse what is not of the service itself: a path may be spelt so that the router alone takes it for this one."""
    if request.state.client is not None:
        raise ProblemFound(_not_own("a client's"))


def _not_own(got: str) -> Problem:
    return Problem("AUTH", "the service's own token", got, "ask the coordinator instead")


def check_sender(client: ClientId, claimed: ClientId) -> None:
    """Refuse what a client says in another's name."""
    if claimed != client:
        raise ProblemFound(
            Problem("NOT_YOURS", f"client {client!r:.80}, as the token says", f"{claimed!r:.80}", "use its own token")
        )


def check_query(request: Request, *names: str) -> None:
    """Refuse a query with other parameters than these, or with one of them twice."""
    asked = [name for name, _ in request.query_params.multi_items()]
    if len(asked) > len(set(asked)) or not set(asked) <= set(names):
        expected = f"each of the parameters {', '.join(names)} once"
        raise ProblemFound(Problem("SCHEMA_MISMATCH", expected, f"{asked!r:.80}", f"see {DESCRIPTION}"))

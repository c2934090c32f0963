"""The coordinator over HTTP: clients check in, and hear where their cohort is, or when to come again."""

import asyncio

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from auxo.core.types import ClientId
from auxo.service.client_tokens import ClientTokens
from auxo.service.desks import ComeAgain, CoordinatorDesk, Found, Pulse, Refusal
from auxo.service.http_app import DeskThread, answers, describe, json_body, json_response, new_app, takes, told
from auxo.service.http_gate import PULSE, body_of, check_own, check_sender, client_of
from auxo.service.http_limits import HttpLimits
from auxo.service.problems import ProblemFound, busy
from auxo.service.wire import Joining

CHECK_INS = "/v1/check-ins"
"""Where clients check in."""


def coordinator_app(desk: CoordinatorDesk, auth: ClientTokens, limits: HttpLimits) -> FastAPI:
    """Return the app of a coordinator; its desk is called from one thread, one batch at a time.

    Args:
        desk: answers check-ins.
        auth: knows clients by their tokens.
        limits: of what is taken in.
    """
    thread = DeskThread("desk")
    counter = _Counter(desk, limits, thread)
    read_joining = json_body(Joining)

    async def answer(client: ClientId, body: bytes) -> Response:
        said = read_joining(body)
        check_sender(client, said.check_in.client)
        return told(await counter.answer(said))

    app = new_app("Auxo coordinator", auth, limits, (thread.close,), {CHECK_INS: answer})
    app.description = __doc__ or ""

    @app.post(CHECK_INS, responses=answers(Found, again=True), openapi_extra=takes(Joining), response_model=None)
    async def check_in(request: Request) -> Response:
        """Check in: here I am, and this is the cohort that I ask for. The answer says where to go."""
        return await answer(client_of(request), body_of(request))

    @app.get(PULSE, responses=answers(Pulse), response_model=None)
    async def pulse(request: Request) -> Response:
        """Tell the service's own processes how this one is doing."""
        check_own(request)
        return json_response(desk.pulse())

    describe(app, Joining)
    return app


class _Counter:
    """Gathers check-ins for a moment, and has the desk answer all of them at once."""

    def __init__(self, desk: CoordinatorDesk, limits: HttpLimits, thread: DeskThread) -> None:
        self._desk = desk
        self._limits = limits
        self._thread = thread
        self._waiting: list[tuple[Joining, asyncio.Future[Found | ComeAgain | Refusal]]] = []
        self._asked = 0  # those that the desk is working on
        self._turn: asyncio.Task[None] | None = None

    async def answer(self, joining: Joining) -> Found | ComeAgain | Refusal:
        """Return the desk's answer.

        Raises:
            ProblemFound: too many wait.
        """
        if len(self._waiting) + self._asked >= self._limits.check_ins:
            most = f"at most {self._limits.check_ins} check-ins at a time"
            raise ProblemFound(busy(most, "one more", self._limits.again_s))
        promised: asyncio.Future[Found | ComeAgain | Refusal] = asyncio.get_running_loop().create_future()
        self._waiting.append((joining, promised))
        if self._turn is None or self._turn.done():
            self._turn = asyncio.create_task(self._serve())
        return await promised

    async def _serve(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._limits.gather_s)
            batch, self._waiting = self._waiting, []
            self._asked = len(batch)
            try:
                found = await self._thread.call(self._desk.check_in, [joining for joining, _ in batch])
                for (_, promised), one in zip(batch, found, strict=True):
                    if not promised.done():  # its sender may have gone
                        promised.set_result(one)
            except Exception as error:  # noqa: BLE001 - each of those who wait hears of it
                for _, promised in batch:
                    if not promised.done():
                        promised.set_exception(error)
            finally:
                self._asked = 0

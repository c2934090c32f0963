"""What the coordinator's app and a cohort's have in common: the gate, errors in our words, and a true description."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, ParamSpec, TypeVar

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import ConfigDict, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from auxo.files.typed_json import json_reader
from auxo.service.client_tokens import ClientTokens
from auxo.service.desks import ComeAgain, Refusal
from auxo.service.http_gate import DESCRIPTION, HttpGate, Quick
from auxo.service.http_limits import HttpLimits
from auxo.service.problems import SHOWN_HEADERS, Code, Problem, ProblemFound, of_refusal, problem_response
from auxo.service.wire import json_bytes

T = TypeVar("T")
P = ParamSpec("P")

_ERRORS: Mapping[int, str] = {
    401: "No token, or one of another service.",
    403: "Said in another's name, by a web page, or by a banned client.",
    404: "There is no such thing, or nothing to be told.",
    408: "The message has not arrived in time.",
    409: "It was right once, or for somebody else: another round, another owner, a newer session.",
    410: "All rounds are over.",
    413: "Longer than a message may be.",
    415: "Compressed.",
    422: "Not of the form that is described here.",
    500: "A failure of the service.",
    503: "No room now; the header Retry-After and `after_s` say when to come again.",
}
_CODES: Mapping[int, Code] = {404: "NOT_FOUND", 405: "NOT_ALLOWED", 415: "UNSUPPORTED"}
_CLOSED = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_REF = "#/components/schemas/{model}"


class DeskThread:
    """One thread that makes all calls of a desk but its pulse: a desk is asked one thing at a time."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a call gives, while other requests go on."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Let the calls that are under way end, and make no others."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def new_app(
    title: str,
    tokens: ClientTokens,
    limits: HttpLimits,
    closing: Sequence[Callable[[], None]],
    quick: Mapping[str, Quick] | None = None,
) -> FastAPI:
    """Return an app that answers nothing yet but what is ``quick``; all of ``closing`` is called at its end."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        for close in closing:
            close()

    app = FastAPI(
        title=title,
        version=version("auxo"),
        openapi_url=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
    )
    app.add_middleware(HttpGate, tokens=tokens, limits=limits, quick=quick)
    app.add_exception_handler(ProblemFound, _tell_problem)
    app.add_exception_handler(RequestValidationError, _tell_parameters)
    app.add_exception_handler(HTTPException, _tell_http)
    return app


async def _tell_problem(_: Request, error: Exception) -> Response:
    if not isinstance(error, ProblemFound):
        raise error
    return problem_response(error.problem)


async def _tell_parameters(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    place, expected = ".".join(map(str, first["loc"])), str(first["msg"]).removeprefix("Input should be ")
    return problem_response(
        Problem("SCHEMA_MISMATCH", f"{place}: {expected}", f"{first.get('input')!r:.80}", f"see {DESCRIPTION}")
    )


async def _tell_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    got = f"{request.method} {request.url.path}"
    code = _CODES.get(error.status_code, "SCHEMA_MISMATCH")
    told = problem_response(Problem(code, "a request that this process answers", f"{got:.80}", f"see {DESCRIPTION}"))
    told.headers.update(error.headers or {})
    return told


def json_body(kind: type[T]) -> Callable[[bytes], T]:
    """Return the function that reads a request's body as one ``kind``."""
    read = json_reader(kind)

    def body(said: bytes) -> T:
        try:
            return read(said)
        except ValueError as error:
            expected, is_ours, got = str(error).partition(", got ")
            if not is_ours:
                expected, got = f"JSON of a {kind.__name__}", f"something else ({error})"
            raise ProblemFound(
                Problem("SCHEMA_MISMATCH", expected.replace("expected ", "", 1), got, f"see {DESCRIPTION}")
            ) from None

    return body


def json_response(value: object, status: int = 200) -> Response:
    """Return a value as an answer; when to come again is in its header, too."""
    headers = dict(SHOWN_HEADERS)
    if isinstance(value, ComeAgain):
        status, headers["retry-after"] = 202, str(max(1, round(value.after_s)))
    return Response(json_bytes(value), status, headers, "application/json")


def told(value: object) -> Response:
    """Return what a desk has said as an answer."""
    return problem_response(of_refusal(value)) if isinstance(value, Refusal) else json_response(value)


def answers(kind: type, *, again: bool = False, arrived: type | None = None) -> dict[int | str, dict[str, Any]]:
    """Return the description of what a request may be answered with: bytes, or JSON of a dataclass."""
    described: dict[int | str, dict[str, Any]] = {200: {"description": "A safetensors file.", "content": _BYTES}}
    if kind is not bytes:
        described[200] = {"model": kind, "description": _first_line(kind)}
    if again:
        described[202] = {"model": ComeAgain, "description": _first_line(ComeAgain)}
    if arrived is not None:
        described[202] = {"model": arrived, "description": _first_line(arrived)}
    return described | {status: {"model": Problem, "description": words} for status, words in _ERRORS.items()}


def _first_line(kind: type) -> str:
    return (kind.__doc__ or kind.__name__).partition("\n")[0]


def takes_bytes() -> dict[str, Any]:
    """Return the description of a body of bytes."""
    return {"requestBody": {"required": True, "content": _BYTES}}


def takes(kind: type) -> dict[str, Any]:
    """Return the description of a JSON body."""
    content = {"application/json": {"schema": {"$ref": _REF.format(model=kind.__name__)}}}
    return {"requestBody": {"required": True, "content": content}}


def describe(app: FastAPI, *bodies: type) -> None:
    """Have the app's description say what bodies look like, and that a token is needed."""

    def description() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            inputs: list[tuple[type, Any, TypeAdapter[Any]]] = [
                (kind, "validation", TypeAdapter(tuple[kind], config=_CLOSED))  # type: ignore[valid-type]
                for kind in bodies
            ]
            _, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REF)
            components = made.setdefault("components", {})
            components.setdefault("schemas", {}).update(definitions.get("$defs", {}))
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            made["security"] = [{"token": []}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = description  # type: ignore[method-assign]  # as FastAPI has it done

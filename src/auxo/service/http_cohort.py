"""A cohort over HTTP: clients wait for a task, fetch the models that it names, answer, and hear what came of it."""

from typing import Annotated

from fastapi import FastAPI, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from auxo.core.types import CohortId
from auxo.protocol.codec import CodecError, from_bytes
from auxo.protocol.messages import AffinityFeedback, TaskResult
from auxo.service.client_tokens import ClientTokens
from auxo.service.desks import Assigned, CohortDesk, NoFeedback, Pulse, Received, Refusal
from auxo.service.http_app import (
    DeskThread,
    answers,
    describe,
    json_body,
    json_response,
    new_app,
    takes,
    takes_bytes,
    told,
)
from auxo.service.http_gate import ANSWERS, PULSE, body_of, check_own, check_query, check_sender, client_of
from auxo.service.http_limits import HttpLimits
from auxo.service.model_files import ModelFiles, file_response
from auxo.service.problems import Problem, ProblemFound, of_refusal, problem_response
from auxo.service.uploads import PartArrived, Piece, Uploads
from auxo.service.wire import Failing, Joining

_MOST = 2**53  # whole numbers that every JSON has
_Nonce = Annotated[str, Path(pattern="^[0-9A-Za-z_-]{1,128}$", description="Of the task, as it was given.")]
_Round = Annotated[int, Query(alias="round", ge=0, le=_MOST, description="Of the task.")]
_Offset = Annotated[int, Query(ge=0, le=_MOST, description="Of the first byte that is sent.")]
_Sha256 = Annotated[str, Query(pattern="^[0-9a-f]{64}$", description="Of the whole answer.")]
_Epoch = Annotated[int, Query(ge=0, le=_MOST, description="Of the cohort's owner, as the task was given.")]
_Name = Annotated[str, Path(pattern="^[0-9][0-9.~]{0,1023}$", description="One of the task's `models`.")]


def cohort_app(desk: CohortDesk, auth: ClientTokens, limits: HttpLimits) -> FastAPI:
    """Return the app of a cohort; its desk is called from one thread, one call at a time, but for its pulse.

    Args:
        desk: gives tasks and takes answers.
        auth: knows clients by their tokens.
        limits: of what is taken in.
    """
    thread, reading = DeskThread("desk"), DeskThread("reading")
    uploads = Uploads(limits)
    app = new_app("Auxo cohort", auth, limits, (thread.close, reading.close, uploads.close))
    app.description = __doc__ or ""
    _add_tasks(app, desk, limits, thread)
    _add_answers(app, desk, uploads, (thread, reading), limits.answer_bytes)

    @app.get(PULSE, responses=answers(Pulse), response_model=None)
    async def pulse(request: Request) -> Response:
        """Tell the service's own processes how this one is doing."""
        check_own(request)
        return json_response(desk.pulse())

    describe(app, Joining, Failing)
    return app


def _add_tasks(app: FastAPI, desk: CohortDesk, limits: HttpLimits, thread: DeskThread) -> None:
    read_joining = json_body(Joining)
    files = ModelFiles()

    @app.post("/v1/join", responses=answers(Assigned, again=True), openapi_extra=takes(Joining), response_model=None)
    async def join(request: Request) -> Response:
        """Wait for a round, or take one's task. Who is told to come again asks the same once more."""
        said = read_joining(body_of(request))
        check_sender(client_of(request), said.check_in.client)
        return told(await thread.call(desk.join, said.check_in, said.session))

    @app.get("/v1/models/{name}", responses=answers(bytes), response_model=None)
    async def model(request: Request, name: _Name, round_number: _Round, offset: _Offset = 0) -> Response:
        """Fetch a model that one's task names, from some byte on: a safetensors file with the tensor `model`."""
        check_query(request, "round", "offset")
        found = await thread.call(desk.model, CohortId(name), round_number, client_of(request))
        if isinstance(found, Refusal):
            return problem_response(of_refusal(found))
        return file_response(await thread.call(files.of, CohortId(name), found), offset, limits.download_s)


def _add_answers(
    app: FastAPI, desk: CohortDesk, uploads: Uploads, threads: tuple[DeskThread, DeskThread], most_bytes: int
) -> None:
    thread, reading = threads
    read_failing = json_body(Failing)

    # The bound is described here and checked by `uploads`, in words of its own.
    total_bytes = Query(ge=1, description="Bytes of the whole answer.", json_schema_extra={"maximum": most_bytes})

    @app.put(ANSWERS + "{nonce}", responses=answers(Received, arrived=PartArrived), openapi_extra=takes_bytes())
    async def answer(
        request: Request,
        nonce: _Nonce,
        epoch: _Epoch,
        total: Annotated[int, total_bytes],
        sha256: _Sha256,
        offset: _Offset = 0,
    ) -> Response:
        """Send an answer, a `TaskResult` as `auxo.protocol.codec` writes it, whole or in pieces.

        The answer to all pieces but the last says how much has arrived. The same answer may be sent again.
        """
        check_query(request, "epoch", "total", "sha256", "offset")
        client, piece = client_of(request), Piece(nonce, offset, total, sha256)
        whole = await reading.call(uploads.add, client, piece, body_of(request))
        if isinstance(whole, PartArrived):
            return json_response(whole, 202)
        result = await reading.call(_result, whole)
        check_sender(client, result.client)
        return told(await thread.call(desk.answer, result, epoch, nonce))

    @app.get(ANSWERS + "{nonce}", responses=answers(PartArrived), response_model=None)
    async def arrived(request: Request, nonce: _Nonce) -> Response:
        """Ask how much of an answer has arrived, to go on with it after a connection was lost."""
        return json_response(await reading.call(uploads.received, client_of(request), nonce))

    @app.post("/v1/failures", responses=answers(Received), openapi_extra=takes(Failing), response_model=None)
    async def failure(request: Request) -> Response:
        """Say that there will be no answer, so that nobody waits for it."""
        said = read_failing(body_of(request))
        check_sender(client_of(request), said.failure.client)
        return told(await thread.call(desk.answer, said.failure, said.epoch, said.nonce))

    @app.get("/v1/feedback", responses=answers(AffinityFeedback, again=True), response_model=None)
    async def feedback(request: Request, round_number: _Round) -> Response:
        """Ask what a round has to say, once it has closed."""
        check_query(request, "round")
        said = await thread.call(desk.feedback, client_of(request), round_number)
        if isinstance(said, NoFeedback):
            remedy = "check in again; the record stays as it is"
            return problem_response(Problem("NO_FEEDBACK", "an answer that counts", said.why, remedy))
        return told(said)


def _result(whole: bytes) -> TaskResult:
    try:
        return from_bytes(TaskResult, whole)
    except CodecError as error:
        problem = Problem("SCHEMA_MISMATCH", "a TaskResult by auxo.protocol.codec", f"{error}", "use the same release")
        raise ProblemFound(problem) from None

"""What is wrong with a request, as its sender hears it: a word to act on, what was expected, what came, what to do."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

from starlette.responses import Response

from auxo.core.validation import Reason
from auxo.service.desks import Refusal, Why
from auxo.service.wire import json_bytes

Code = (
    Why
    | Reason
    | Literal[
        "AUTH",
        "NOT_YOURS",
        "NOT_FOUND",
        "NOT_ALLOWED",
        "UNSUPPORTED",
        "SLOW",
        "DAMAGED",
        "WRONG_OFFSET",
        "NO_FEEDBACK",
        "INTERNAL",
    ]
)
"""The words of the desks, and those of what carries messages to them."""

_STATUS: Mapping[str, int] = {
    "AUTH": 401,
    "NOT_YOURS": 403,
    "BANNED": 403,
    "NOT_FOUND": 404,
    "UNKNOWN_COHORT": 404,
    "NO_FEEDBACK": 404,
    "NOT_ALLOWED": 405,
    "SLOW": 408,
    "OVER": 410,
    "TOO_LARGE": 413,
    "UNSUPPORTED": 415,
    "SCHEMA_MISMATCH": 422,
    "NON_FINITE": 422,
    "BAD_WEIGHT": 422,
    "NO_LOSS": 422,
    "INTERNAL": 500,
    "BUSY": 503,
}
_CONFLICT = 409  # all others: the request was right once, or for somebody else

SHOWN_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'",
    "x-content-type-options": "nosniff",
}
"""Of every answer: whatever a client is called, no browser takes it for a page."""


@dataclass(frozen=True)
class Problem:
    """Why a request got nothing."""

    code: Code
    expected: str
    got: str
    remedy: str
    after_s: float | None = None  # when to come again; None: as it is, the request will not do later either

    @property
    def status(self) -> int:
        """Return the HTTP status that goes with it."""
        return _STATUS.get(self.code, _CONFLICT)


class ProblemFound(Exception):  # noqa: N818 - it ends a request, and not a program
    """Ends the work on a request."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def problem_response(problem: Problem, close: bool = False) -> Response:
    """Return the answer that tells a problem; one that closes leaves the rest of a body unread."""
    headers = dict(SHOWN_HEADERS)
    if problem.after_s is not None:
        headers["retry-after"] = str(ceil(problem.after_s))
    if problem.code == "AUTH":
        headers["www-authenticate"] = "Bearer"
    if close:
        headers["connection"] = "close"
    return Response(json_bytes(problem), problem.status, headers, "application/json")


def busy(expected: str, got: str, again_s: float) -> Problem:
    """Return that there is no room now; each is told another time, so that they do not come all at once."""
    return Problem("BUSY", expected, got, "come again after a while", jittered(again_s))


def jittered(seconds: float) -> float:
    """Return a time around one, from half of it to one and a half."""
    return round(seconds * (0.5 + secrets.randbelow(1000) / 1000), 3)


def of_refusal(refusal: Refusal) -> Problem:
    """Return what a desk refuses; its words are in the project's form: expected ..., got ...; what to do."""
    parts = re.fullmatch(r"(?s)(?:.*?: )?expected (.+?), got (.+?); (.+)", refusal.words)
    if parts is None:
        return Problem(refusal.why, refusal.words, "", "")
    return Problem(refusal.why, parts[1], parts[2], parts[3])

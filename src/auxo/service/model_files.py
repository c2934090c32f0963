"""Models as files that clients fetch: safetensors with one tensor, written once for all who ask for the same."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

import safetensors.numpy
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from auxo.core.types import CohortId, Float32Array
from auxo.service.problems import SHOWN_HEADERS, Problem, ProblemFound

TENSOR = "model"
"""Name of the one tensor: the weights, flat."""

_KEPT = 16  # files; our choice: a task names few models, and most tasks of a round the same
_CHUNK = 256 * 1024  # bytes sent at a time, so that who reads slowly does not have a whole model wait in memory


@dataclass(frozen=True)
class ModelFile:
    """A model as it is sent."""

    content: bytes = field(repr=False)
    sha256: str


class ModelFiles:
    """The files of the models that were last asked for."""

    def __init__(self) -> None:
        self._kept: OrderedDict[CohortId, tuple[Float32Array, ModelFile]] = OrderedDict()

    def of(self, name: CohortId, weights: Float32Array) -> ModelFile:
        """Return a model's file; it is written again only if the weights are another array."""
        held = self._kept.get(name)
        if held is None or held[0] is not weights:
            content = safetensors.numpy.save({TENSOR: weights})
            held = weights, ModelFile(content, hashlib.sha256(content).hexdigest())
            self._kept[name] = held
        self._kept.move_to_end(name)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return held[1]


class _InChunks(Response):
    """An answer that goes out as fast as it is read, for so many seconds at most."""

    def __init__(self, content: memoryview, headers: dict[str, str], within_s: float) -> None:
        super().__init__(b"", 200, headers, "application/octet-stream")
        self.headers["content-length"] = str(len(content))
        self._content = content
        self._within_s = within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with asyncio.timeout(self._within_s):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, len(self._content), _CHUNK):
                body, is_last = bytes(self._content[at : at + _CHUNK]), at + _CHUNK >= len(self._content)
                await send({"type": "http.response.body", "body": body, "more_body": not is_last})


def file_response(file: ModelFile, offset: int, within_s: float) -> Response:
    """Return a file from some byte on as an answer; its SHA-256 is the entity's tag.

    Raises:
        ProblemFound: there is nothing behind that byte.
    """
    if offset >= len(file.content):
        expected = f"an offset below {len(file.content)}"
        raise ProblemFound(Problem("WRONG_OFFSET", expected, f"{offset}", "fetch the model from its beginning"))
    headers = SHOWN_HEADERS | {"etag": f'"{file.sha256}"'}
    return _InChunks(memoryview(file.content)[offset:], headers, within_s)

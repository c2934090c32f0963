"""A client's way to a service: requests that are made again until they are answered, within bounds.

Every request may be made again and is then answered as before, so that a lost connection costs time and nothing else.
Between tries it waits longer and longer, and never as long as others do.
"""

import hashlib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx

from auxo.core.settings import PositiveFloat, checked, setting
from auxo.files.typed_json import json_reader
from auxo.service.problems import Problem, jittered

T = TypeVar("T")
Query = Mapping[str, str | int]

_PIECE_BYTES = 4 * 1024**2  # of an answer; our choice: less than a service takes, and little to be lost
_LEAST_PIECE_BYTES = 64 * 1024
_NOT_NOW = frozenset({408, 429, 500, 502, 503, 504})
_read_problem = json_reader(Problem)


@dataclass(frozen=True)
@checked
class ClientPatience:
    """How long a client tries; all of it our choice."""

    first_s: PositiveFloat = setting(0.2, "Seconds after which a request that failed is made again, on average.")
    longest_s: PositiveFloat = setting(30.0, "Seconds that it waits at most, on average, after further failures.")
    gives_up_s: PositiveFloat = setting(600.0, "Seconds after which a service that does not answer is given up.")
    elsewhere_s: PositiveFloat = setting(5.0, "Seconds after which it asks where else a silent cohort may be by now.")
    feedback_s: PositiveFloat = setting(60.0, "Seconds after which the feedback of a silent cohort is given up.")
    answer_s: PositiveFloat = setting(60.0, "Seconds for which it waits for the answer to one request.")
    connection_s: PositiveFloat = setting(10.0, "Seconds for which it waits for a connection.")

    def pauses(self, within_s: float) -> Iterator[float]:
        """Yield how long to wait after each failure, until it is time to give up."""
        end, mean = time.monotonic() + within_s, self.first_s
        while time.monotonic() < end:
            yield jittered(mean)
            mean = min(2 * mean, self.longest_s)


class ServiceAway(ConnectionError):  # noqa: N818 - as ConnectionRefused is none
    """Nobody has answered for as long as the client's patience lasts."""


class ServiceRefused(RuntimeError):  # noqa: N818 - it is no error of the program
    """A service will not have this client, however often it asks."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(
            f"{problem.code}: expected {problem.expected}, got {problem.got or 'something else'}; {problem.remedy}"
        )
        self.problem = problem


@dataclass
class _Part:
    """What has arrived of a file."""

    url: str = ""
    query: Query = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)
    tag: str = ""  # of the whole


class Link:
    """Requests of one client to a service's processes, over kept connections."""

    def __init__(
        self,
        token: str,
        patience: ClientPatience,
        ca: Path | None,
        certificate: tuple[Path, Path] | None,
        is_encrypted: bool,
    ) -> None:
        # It takes a while to make one, and nothing trusts it where there is no TLS.
        trusted = ssl.create_default_context(cafile=ca) if is_encrypted else False
        if certificate is not None and not isinstance(trusted, bool):
            trusted.load_cert_chain(*certificate)
        self._http = httpx.Client(
            headers={"authorization": f"Bearer {token}", "accept-encoding": "identity"},
            verify=trusted,
            timeout=httpx.Timeout(patience.answer_s, connect=patience.connection_s),
            trust_env=False,
        )
        self.patience = patience
        self.sleep = time.sleep
        self._part = _Part()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def post(self, url: str, content: bytes, within_s: float) -> httpx.Response:
        """Return the answer to a JSON message."""
        headers = {"content-type": "application/json"}
        return self._until_answered(url, lambda: self._http.post(url, content=content, headers=headers), within_s)

    def get(self, url: str, query: Query, within_s: float) -> httpx.Response:
        """Return the answer to a question."""
        return self._until_answered(url, lambda: self._http.get(url, params=query), within_s)

    def fetch(self, url: str, query: Query, within_s: float) -> bytes | Problem:
        """Return a file, or why there is none; after a lost connection it goes on where it was, a later call, too."""
        part = self._part if self._part.url == url and self._part.query == query else _Part(url, query)
        self._part = part

        def once() -> httpx.Response:
            with self._http.stream("GET", url, params={**query, "offset": len(part.content)}) as answer:
                if answer.status_code != 200:
                    answer.read()
                    return answer
                if answer.headers.get("etag", "") != part.tag:
                    part.tag = answer.headers.get("etag", "")
                    if part.content:  # it is another file by now
                        part.content.clear()
                        raise httpx.ReadError("the file has changed")
                for piece in answer.iter_raw():
                    part.content.extend(piece)
            return answer

        answer = self._until_answered(url, once, within_s)
        self._part = _Part()
        if answer.status_code != 200:
            return problem_of(answer)
        if f'"{hashlib.sha256(part.content).hexdigest()}"' != part.tag:
            return Problem("DAMAGED", f"bytes of SHA-256 {part.tag}", "others", "fetch it again")
        return bytes(part.content)

    def put(self, url: str, content: bytes, query: Query, within_s: float) -> httpx.Response:
        """Send a file in pieces, smaller ones if need be, and return the answer to the last; it goes on where it was.

        Raises:
            ServiceAway: nothing has arrived for that long.
        """
        whole: Query = {**query, "total": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        offset, size = 0, _PIECE_BYTES

        def once() -> httpx.Response:
            nonlocal size
            sent, size = size, max(_LEAST_PIECE_BYTES, size // 4)  # unless it arrives: the way may be slow
            answer = self._http.put(url, content=content[offset : offset + sent], params={**whole, "offset": offset})
            size = size if answer.status_code == 408 else sent
            return answer

        end_s = time.monotonic() + within_s
        while True:
            answer = self._until_answered(url, once, within_s)
            if answer.status_code == 409 and problem_of(answer).code == "WRONG_OFFSET":
                answer = self.get(url, {}, within_s)  # a piece has come twice, or the process is another
            if answer.status_code != 202 and not (answer.status_code == 200 and "received" in answer.json()):
                return answer
            before, offset = offset, int(answer.json()["received"])
            if offset > before:
                end_s = time.monotonic() + within_s
            elif time.monotonic() > end_s:
                raise ServiceAway(f"{url}: expected that pieces arrive, got none for {within_s:g} s; try again later")

    def _until_answered(self, url: str, once: Callable[[], httpx.Response], within_s: float) -> httpx.Response:
        last = "nothing"
        for pause in self.patience.pauses(within_s):
            try:
                answer = once()
            except httpx.TransportError as error:
                _check_certificate(url, error)
                last, after_s = f"{type(error).__name__}: {error}", 0.0
            else:
                if answer.status_code not in _NOT_NOW:
                    return answer
                problem = problem_of(answer)
                last, after_s = f"{answer.status_code} {problem.code}", problem.after_s or 0.0
            self.sleep(max(pause, after_s))
        raise ServiceAway(
            f"{url}: expected an answer within {within_s:g} s, got {last}; is the service up, and is this its address?"
        )


def problem_of(answer: httpx.Response) -> Problem:
    """Return what an answer that is no success says."""
    try:
        return _read_problem(answer.content)
    except ValueError:  # something between us and the service has answered
        got = f"{answer.status_code} from something that is no such service"
        return Problem("INTERNAL", "an answer of an Auxo service", got, "mind the URL, and proxies on the way")


def read(answer: httpx.Response, reader: Callable[[bytes], T]) -> T | Problem:
    """Return what a successful answer says, or what the problem is."""
    return reader(answer.content) if answer.status_code == 200 else problem_of(answer)


def _check_certificate(url: str, error: BaseException | None) -> None:
    """Say what is wrong with a certificate: to try again does not mend it."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
            is_of_time = "not yet valid" in error.verify_message or "expired" in error.verify_message
            remedy = (
                f"is this machine's clock right? It says {now}: clock skew looks the same"
                if is_of_time
                else "give the certificate that signs it as ca"
            )
            raise ServiceRefused(
                Problem("AUTH", f"a certificate for {url} that this machine trusts", error.verify_message, remedy)
            ) from error
        error = error.__cause__ or error.__context__

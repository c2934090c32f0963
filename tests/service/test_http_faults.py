"""What hostile, broken and slow senders can do to a service over real sockets: nothing, and they hear why."""

import asyncio
import gzip
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from auxo.core.asking import Answer
from auxo.core.types import ROOT, ClientId
from auxo.protocol.codec import to_bytes
from auxo.protocol.messages import CheckIn, TaskResult
from auxo.service.client_tokens import ClientTokens
from auxo.service.desks import Assigned
from auxo.service.http_cohort import cohort_app
from auxo.service.http_gate import HttpGate
from auxo.service.http_limits import HttpLimits
from auxo.service.http_server import http_server
from auxo.service.problems import ProblemFound
from tests.service.one_process import EPOCH, TOKENS, OneProcess, one_process, small_server

LIMITS = HttpLimits(
    message_bytes=4096,
    piece_bytes=65_536,
    answer_bytes=200_000,
    held_bytes=300_000,
    head_bytes=4096,
    head_s=0.4,
    body_s=0.4,
    uploads=2,
)
HTTP = httpx.Client(trust_env=False, timeout=30)
WORDS = {"code", "expected", "got", "remedy", "after_s"}


def bearer(client: ClientId, tokens: ClientTokens = TOKENS) -> dict[str, str]:
    return {"authorization": f"Bearer {tokens.issue(client)}"}


@pytest.fixture(scope="module")
def service() -> Iterator[OneProcess]:
    desks = OneProcess(small_server())
    with one_process(desks, LIMITS) as url:
        desks.coordinator_address = url
        yield desks
    HTTP.close()


def is_told(answer: httpx.Response, status: int, code: str) -> bool:
    said = answer.json()
    assert answer.status_code == status, said
    assert set(said) == WORDS
    assert "Traceback" not in answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    return bool(said["code"] == code)


def joining(client: ClientId) -> dict[str, object]:
    return {"check_in": {"client": client}, "session": "s"}


def others_are_served(service: OneProcess) -> bool:
    found = HTTP.post(f"{service.coordinator_address}/v1/check-ins", json=joining("good"), headers=bearer("good"))
    return found.status_code == 200


def raw(address: str, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send bytes as they are, and return all that comes back until the connection is closed."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause_s)
        except OSError:
            pass  # it was closed
        back = b""
        try:
            while part := connection.recv(65_536):
                back += part
        except ConnectionResetError:
            pass  # what was sent after the answer has met a closed door
        return back


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def head(client: ClientId, request: str, *headers: str) -> bytes:
    lines = [f"{request} HTTP/1.1", "host: x", f"authorization: {bearer(client)['authorization']}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


# Who speaks


@pytest.mark.fault(20, 36)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Basic Zm9vOmJhcg=="},
        {"authorization": f"Bearer {TOKENS.issue('a')[:-1]}"},
        {"authorization": f"Bearer {ClientTokens(b'another service').issue('a')}"},
        {"authorization": f"Bearer {TOKENS.own}"},
        {"authorization": b"Bearer \xff\xfe.\xff"},
        {"authorization": "Bearer " + "x" * 3000},
    ],
)
def test_who_has_no_token_of_this_service_is_served_nothing(
    service: OneProcess, headers: dict[str, str | bytes]
) -> None:
    for method, url in (
        ("POST", f"{service.coordinator_address}/v1/check-ins"),
        ("POST", f"{service.cohort_address}/v1/join"),
        ("GET", f"{service.cohort_address}/v1/models/0?round=1"),
        ("DELETE", f"{service.cohort_address}/v1/models/0"),
        ("PUT", f"{service.cohort_address}/v1/answers/n?epoch=1"),
        ("GET", f"{service.cohort_address}/v1/nothing"),
    ):
        answer = HTTP.request(method, url, headers=headers)  # type: ignore[arg-type]  # bytes go as they are
        assert is_told(answer, 401, "AUTH")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_pulse_is_for_the_service_s_own_processes(service: OneProcess) -> None:
    for address in (service.coordinator_address, service.cohort_address):
        assert is_told(HTTP.get(f"{address}/v1/pulse", headers=bearer("a")), 401, "AUTH")
        assert is_told(HTTP.get(f"{address}/v1/pulse%0A", headers=bearer("a")), 401, "AUTH")
        own = HTTP.get(f"{address}/v1/pulse", headers={"authorization": f"Bearer {TOKENS.own}"})
        assert own.json()["epoch"] == EPOCH


@pytest.mark.fault(16)
def test_nobody_speaks_in_another_s_name(service: OneProcess) -> None:
    said = joining("a")
    failing = {"failure": {"client": "a", "cohort": "0", "round": 1, "reason": ""}, "epoch": EPOCH, "nonce": "n"}
    result = to_bytes(TaskResult("a", ROOT, 1, Answer(np.zeros(6, np.float32), 1)))
    for answer in (
        HTTP.post(f"{service.coordinator_address}/v1/check-ins", json=joining("a"), headers=bearer("b")),
        HTTP.post(f"{service.cohort_address}/v1/join", json=said, headers=bearer("b")),
        HTTP.post(f"{service.cohort_address}/v1/failures", json=failing, headers=bearer("b")),
        put(service, "b", result, "n"),
    ):
        assert is_told(answer, 403, "NOT_YOURS")


@pytest.mark.fault(36)
def test_web_pages_other_verbs_and_other_paths_get_nothing(service: OneProcess) -> None:
    for address in (service.coordinator_address, service.cohort_address):
        evil = HTTP.get(f"{address}/v1/pulse", headers={"origin": "https://evil.example", "host": "evil.example"})
        assert is_told(evil, 403, "NOT_YOURS")
        for path in (
            "/",
            "/v1/models/..%2f..%2fclients.key",
            "/v1/models/%2e%2e/clients.key",
            "/static/../clients.key",
        ):
            assert HTTP.get(address + path, headers=bearer("a")).status_code in {404, 422}
        deleted = HTTP.delete(f"{address}/v1/pulse", headers={"authorization": f"Bearer {TOKENS.own}"})
        assert is_told(deleted, 405, "NOT_ALLOWED")
        assert deleted.headers["allow"] == "GET"


@pytest.mark.fault(36)
def test_what_a_client_is_called_is_text_and_never_a_page(service: OneProcess) -> None:
    name = "<script>alert(1)</script>"
    answer = HTTP.post(f"{service.coordinator_address}/v1/check-ins", json=joining(name), headers=bearer("a"))
    assert is_told(answer, 403, "NOT_YOURS")
    assert name in answer.json()["got"]


# Too much, too slow


@pytest.mark.fault(21)
def test_a_giant_is_refused_before_it_is_read_and_others_are_served(service: OneProcess) -> None:
    before = resident_bytes()
    for address, request in (
        (service.coordinator_address, "POST /v1/check-ins"),
        (service.cohort_address, "PUT /v1/answers/n?epoch=1"),
    ):
        for length in (2 * 1024**3, 10**17):
            back = raw(address, head("a", request, f"content-length: {length}"), b"x" * 100_000)
            assert back.startswith(b"HTTP/1.1 413 "), back
            assert b'"TOO_LARGE"' in back
        chunk = b"%x\r\n" % 65_536 + b"x" * 65_536 + b"\r\n"
        back = raw(address, head("a", request, "transfer-encoding: chunked"), *[chunk] * 50)
        assert back == b"" or back.startswith(b"HTTP/1.1 413 "), back
        assert others_are_served(service)
    assert resident_bytes() - before < 20 * 1024**2


@pytest.mark.fault(21)
def test_headers_without_end_are_cut_off(service: OneProcess) -> None:
    before = resident_bytes()
    endless = [b"x-%d: " % one + b"y" * 1000 + b"\r\n" for one in range(2000)]
    back = raw(service.coordinator_address, b"POST /v1/check-ins HTTP/1.1\r\n", *endless)
    assert back == b"" or back.startswith(b"HTTP/1.1 431 "), back
    long = raw(service.coordinator_address, b"GET /" + b"x" * 100_000)
    assert long == b"" or long.startswith(b"HTTP/1.1 431 "), long
    assert others_are_served(service)
    assert resident_bytes() - before < 10 * 1024**2


@pytest.mark.fault(21)
def test_who_sends_byte_by_byte_is_given_up_and_nobody_waits_for_it(service: OneProcess) -> None:
    with ThreadPoolExecutor(8) as pool:
        dripping = [b"POST /v1/check-ins HTTP/1.1\r\n", *([b"x"] * 20)]
        slow_heads = [pool.submit(raw, service.coordinator_address, *dripping, pause_s=0.05) for _ in range(4)]
        body = [head("a", "POST /v1/check-ins", "content-length: 30"), *([b" "] * 20)]
        slow_bodies = [pool.submit(raw, service.coordinator_address, *body, pause_s=0.05) for _ in range(4)]
        assert others_are_served(service)
        for one in (*slow_heads, *slow_bodies):
            assert one.result(20) == b"" or one.result().startswith(b"HTTP/1.1 408 "), one.result()
    silent = raw(service.coordinator_address)
    assert silent.startswith(b"HTTP/1.1 408 ")


@pytest.mark.fault(21)
def test_a_process_that_ends_does_not_wait_for_a_request_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auxo.service.http_server._ENDING_S", 0)
    asked = threading.Event()

    async def stalls(_: Request) -> Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    server = http_server(Starlette(routes=[Route("/", stalls)]), LIMITS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        with socket.create_connection(listener.getsockname()) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert asked.wait(20)
            server.should_exit = True
            thread.join(5)
            has_ended = not thread.is_alive()
    thread.join(20)
    assert has_ended


@pytest.mark.fault(21)
def test_a_compressed_body_is_not_opened(service: OneProcess) -> None:
    bomb = gzip.compress(b" " * 3_000_000)
    headers = bearer("a") | {"content-encoding": "gzip"}
    answer = HTTP.post(f"{service.coordinator_address}/v1/check-ins", content=bomb, headers=headers)
    assert is_told(answer, 415, "UNSUPPORTED")


@pytest.mark.fault(21)
def test_messages_that_are_too_many_together_wait_outside(service: OneProcess) -> None:
    host, port = service.cohort_address.removeprefix("http://").split(":")
    held = [socket.create_connection((host, int(port)), timeout=20) for _ in range(8)]
    try:
        for place, one in enumerate(held):
            one.sendall(head(place, "PUT /v1/answers/n?epoch=1", "content-length: 65000") + b"x" * 60_000)
        back = [one.recv(65_536) for one in held]
        assert sum(one.startswith(b"HTTP/1.1 503 ") for one in back) == 4
        assert sum(one.startswith(b"HTTP/1.1 408 ") for one in back) == 4
        assert all(b"retry-after: " in one for one in back if one.startswith(b"HTTP/1.1 503 "))
    finally:
        for one in held:
            one.close()
    assert others_are_served(service)


@pytest.mark.fault(21)
def test_nobody_shuts_out_others_and_answers_do_not_shut_out_messages(service: OneProcess) -> None:
    gate = HttpGate(cohort_app(service, TOKENS, LIMITS), TOKENS, LIMITS)
    piece, message = LIMITS.piece_bytes, LIMITS.message_bytes
    for most in (piece, message):
        gate.hold("greedy", most, 2 * most)
        with pytest.raises(ProblemFound, match="of one sender"):
            gate.hold("greedy", most, 1)
    gate.hold("a", piece, piece)
    with pytest.raises(ProblemFound, match="together"):
        gate.hold("b", piece, piece)
    gate.hold("b", message, message)


@pytest.mark.fault(21)
def test_what_a_message_has_held_is_free_again(service: OneProcess) -> None:
    said = {"check_in": {"client": "a"}, "session": "s" * 3000}
    for _ in range(1 + LIMITS.held_bytes // 3000):
        answer = HTTP.post(f"{service.cohort_address}/v1/join", json=said, headers=bearer("a"))
        assert is_told(answer, 422, "SCHEMA_MISMATCH")  # a session is shorter


@pytest.mark.fault(29)
def test_check_ins_beyond_the_bound_are_told_different_times_to_come_again() -> None:
    class Slow(OneProcess):
        gate = threading.Event()

        def check_in(self, check_ins):  # type: ignore[no-untyped-def]  # as the desk's
            self.gate.wait(20)
            return super().check_in(check_ins)

    desks = Slow(small_server())
    limits = HttpLimits(check_ins=8, again_s=10)
    with one_process(desks, limits) as url, ThreadPoolExecutor(40) as pool:

        def check_in(one: int) -> httpx.Response:
            return HTTP.post(f"{url}/v1/check-ins", json=joining(one), headers=bearer(one))

        asked = [pool.submit(check_in, one) for one in range(40)]
        deadline = time.monotonic() + 20
        while sum(one.done() for one in asked) < 32 and time.monotonic() < deadline:
            time.sleep(0.01)
        desks.gate.set()
        answers = [one.result() for one in asked]
    assert sorted({one.status_code for one in answers}) == [200, 503]
    away = [one.json()["after_s"] for one in answers if one.status_code == 503]
    assert len(away) == 32
    assert len(set(away)) > 25
    assert all(5 <= one <= 15 for one in away)
    assert all(int(one.headers["retry-after"]) >= 5 for one in answers if one.status_code == 503)
    assert sum(desks.batches) == 8


def test_check_ins_that_come_together_are_answered_together() -> None:
    desks = OneProcess(small_server())
    with one_process(desks, HttpLimits(gather_s=0.2)) as url, ThreadPoolExecutor(20) as pool:
        found = pool.map(
            lambda one: HTTP.post(f"{url}/v1/check-ins", json=joining(one), headers=bearer(one)), range(20)
        )
        assert all(one.json()["epoch"] == EPOCH for one in found)
    assert sum(desks.batches) == 20
    assert len(desks.batches) < 10


# Bytes that mean nothing


@pytest.mark.fault(22)
@given(st.binary(min_size=1, max_size=300))
@settings(max_examples=60, deadline=None)
def test_bytes_that_are_no_request_are_told_so(service: OneProcess, data: bytes) -> None:
    back = raw(service.coordinator_address, data, b"\r\n\r\n")
    assert back == b"" or b'"code":"' in back
    assert b"Traceback" not in back


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=10), some, max_size=3),
    max_leaves=8,
)
CHECK_INS = st.fixed_dictionaries(
    {
        "check_in": st.fixed_dictionaries(
            {"client": st.just("a")},
            optional={
                "request": st.fixed_dictionaries(
                    {},
                    optional=dict.fromkeys(
                        ("cohort", "reward", "cluster", "generation", "ranked_first", "token"), JSON
                    ),
                ),
                "participations": JSON,
                "extra": JSON,
            },
        ),
        "session": st.text(max_size=70) | JSON,
    },
    optional={"extra": JSON},
)


@pytest.mark.fault(22)
@given(st.binary(max_size=300) | (CHECK_INS | JSON).map(lambda said: json.dumps(said).encode()))
@settings(max_examples=150, deadline=None)
def test_a_message_is_understood_or_told_what_is_wrong_with_it(service: OneProcess, body: bytes) -> None:
    answer = HTTP.post(f"{service.coordinator_address}/v1/check-ins", content=body, headers=bearer("a"))
    assert answer.status_code == 200 or is_told(answer, answer.status_code, answer.json()["code"])
    assert answer.status_code in {200, 403, 422}


@pytest.mark.fault(22)
def test_json_a_thousand_levels_deep_is_refused(service: OneProcess) -> None:
    for body in (b"[" * 2000, b'{"check_in":' + b'{"client":' * 400, b"[" * 1000 + b"]" * 1000):
        answer = HTTP.post(f"{service.coordinator_address}/v1/check-ins", content=body, headers=bearer("a"))
        assert is_told(answer, 422, "SCHEMA_MISMATCH")


WHOLE = to_bytes(TaskResult("a", ROOT, 1, Answer(np.zeros(6, np.float32), 1)))


@pytest.mark.fault(22)
@given(
    st.binary(min_size=1, max_size=300)
    | st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)).map(
        lambda at: WHOLE[: at[0]] + bytes([at[1]]) + WHOLE[at[0] + 1 :]
    )
)
@settings(max_examples=80, deadline=None)
def test_an_answer_of_other_bytes_counts_for_nothing(service: OneProcess, data: bytes) -> None:
    before = service.counted
    answer = put(service, "a", data, "n")
    assert answer.status_code in {409, 422}
    assert is_told(answer, answer.status_code, answer.json()["code"])
    assert service.counted == before


# Answers: once, in pieces, again


def put(  # noqa: PLR0913 - by name
    service: OneProcess,
    client: ClientId,
    data: bytes,
    nonce: str,
    *,
    epoch: int = EPOCH,
    offset: int = 0,
    end: int = -1,
) -> httpx.Response:
    query: dict[str, int | str] = {
        "epoch": epoch,
        "total": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "offset": offset,
    }
    piece = data[offset:] if end < 0 else data[offset:end]
    url = f"{service.cohort_address}/v1/answers/{nonce}"
    return HTTP.put(url, params=query, content=piece, headers=bearer(client))


def task_of(service: OneProcess, client: ClientId) -> Assigned | None:
    said = joining(client)
    answer = HTTP.post(f"{service.cohort_address}/v1/join", json=said, headers=bearer(client))
    if answer.status_code == 202:
        return None
    found = service.join(CheckIn(client), "s")
    assert isinstance(found, Assigned)
    assert answer.json()["nonce"] == found.nonce
    return found


def result_of(assigned: Assigned, update: float = 0.1, parameters: int = 6) -> bytes:
    task = assigned.task
    answer = Answer(np.full(parameters, update, dtype=np.float32), 3)
    return to_bytes(TaskResult(task.client, task.cohort, task.round, answer))


@pytest.fixture
def round_of_two(service: OneProcess) -> tuple[Assigned, Assigned]:
    """A round of two clients that are new, and have their tasks."""
    service.waiting, service.tasks, service.answers = {}, {}, {}
    names = [f"r{service.closed}-{one}" for one in range(2)]
    task_of(service, names[0])
    second, first = task_of(service, names[1]), task_of(service, names[0])
    assert first is not None
    assert second is not None
    return first, second


@pytest.mark.fault(15)
def test_an_answer_that_is_sent_again_is_received_again_and_counted_once(
    service: OneProcess, round_of_two: tuple[Assigned, Assigned]
) -> None:
    first, second = round_of_two
    before, data = service.counted, result_of(first)
    assert [put(service, first.task.client, data, first.nonce).status_code for _ in range(3)] == [200] * 3
    assert service.counted == before + 1
    assert put(service, second.task.client, result_of(second), second.nonce).status_code == 200
    assert put(service, first.task.client, data, first.nonce).status_code == 200  # the round has closed meanwhile
    assert service.counted == before + 2
    url, query = f"{service.cohort_address}/v1/feedback", {"round": first.task.round}
    told = [HTTP.get(url, params=query, headers=bearer(first.task.client)) for _ in range(2)]
    assert told[0].json() == told[1].json()
    assert told[0].json()["client"] == first.task.client


@pytest.mark.fault(15, 16)
def test_answers_of_other_rounds_owners_and_tasks_are_refused_by_name(
    service: OneProcess, round_of_two: tuple[Assigned, Assigned]
) -> None:
    first, second = round_of_two
    data, before = result_of(first), service.counted
    assert is_told(put(service, first.task.client, data, first.nonce, epoch=EPOCH - 1), 409, "STALE_EPOCH")
    assert is_told(put(service, first.task.client, data, "another"), 409, "NOT_SELECTED")
    stranger = to_bytes(TaskResult("stranger", ROOT, first.task.round, Answer(np.zeros(6, np.float32), 1)))
    assert is_told(put(service, "stranger", stranger, first.nonce), 409, "NOT_SELECTED")
    for one in (first, second):
        put(service, one.task.client, result_of(one), one.nonce)
    late = to_bytes(TaskResult("stranger", ROOT, first.task.round, Answer(np.zeros(6, np.float32), 1)))
    assert is_told(put(service, "stranger", late, first.nonce), 409, "STALE_ROUND")
    assert service.counted == before + 2
    model = HTTP.get(f"{service.cohort_address}/v1/models/0?round=1", headers=bearer("stranger"))
    assert is_told(model, 409, "NOT_SELECTED")


def test_a_large_answer_comes_in_pieces_and_goes_on_after_a_lost_connection(service: OneProcess) -> None:
    data = to_bytes(TaskResult("large", ROOT, 10**6, Answer(np.ones(40_000, np.float32), 1)))
    url = f"{service.cohort_address}/v1/answers/n"
    first = put(service, "large", data, "n", end=60_000)
    assert (first.status_code, first.json()) == (202, {"received": 60_000})
    assert put(service, "large", data, "n", end=60_000).json() == {"received": 60_000}  # its answer was lost
    assert is_told(put(service, "large", data, "n", offset=100_000, end=160_000), 409, "WRONG_OFFSET")
    assert HTTP.get(url, headers=bearer("large")).json() == {"received": 60_000}
    assert HTTP.get(url, headers=bearer("other")).json() == {"received": 0}
    assert put(service, "large", data, "n", offset=60_000, end=120_000).json() == {"received": 120_000}
    whole = put(service, "large", data, "n", offset=120_000)
    assert is_told(whole, 409, "NOT_SELECTED")  # which the desk says: it has understood it
    assert HTTP.get(url, headers=bearer("large")).json() == {"received": 0}


def test_pieces_are_bounded_and_damage_is_found(service: OneProcess) -> None:
    data = b"x" * 150_000
    assert is_told(put(service, "p", data, "n", end=70_000), 413, "TOO_LARGE")
    assert is_told(put(service, "p", b"x" * 200_001, "n", end=10), 413, "TOO_LARGE")
    for client in ("p1", "p2"):
        assert put(service, client, data, "n", end=60_000).status_code == 202
    full = put(service, "p3", data, "n", end=60_000)
    assert is_told(full, 503, "BUSY")
    assert full.headers["retry-after"]
    other = data[:60_000] + b"y" * 60_000 + data[120_000:]
    sha256 = hashlib.sha256(data).hexdigest()
    answers = [
        HTTP.put(
            f"{service.cohort_address}/v1/answers/n",
            params={"epoch": 1, "total": len(data), "sha256": sha256, "offset": offset},
            content=other[offset : offset + 60_000],
            headers=bearer("p1"),
        )
        for offset in (60_000, 120_000)
    ]
    assert is_told(answers[-1], 409, "DAMAGED")
    put(service, "p2", b"x", "n")  # another of the same client takes its place


def test_a_model_is_fetched_from_any_byte_on(service: OneProcess, round_of_two: tuple[Assigned, Assigned]) -> None:
    first, _ = round_of_two
    url, query = f"{service.cohort_address}/v1/models/0", {"round": first.task.round}
    whole = HTTP.get(url, params=query, headers=bearer(first.task.client))
    rest = HTTP.get(url, params=query | {"offset": 10}, headers=bearer(first.task.client))
    assert rest.content == whole.content[10:]
    assert rest.headers["etag"] == whole.headers["etag"] == f'"{hashlib.sha256(whole.content).hexdigest()}"'
    beyond = HTTP.get(url, params=query | {"offset": len(whole.content)}, headers=bearer(first.task.client))
    assert is_told(beyond, 409, "WRONG_OFFSET")
    twice = HTTP.get(f"{url}?round=1&round=2", headers=bearer(first.task.client))
    assert is_told(twice, 422, "SCHEMA_MISMATCH")


# What breaks inside


def test_a_failure_inside_is_told_without_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(OneProcess):
        def check_in(self, check_ins):  # type: ignore[no-untyped-def]  # as the desk's
            raise ZeroDivisionError("a secret of the desk")

        def feedback(self, client, round_number):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError("a secret of the desk")

    desks = Broken(small_server())
    with one_process(desks) as url:
        for answer in (
            HTTP.post(f"{url}/v1/check-ins", json=joining(1), headers=bearer(1)),
            HTTP.get(f"{desks.cohort_address}/v1/feedback?round=1", headers=bearer(1)),
        ):
            assert is_told(answer, 500, "INTERNAL")
            assert "secret" not in answer.text
    assert caplog.text.count("ZeroDivisionError: a secret of the desk") == 2  # its operator reads of it

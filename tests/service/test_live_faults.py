"""Faults of a live service that are no kills: its disk, its clock, its clients, and who else speaks to it."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy_clients import FEATURES, loss, train

import auxo
from auxo.core.asking import Answer
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import Disturbance, EmptyRound, OwnerChanged, RoundClosed
from auxo.protocol.messages import TaskResult
from auxo.service.client_tokens import client_tokens
from auxo.service.link import ServiceRefused
from auxo.service.pulses import COORDINATOR
from auxo.service.session import Participation, Session
from tests.service.injected.sitecustomize import Injected
from tests.service.live_service import LiveService, live_service
from tests.service.test_http_faults import raw

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
MB = 1024**2

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """Give a service whose clients have been partitioned."""
    with live_service(tmp_path_factory.mktemp("live")) as found:
        found.wait("a partition", lambda: ROOT not in found.owners)
        found.trains_again()
        yield found
        found.check_invariants()


def owners_of(live: LiveService) -> dict[CohortId, tuple[int, int]]:
    return {one: (owner.epoch, owner.pid) for one, owner in live.owners.items()}


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


# The disk


@pytest.mark.fault(8)
def test_on_a_full_disk_a_cohort_trains_on_says_so_and_commits_by_itself_when_there_is_room(live: LiveService) -> None:
    owners = owners_of(live)

    def pulse_of(cohort: CohortId) -> tuple[int, tuple[str, ...]]:
        seen = live.pulses.see(cohort)
        return (0, ()) if seen is None else (seen.pulse.round, seen.pulse.health)

    with live.injected(Injected(who=LEFT, is_full=True)):
        live.wait("word of it", lambda: any("DISK_FULL" in words for words in pulse_of(LEFT)[1]))
        committed = live.rounds[LEFT]
        live.wait("training in memory", lambda: pulse_of(LEFT)[0] >= committed + 2)
        live.trains_again(RIGHT)
        assert live.rounds[LEFT] == committed
        assert not live.store.read((LEFT,)).troubles  # the commit before is whole
    live.wait("the commit", lambda: live.rounds[LEFT] >= committed + 2)
    live.wait("health", lambda: not pulse_of(LEFT)[1])
    assert owners_of(live) == owners
    told = [one.reason for one in live.events if isinstance(one, Disturbance) and one.cohort == LEFT]
    assert any("had waited for room" in words for words in told)


@pytest.mark.slow
@pytest.mark.fault(2)
def test_a_cohort_killed_at_any_moment_of_a_commit_goes_on_from_one_that_is_whole(live: LiveService) -> None:
    moments = [("write", False), ("rename", False), ("rename", True), ("COMMIT", False), ("COMMIT", True)]
    for place, (kills, after) in enumerate(moments):
        cohort = (LEFT, RIGHT)[place % 2]  # each is started again after longer and longer pauses
        _killed_in_a_commit(live, Injected(who=cohort, kills=kills, after=after))


def _killed_in_a_commit(live: LiveService, injected: Injected) -> None:
    cohort = CohortId(injected.who)
    epoch, before = live.owners[cohort].epoch, live.rounds[cohort]
    with live.injected(injected):
        live.wait(f"the end at {injected}", lambda: live.owners[cohort].epoch > epoch)
    changed = [one for one in live.events if isinstance(one, OwnerChanged) and one.cohort == cohort][-1]
    assert "SIGKILL" in changed.reason or "ended" in changed.reason
    assert changed.round >= before
    assert not live.store.read((cohort,)).troubles
    live.trains_again(cohort)
    assert not list(live.directory.rglob("*.part")), injected


# The clock


@pytest.mark.fault(27)
def test_clocks_that_step_by_ten_minutes_disturb_neither_rounds_nor_supervision(live: LiveService) -> None:
    owners, coordinator = owners_of(live), live.pid(COORDINATOR)
    for clock_s in (600.0, -600.0):
        with live.injected(Injected(clock_s=clock_s)):
            live.trains_again()
            live.trains_again()
    with live.injected(Injected(who=LEFT, clock_s=600.0)):  # one alone
        live.trains_again()
    assert owners_of(live) == owners
    assert live.pid(COORDINATOR) == coordinator
    assert all(one.time_s >= 0 for one in live.events if isinstance(one, RoundClosed))


# Clients


def held_back(live: LiveService, clients: set[int]) -> threading.Event:
    """Have clients wait before they train, until the event is set."""
    go_on = threading.Event()

    def wait(client: int) -> None:
        if client in clients:
            go_on.wait(300)

    live.clients.before_training = wait
    return go_on


def clients_of(live: LiveService, cohort: CohortId) -> list[int]:
    """Return the clients whose group a cohort is."""
    group = max((0, 1), key=lambda one: live.clients.accuracy(live.store.model(cohort), one))
    return list(range(group, live.clients.count, 2))


def told_since(live: LiveService, count: int, cohort: CohortId) -> list[RoundClosed | EmptyRound]:
    found = live.events[count:]
    return [one for one in found if isinstance(one, RoundClosed | EmptyRound) and one.cohort == cohort]


@pytest.mark.fault(25)
def test_a_cohort_whose_clients_are_gone_gives_its_round_up_and_goes_on_when_they_are_back(live: LiveService) -> None:
    owners, count = owners_of(live), len(live.events)
    go_on = held_back(live, set(clients_of(live, LEFT)))
    try:
        live.wait("a round given up", lambda: any(isinstance(one, EmptyRound) for one in told_since(live, count, LEFT)))
        live.wait("word of it", lambda: live.state(LEFT) == "starved")
        live.trains_again(RIGHT)
    finally:
        go_on.set()
    live.trains_again(LEFT)
    assert owners_of(live) == owners


@pytest.mark.fault(26)
def test_a_round_that_half_of_its_clients_leave_closes_with_enough_and_late_answers_do_not_count(
    live: LiveService,
) -> None:
    live.trains_again()
    count, slow = len(live.events), set(clients_of(live, RIGHT)[:2])
    before = list(live.clients.counted)
    go_on = held_back(live, slow)
    try:
        live.wait("a round without them", lambda: len(told_since(live, count, RIGHT)) >= 2)
        closed = told_since(live, count, RIGHT)[-1]
        assert isinstance(closed, RoundClosed)
        assert closed.participants <= 3
        assert all(live.clients.counted[one] <= before[one] + 1 for one in slow)
    finally:
        go_on.set()
    live.wait("them back", lambda: all(live.clients.counted[one] > before[one] + 1 for one in slow))


@pytest.mark.fault(28)
def test_of_two_processes_with_one_token_the_newer_counts_and_the_older_is_told(live: LiveService) -> None:
    headers = {"authorization": f"Bearer {client_tokens(live.directory).issue('twin')}"}
    members, has_task, go_on = set(clients_of(live, LEFT)), threading.Event(), threading.Event()

    def wait(client: int) -> None:
        """Have rounds last until the twin has a task, and then that one until it has answered."""
        if client in members and has_task.wait(2):
            go_on.wait(300)

    live.clients.before_training = wait
    try:
        with httpx.Client(base_url=live.owners[LEFT].address, headers=headers, trust_env=False, timeout=30) as http:

            def join(session: str) -> httpx.Response:
                return http.post("/v1/join", json=joining("twin", session))

            live.wait("a task", lambda: join("older").status_code == 200)
            has_task.set()
            older, newer = join("older").json(), join("newer").json()
            assert older["task"] == newer["task"]
            assert join("older").json()["code"] == "SUPERSEDED"
            task = older["task"]
            answer = to_bytes(TaskResult("twin", LEFT, task["round"], Answer(np.zeros(FEATURES, np.float32), 1)))
            query = {"epoch": older["epoch"], "total": len(answer), "sha256": hashlib.sha256(answer).hexdigest()}
            codes = [
                http.put(f"/v1/answers/{one['nonce']}", params=query, content=answer).json().get("code")
                for one in (older, newer, older)
            ]
    finally:
        live.clients.before_training = lambda client: None
        go_on.set()
    assert codes == ["SUPERSEDED", None, "SUPERSEDED"]


@pytest.mark.fault(28)
def test_of_two_processes_with_one_token_in_two_cohorts_the_older_is_told_and_the_newer_goes_on(
    live: LiveService, tmp_path: Path
) -> None:
    address, token = (live.directory / "address").read_text(), client_tokens(live.directory).issue("twins")
    go_on, visits = threading.Event(), list[Participation]()

    def twin(group: int) -> Session:
        return auxo.connect(address, token, state=tmp_path / f"{group}.record")

    def settled(session: Session, group: int) -> CohortId:
        """Take part until the session has found its cohort, and return that."""
        mine = LEFT if group in clients_of(live, LEFT) else RIGHT
        for _ in range(60):
            visit = session.take_part(loss, train, live.clients.x[group], live.clients.y[group])
            if visit is not None and visit.counted and visit.cohort == mine:
                return mine
        raise AssertionError("it has not found its cohort")

    def take_part(session: Session) -> None:
        while not go_on.is_set():
            visit = session.take_part(loss, train, live.clients.x[0], live.clients.y[0])
            assert visit is not None
            visits.append(visit)

    with twin(1) as learning:
        there = settled(learning, 1)
    with twin(0) as older, ThreadPoolExecutor(1) as pool:
        here = settled(older, 0)
        assert here != there
        going = pool.submit(take_part, older)
        try:
            live.wait("the older", lambda: len(visits) >= 2)
            with twin(1) as newer:
                assert settled(newer, 1) == there
                before = len(visits)
                settled(newer, 1)
                with pytest.raises(ServiceRefused, match="SUPERSEDED"):
                    going.result(30)
                assert len(visits) <= before + 1  # what it was at
                settled(newer, 1)
        finally:
            go_on.set()


# Who else speaks


@pytest.mark.fault(16, 20, 21, 22, 36)
def test_hostile_senders_are_told_no_and_grow_nothing_in_the_processes_that_serve(live: LiveService) -> None:
    addresses = [(live.directory / "address").read_text(), *(owner.address for owner in live.owners.values())]
    pids = [live.pid(COORDINATOR), *(owner.pid for owner in live.owners.values())]
    owners, before = owners_of(live), {pid: resident_bytes(pid) for pid in pids}
    token = client_tokens(live.directory).issue("evil")
    for address in addresses:
        for path, method in (("/v1/check-ins", "POST"), ("/v1/join", "POST"), ("/v1/answers/n", "PUT")):
            giant = raw(address, head(token, f"{method} {path}", f"content-length: {2 * 1024**3}"), b"x" * 100_000)
            assert giant.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 404 ")) or giant == b"", giant
        assert raw(address, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300)).startswith(b"HTTP/1.1 400 ")
        endless = [b"x-%d: " % one + b"y" * 1000 + b"\r\n" for one in range(100)]
        assert raw(address, b"POST / HTTP/1.1\r\n", *endless)[:13] in {b"", b"HTTP/1.1 431 "}
        with httpx.Client(base_url=address, trust_env=False, timeout=30) as http:
            assert http.post("/v1/join", json={}).status_code == 401
            mine = {"authorization": f"Bearer {token}"}
            assert http.post("/v1/check-ins", json=joining("good"), headers=mine).status_code in {403, 404}
            assert http.get("/v1/models/..%2f..%2fclients.key", headers=mine).status_code in {404, 422}
            assert http.get("/v1/pulse", headers=mine | {"origin": "https://evil.example"}).status_code == 403
            assert http.post("/v1/check-ins", content=b"[" * 10_000, headers=mine).status_code in {404, 422}
    live.trains_again()
    assert owners_of(live) == owners
    assert all(resident_bytes(pid) - before[pid] < 30 * MB for pid in pids)
    log = (live.directory / "service.log").read_text()
    assert "Traceback" not in log.partition("evil")[2]


def joining(client: str, session: str = "s") -> dict[str, object]:
    return {"check_in": {"client": client}, "session": session}


def head(token: str, request: str, *headers: str) -> bytes:
    return "\r\n".join([f"{request} HTTP/1.1", "host: x", f"authorization: Bearer {token}", *headers, "", ""]).encode()

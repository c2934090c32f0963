"""`auxo.connect`: clients take part in a service over real sockets, through lost connections and lost processes."""

import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import auxo
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import Do
from auxo.core.types import ROOT, FloatArray
from auxo.runtime.client import Client
from auxo.service.link import ClientPatience, ServiceAway, ServiceRefused
from auxo.service.session import Participation, Session
from tests.service.one_process import TOKENS, OneProcess, one_process, small_server

QUICK = ClientPatience(first_s=0.01, longest_s=0.05, gives_up_s=0.3, elsewhere_s=0.2, feedback_s=5)
X = np.arange(24.0).reshape(8, 3)
Y = X @ np.array([1.0, -1.0, 0.5])


def loss(model: NDArray[np.floating], x: FloatArray, y: FloatArray) -> float:
    return float(np.mean((x @ model[:3] - y) ** 2))


def train(model: NDArray[np.floating], x: FloatArray, y: FloatArray) -> FloatArray:
    step = np.zeros(len(model))
    step[:3] = -0.001 * x.T @ (x @ model[:3] - y) / len(y)
    return step


def clients(url: str, count: int = 2, **more: object) -> list[Session]:
    return [auxo.connect(url, TOKENS.issue(f"c{one}"), patience=QUICK, **more) for one in range(count)]  # type: ignore[arg-type]


def all_take_part(sessions: Sequence[Session], train: Callable[..., object] = train) -> list[Participation | None]:
    with ThreadPoolExecutor(len(sessions)) as pool:
        return list(pool.map(lambda one: one.take_part(loss, train, X, Y), sessions))


def test_clients_train_until_the_federation_is_over_and_learn_from_each_round() -> None:
    desks = OneProcess(small_server(rounds=3))
    with one_process(desks) as url:
        sessions = clients(url)
        before = desks.server.weights(ROOT).copy()
        for number in (1, 2, 3):
            assert all_take_part(sessions) == [Participation(ROOT, number, counted=True)] * 2
        assert all_take_part(sessions) == [None, None]
        assert [one.is_over for one in sessions] == [True, True]
        assert [one.participations for one in sessions] == [3, 3]
        after = desks.server.weights(ROOT)
        assert loss(after, X, Y) < loss(before, X, Y)
        for one in sessions:
            one.__exit__(None, None, None)


def test_the_record_is_kept_in_a_file_and_goes_on_in_another_process(tmp_path: Path) -> None:
    kept = tmp_path / "folder" / "c0.affinity"
    with one_process(OneProcess(small_server(), participants=1), None) as url:
        for visits in (1, 2):
            with auxo.connect(url, TOKENS.issue("c0"), state=kept, patience=QUICK) as session:
                assert session.participations == visits - 1
                session.take_part(loss, train, X, Y)
        other = Client("c0")
        other.record_from_bytes(kept.read_bytes())
        assert other.participations == 2


def test_a_damaged_record_is_affinity_loss_and_said_so(tmp_path: Path) -> None:
    kept = tmp_path / "c0.affinity"
    kept.write_bytes(b"\x00" * 100)
    with one_process(OneProcess(small_server(), participants=1)) as url:
        with pytest.warns(RuntimeWarning, match="starts exploring again"):
            session = auxo.connect(url, TOKENS.issue("c0"), state=kept, patience=QUICK)
        with session:
            assert session.participations == 0
            assert session.take_part(loss, train, X, Y) == Participation(ROOT, 1, counted=True)
        Client("c0").record_from_bytes(kept.read_bytes())


def test_a_record_of_another_federation_is_begun_again(tmp_path: Path) -> None:
    kept = tmp_path / "c0.affinity"
    for parameters, words in ((6, None), (8, "begun again")):
        with (
            one_process(OneProcess(small_server(parameters), participants=1)) as url,
            auxo.connect(url, TOKENS.issue("c0"), state=kept, patience=QUICK) as session,
            nullcontext() if words is None else pytest.warns(RuntimeWarning, match=words),
        ):
            session.take_part(loss, train, X, Y)
            assert session.participations == 1


class Doubled:
    """A mod that doubles updates."""

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        for one in do(asks, device):
            yield one if isinstance(one, Failure) else Answer(2 * one.update, one.examples)


def test_mods_stand_around_what_a_client_answers() -> None:
    moved = []
    for mods in ((), (Doubled(),)):
        desks = OneProcess(small_server(participants=1), participants=1)
        with one_process(desks) as url, auxo.connect(url, TOKENS.issue("c0"), mods=mods, patience=QUICK) as session:
            session.take_part(loss, train, X, Y)
        moved.append(desks.server.weights(ROOT))
    np.testing.assert_allclose(moved[1], 2 * moved[0], rtol=1e-6)


def test_a_training_that_fails_is_said_so_and_nobody_waits_for_it() -> None:
    def fails(*_: object) -> FloatArray:
        raise ArithmeticError("the samples are no numbers")

    desks = OneProcess(small_server())
    with one_process(desks) as url:
        good, bad = clients(url)
        with ThreadPoolExecutor(2) as pool:
            of_good = pool.submit(good.take_part, loss, train, X, Y)
            of_bad = pool.submit(bad.take_part, loss, fails, X, Y)
            with pytest.raises(ArithmeticError):
                of_bad.result(20)
            assert of_good.result(20) == Participation(ROOT, 1, counted=True)
        good.__exit__(None, None, None)
        bad.__exit__(None, None, None)


def test_a_banned_client_and_one_with_anothers_token_are_refused_for_good() -> None:
    with one_process(OneProcess(small_server(), banned=("c0",))) as url:
        banned = auxo.connect(url, TOKENS.issue("c0"), patience=QUICK)
        with banned, pytest.raises(ServiceRefused, match="BANNED: expected a client in good standing"):
            banned.take_part(loss, train, X, Y)
        forged = TOKENS.issue("c0")[:-4] + "0000"
        with auxo.connect(url, forged, patience=QUICK) as session, pytest.raises(ServiceRefused, match="AUTH"):
            session.take_part(loss, train, X, Y)


def test_a_service_that_is_away_is_tried_again_and_given_up_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    session = auxo.connect(address, TOKENS.issue("c0"), patience=QUICK)
    with session, pytest.raises(ServiceAway, match=r"within 0\.3 s, got ConnectError"):
        session.take_part(loss, train, X, Y)


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("ftp://x", "t", "url: expected"),
        ("http://127.0.0.1", "not a token", "token: expected"),
    ],
)
def test_an_address_or_a_token_that_is_none_is_refused_at_once(url: str, token: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        auxo.connect(url, token)


def test_a_token_in_the_clear_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match="use https"):
        auxo.connect("http://coordinator.example", TOKENS.issue("c0")).__exit__(None, None, None)


def test_everybody_in_the_waiting_room_gets_a_task_in_turn() -> None:
    desks = OneProcess(small_server(rounds=4))
    with one_process(desks) as url:
        sessions = clients(url, 5)

        def until_over(session: Session) -> int:
            count = 0
            while session.take_part(loss, train, X, Y) is not None:
                count += 1
            return count

        with ThreadPoolExecutor(5) as pool:
            visits = list(pool.map(until_over, sessions))
        assert sum(visits) == desks.counted == 8
        for one in sessions:
            one.__exit__(None, None, None)

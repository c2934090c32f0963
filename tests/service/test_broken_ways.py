"""Ways to a service that break: clients try again, each at its own time, and what was acknowledged counts once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import auxo
from auxo.core.types import ROOT, FloatArray
from auxo.service.http_limits import HttpLimits
from auxo.service.link import ClientPatience
from auxo.service.session import Participation
from tests.service.broken_way import BrokenWay, broken_way
from tests.service.one_process import TOKENS, OneProcess, one_process, small_server, within
from tests.service.test_connect import X, Y, loss, train

PATIENT = ClientPatience(first_s=0.02, longest_s=0.1, gives_up_s=20, elsewhere_s=0.5, feedback_s=10)
BIG = 1_500_000  # parameters: more than a piece


@contextmanager
def behind_broken_ways(desks: OneProcess, limits: HttpLimits | None = None) -> Iterator[tuple[BrokenWay, BrokenWay]]:
    """Serve both desks, each at the end of a way that can break."""
    with ExitStack() as held:
        coordinator = held.enter_context(broken_way(held.enter_context(one_process(desks, limits))))
        cohort = held.enter_context(broken_way(desks.cohort_address))
        desks.cohort_address = cohort.address
        yield coordinator, cohort


def take_part(way: BrokenWay, breaking: Callable[[], None], patience: ClientPatience = PATIENT) -> Participation | None:
    def train_and_break(model: FloatArray, *samples: FloatArray) -> object:
        breaking()
        return train(model, *samples)

    with auxo.connect(way.address, TOKENS.issue("c0"), patience=patience) as session:
        return session.take_part(loss, train_and_break, X, Y)


@pytest.mark.fault(30)
def test_a_network_that_is_away_for_a_while_costs_time_and_nothing_else() -> None:
    desks = OneProcess(small_server(participants=1), participants=1)
    with behind_broken_ways(desks) as (coordinator, cohort):

        def away() -> None:
            for way in (coordinator, cohort):
                way.cut()
            seen = cohort.came

            def mend() -> None:
                within(10, lambda: cohort.came >= seen + 3)  # the client has tried, and tried again
                for way in (coordinator, cohort):
                    way.mend()

            threading.Thread(target=mend).start()

        assert take_part(coordinator, away) == Participation(ROOT, 1, counted=True)
        assert desks.counted == 1


@pytest.mark.fault(15, 30)
@pytest.mark.parametrize("parameters", [6, BIG], ids=["whole", "in pieces"])
def test_an_answer_whose_acknowledgement_is_lost_is_sent_again_and_counts_once(parameters: int) -> None:
    desks = OneProcess(small_server(parameters, participants=1), participants=1)
    with behind_broken_ways(desks) as (coordinator, cohort):

        def lose() -> None:
            cohort.loses_after = b"PUT /v1/answers/"

        assert take_part(coordinator, lose) == Participation(ROOT, 1, counted=True)
        assert cohort.loses_after == b""
        assert desks.counted == 1


@pytest.mark.fault(30)
@pytest.mark.parametrize("elsewhere_s", [0.5, 0.001], ids=["soon", "after it has asked for another owner"])
def test_a_download_that_breaks_off_goes_on_where_it_was(elsewhere_s: float) -> None:
    desks = OneProcess(small_server(BIG, participants=1), participants=1)
    with behind_broken_ways(desks) as (coordinator, cohort):
        cohort.breaks_off_after = 3_000_000
        patience = replace(PATIENT, elsewhere_s=elsewhere_s)
        assert take_part(coordinator, lambda: None, patience) == Participation(ROOT, 1, counted=True)
        assert cohort.breaks_off_after == 0
        assert cohort.passed_back < 1.5 * 4 * BIG  # and not the whole model again


def test_over_a_slow_way_an_answer_goes_in_smaller_pieces() -> None:
    desks = OneProcess(small_server(BIG, participants=1), participants=1)
    with behind_broken_ways(desks, HttpLimits(body_s=0.3)) as (coordinator, cohort):

        def slow_down() -> None:
            cohort.bytes_a_second = 6_000_000  # 4 MiB, which a client begins with, take twice as long as is allowed

        assert take_part(coordinator, slow_down) == Participation(ROOT, 1, counted=True)
        assert desks.counted == 1


@pytest.mark.fault(30)
@given(st.floats(0.01, 5), st.floats(5, 60))
def test_pauses_grow_to_a_bound_and_nobody_waits_as_long_as_others(first_s: float, longest_s: float) -> None:
    patience = ClientPatience(first_s=first_s, longest_s=longest_s, gives_up_s=100)
    crowd = [[pause for pause, _ in zip(patience.pauses(100), range(20), strict=False)] for _ in range(30)]
    for place in range(20):
        mean = min(first_s * 2**place, longest_s)
        pauses = [one[place] for one in crowd]
        assert all(0.49 * mean <= pause <= 1.51 * mean for pause in pauses)
        assert max(pauses) > 1.2 * min(pauses)
    assert list(ClientPatience(gives_up_s=1e-9).pauses(1e-9)) == []

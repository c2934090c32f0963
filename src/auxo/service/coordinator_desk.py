"""The coordinator's desk: it says whose round a check-in joins and where that is, and keeps sessions alone."""

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

from auxo.core.types import CohortId
from auxo.protocol.messages import CheckIn
from auxo.runtime.client_numbers import client_number
from auxo.runtime.server import Server
from auxo.service.desks import ComeAgain, Found, Pulse, Refusal
from auxo.service.problems import jittered
from auxo.service.round_book import SUPERSEDED, ClientSessions
from auxo.service.store import Held, Owner
from auxo.service.wire import Joining

_SOON_S = 1.0  # until a cohort's process may be there; our choice
_LATER_S = 30.0  # until another draw may lead to a cohort that trains; our choice
_SESSIONS = 100_000  # clients whose sessions are remembered, of those that came last; our choice


class LiveCoordinator:
    """A `CoordinatorDesk`; whoever reads the store tells it what holds."""

    def __init__(self, server: Server, held: Held, epoch: int) -> None:
        """Begin with what holds.

        Args:
            server: with the rules of the federation.
            held: what the store says; models of leaves are not needed.
            epoch: of this coordinator.
        """
        self._server, self._epoch = server, epoch
        self._lock = threading.Lock()
        self._owners: Mapping[CohortId, Owner] = {}
        self._troubles: tuple[str, ...] = ()
        self._sessions = ClientSessions(_SESSIONS)
        self._progress = 0
        self.turn(held)

    def turn(self, held: Held | None, troubles: Sequence[str] = ()) -> None:
        """Take note of what holds now; None: the same as before."""
        with self._lock:
            if held is not None:
                self._server.refresh(held.record)
                self._owners = held.owners
            self._troubles = tuple(troubles)
        self._progress += 1

    @property
    def is_over(self) -> bool:
        """Return whether all cohorts have trained their rounds."""
        return self._server.is_over

    def check_in(self, joining: Sequence[Joining]) -> list[Found | ComeAgain | Refusal]:
        """Answer check-ins; see `CoordinatorDesk`."""
        with self._lock:
            old = self._superseded(joining)
            check_ins = [one.check_in for place, one in enumerate(joining) if place not in old]
            if self._server.is_over:
                over = Refusal(
                    "OVER", "expected a federation that trains, got one that has trained its rounds; go home"
                )
                return [over] * len(joining)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # that a cohort is given up; its clients may come yet
                matched = self._server.match(check_ins)
            found = {client_number(one.client): cohort for cohort, mine in matched.items() for one in mine}
            refused = {client_number(client): why for client, why in self._server.refused.items()}
            return [
                SUPERSEDED if place in old else self._answer(one.check_in, found, refused)
                for place, one in enumerate(joining)
            ]

    def _superseded(self, joining: Sequence[Joining]) -> frozenset[int]:
        """Return the places of those of which a newer session of their client has come; one's cohort may be another."""
        come = [(client_number(one.check_in.client), one.session) for one in joining]
        for number, session in come:  # all of them first: of two that come together only one counts
            if number is not None:
                self._sessions.is_superseded(number, session)
        return frozenset(
            place
            for place, (number, session) in enumerate(come)
            if number is not None and self._sessions.is_superseded(number, session)
        )

    def _answer(
        self, check_in: CheckIn, found: Mapping[int | None, CohortId], refused: Mapping[int | None, str]
    ) -> Found | ComeAgain | Refusal:
        number = client_number(check_in.client)
        if number is None:
            words = f"client: expected a number or a name, got {check_in.client!r:.80}; give it one"
            return Refusal("NOT_SELECTED", words)
        if number in refused:
            words = f"expected a client that is not banned, got one that is {refused[number]}; ask who runs the service"
            return Refusal("BANNED", words)
        if number not in found:
            # Who asked for a cohort that has trained its rounds is done; a newcomer may be drawn to another.
            if check_in.request is None:
                return ComeAgain(jittered(_LATER_S))
            return Refusal("OVER", "expected a cohort that trains, got one that has trained its rounds; go home")
        owner = self._owners.get(found[number])
        if owner is None or not owner.address:
            return ComeAgain(jittered(_SOON_S))
        return Found(owner.cohort, owner.address, owner.epoch)

    def pulse(self) -> Pulse:
        """Return how it is doing."""
        rounds = max((one.round for one in self._owners.values()), default=0)
        who, me = "coordinator", os.getpid()
        state: Literal["over", "training"] = "over" if self._server.is_over else "training"
        return Pulse(who, self._epoch, me, self._progress, rounds, state, self._troubles)

"""The contract of client mods: what they make of a participant's answer does not depend on who else is there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.asking import LEAST_LOSS, Answer, Ask, Failure, Judgement, Losses, Part
from auxo.core.client_mod import ClientMod, ModsAnswers, ModsRequests, said_through, through
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect, expect_array

CONTRACT = Contract[ClientMod]("a client mod", "ClientMod in auxo.core.client_mod")
check_client_mod = CONTRACT.check
"""Raises `ContractBroken` unless a client mod keeps its contract."""


_MODELS, _PARAMETERS, _CLIENTS = 3, 5, 6


@dataclass(frozen=True)
class _Device:
    """Where made-up participants are, whose updates and losses follow from who they are."""

    clients: IntArray

    @property
    def visits(self) -> IntArray:
        return self.clients % 4

    @property
    def samples(self) -> IntArray:
        return 2 + self.clients

    @property
    def models(self) -> int:
        return _MODELS

    def model(self, place: int) -> Float32Array:
        return np.full(_PARAMETERS, place, dtype=np.float32)

    def losses(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> Losses:
        mean = self._drawn(rows, model, len(part))
        return Losses(mean, mean**2)

    def scores(self, model: int, rows: Sequence[int], asks: Sequence[Ask], part: Part) -> FloatArray:
        return self._drawn(rows, 10 + model, len(part))

    def train(self, model: int, rows: Sequence[int], asks: Sequence[Ask]) -> Iterator[Answer | Failure]:
        for row in rows:
            client = int(self.clients[row])
            update = stream(0, "update", client, model).standard_normal(_PARAMETERS).astype(np.float32)
            update.flags.writeable = False  # whoever changes it in place is found out
            yield Failure("the battery is flat") if client == 3 else Answer(update, 2 + client)

    def mislabelled(self, rows: Sequence[int]) -> "_Device":
        return _Device(np.where(np.isin(np.arange(len(self.clients)), rows), 100 + self.clients, self.clients))

    def disguised(self, rows: Sequence[int], client: int) -> "_Device":
        return _Device(np.where(np.isin(np.arange(len(self.clients)), rows), client, self.clients))

    def _drawn(self, rows: Sequence[int], *what: int) -> FloatArray:
        return np.array([stream(0, "said", int(self.clients[row]), *what).random() for row in rows])


def _asks() -> list[Ask]:
    """Return asks of all kinds, one for each client."""
    judging = Ask(judges=(1, 2))
    return [Ask(), Ask(model=LEAST_LOSS), judging, Ask(model=1), replace(judging, reports_loss=True), Ask(fold=1)]


def _answers(mod: ClientMod, rows: Sequence[int]) -> list[Answer | Failure]:
    asks = _asks()
    return list(through([mod])([asks[row] for row in rows], _Device(np.array(rows, dtype=np.int64))))


def _requests() -> Requests:
    """Return requests of clients of which some ask for nothing."""
    silent = Requests.silent(CohortTree(), np.arange(_CLIENTS))
    reward = stream(0, "reward").standard_normal(_CLIENTS)
    asking = np.arange(_CLIENTS) % 3 > 0
    return replace(silent, cohort=np.where(asking, 0, -1), reward=np.where(asking, reward, 0.0), ranked_first=asking)


@CONTRACT.promise
def mods_something(mod: ClientMod) -> None:
    """It has ``answers``, ``requests``, or both."""
    expect(isinstance(mod, ModsAnswers | ModsRequests), "a mod with answers() or requests()", type(mod).__name__)


@CONTRACT.promise
def answers_every_ask(mod: ClientMod) -> None:
    """There is one answer for each ask, and each can still be told: an update, a whole number of examples, numbers."""
    found = _answers(mod, range(_CLIENTS))
    expect(len(found) == _CLIENTS, f"{_CLIENTS} answers", len(found))
    for answer in found:
        if isinstance(answer, Failure):
            continue
        expect_array(answer.update, "float32", (_PARAMETERS,), "an update")
        expect(type(answer.examples) is int and answer.examples > 0, "a number of examples", answer.examples)
        said = all(isinstance(one, Judgement) for one in answer.judged)
        expect(said, "judgements", answer.judged)


@CONTRACT.promise
def answers_do_not_depend_on_the_batch(mod: ClientMod) -> None:
    """A participant's answer has the same bits alone, together with others, in another order, and again."""
    together = _answers(mod, range(_CLIENTS))
    backwards = _answers(mod, range(_CLIENTS)[::-1])[::-1]
    alone = [_answers(mod, [row])[0] for row in range(_CLIENTS)]
    expect_same(together, alone, "the same answers alone")
    expect_same(together, backwards, "the same answers in another order")


@CONTRACT.promise
def requests_do_not_depend_on_the_batch(mod: ClientMod) -> None:
    """A client's request has the same bits alone and together with others, and there is one for each."""
    clients, requests = np.arange(_CLIENTS), _requests()
    together = said_through([mod], clients, requests)
    expect(len(together.cohort) == _CLIENTS, f"{_CLIENTS} requests", len(together.cohort))
    for row in range(_CLIENTS):
        one = np.array([row])
        expect_same(together.take(one), said_through([mod], clients[one], requests.take(one)), "the same request alone")


@CONTRACT.promise
def leaves_what_it_is_given(mod: ClientMod) -> None:
    """Neither asks nor requests are changed in place."""
    asks, requests = _asks(), _requests()
    list(through([mod])(asks, _Device(np.arange(_CLIENTS))))
    said_through([mod], np.arange(_CLIENTS), requests)
    expect(asks == _asks(), "the asks as they were", "others")
    expect_same(requests, _requests(), "the requests as they were")

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.core.affinity import Requests
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import ClientMod, Do
from auxo.core.types import IntArray
from auxo.privacy.accounting import PrivacyBudget
from auxo.privacy.local_privacy import LocalPrivacy
from auxo.privacy.terms import Terms
from auxo.testing import ContractBroken, check_client_mod, client_mods
from auxo.testing.contract import Check
from tests.core.made_mods import Careful
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every


@dataclass(frozen=True)
class Silent:
    """Speaks of nothing but its requests."""

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        return Requests.silent(requests.tree, requests.participations)


PRIVATE = LocalPrivacy.simulated(Terms("client", PrivacyBudget(8.0, 1e-6), 1.0, 4.0, 1.0, participations=2), seed=100)
CONTRACT: Mapping[str, ClientMod] = {"careful": Careful(), "silent": Silent(), "private": PRIVATE}


@dataclass(frozen=True)
class Bent:
    """Breaks one promise."""

    kind: str

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        for row, answer in enumerate(do(asks, device)):
            if isinstance(answer, Failure):
                yield answer
            elif self.kind == "wide":
                yield replace(answer, update=answer.update.astype(np.float64))
            elif self.kind == "in place":
                answer.update[:] = 0
                yield answer
            elif self.kind == "none":
                yield replace(answer, examples=0)
            elif self.kind == "first":
                yield replace(answer, examples=1 + row)
            elif self.kind != "few" or row < 3:
                yield answer
        if self.kind == "asks":
            object.__setattr__(asks[0], "work", 2.0)

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        if self.kind == "own hand":
            requests.reward[:] = 0
        if self.kind == "same for all":
            return replace(requests, reward=np.full(len(clients), requests.reward.mean()))
        return requests.take(np.arange(len(clients) - 1)) if self.kind == "hides" else requests


BROKEN: list[tuple[Check[ClientMod], ClientMod]] = [
    (client_mods.mods_something, "a text"),  # type: ignore[list-item]
    *((client_mods.answers_every_ask, Bent(kind)) for kind in ("wide", "in place", "none", "few")),
    (client_mods.answers_do_not_depend_on_the_batch, Bent("first")),
    *((client_mods.requests_do_not_depend_on_the_batch, Bent(kind)) for kind in ("same for all", "hides")),
    *((client_mods.leaves_what_it_is_given, Bent(kind)) for kind in ("asks", "own hand")),
]


@pytest.mark.parametrize("name", CONTRACT)
@every(client_mods.CONTRACT.checks)
def test_client_mods_keep_the_contract(check: Check[ClientMod], name: str) -> None:
    check(CONTRACT[name])


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[ClientMod], part: ClientMod) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(client_mods.CONTRACT.checks, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="Expected a number of examples, got 0"):
        check_client_mod(Bent("none"))

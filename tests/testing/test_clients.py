from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

import pytest

from auxo.algorithms.fedprox import FedProx
from auxo.core.client_algorithm import ClientAlgorithm, LocalSgd
from auxo.experiments.parts import CLIENTS
from auxo.testing import ContractBroken, check_client_algorithm, clients
from auxo.testing.clients import CLIENT_CHECKS
from auxo.testing.contract import Check
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

CONTRACT: Mapping[str, ClientAlgorithm] = {"sgd": LocalSgd(), "fedprox": FedProx(mu=0.5)}


@dataclass(frozen=True)
class Held:
    """Holds participants, or does not."""

    proximal: float = 0.1
    sends_partial_work: bool = False


@dataclass
class Loose:
    """Not frozen."""

    proximal: float = 0.1
    sends_partial_work: bool = False


PULLS = count()


@dataclass(frozen=True)
class Moody:
    """Pulls ever harder."""

    sends_partial_work: bool = False

    @property
    def proximal(self) -> float:
        return float(next(PULLS))


@dataclass(frozen=True)
class Undecided:
    """Does not know yet."""

    sends_partial_work: bool = False

    @property
    def proximal(self) -> float:
        raise NotImplementedError("to be decided")


BROKEN: list[tuple[Check[ClientAlgorithm], ClientAlgorithm]] = [
    (clients.is_a_value, Loose()),
    (clients.is_a_value, Moody()),
    (clients.holds_by_a_finite_pull, Held(-0.1)),
    (clients.holds_by_a_finite_pull, Held(float("inf"))),
    (clients.says_whether_partial_work_counts, Held(sends_partial_work=1)),  # type: ignore[arg-type]
    (clients.trains, Undecided()),
]


def test_every_client_algorithm_that_has_a_name_keeps_the_contract() -> None:
    assert {name: type(part) for name, part in CONTRACT.items()} == {name: CLIENTS.find(name) for name in CLIENTS.names}


@pytest.mark.parametrize("name", CONTRACT)
@every(CLIENT_CHECKS)
def test_client_algorithms_keep_the_contract(check: Check[ClientAlgorithm], name: str) -> None:
    check(CONTRACT[name])


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[ClientAlgorithm], part: ClientAlgorithm) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(CLIENT_CHECKS, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="Expected a finite number >= 0, got nan"):
        check_client_algorithm(Held(float("nan")))

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

import pytest

from auxo.algorithms.fine_tuning import FineTuning
from auxo.algorithms.ftfa import Ftfa
from auxo.core.personaliser import AsItIs, Personaliser, Tuning
from auxo.experiments.parts import PERSONALISERS
from auxo.testing import ContractBroken, check_personaliser, personalisers
from auxo.testing.contract import Check
from auxo.testing.personalisers import PERSONALISER_CHECKS
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

CONTRACT: Mapping[str, Personaliser] = {
    "none": AsItIs(),
    "ftfa": Ftfa(epochs=2),
    "fine-tuning": FineTuning(learning_rate=0.2, batch_size=3, pull=0.5),
}


@dataclass(frozen=True)
class Says:
    """Says how clients tune, right or wrong."""

    tuning: Tuning | None = None


@dataclass
class Loose:
    """Not frozen."""

    tuning: Tuning | None = None


PASSES = count(1)


@dataclass(frozen=True)
class Moody:
    """Wants ever more passes."""

    @property
    def tuning(self) -> Tuning:
        return Tuning(next(PASSES))


@dataclass(frozen=True)
class Undecided:
    """Does not know yet."""

    @property
    def tuning(self) -> Tuning:
        raise NotImplementedError("to be decided")


BROKEN: list[tuple[Check[Personaliser], Personaliser]] = [
    (personalisers.is_a_value, Loose()),
    (personalisers.is_a_value, Moody()),
    (personalisers.says_how_clients_tune, Says(5)),  # type: ignore[arg-type]
    (personalisers.makes_models_of_each_client_alone, Moody()),
    (personalisers.makes_models_of_each_client_alone, Undecided()),
]


def test_every_personaliser_that_has_a_name_keeps_the_contract() -> None:
    found = {name: PERSONALISERS.find(name) for name in PERSONALISERS.names}
    assert {name: type(part) for name, part in CONTRACT.items()} == found


@pytest.mark.parametrize("name", CONTRACT)
@every(PERSONALISER_CHECKS)
def test_personalisers_keep_the_contract(check: Check[Personaliser], name: str) -> None:
    check(CONTRACT[name])


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[Personaliser], part: Personaliser) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(PERSONALISER_CHECKS, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="Expected a Tuning or None, got 'much'"):
        check_personaliser(Says("much"))  # type: ignore[arg-type]

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from auxo.population.digits import digits_population
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import LabelPermutation, NoGroups
from auxo.population.synthetic import synthetic_population
from auxo.testing import ContractBroken, check_population, populations, separable_population
from auxo.testing.contract import Check
from tests.models.token_windows import token_population
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

PLAIN = synthetic_population(clients=9, groups=3, heterogeneity=LabelPermutation(), features=4, samples=(3, 6))
CONTRACT: Mapping[str, FederatedData] = {
    "synthetic": PLAIN,
    "digits": digits_population(clients=6, groups=2, heterogeneity=NoGroups(), samples=(3, 6), test_samples=2),
    "levels": replace(PLAIN, x=np.clip(np.abs(PLAIN.x) * 50, 0, 255).astype(np.uint8)),
    "tokens": token_population(),
    "separable": separable_population(),
}


@pytest.mark.parametrize("name", CONTRACT)
@every(populations.CONTRACT.checks)
def test_populations_keep_the_contract(check: Check[FederatedData], name: str) -> None:
    check(CONTRACT[name])


def swapped() -> FederatedData:
    offsets = PLAIN.train.offsets.copy()
    offsets[1], offsets[2] = offsets[2], offsets[1]
    return replace(PLAIN, name="swapped", train=replace(PLAIN.train, offsets=offsets))


def short() -> FederatedData:
    return replace(PLAIN, name="short", test=replace(PLAIN.test, offsets=PLAIN.test.offsets // 2))


def astray() -> FederatedData:
    return replace(PLAIN, name="astray", train=replace(PLAIN.train, x_rows=PLAIN.train.x_rows + len(PLAIN.x)))


def broken_inputs() -> FederatedData:
    x = PLAIN.x.copy()
    x[0] = np.nan
    return replace(PLAIN, name="broken", x=x)


BROKEN: list[tuple[Check[FederatedData], FederatedData]] = [
    (populations.samples_belong_to_clients, swapped()),
    (populations.samples_belong_to_clients, short()),
    (populations.samples_are_there, astray()),
    (populations.clients_have_names, replace(PLAIN, client_names=("nobody",) * 9)),
    (populations.groups_are_numbered, replace(PLAIN, groups=np.arange(9) % 3 * 2)),
    (populations.models_are_given_numbers, broken_inputs()),
    (populations.models_are_given_numbers, replace(token_population(), x=token_population().x - 20)),
]


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[FederatedData], part: FederatedData) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(populations.CONTRACT.checks, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="short breaks a promise of a population: Samples are sorted by client"):
        check_population(short())

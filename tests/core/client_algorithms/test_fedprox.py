from dataclasses import fields

import pytest

from auxo.core.client_algorithms import ClientAlgorithm, LocalSgd
from auxo.core.client_algorithms.fedprox import FedProx
from auxo.core.settings import about
from auxo.experiments.parts import CLIENTS


@pytest.mark.parametrize("mu", [0.0, 0.001, 1.0])
def test_the_pull_to_the_model_that_was_sent_is_mu(mu: float) -> None:
    assert FedProx(mu=mu).proximal == mu


@pytest.mark.parametrize("mu", [-0.1, float("nan"), float("inf")])
def test_a_pull_away_or_beyond_all_bounds_is_refused(mu: float) -> None:
    with pytest.raises(ValueError, match=f"mu: expected a number >= 0, got {mu}"):
        FedProx(mu=mu)


def test_who_is_too_slow_sends_partial_work_unless_it_is_told_otherwise() -> None:
    assert FedProx().sends_partial_work
    assert not FedProx(sends_partial_work=False).sends_partial_work


def test_without_a_pull_and_partial_work_it_is_plain_local_sgd() -> None:
    plain, prox = LocalSgd(), FedProx(mu=0.0, sends_partial_work=False)

    assert (prox.proximal, prox.sends_partial_work) == (plain.proximal, plain.sends_partial_work) == (0.0, False)


@pytest.mark.parametrize(("name", "kind"), [("fedprox", FedProx), ("sgd", LocalSgd)])
def test_a_configuration_can_name_it(name: str, kind: type) -> None:
    part = CLIENTS.find(name)()

    assert type(part) is kind
    assert isinstance(part, ClientAlgorithm)
    assert CLIENTS.name_of(part) == name


def test_every_setting_says_what_it_means() -> None:
    assert {one.name for one in fields(FedProx)} == {"mu", "sends_partial_work"}
    assert all(about(one) for one in fields(FedProx))

"""The contract of client algorithms."""

from dataclasses import replace

import numpy as np

from auxo.core.asking import Answer
from auxo.core.client_algorithm import ClientAlgorithm
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Check, Contract, expect, expect_frozen, is_finite_number, run_checks
from auxo.testing.small_federation import CLIENTS, TRAINER, TRAINING, initial_model, population
from auxo.training.trainer import Job

CONTRACT = Contract[ClientAlgorithm]("a client algorithm", "ClientAlgorithm in auxo.core.client_algorithm")


@CONTRACT.promise
def is_a_value(client: ClientAlgorithm) -> None:
    """A client algorithm is a frozen value, and says the same whenever it is asked."""
    expect_frozen(client)
    one, other = ((client.proximal, client.sends_partial_work) for _ in range(2))
    expect_same(one, other, "the same answers twice")


@CONTRACT.promise
def holds_by_a_finite_pull(client: ClientAlgorithm) -> None:
    """The proximal pull is a finite number, and not negative."""
    pull = client.proximal
    expect(is_finite_number(pull) and pull >= 0, "a finite number >= 0", repr(pull))


@CONTRACT.promise
def says_whether_partial_work_counts(client: ClientAlgorithm) -> None:
    """Whether partial work is sent is True or False."""
    expect(isinstance(client.sends_partial_work, bool), "True or False", repr(client.sends_partial_work))


@CONTRACT.promise
def trains(client: ClientAlgorithm) -> None:
    """Participants that train so send finite updates, not all of them zero, and the same ones whenever they train."""
    one, other = (_updates(client) for _ in range(2))
    expect_same(one, other, "the same updates twice")
    for answer in one:
        expect(bool(np.isfinite(answer.update).all()), "finite updates", "others")
    expect(any(answer.update.any() for answer in one), "that somebody's update is not zero", "zeros from everybody")


def _updates(client: ClientAlgorithm) -> list[Answer]:
    jobs = [Job(row, 0) for row in range(0, CLIENTS, 4)]
    training = replace(TRAINING, proximal=client.proximal, epochs=2)
    return list(TRAINER.train(initial_model(0), population(), jobs, training, seed=0))


CLIENT_CHECKS: tuple[Check[ClientAlgorithm], ...] = (
    is_a_value,
    holds_by_a_finite_pull,
    says_whether_partial_work_counts,
    trains,
)


def check_client_algorithm(client: ClientAlgorithm) -> None:
    """Check that a client algorithm keeps its contract.

    Raises:
        ContractBroken: it does not.

    >>> from auxo.algorithms.fedprox import FedProx
    >>> check_client_algorithm(FedProx())
    """
    run_checks(CLIENT_CHECKS, client)

"""The contract of personalisers."""

import numpy as np

from auxo.core.personaliser import Personaliser, Tuning
from auxo.core.types import Float32Array
from auxo.engines.personal_models import PersonalModels
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Check, Contract, expect, expect_frozen, run_checks
from auxo.testing.small_federation import CLIENTS, TRAINER, TRAINING, initial_model, population

CONTRACT = Contract[Personaliser]("a personaliser", "Personaliser in auxo.core.personaliser")


@CONTRACT.promise
def is_a_value(personaliser: Personaliser) -> None:
    """A personaliser is a frozen value, and says the same whenever it is asked."""
    expect_frozen(personaliser)
    expect_same(personaliser.tuning, personaliser.tuning, "the same answer twice")


@CONTRACT.promise
def says_how_clients_tune(personaliser: Personaliser) -> None:
    """How clients tune is a `Tuning`, or None."""
    tuning = personaliser.tuning
    expect(tuning is None or isinstance(tuning, Tuning), "a Tuning or None", repr(tuning))


@CONTRACT.promise
def makes_models_of_each_client_alone(personaliser: Personaliser) -> None:
    """A client's own model is finite, and the same bits whoever tunes beside it."""
    together, alone = _models(personaliser, CLIENTS), _models(personaliser, 1)
    for model in together:
        expect(bool(np.isfinite(model).all()), "finite weights", "others")
    for one, other in zip(alone, together, strict=False):
        expect_same(one, other, "the same model beside others and alone")


def _models(personaliser: Personaliser, clients: int) -> list[Float32Array]:
    """Return the models of the first so many clients."""
    start = initial_model(0)
    personal = PersonalModels.by(personaliser.tuning, TRAINER, population(), TRAINING, seed=0)
    return [start] * clients if personal is None else list(personal.tuned(start, np.arange(clients)))


PERSONALISER_CHECKS: tuple[Check[Personaliser], ...] = (
    is_a_value,
    says_how_clients_tune,
    makes_models_of_each_client_alone,
)


def check_personaliser(personaliser: Personaliser) -> None:
    """Check that a personaliser keeps its contract.

    Raises:
        ContractBroken: it does not.

    >>> from auxo.algorithms.ftfa import Ftfa
    >>> check_personaliser(Ftfa())
    """
    run_checks(PERSONALISER_CHECKS, personaliser)

"""What one hostile client of 200 can do to everybody's model: a whole simulated run under attack, and one without."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from auxo.core.asking import Answer
from auxo.engines.in_process import InProcess
from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, RunConfig, TrainingConfig
from auxo.experiments.method_runs import local_training
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.runner import MethodResult, Stage, run_method
from auxo.experiments.world import make_world
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import UpdateRejected
from auxo.testing.troubled_engine import MakesTrouble, Troubled, none
from auxo.training.trainer import Job

CULPRIT = 3  # row of the only hostile client
CONFIG = Config(
    seed=5,
    population=PopulationConfig(source="digits", clients=200, groups=2, heterogeneity="rotation"),
    training=TrainingConfig(rounds=40, participants=20, learning_rate=0.1),
    devices=DevicesConfig(kind="equal", availability="always", overcommit=0.0),
    run=RunConfig(evaluate_every=1000),
)
LEAST_HARM = 0.02  # accuracy; one client of 200 that is left out, or lies about its own model, costs less


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return make_population(CONFIG)


def run(method: str, data: FederatedData, trouble: MakesTrouble) -> MethodResult:
    trainer = trainer_for(CONFIG, data)
    hostile = Troubled(InProcess(trainer, replace(data, groups=None), local_training(CONFIG), CONFIG.seed), trouble)
    return run_method(method, CONFIG, data, stage=Stage(trainer, make_world(CONFIG, data, hostile)))


def culprit(lie: Callable[[Answer], Answer], only_first: bool = False) -> MakesTrouble:
    """Return a trouble that one client has: every time that it takes part, or at its first visit alone."""

    def troubled(job: Job, update: Answer) -> Answer:
        lies = job.client_row == CULPRIT and not (only_first and job.visit > 0)
        return lie(update) if lies else update

    return troubled


def reasons(result: MethodResult, data: FederatedData) -> set[str]:
    refused = [event for event in result.events if isinstance(event, UpdateRejected)]
    assert {event.client for event in refused} <= {data.client_names[CULPRIT]}
    return {event.reason for event in refused}


@pytest.mark.parametrize("method", ["base", "auxo"])
@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (culprit(lambda sent: replace(sent, update=-100 * sent.update)), "UNUSUAL_LENGTH"),
        (culprit(lambda sent: replace(sent, examples=10**9)), None),
        (culprit(lambda sent: replace(sent, update=0 * sent.update + 9.9e7), only_first=True), "UNUSUAL_LENGTH"),
    ],
    ids=["-100 times its update", "a thousand million examples", "one update of 9.9e7"],
)
def test_one_hostile_client_of_two_hundred_costs_next_to_nothing(
    data: FederatedData, method: str, trouble: MakesTrouble, reason: str | None
) -> None:
    honest, attacked = run(method, data, none), run(method, data, trouble)
    assert reasons(honest, data) == set()
    assert reasons(attacked, data) == ({reason} if reason else set())
    if reason is None:
        assert any("did not all count" in trouble.words for trouble in attacked.troubles)
    assert attacked.final.accuracy > honest.final.accuracy - LEAST_HARM

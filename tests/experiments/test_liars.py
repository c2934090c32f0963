"""Whole simulated runs in which clients lie about where they belong, lose their records, or train on wrong labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from auxo.core.affinity import Requests
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import ClientMod, Do
from auxo.core.rng import stream
from auxo.core.shares import member_shares
from auxo.core.types import BoolArray, IntArray
from auxo.engines.in_process import InProcess
from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, RunConfig, TrainingConfig
from auxo.experiments.method_runs import local_training
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.runner import MethodResult, Stage, run_method
from auxo.experiments.world import make_world
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import ClientBanned

CONFIG = Config(
    seed=100,
    population=PopulationConfig(source="digits", clients=600, groups=(6.0, 3.0, 1.0), heterogeneity="concept"),
    training=TrainingConfig(rounds=60, participants=90, learning_rate=0.1, aggregator="fedavg"),
    devices=DevicesConfig(kind="equal", availability="always", overcommit=0.0),
    run=RunConfig(evaluate_every=1000),
)
SIGNED = CONFIG.model_copy(
    update={"training": CONFIG.training.model_copy(update={"signed_claims": True, "guard": "watchful"})}
)


@dataclass(frozen=True)
class IntoTheSmallest:
    """Once there are cohorts, liars claim to be members of the smallest, and send the opposite of what they learn."""

    is_liar: BoolArray
    begun: list[bool] = field(default_factory=list)

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        tree = requests.tree
        if len(tree.leaves) == 1:
            return requests
        self.begun.append(True)
        lies = self.is_liar[clients]
        smallest = tree.index[tree.leaves[int(np.argmin(member_shares(tree, tree.leaves)))]]
        return replace(
            requests,
            cohort=np.where(lies, smallest, requests.cohort),
            reward=np.where(lies, 1.0, requests.reward),
            ranked_first=requests.ranked_first | lies,
            supported=requests.supported | lies,
            confirmed=np.where(lies, 6, requests.confirmed),
        )

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        for client, answer in zip(device.clients.tolist(), do(asks, device), strict=True):
            lies = bool(self.begun) and self.is_liar[client] and isinstance(answer, Answer)
            yield replace(answer, update=-answer.update) if lies and isinstance(answer, Answer) else answer


@dataclass(frozen=True)
class Forgetful:
    """A share of the clients has lost its record whenever it checks in."""

    share: float
    turn: list[int] = field(default_factory=list)

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        self.turn.append(1)
        lost = stream(0, "lost", len(self.turn)).random(len(clients)) < self.share
        silent = Requests.silent(requests.tree, np.zeros(len(clients), dtype=np.int64))
        mixed = {
            name: np.where(lost, getattr(silent, name), getattr(requests, name))
            for name in ("cohort", "cluster", "generation", "reward", "ranked_first", "supported", "confirmed")
        }
        return replace(requests, **mixed, participations=np.where(lost, 0, requests.participations))


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return make_population(CONFIG)


def run(config: Config, data: FederatedData, mods: tuple[ClientMod, ...] = ()) -> MethodResult:
    trainer = trainer_for(config, data)
    engine = InProcess(trainer, replace(data, groups=None), local_training(config), config.seed)
    return run_method("auxo", config, data, stage=Stage(trainer, replace(make_world(config, data, engine), mods=mods)))


@pytest.fixture(scope="module")
def without(data: FederatedData) -> MethodResult:
    """Return the same run without any trouble."""
    return run(SIGNED, data)


def liars(data: FederatedData, share: float) -> BoolArray:
    return stream(7, "liars").random(data.n_clients) < share


def accuracy(result: MethodResult, data: FederatedData, of: BoolArray) -> float:
    """Return the accuracy of the clients of the smallest group among these."""
    assert data.groups is not None
    scores = result.scores
    mine = of[scores.clients] & (data.groups[scores.clients] == 2)
    return float((scores.correct[mine] / scores.tests[mine]).mean())


def banned(result: MethodResult, data: FederatedData) -> IntArray:
    names = {event.client for event in result.events if isinstance(event, ClientBanned)}
    return np.array([data.client_names[row] in names for row in range(data.n_clients)])


@pytest.mark.fault(17)
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.15, 0.25])
def test_liars_that_all_go_into_the_smallest_cohort_take_next_to_nothing_from_it(
    data: FederatedData, without: MethodResult, share: float
) -> None:
    """Fault 17, and concentration: 15 % of the clients are most of a cohort that has a tenth of them."""
    lies = liars(data, share)
    attacked = run(SIGNED, data, (IntoTheSmallest(lies),))
    assert accuracy(attacked, data, ~lies) >= 0.95 * accuracy(without, data, ~lies)
    assert not banned(without, data).any()
    assert not banned(attacked, data)[~lies].any()


@pytest.mark.slow
def test_taken_at_their_word_the_same_liars_take_the_cohort(data: FederatedData) -> None:
    lies = liars(data, 0.25)
    assert accuracy(run(CONFIG, data, (IntoTheSmallest(lies),)), data, ~lies) < 0.8


@pytest.mark.fault(23)
@pytest.mark.slow
def test_a_fifth_of_the_records_lost_at_every_check_in_is_no_attack(data: FederatedData, without: MethodResult) -> None:
    """Fault 23: the run ends, accuracy stays within two points, and nobody is banned."""
    lossy = run(SIGNED, data, (Forgetful(0.2),))
    assert not banned(lossy, data).any()
    assert lossy.final.accuracy > without.final.accuracy - 0.02


@pytest.mark.fault(24)
@pytest.mark.slow
def test_flipped_labels_of_one_in_seven_cost_auxo_no_more_than_the_base(data: FederatedData) -> None:
    """Fault 24: what honest clients have under the same attack is no less than with one model for all."""
    lies = liars(data, 0.15)
    y = data.train.y.copy()
    for client in np.flatnonzero(lies).tolist():
        mine = data.train.of(client)
        y[mine] = 9 - y[mine]
    flipped = replace(data, train=replace(data.train, y=y))
    trainer = trainer_for(SIGNED, flipped)
    engine = InProcess(trainer, replace(flipped, groups=None), local_training(SIGNED), SIGNED.seed)
    stage = Stage(trainer, make_world(SIGNED, flipped, engine))
    honest = [
        float((one.scores.correct / one.scores.tests)[~lies[one.scores.clients]].mean())
        for one in (run_method(name, SIGNED, flipped, stage=stage) for name in ("auxo", "base"))
    ]
    assert honest[0] >= honest[1]

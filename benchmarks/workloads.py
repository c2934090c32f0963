"""The populations of the benchmarks, each with the budget that it is trained with.

Constants of Auxo are chosen on seeds of 100 and above; tables report seeds from 0 on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from made_populations import shifted_population, units_population
from real_populations import (
    few_writers_population,
    source_population,
    speakers_population,
    speech_population,
    writers_population,
)

from auxo.datasets.open_dataset import open_dataset
from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, RunConfig, TrainingConfig
from auxo.experiments.populations import make_population
from auxo.population.federated_data import FederatedData

# A strong base: softmax regression, the better of FedAvg and FedYogi at the best of the rates 0.05, 0.1 and 0.2.
TRAINING = TrainingConfig(aggregator="fedavg", learning_rate=0.1, batch_size=10, rounds=200, participants=200)
EVERYBODY = DevicesConfig(kind="equal", availability="always", overcommit=0.0)
DIGITS = PopulationConfig(source="digits", clients=2000, groups=4)
HALF_A_DAY_S = 43_200.0
EVALUATIONS = RunConfig(evaluate_every=10)


@dataclass(frozen=True)
class Workload:
    """A population with the budget it is trained with."""

    name: str
    seeds: int
    quick_seeds: int
    make: Callable[[int, Path | None], tuple[Config, FederatedData] | None]  # (seed, data folder); None: no data


def planted(
    population: PopulationConfig, training: TrainingConfig = TRAINING, devices: DevicesConfig = EVERYBODY
) -> Callable[[int, Path | None], tuple[Config, FederatedData]]:
    """Return a maker of a built-in population."""

    def make(seed: int, folder: Path | None) -> tuple[Config, FederatedData]:
        config = Config(seed=seed, population=population, devices=devices, training=training, run=EVALUATIONS)
        return config, make_population(config)

    return make


def real(
    build: Callable[[Path], FederatedData | None],
) -> Callable[[int, Path | None], tuple[Config, FederatedData] | None]:
    """Return a maker of a population from the real data; there is none where the data are not."""

    def make(seed: int, folder: Path | None) -> tuple[Config, FederatedData] | None:
        data = build(folder) if folder is not None else None
        return None if data is None else (given(data, seed), data)

    return make


def given(data: FederatedData, seed: int) -> Config:
    """Return the configuration for a population that somebody brought: a quarter of it takes part, 20 to 200."""
    participants = min(data.n_clients, max(20, min(200, data.n_clients // 4)))
    return Config(
        seed=seed,
        devices=EVERYBODY,
        training=TRAINING.model_copy(update={"participants": participants}),
        run=EVALUATIONS,
    )


def _digits(**changes: object) -> PopulationConfig:
    return DIGITS.model_copy(update=changes)


def made(
    build: Callable[[int, int], FederatedData],
) -> Callable[[int, Path | None], tuple[Config, FederatedData]]:
    """Return a maker of a population of 2,000 clients that is built for the benchmarks."""

    def make(seed: int, folder: Path | None) -> tuple[Config, FederatedData]:
        return Config(seed=seed, devices=EVERYBODY, training=TRAINING, run=EVALUATIONS), build(2000, seed)

    return make


def few_clients(number: int, **changes: object) -> PopulationConfig:
    """Return a federation of so many clients, such as hospitals, which all have more than a phone has."""
    return _digits(clients=number, samples=(40, 120), **changes)


def all_of(number: int) -> TrainingConfig:
    """Return that everybody takes part in every round."""
    return TRAINING.model_copy(update={"participants": number, "rounds": 100})


LONG = TRAINING.model_copy(update={"rounds": 300})
FEW = TRAINING.model_copy(update={"participants": 15})
NETWORK = TrainingConfig(
    model="mlp", aggregator="fedyogi", learning_rate=0.1, batch_size=10, rounds=100, participants=100
)
FEW_ON_LINE = DevicesConfig(
    availability="day-night", share_online=0.05, cooldown_s=HALF_A_DAY_S, patience_s=3600.0, overcommit=0.25
)
SIZES = (4, 8, 16, 30)
MANY_CLASSES = PopulationConfig(
    source="synthetic",
    clients=800,
    groups=4,
    heterogeneity="label",
    features=16,
    classes=600,
    samples=(40, 60),
    test_samples=20,
)
OF_MANY_CLASSES = TRAINING.model_copy(update={"rounds": 80, "participants": 60, "learning_rate": 0.5})
WORKLOADS = (
    Workload("concept", 5, 2, planted(_digits(heterogeneity="concept"))),
    Workload("label", 5, 2, planted(_digits(heterogeneity="label", noise=0.6))),
    Workload("homogeneous", 20, 3, planted(_digits(heterogeneity="none", noise=0.6), LONG)),
    Workload(
        "homogeneous-skew",
        10,
        2,
        planted(_digits(heterogeneity="none", noise=0.6, client_label_concentration=1.0), LONG),
    ),
    Workload(
        "rotation-skew", 3, 1, planted(_digits(heterogeneity="rotation", groups=3, client_label_concentration=1.0))
    ),
    # Groups that are worth three points only, among clients that each have their own classes.
    Workload(
        "affine-skew",
        3,
        0,
        planted(_digits(heterogeneity="affine", groups=3, degree=0.2, noise=0.6, client_label_concentration=1.0)),
    ),
    Workload("minority", 3, 1, planted(_digits(heterogeneity="concept", groups=(19.0, 1.0)))),
    Workload("nested", 3, 0, planted(_digits(heterogeneity="nested"))),
    Workload("two-swapped", 3, 0, planted(_digits(heterogeneity="swap", groups=2))),
    Workload("one-sample", 5, 0, planted(_digits(heterogeneity="none", noise=0.6, samples=(1, 5)))),
    Workload("few", 5, 0, planted(_digits(heterogeneity="concept"), FEW)),
    # Groups that see inputs in other units, or shifted, among clients that each have their own classes.
    Workload("units", 3, 1, made(units_population)),
    Workload("shifted", 3, 0, made(shifted_population)),
    Workload(
        "network",
        3,
        0,
        planted(
            _digits(heterogeneity="rotation", groups=3, clients=1000, noise=0.6, client_label_concentration=1.0),
            NETWORK,
        ),
    ),
    Workload("network-homogeneous", 5, 0, planted(_digits(heterogeneity="none", clients=1000, noise=0.6), NETWORK)),
    *(
        Workload(f"small-{size}", 3, 0, planted(few_clients(size, heterogeneity="concept", groups=2), all_of(size)))
        for size in SIZES
    ),
    *(
        Workload(f"small-none-{size}", 20, 0, planted(few_clients(size, heterogeneity="none", noise=0.6), all_of(size)))
        for size in SIZES
    ),
    # Clients that each have their own classes: a dozen in three groups, and two dozen without groups.
    Workload(
        "small-skew-12",
        5,
        0,
        planted(few_clients(12, heterogeneity="rotation", groups=3, client_label_concentration=1.0), all_of(12)),
    ),
    Workload(
        "small-none-skew-24",
        20,
        0,
        planted(few_clients(24, heterogeneity="none", noise=0.6, client_label_concentration=1.0), all_of(24)),
    ),
    Workload("classes-600", 2, 0, planted(MANY_CLASSES, OF_MANY_CLASSES)),
    Workload("extra-3-unequal", 3, 1, planted(_digits(heterogeneity="concept", groups=(5.0, 3.0, 2.0)))),
    Workload("extra-6-unequal", 3, 0, planted(_digits(heterogeneity="concept", groups=(6.0, 5.0, 4.0, 3.0, 2.0, 1.0)))),
    Workload("extra-rotation", 3, 0, planted(_digits(heterogeneity="rotation"))),
    Workload(
        "extra-low-availability",
        3,
        0,
        planted(
            _digits(heterogeneity="rotation", clients=20_000),
            TRAINING.model_copy(update={"rounds": 100}),
            FEW_ON_LINE,
        ),
    ),
    Workload("extra-writers", 3, 1, real(writers_population)),
    Workload("extra-speech", 3, 0, real(speech_population)),
    Workload("extra-speakers", 3, 0, real(speakers_population)),
    Workload("extra-writers-100", 3, 0, real(few_writers_population)),
    Workload("extra-digits-60", 3, 0, real(partial(source_population, source=0))),
    Workload("extra-words-34", 3, 0, real(partial(source_population, source=1))),
    Workload(
        "extra-100000",
        1,
        0,
        planted(
            _digits(heterogeneity="rotation", clients=100_000),
            TRAINING.model_copy(update={"rounds": 100}),
            FEW_ON_LINE,
        ),
    ),
)


def from_file(path: Path, seeds: int) -> Workload:
    """Return the workload of a population file."""
    data = open_dataset(path).standardised()
    return Workload(str(path.with_suffix("")), seeds, seeds, lambda seed, folder: (given(data, seed), data))

"""From a configuration to the clients' data, and to the model that suits them."""

from functools import partial
from typing import assert_never

from auxo.datasets.open_dataset import NPZ, open_dataset
from auxo.datasets.tables import TableColumns
from auxo.experiments import config as settings
from auxo.experiments.config import Config, PopulationConfig
from auxo.experiments.config_file import ConfigError
from auxo.files.errors import FileError
from auxo.models.catalogue import make_trainer
from auxo.population.digits import digits_population
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import (
    AffineShift,
    Heterogeneity,
    LabelPermutation,
    LabelSkew,
    LabelSwap,
    NestedConcepts,
    NoGroups,
    Rotation,
)
from auxo.population.planting import inputs_are_images, plant_groups
from auxo.population.synthetic import synthetic_population
from auxo.training.trainer import Trainer


def described_populations() -> dict[str, str]:
    """Return what each population is that a configuration can name, drawn ones first."""
    return {
        "digits": 'Handwritten digits, with groups planted (population.source = "digits").',
        "synthetic": 'Gaussian classes, of any size, with groups planted (population.source = "synthetic").',
        "file": 'Clients of your own (population.source = "file", --population FILE).',
    }


def make_population(config: Config) -> FederatedData:
    """Return the population that the configuration describes, drawn or read from its file."""
    try:
        data = _drawn_or_read(config.population, config.seed)
    except FileError as error:
        raise ConfigError(str(error)) from error
    except ValueError as error:  # names the setting, as the generators call it
        raise ConfigError(f"population.{error}") from error
    check_participants(config, data)
    return data


def check_participants(config: Config, data: FederatedData) -> None:
    """Refuse, with a ConfigError, a population without clients enough for a round."""
    if config.training.participants > data.n_clients:
        raise ConfigError(
            f"training.participants: expected at most the {data.n_clients} clients of {data.name}, "
            f"got {config.training.participants}; lower it (--set training.participants={data.n_clients})"
        )


def trainer_for(config: Config, data: FederatedData) -> Trainer:
    """Return the configured model, sized for the data."""
    training = config.training
    if config.run.perplexity and (data.task != "classification" or training.loss is not None):
        raise ConfigError("run.perplexity: expected the cross entropy of classes, got another loss; set it to false")
    try:
        return make_trainer(
            training.model, data, training.batching, training.model_args, training.loss, training.metric
        )
    except (ValueError, ImportError) as error:
        raise ConfigError(f'training.model: "{training.model}" cannot be used: {error}') from error


def _standardised(data: FederatedData) -> FederatedData:
    try:
        return data.standardised()
    except ValueError as error:
        raise ConfigError(f"population: {data.name}: {error}") from error


def _drawn_or_read(population: PopulationConfig, seed: int) -> FederatedData:
    match population.source:
        case "file":
            data = _read(population)
            # Images are changed as they are; other numbers turn around what a model sees as 0.
            if population.plant != "none" and not inputs_are_images(data) and population.standardise:
                data = _standardised(data)
            data = _planted(data, population, seed)
            return _standardised(data) if population.standardise else data
        case "given":
            raise ValueError(
                'source: expected clients that can be found again, got "given": they were given to auxo.simulate from '
                "Python; give them again there, or write them to a file and set population.file"
            )
        case "digits" | "synthetic":
            draw = (
                partial(digits_population, noise=population.noise)
                if population.source == "digits"
                else partial(synthetic_population, features=population.features, classes=population.classes)
            )
            return draw(
                clients=population.clients,
                groups=population.groups,
                heterogeneity=_heterogeneity(population.heterogeneity, population.degree),
                samples=population.samples,
                test_samples=population.test_samples,
                client_label_concentration=population.client_label_concentration,
                seed=seed,
            )
        case _:
            assert_never(population.source)


def _read(population: PopulationConfig) -> FederatedData:
    assert population.file is not None  # noqa: S101 - the configuration has checked it
    # Flat images in an array are changed before they are standardised, see above.
    is_array = population.file.suffix.lower() == NPZ and population.plant != "none"
    columns = TableColumns(standardise=population.standardise and not is_array, missing=population.missing)
    return open_dataset(population.file, columns)


def _planted(data: FederatedData, population: PopulationConfig, seed: int) -> FederatedData:
    if population.plant == "none":
        return data
    if data.task != "classification" and population.plant not in ("rotation", "affine"):
        raise ValueError(
            f'plant: "{population.plant}" changes classes, but the data ask for {data.task}; choose "rotation"'
        )
    return plant_groups(data, _heterogeneity(population.plant, population.degree), population.groups, seed)


def _heterogeneity(name: settings.HeterogeneityName, degree: float) -> Heterogeneity:
    kinds: dict[settings.HeterogeneityName, Heterogeneity] = {
        "rotation": Rotation(),
        "affine": AffineShift(degree),
        "concept": LabelPermutation(),
        "swap": LabelSwap(),
        "nested": NestedConcepts(),
        "label": LabelSkew(),
        "none": NoGroups(),
    }
    return kinds[name]

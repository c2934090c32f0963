"""From a configuration to the clients' data, and to the model that suits them."""

from typing import assert_never

from auxo.experiments import config as settings
from auxo.experiments.config import Config, PopulationConfig
from auxo.experiments.config_file import ConfigError
from auxo.learning.digits import digits_population
from auxo.learning.federated_data import FederatedData
from auxo.learning.heterogeneity import AffineShift, Heterogeneity, LabelPermutation, LabelSkew, NoGroups, Rotation
from auxo.learning.models import make_trainer
from auxo.learning.population_file import PopulationFileError, load_population
from auxo.learning.synthetic import synthetic_population
from auxo.learning.trainer import Trainer


def make_population(config: Config) -> FederatedData:
    """Return the population that the configuration describes, drawn or read from its file.

    Raises:
        ConfigError: the file cannot be used, or the settings do not fit each other or the file.
    """
    try:
        data = _drawn_or_read(config.population, config.seed)
    except PopulationFileError as error:
        raise ConfigError(str(error)) from error
    except ValueError as error:  # names the setting, as the generators call it
        raise ConfigError(f"population.{error}") from error
    if config.training.participants > data.n_clients:
        raise ConfigError(
            f"training.participants: expected at most the {data.n_clients} clients of {data.name}, "
            f"got {config.training.participants}; lower it (--set training.participants={data.n_clients})"
        )
    return data


def trainer_for(config: Config, data: FederatedData) -> Trainer:
    """Return the configured model, sized for the data.

    Raises:
        ConfigError: the model cannot take these inputs, or needs a library that is not installed.
    """
    try:
        return make_trainer(config.training.model, data, config.training.batching)
    except (ValueError, ImportError) as error:
        raise ConfigError(f'training.model: "{config.training.model}" cannot be used: {error}') from error


def _drawn_or_read(population: PopulationConfig, seed: int) -> FederatedData:
    match population.source:
        case "file":
            assert population.file is not None  # noqa: S101 - the configuration has checked it
            data = load_population(population.file)
            return data.standardised() if population.standardise else data
        case "digits":
            return digits_population(
                clients=population.clients,
                groups=population.groups,
                heterogeneity=_heterogeneity(population.heterogeneity, population.degree),
                samples=population.samples,
                test_samples=population.test_samples,
                client_label_concentration=population.client_label_concentration,
                noise=population.noise,
                seed=seed,
            )
        case "synthetic":
            return synthetic_population(
                clients=population.clients,
                groups=population.groups,
                heterogeneity=_heterogeneity(population.heterogeneity, population.degree),
                features=population.features,
                classes=population.classes,
                samples=population.samples,
                test_samples=population.test_samples,
                client_label_concentration=population.client_label_concentration,
                seed=seed,
            )
        case _:
            assert_never(population.source)


def _heterogeneity(name: settings.Heterogeneity, degree: float) -> Heterogeneity:
    match name:
        case "rotation":
            return Rotation()
        case "affine":
            return AffineShift(degree)
        case "concept":
            return LabelPermutation()
        case "label":
            return LabelSkew()
        case "none":
            return NoGroups()
        case _:
            assert_never(name)

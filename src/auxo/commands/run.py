"""The command `auxo run`."""

from auxo.commands.command_group import examples
from auxo.commands.options import (
    Cohorts,
    ConfigFile,
    EngineName,
    JsonFile,
    KeepModels,
    OutDirectory,
    Overrides,
    PopulationFile,
    RayAddress,
    all_overrides,
    cohort_overrides,
)
from auxo.commands.running import execute
from auxo.experiments.config_file import load_config

EXAMPLES = examples(
    "auxo run study.toml",
    "auxo run study.toml --set training.rounds=50 --set seed=3",
    "auxo run --population clients.npz --set training.participants=20",
    "auxo run study.toml --out runs/study --json study.json",
    "auxo run other-task.toml --cohorts runs/study  # start from the cohorts that were found there",
    "auxo run study.toml --engine ray --ray-address auto  # on all CPUs of the cluster this machine belongs to",
)


def run(  # noqa: PLR0913, PLR0917 - one for each option
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    population: PopulationFile = None,
    engine: EngineName = None,
    ray_address: RayAddress = None,
    cohorts: Cohorts = None,
    keep_models: KeepModels = False,
    out: OutDirectory = None,
    json_file: JsonFile = None,
) -> None:
    """Run an experiment and write its report.

    CONFIG.toml has the settings that differ from the defaults; without it, all are at their defaults.
    Ctrl-C stops the run; what was done so far is kept, and reported, and `auxo resume` goes on with it.
    """
    settings = all_overrides(overrides, population, engine, ray_address) + cohort_overrides(cohorts, keep_models)
    execute(load_config(config_file, settings), out, json_file)

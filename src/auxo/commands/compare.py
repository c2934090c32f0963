"""The command `auxo compare`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from auxo.commands.command_group import examples
from auxo.commands.options import (
    ConfigFile,
    DataFolder,
    EngineName,
    JsonFile,
    Overrides,
    PopulationFile,
    RayAddress,
    all_overrides,
)
from auxo.commands.running import check_json, end_if_failed, no_empty_folders, run_into, tell_unused
from auxo.experiments.config import Config
from auxo.experiments.config_file import load_config
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.seeds import run_seeds
from auxo.experiments.summary import Summary
from auxo.files.atomic_write import write_whole
from auxo.reporting.comparison_report import write_comparison_report
from auxo.reporting.comparison_tables import comparison_over_seeds
from auxo.reporting.message_console import MessageConsole
from auxo.reporting.report import write_report

EXAMPLES = examples(
    "auxo compare study.toml",
    "auxo compare study.toml --seeds 5 --out runs/study",
    "auxo compare writers --data DIR  # a reference that comes with Auxo, on data that do not",
)


def compare(  # noqa: PLR0913, PLR0917 - one for each option
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    population: PopulationFile = None,
    data: DataFolder = None,
    engine: EngineName = None,
    ray_address: RayAddress = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from that of the configuration on.")] = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the runs, one directory a seed; seeds that are done there are kept. "
            "Default: runs/NAME-seeds.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run an experiment with several seeds and compare its methods with the base by seed.

    CONFIG.toml is as for `auxo run`, or the name of a reference. Differences come with 95 % confidence intervals over
    seeds. Ctrl-C keeps what is done; the same command goes on where it stopped, inside a seed too.
    """
    config = load_config(config_file, all_overrides(overrides, population, engine, ray_address, data))
    check_json(json_file)
    folder = out or Path("runs") / f"{config.name}-seeds"
    messages = MessageConsole()
    tell_unused(config, messages)

    def run_seed(of_seed: Config, directory: RunDirectory) -> Summary:
        messages.print(f"seed {of_seed.seed}", highlight=False)
        summary = run_into(directory, of_seed, messages, is_resumed=bool(directory.methods()))
        write_report(directory)
        end_if_failed(summary)  # nothing can be compared with it
        return summary

    with no_empty_folders(folder):
        comparison = run_seeds(config, seeds, folder, run_seed)
    page = write_comparison_report(folder, comparison)  # first: what follows can fail, by a closed pipe
    Console().print("", comparison_over_seeds(comparison), sep="\n")
    if json_file is not None:
        write_whole(json_file, (folder / "comparison.json").read_bytes())
    typer.echo(f"report: {page}; figures: {folder / 'figures'}; numbers: {folder / 'comparison.json'}")

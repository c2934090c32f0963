"""The command `auxo compare`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from auxo.commands.child_runs import ChildRuns
from auxo.commands.command_group import examples
from auxo.commands.options import (
    ConfigFile,
    EngineName,
    JsonFile,
    Overrides,
    PopulationFile,
    RayAddress,
    all_overrides,
)
from auxo.commands.running import check_json, end_if_failed, no_empty_folders, run_into, tell_unused
from auxo.commands.stopping import exit_code, words_for_stop
from auxo.experiments.config import Config
from auxo.experiments.config_file import load_config
from auxo.experiments.grid import make_cells, parse_axis
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.seeds import RunSeed, missing_runs, run_grid, run_seeds
from auxo.experiments.summary import Summary
from auxo.files.atomic_write import write_whole
from auxo.reporting.comparison_report import write_comparison_report
from auxo.reporting.comparison_tables import comparison_over_seeds
from auxo.reporting.facts import gather_facts
from auxo.reporting.grid_report import grid_table, write_grid_report
from auxo.reporting.message_console import MessageConsole
from auxo.reporting.report import write_report

EXAMPLES = examples(
    "auxo compare study.toml",
    "auxo compare study.toml --seeds 5 --jobs 4 --out runs/study",
    "auxo compare study.toml --methods base,auxo,ifca  # add a method later: what is done is kept",
    "auxo compare study.toml --grid training.aggregator=fedavg,fedyogi --grid training.personaliser=none,ftfa --jobs 2",
    "auxo compare writers --population writers.arrow  # a reference that comes with Auxo, on data that do not",
)

_TO_GO_ON = "to go on, give the same command again"
_WIDTH = 140  # of a grid's table in a file or a pipe; our choice


def compare(  # noqa: PLR0913, PLR0917 - one for each option
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    population: PopulationFile = None,
    engine: EngineName = None,
    ray_address: RayAddress = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Methods to compare, instead of those of the configuration.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECTION.KEY=A,B,...",
            help="Compare the methods for each of these values of a setting; given again, for every combination.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from that of the configuration on.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time, each in a process of its own.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the runs, one directory a seed (of each combination); what is done there is kept. "
            "Default: runs/NAME-seeds, or runs/NAME-grid.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run an experiment with several seeds, or a grid of them, and compare its methods with the base.

    CONFIG.toml is as for `auxo run`, or the name of a reference. Differences are paired by seed and come with 95 %
    confidence intervals. A method that cannot run in a configuration is shown with its reason. Ctrl-C keeps what is
    done; the same command goes on where it stopped, inside a run too, and with more seeds, methods or values it runs
    what is missing. Results are the same bits whatever --jobs is.
    """
    given = all_overrides(overrides, population, engine, ray_address)
    if methods is not None:
        given.append(f"methods={json.dumps([name.strip() for name in methods.split(',')])}")
    axes = tuple(parse_axis(one) for one in grid or ())
    cells = make_cells(axes, lambda more: load_config(config_file, [*given, *more]))
    check_json(json_file)
    first = cells[0].config
    folder = out or Path("runs") / f"{first.name}-{'grid' if axes else 'seeds'}"
    messages = MessageConsole()
    table: RenderableType
    tell_unused([cell.config for cell in cells], messages)
    missing = missing_runs(cells, seeds, folder)
    runner = _runner(messages, missing, folder, jobs, is_grid=bool(axes))
    with no_empty_folders(folder), _says_how_to_go_on(folder), runner as run:
        if axes:
            grids = run_grid(axes, cells, seeds, folder, run, jobs)
            page, table = write_grid_report(folder, grids), grid_table(grids)
        else:
            comparison = run_seeds(first, seeds, folder, run, jobs)
            page, table = write_comparison_report(folder, comparison), comparison_over_seeds(comparison)
    shown = Console()
    if axes and not shown.is_terminal:
        shown.width = max(shown.width, _WIDTH)
    shown.print("", table, sep="\n")
    if json_file is not None:
        write_whole(json_file, (folder / "comparison.json").read_bytes())
    typer.echo(f"report: {page}; figures: {folder / 'figures'}; numbers: {folder / 'comparison.json'}")


@contextmanager
def _says_how_to_go_on(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        left = f"what is done is in {folder}; {_TO_GO_ON}" if folder.exists() else "nothing had been done yet"
        typer.echo(f"auxo: {words_for_stop(stop)}; {left}", err=True)
        raise typer.Exit(exit_code(stop)) from None


@contextmanager
def _runner(messages: Console, total: int, folder: Path, jobs: int, *, is_grid: bool) -> Iterator[RunSeed]:
    """Yield what runs an experiment: in this process, or in processes of their own."""

    def ended(summary: Summary) -> Summary:
        if not is_grid:
            end_if_failed(summary)  # nothing can be compared with it; a grid has other cells
        return summary

    def run_here(config: Config, directory: RunDirectory) -> Summary:
        name = f"{directory.path.parent.name}, " if is_grid else ""
        messages.print(f"{name}seed {config.seed}", highlight=False, markup=False)
        summary = run_into(directory, config, messages, bool(directory.methods()), _TO_GO_ON)
        write_report(directory, gather_facts(directory))
        return ended(summary)

    if jobs == 1:
        yield run_here
        return
    with ChildRuns(messages, total, folder) as children:
        yield lambda config, directory: ended(children(config, directory))

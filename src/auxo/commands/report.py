"""The command `auxo report`."""

from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.experiments.run_directory import RunDirectory, is_federation
from auxo.reporting.facts import gather_facts
from auxo.reporting.federation_report import write_federation_report
from auxo.reporting.report import write_report

EXAMPLES = examples("auxo report runs/demo-0")


def report(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN")],
) -> None:
    """Write the report of a run again and print where it is.

    RUN is the directory that the run was written to; the run may be unfinished. The directory of a federation on
    Flower does as well.
    """
    if is_federation(run_directory):
        typer.echo(str(write_federation_report(run_directory)))
        return
    run = RunDirectory.open(run_directory)
    typer.echo(str(write_report(run, gather_facts(run))))

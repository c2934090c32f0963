"""The command `auxo`: the list of its commands, which are in `auxo.commands`."""

import typer

from auxo.commands import compare, demo, list_parts, place, predict, report, run
from auxo.commands.command_group import CommandGroup, examples
from auxo.commands.config import config_app
from auxo.commands.data import data_app
from auxo.commands.traces import traces_app
from auxo.commands.version import auxo
from auxo.engines.memory import keep_freed_memory

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "auxo demo  # see what cohorts bring, on a built-in population",
        "auxo config init study.toml  # write a commented configuration to change",
        "auxo run study.toml  # run it and write a report",
        "auxo compare study.toml --seeds 3  # run it with three seeds, with confidence intervals",
        "auxo predict runs/study new-clients.csv  # use the models of a run's cohorts",
        "auxo data convert table mine.parquet mine.arrow  # your own clients' data",
    ),
)
app.callback()(auxo)
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.command(epilog=run.EXAMPLES)(run.run)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=report.EXAMPLES)(report.report)
app.command(epilog=place.EXAMPLES)(place.place)
app.command(epilog=predict.EXAMPLES)(predict.predict)
app.command("list", epilog=list_parts.EXAMPLES)(list_parts.list_parts)
app.add_typer(config_app, name="config")
app.add_typer(data_app, name="data")
app.add_typer(traces_app, name="traces")


def main() -> None:
    """Run the command line and exit."""
    keep_freed_memory()
    app(prog_name="auxo")

"""The command `auxo resume`."""

from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.commands.options import EngineName, JsonFile, RayAddress
from auxo.commands.running import check_json, run_into, tell_outcome
from auxo.experiments.config import Config, RunConfig
from auxo.experiments.config_file import parse_config
from auxo.experiments.run_directory import RunDirectory
from auxo.reporting.message_console import MessageConsole

EXAMPLES = examples(
    "auxo resume runs/study-0",
    "auxo resume runs/study-0 --workers 8  # the same bits, sooner",
)


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run that was interrupted.")],
    engine: EngineName = None,
    ray_address: RayAddress = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that train participants, instead of those it began with.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Go on with a run that was interrupted, and end with the same bits as if it had not been.

    It goes on from its last checkpoint, of which run.checkpoint_every says how often there is one. A run that has
    finished stays as it is. `auxo compare` needs no resuming: the same command goes on where it stopped.
    """
    check_json(json_file)
    directory = RunDirectory.open(run)
    config = _elsewhere(parse_config(directory.config_text(), source=str(run)), engine, ray_address, workers)
    summary = directory.read_summary()
    if summary is not None and summary.status == "finished":
        directory.tidy()
        typer.echo(f"{run}: the run has finished, and there is nothing to resume")
    else:
        summary = run_into(directory, config, MessageConsole(), is_resumed=True)
    tell_outcome(summary, directory, config, json_file)


def _elsewhere(config: Config, engine: str | None, ray_address: str | None, workers: int | None) -> Config:
    """Return the same experiment, carried out where the options say."""
    place = config.run.model_dump() | ({"ray_address": None} if engine == "local" else {})
    said = {"engine": engine, "ray_address": ray_address, "workers": workers}
    given = {key: value for key, value in said.items() if value is not None}
    return config.model_copy(update={"run": RunConfig.model_validate(place | given)})

"""The commands `auxo config show` and `auxo config init`."""

from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.commands.options import ConfigFile, Overrides, PopulationFile, all_overrides
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, load_config, to_toml

config_app = typer.Typer(
    no_args_is_help=True,
    epilog=examples(
        "auxo config show --explain  # every setting, its meaning and its default",
        "auxo config init study.toml  # the same in a file, to change and to run",
    ),
)


@config_app.callback()
def config() -> None:
    """See and write configurations."""


@config_app.command(
    epilog=examples(
        "auxo config show",
        "auxo config show study.toml --set auxo.trial.min_gain=0.04",
        "auxo config show --explain",
    )
)
def show(
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    population: PopulationFile = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each setting means and takes.")] = False,
) -> None:
    """Print the complete configuration as TOML, as `auxo run` would use it."""
    typer.echo(to_toml(load_config(config_file, all_overrides(overrides, population)), explain), nl=False)


@config_app.command(epilog=examples("auxo config init", "auxo config init study.toml"))
def init(
    path: Annotated[Path, typer.Argument(metavar="[PATH]")] = Path("auxo.toml"),
) -> None:
    """Write a commented configuration with every setting at its default.

    PATH is the file to write; one that exists is left as it is.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(to_toml(Config(), explain=True))
    except FileExistsError:
        raise ConfigError(f"{path}: already exists and is left as it is; choose another path") from None
    typer.echo(f"wrote {path}; run it with: auxo run {path}")

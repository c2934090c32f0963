"""What all commands share: how errors end, exit codes, and how examples are written below a help page.

Exit codes: 0 when all went well, 1 when a run came to its end and failed, 2 for bad input (one message, no traceback),
130 after Ctrl-C.
"""

from collections.abc import Sequence

import click
import typer
from typer.core import TyperGroup

from auxo.experiments.config_file import ConfigError
from auxo.files.errors import FileError
from auxo.population.population_file import PopulationFileError
from auxo.runtime.failures import WorkersLost

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for a process that SIGINT ended

_MENDABLE = (ConfigError, FileError, PopulationFileError, OSError, MemoryError, WorkersLost)


class CommandGroup(TyperGroup):
    """Turns errors that the user can mend into one message and exit code 2, for all commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was asked for, its name and the rest of the words."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            _refuse_repeated(command, rest)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> object:
        """Invoke the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # `auxo config show | head` is no error; click ends quietly
        except _MENDABLE as error:
            typer.echo(f"auxo: {_message(error)}", err=True)
            raise typer.Exit(BAD_INPUT) from None


def _refuse_repeated(command: click.Command, args: Sequence[str]) -> None:
    """Refuse an option that is given again although it has one value: the first would be dropped without a word."""
    given = list(args[: list(args).index("--")] if "--" in args else args)
    for option in command.params:
        if not isinstance(option, click.Option) or option.multiple or option.is_flag:
            continue
        values = [word for word in given if word.partition("=")[0] in option.opts]
        if len(values) > 1:
            raise click.UsageError(f"{option.opts[0]} is given {len(values)} times; it takes one value, give it once")


def examples(*commands: str) -> str:
    """Return the end of a help page that shows how a command is used."""
    return "\n\n".join(("Examples:", *commands))  # the help page joins lines, but not paragraphs


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)

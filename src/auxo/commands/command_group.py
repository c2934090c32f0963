"""What all commands share: how errors end, exit codes, and how examples are written below a help page.

Exit codes: 0 when all went well, 2 for bad input (one message, no traceback), 130 after Ctrl-C.
"""

import click
import typer
from typer.core import TyperGroup

from auxo.experiments.config_file import ConfigError
from auxo.files.errors import FileError
from auxo.population.population_file import PopulationFileError
from auxo.runtime.failures import WorkersLost

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for a process that SIGINT ended

_MENDABLE = (ConfigError, FileError, PopulationFileError, OSError, MemoryError, WorkersLost)


class CommandGroup(TyperGroup):
    """Turns errors that the user can mend into one message and exit code 2, for all commands."""

    def invoke(self, ctx: click.Context) -> object:
        """Invoke the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # `auxo config show | head` is no error; click ends quietly
        except _MENDABLE as error:
            typer.echo(f"auxo: {_message(error)}", err=True)
            raise typer.Exit(BAD_INPUT) from None


def examples(*commands: str) -> str:
    """Return the end of a help page that shows how a command is used."""
    return "\n\n".join(("Examples:", *commands))  # the help page joins lines, but not paragraphs


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)

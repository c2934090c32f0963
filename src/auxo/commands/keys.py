"""The command `auxo keys`: what a server signs clients' claims with."""

from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.files.errors import FileError
from auxo.files.key_file import rotate_keys

keys_app = typer.Typer(no_args_is_help=True, epilog=examples("auxo keys rotate federation"))


@keys_app.callback()
def keys() -> None:
    """See to the keys that a server signs with."""


@keys_app.command(epilog=examples("auxo keys rotate federation"))
def rotate(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Directory of a server or a federation.")
    ],
) -> None:
    """Add a key that signs from now on; tokens of older keys hold until they expire.

    A server that runs takes it up between rounds.
    """
    try:
        rotate_keys(directory)
    except FileError as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo("a new key signs from the server's next round on; tokens of older keys hold until they expire")

"""The command `auxo clients`: who may take part in a service."""

from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.files.errors import FileError
from auxo.service.client_tokens import client_tokens

clients_app = typer.Typer(no_args_is_help=True, epilog=examples("auxo clients invite service phone-7"))


@clients_app.callback()
def clients() -> None:
    """See to the clients of a service: who may take part."""


@clients_app.command(epilog=examples("auxo clients invite service phone-7 phone-8  # a token for each"))
def invite(
    directory: Annotated[Path, typer.Argument(metavar="DIR", file_okay=False, help="Directory of a service.")],
    names: Annotated[list[str], typer.Argument(metavar="CLIENT...", help="What the clients are to be called.")],
) -> None:
    """Print a token for each client: with it, it takes part under its name.

    The same client has the same token every time. Delete clients.key in the directory, and all tokens are void.
    """
    try:
        tokens = client_tokens(directory)
        issued = [(name, tokens.issue(name)) for name in names]
    except (FileError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    for name, token in issued:
        typer.echo(f"{name} {token}")

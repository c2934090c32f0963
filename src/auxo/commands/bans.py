"""The commands `auxo bans`: who is banned from a federation, and to end a ban."""

from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.files.errors import FileError
from auxo.runtime.ban_files import NamedBan, lift_ban, read_bans

bans_app = typer.Typer(
    no_args_is_help=True,
    epilog=examples(
        "auxo bans list federation  # who is banned, why, and until which round",
        "auxo bans lift federation 4711  # let a client in again",
    ),
)

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Directory of a server or a federation.")
]


@bans_app.callback()
def bans() -> None:
    """See who is banned from a federation, and end bans."""


@bans_app.command("list", epilog=examples("auxo bans list federation"))
def list_bans(directory: Directory) -> None:
    """List the bans that hold: client, until which round, reason and evidence."""
    found = _read(directory)
    if not found:
        typer.echo("nobody is banned")
    for one in found:
        typer.echo(f"{one.name}: until round {one.ban.until}, {one.ban.reason}: {one.ban.evidence}")


@bans_app.command(epilog=examples("auxo bans lift federation 4711"))
def lift(
    directory: Directory,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Its name or number, as listed.")],
) -> None:
    """End a client's ban: between a running server's next rounds, or when it goes on."""
    try:
        lifted = lift_ban(directory, client)
    except FileError as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"{lifted.name}: the ban of round {lifted.ban.since} is lifted; its older tokens prove nothing any more")


def _read(directory: Path) -> tuple[NamedBan, ...]:
    try:
        return read_bans(directory)
    except FileError as error:
        raise typer.BadParameter(str(error)) from error

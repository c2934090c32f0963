"""The option `auxo --version`."""

from typing import Annotated

import typer


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - takes a while to import

        try:
            typer.echo(f"auxo {version('auxo')}")
        except PackageNotFoundError:
            typer.echo("auxo (not installed: run from source)")
        raise typer.Exit


def auxo(
    is_version_asked: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Federated learning that finds cohorts of alike clients while it trains."""

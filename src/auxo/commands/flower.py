"""The commands `auxo flower`: run a Flower app without its runtime, for fast development."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.files.errors import FileError

flower_app = typer.Typer(
    no_args_is_help=True,
    epilog=examples(
        "auxo flower run my-app --nodes 100  # all nodes in this process: breakpoints work",
        "auxo flower run my-app --nodes 100 --workers 2  # in two processes of one core each",
        "auxo flower run my-app --nodes 100 --run-config num-server-rounds=3  # other settings of the app",
    ),
)


@flower_app.callback()
def flower() -> None:
    """Flower apps: run one in this process and its workers, without Ray and without a SuperLink."""


@flower_app.command("run")
def run(
    app: Annotated[Path, typer.Argument(metavar="APP", help="Folder of the app, with its pyproject.toml.")],
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes are simulated.")] = 10,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes of one core each that nodes run in; 1: all in this process.")
    ] = 1,
    run_config: Annotated[
        list[str] | None,
        typer.Option(
            "--run-config", metavar="KEY=VALUE", help="Replace a setting of the app; may be given many times."
        ),
    ] = None,
) -> None:
    """Run a Flower app to its end, as `flwr run` would in simulation.

    Nodes keep their state between messages, and are told their partition-id and num-partitions. Two nodes in different
    workers run at the same time; one node never has two messages at once.
    """
    try:
        from auxo.flower.engine import load_app, run_app  # noqa: PLC0415 - Flower is an extra
    except ImportError as error:
        raise FileError(f'Flower is not installed ({error}); pip install "auxo[flower]"') from error
    run_app(load_app(app), nodes=nodes, workers=workers, run_config=dict(_setting(words) for words in run_config or ()))


def _setting(words: str) -> tuple[str, bool | int | float | str]:
    """Return a setting as Flower's command line reads it: TOML, where text is quoted; a plain word is text, too."""
    key, equals, value = words.partition("=")
    if not (key.strip() and equals):
        raise FileError(f"--run-config: expected KEY=VALUE, got {words!r}")
    try:
        read = tomllib.loads(f"it = {value}")["it"]
    except tomllib.TOMLDecodeError:
        read = value
    return key.strip(), read if isinstance(read, bool | int | float | str) else value

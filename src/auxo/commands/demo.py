"""The command `auxo demo`."""

from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.commands.options import JsonFile, OutDirectory
from auxo.commands.running import execute

EXAMPLES = examples("auxo demo", "auxo demo --seed 1 --json demo.json", "auxo demo --out runs/first-try")


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
    out: OutDirectory = None,
    json_file: JsonFile = None,
) -> None:
    """Compare one model for all clients, Auxo and known groups on a built-in population."""
    from auxo.experiments.demo import demo_config  # noqa: PLC0415  # with the runner, below

    execute(demo_config(seed), out, json_file)

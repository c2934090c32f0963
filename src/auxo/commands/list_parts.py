"""The command `auxo list`."""

import json
from collections.abc import Mapping
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from auxo.commands.command_group import examples
from auxo.experiments.parts import KINDS
from auxo.models.catalogue import described_models

EXAMPLES = examples(
    "auxo list  # everything that a configuration can name",
    "auxo list methods",
    "auxo list aggregators --json",
)

PartKind = Literal[
    "methods", "aggregators", "selectors", "clients", "personalisers", "guards", "attacks", "models", "populations"
]

_WHERE = {
    **{kind: registry.set_by for kind, registry in KINDS.items()},
    "methods": 'methods = ["base", "auxo"]',
    "attacks": 'attack.kinds = ["sign-flip"]',
    "models": "training.model",
    "populations": "population.source",
}


def _found(kind: str) -> Mapping[str, str]:
    """Return what each part of a kind is, by name."""
    match kind:
        case "models":
            return described_models()
        case "populations":
            # It brings the built-in populations, which take a second to import; `auxo --help` should not wait.
            from auxo.experiments.populations import described_populations  # noqa: PLC0415

            return described_populations()
        case _:
            return {one.name: one.about for one in KINDS[kind].entries}


def list_parts(
    kind: Annotated[PartKind | None, typer.Argument(metavar="[KIND]", show_default=False)] = None,
    is_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON list of objects with name and about (and kind, without KIND).")
    ] = False,
) -> None:
    """List what a configuration can name: methods and other parts, models, populations.

    KIND is one of methods, aggregators, selectors, clients, personalisers, guards, attacks, models and populations;
    without it all are listed. Methods and other parts of your own go in by their import path, such as
    my_file.py:MyMethod; their settings are the section of their name.
    """
    kinds = list(_WHERE) if kind is None else [kind]
    if is_json:
        rows = [
            {"name": name, "about": about} | ({"kind": one} if kind is None else {})
            for one in kinds
            for name, about in _found(one).items()
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    console = Console()
    for one in kinds:
        title = f"{one}: {_WHERE[one]}"
        table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, about in _found(one).items():
            table.add_row(name, escape(about))
        console.print(table)
        console.print()
    if kind is not None and kind in KINDS:
        of_many = kind in ("methods", "attacks")
        setting = f"'{KINDS[kind].set_by}=[\"NAME\"]'" if of_many else f"{_WHERE[kind]}=NAME"
        typer.echo(f"settings: auxo config show --explain --set {setting}")

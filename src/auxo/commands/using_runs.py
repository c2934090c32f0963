"""What commands share that use a finished run: their arguments, how it is opened, and the tables they write."""

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auxo.files.atomic_write import write_csv
from auxo.files.errors import FileError

if TYPE_CHECKING:
    from auxo.api.finished_run import FinishedRun
    from auxo.api.new_clients import NewClients
    from auxo.core.types import FloatArray
    from auxo.experiments.model_inputs import ModelInputs
    from auxo.experiments.placing import Placed

_NAMED = 3  # clients that are named; our choice

RunArgument = Annotated[Path, typer.Argument(metavar="RUN")]
DataArgument = Annotated[Path, typer.Argument(metavar="DATA")]
MethodOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Whose cohorts; default: Auxo's, or the first contender's.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(metavar="FILE.py:NAME", help="The model's code, if it is not where the run's configuration says."),
]
InputsOption = Annotated[
    str | None,
    typer.Option("--inputs", metavar="SHAPE", help="Of a federation: what its model takes, as in 3,32,32."),
]
ClassesOption = Annotated[
    int | None, typer.Option("--classes", min=1, metavar="N", help="Of a federation: how many its model tells apart.")
]
MostSamples = Annotated[
    int, typer.Option("--samples", min=1, metavar="N", help="Samples of a client that a model is tried on at most.")
]
OutTable = Annotated[
    Path | None, typer.Option("--out", metavar="FILE.csv", help="Where the table goes. Default: the terminal.")
]


@dataclass(frozen=True)
class OpenedBy:
    """How a run is opened."""

    method: str | None
    model: str | None
    inputs: str | None
    classes: int | None


def opened(path: Path, data: Path, by: OpenedBy, out: Path | None) -> tuple["FinishedRun", "NewClients"]:
    """Return a finished run, and the clients in a file as its models take them; tell what was left out or filled in."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):  # before the work
        raise FileError(f"--out {out}: expected a file in an existing directory; nothing was done")
    # Brings the learning libraries, which take seconds to import; `auxo --help` should not wait.
    from auxo.api.finished_run import FinishedRun  # noqa: PLC0415

    try:
        run = FinishedRun(path, method=by.method, model=by.model, inputs=_inputs(by))
    except FileError:
        raise
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    clients = run.opened(data)
    for note in clients.notes:
        typer.echo(f"note: {note}", err=True)
    return run, clients


def _inputs(by: OpenedBy) -> "ModelInputs | None":
    from auxo.experiments.model_inputs import ModelInputs  # noqa: PLC0415 - as above

    if by.inputs is None and by.classes is None:
        return None
    try:
        shape = tuple(int(size) for size in (by.inputs or "").split(","))
    except ValueError:
        shape = ()
    if by.classes is None or not shape or min(shape) < 1:
        raise FileError(
            f"--inputs, --classes: expected both, as in --inputs 3,32,32 --classes 10, got {by.inputs} and {by.classes}"
        )
    return ModelInputs(shape, by.classes)


def without_labels(clients: "NewClients") -> list[str]:
    """Return the names of clients that have no labelled sample to compare models by."""
    data = clients.data
    return [name for name, count in zip(data.client_names, data.train.counts().tolist(), strict=True) if count == 0]


def known(values: "FloatArray") -> list[str]:
    """Return numbers for a table; what is not known is left out."""
    return ["" if value != value else f"{value:.6g}" for value in values.tolist()]  # noqa: PLR0124 - NaN


def sure(placed: "Placed") -> list[str]:
    """Return for each client whether its samples tell its cohort from the next best."""
    return ["yes" if is_sure else "no" for is_sure in placed.is_sure.tolist()]


def unsure(placed: "Placed", names: Sequence[str]) -> str:
    """Return in words who is not surely where it was placed; nothing where everybody is."""
    who = [name for name, is_sure in zip(names, placed.is_sure.tolist(), strict=True) if not is_sure]
    if not who:
        return ""
    more = " ..." if len(who) > _NAMED else ""
    return f"; not sure of {len(who)}, whose samples hardly tell two models apart: {', '.join(who[:_NAMED])}{more}"


def write_table(out: Path | None, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table as CSV to a file, or to the terminal."""
    table = chain([header], rows)
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(table)
    else:
        write_csv(out, table)


def told_where(out: Path | None) -> str:
    """Return in words where the table is, unless it is on the terminal."""
    return "" if out is None else f"; table: {out}"

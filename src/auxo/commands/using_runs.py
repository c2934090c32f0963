"""What commands share that use a finished run: their arguments, how it is opened, and the tables they write."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auxo.files.atomic_write import whole_file
from auxo.files.errors import FileError

if TYPE_CHECKING:
    from auxo.api.finished_run import FinishedRun
    from auxo.api.new_clients import NewClients

RunArgument = Annotated[Path, typer.Argument(metavar="RUN")]
DataArgument = Annotated[Path, typer.Argument(metavar="DATA")]
MethodOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Whose cohorts; default: Auxo's, or the first contender's.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(metavar="FILE.py:NAME", help="The model's code, if it is not where the run's configuration says."),
]
MostSamples = Annotated[
    int, typer.Option("--samples", min=1, metavar="N", help="Samples of a client that a model is tried on at most.")
]
OutTable = Annotated[
    Path | None, typer.Option("--out", metavar="FILE.csv", help="Where the table goes. Default: the terminal.")
]


def opened_run(path: Path, method: str | None, model: str | None) -> "FinishedRun":
    """Return a finished run.

    Raises:
        FileError: it cannot be used, or has no such method.
    """
    # Brings the learning libraries, which take seconds to import; `auxo --help` should not wait.
    from auxo.api.finished_run import FinishedRun  # noqa: PLC0415

    try:
        return FinishedRun(path, method=method, model=model)
    except FileError:
        raise
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error


def opened_clients(run: "FinishedRun", path: Path) -> "NewClients":
    """Return the clients in a file as the run's models take them, and tell what was left out or filled in.

    Raises:
        FileError: the file cannot be used, or its samples are not such as the models take.
    """
    clients = run.opened(path)
    for note in clients.notes:
        typer.echo(f"note: {note}", err=True)
    return clients


def without_labels(clients: "NewClients") -> list[str]:
    """Return the names of clients that have no labelled sample to compare models by."""
    data = clients.data
    return [name for name, count in zip(data.client_names, data.train.counts().tolist(), strict=True) if count == 0]


def check_out(out: Path | None) -> None:
    """Refuse a place for the table where nothing can be written, before the work.

    Raises:
        FileError: there is no such folder, or the path is one.
    """
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise FileError(f"--out {out}: expected a file in an existing directory; nothing was done")


def write_table(out: Path | None, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table as CSV to a file, or to the terminal."""
    if out is None:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        return
    with whole_file(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        text.detach()  # flushed; whoever lent the file closes it

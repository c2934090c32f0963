"""The commands `auxo data convert`, `describe` and `validate`; a data set with problems is bad input."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Literal

import click
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from auxo.commands.command_group import BAD_INPUT, examples
from auxo.commands.data_drawing import LEARNED, on_terminal, write_data_page
from auxo.commands.stopping import exit_code, words_for_stop
from auxo.datasets.catalogue import LOADERS, TABLE
from auxo.datasets.client_samples import TEST_SHARE, SampleSource, without_small_clients
from auxo.datasets.describe import describe
from auxo.datasets.open_dataset import FEDERATED, arrow_needed, open_named
from auxo.datasets.tables import TableColumns, table_source
from auxo.files.errors import FileError
from auxo.population.doubts import doubts_about
from auxo.population.preparation import LearningTask, Missing, Preparation
from auxo.registry.expectation import nearest
from auxo.reporting.message_console import MessageConsole
from auxo.reporting.number_format import counted

_OPTIONS = {"standardise": "--as-they-are"}  # options that are not called what they set
_SHOWN_EVERY = 64  # clients between two looks at the bar, which takes longer than a small client; our choice


data_app = typer.Typer(
    no_args_is_help=True,
    epilog=examples(
        "auxo data convert mine.parquet mine.arrow  # your own clients' data",
        "auxo data describe mine.arrow",
        "auxo run --population mine.arrow",
    ),
)


@data_app.callback()
def data() -> None:
    """Bring data sets into a form that is opened at once, and see what is in them."""


@data_app.command(
    epilog=examples(
        "auxo data convert --list  # what can be converted",
        "auxo data convert mine.csv mine.arrow --client user_id --label rating",
        "auxo data convert homes.csv homes.arrow --client town --label price --task regression",
        "auxo data convert mine.csv mine.arrow --missing mean  # gaps become the mean of their column",
        "auxo data convert mine.parquet mine.arrow --features pixels --shape 28x28",
        "auxo data convert posts.parquet posts.arrow --client author --features body --text characters",
        "auxo data convert femnist leaf/data/femnist/data femnist.arrow --min-samples 20",
    )
)
def convert(  # noqa: PLR0913, PLR0917 - one for each option
    words: Annotated[list[str] | None, typer.Argument(metavar="[LOADER] PATH OUT.arrow", show_default=False)] = None,
    client: Annotated[str | None, typer.Option(help="Tables: the column that says whose a sample is.")] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Tables: the column of inputs; may be given many times.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Tables: the column of labels, numbers from 0 or names; for other tasks also several."),
    ] = None,
    task: Annotated[
        LearningTask,
        typer.Option(
            help="Tables: what is learned: one class, numbers (regression), or which labels of several a sample has "
            "(multi-label: columns of 0 and 1, or one of names with ; between them)."
        ),
    ] = "classification",
    split: Annotated[str | None, typer.Option(help='Tables: the column that says "train" or "test".')] = None,
    group: Annotated[str | None, typer.Option(help="Tables: the column of known groups of clients.")] = None,
    text: Annotated[
        Literal["hashed", "characters"] | None,
        typer.Option(help="Tables: inputs are texts: hashed words, or characters to predict the next one from."),
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="HEIGHTxWIDTH", help="Tables: the shape of an input, such as 28x28.")
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Tables: inputs are tokens of a text.")] = False,
    categories: Annotated[
        list[str] | None,
        typer.Option(
            help="Tables: a column of categories; each of its values becomes an input. May be given many times."
        ),
    ] = None,
    missing: Annotated[
        Missing,
        typer.Option(
            help="Tables: rows with missing values are an error, left out (drop), or filled with the columns' means "
            "(mean; without a label they are left out)."
        ),
    ] = "error",
    is_standardised: Annotated[
        bool,
        typer.Option(
            "--standardise/--as-they-are",
            help="Tables: shift and scale each column of numbers by its training mean and deviation, or do not.",
        ),
    ] = True,
    min_samples: Annotated[int, typer.Option(min=1, help="Leave out clients with fewer samples.")] = 1,
    test_share: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.99,
            help="Share of a client's samples to test with, where the data do not say.",
            show_default="0.2 for tables",
        ),
    ] = None,
    is_forced: Annotated[bool, typer.Option("--force", help="Replace OUT.arrow if it exists.")] = False,
    is_list_asked: Annotated[bool, typer.Option("--list", help="Show every LOADER and what PATH must be.")] = False,
) -> None:
    """Convert a data set to a federated file, which is opened at once however large it is.

    LOADER says how PATH is read, by default as a table: see --list. OUT.arrow appears when it is complete.
    """
    if is_list_asked:
        table = Table("LOADER", "PATH", box=None, padding=(0, 1), pad_edge=False)
        for name, known in LOADERS.items():
            table.add_row(name, known.path)
        Console().print(table)
        return
    loader, path, out = _named(words or [])
    _check_out(out, is_forced)
    try:
        columns = TableColumns(
            client=client,
            features=features[0] if features and len(features) == 1 else tuple(features or ()) or None,
            label=label[0] if label and len(label) == 1 else tuple(label or ()) or None,
            task=task,
            split=split,
            group=group,
            text=text,
            tokens=tokens,
            shape=None if shape is None else _shape(shape),
            test_share=TEST_SHARE if test_share is None else test_share,
            standardise=is_standardised,
            missing=missing,
            categories=tuple(categories or ()),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with arrow_needed(path):
        source = _source(loader, Path(path), columns)
        _convert(source if test_share is None else replace(source, test_share=test_share), out, min_samples)


def _named(words: Sequence[str]) -> tuple[str, str, Path]:
    """Return the loader, what it is to read, and the file to write."""
    if len(words) not in {2, 3}:
        raise click.UsageError(f"expected [LOADER] PATH OUT.arrow, got {len(words)} words; --list shows the loaders")
    loader, path, out = (TABLE, *words) if len(words) == 2 else words
    if loader not in LOADERS:
        near = nearest(loader, LOADERS)
        hint = f"; did you mean {near}?" if near else ""
        raise click.UsageError(f"LOADER: expected one of {', '.join(LOADERS)}, got {loader!r}{hint}")
    return loader, path, Path(out)


def _check_out(out: Path, is_forced: bool) -> None:
    if out.suffix not in FEDERATED:
        raise click.UsageError(f"OUT.arrow: expected a name that ends in .arrow, got {str(out)!r}")
    if out.is_dir():
        raise FileError(f"{out}: is a folder; choose another name")
    if out.exists() and not is_forced:
        raise FileError(f"{out}: already exists and is left as it is; replace it with --force, or choose another name")


def _shape(text: str) -> tuple[int, ...]:
    parts = text.lower().split("x")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise click.UsageError(f"--shape: expected sizes such as 28x28 or 3x32x32, got {text!r}")
    return tuple(int(part) for part in parts)


def _source(loader: str, path: Path, columns: TableColumns) -> SampleSource:
    if loader == TABLE:
        return table_source(path, columns)
    usual = TableColumns(test_share=columns.test_share)
    given = [field.name for field in fields(columns) if getattr(columns, field.name) != getattr(usual, field.name)]
    if given:
        options = ", ".join(_OPTIONS.get(name, f"--{name}") for name in given)
        raise click.UsageError(f"{options}: only tables have columns to name, and {loader} knows its own")
    return LOADERS[loader].load(path)


def _convert(source: SampleSource, out: Path, min_samples: int) -> None:
    from auxo.datasets.federated_file import (  # noqa: PLC0415 - Arrow is optional, and takes long to import
        clients_without_a_split,
        read_columns,
        write_federated_file,
    )

    kept = source if min_samples == 1 else without_small_clients(source, min_samples)
    try:
        with _progress(f"converting {source.name}") as on_client:
            write_federated_file(kept, out, on_client)
    except KeyboardInterrupt as stop:
        typer.echo(f"auxo: {words_for_stop(stop)}; {out} was not written", err=True)
        raise typer.Exit(exit_code(stop)) from None
    columns = read_columns(out)
    learned = LEARNED[columns.task]
    what = f"{len(columns.clients):,} clients, {len(columns.y):,} samples, {len(columns.classes):,} {learned}"
    typer.echo(f"wrote {out}: {what}, {out.stat().st_size / 1e6:,.1f} MB")
    _tell_preparation(columns.preparation)
    y = columns.y if columns.targets is None and columns.x.dtype.name != "int32" else None
    for note in doubts_about(columns.client, y, columns.preparation):
        typer.echo(f"note: {note}", err=True)
    for problem in clients_without_a_split(columns, out):
        typer.echo(f"note: {problem}", err=True)


def _tell_preparation(done: Preparation) -> None:
    """Say which columns became inputs, what was done to them, and what is doubtful about it."""
    if done.columns:
        typer.echo(done.words())
    for note in done.notes:
        typer.echo(f"note: {note}", err=True)


@contextmanager
def _progress(words: str) -> Iterator[Callable[[int], None]]:
    """Yield the function to call with the number of clients so far; a bar shows it, on a terminal only."""
    console = MessageConsole()
    if not console.is_interactive or os.environ.get("CI"):
        yield lambda clients: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} clients"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        task = bars.add_task(words, total=None)  # nobody knows how many there will be

        def show(clients: int) -> None:
            if clients % _SHOWN_EVERY == 0:
                bars.update(task, completed=clients)

        yield show


@data_app.command(
    name="describe",
    epilog=examples("auxo data describe mine.arrow", "auxo data describe mine.arrow --html mine.html"),
)
def describe_command(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PAGE", help="Also write it as a page with charts.")
    ] = None,
) -> None:
    """Show a data set's clients, samples, classes and groups, and how far clients' labels are from everybody's.

    FILE is a federated file (.arrow), a table (.parquet, .csv) or a population file (.npz).
    """
    described = describe(*open_named(file))
    console = Console()
    console.print(on_terminal(described, console.options.ascii_only), highlight=False)
    if html is not None:
        write_data_page(described, html)
        typer.echo(f"page: {html}")


@data_app.command(name="validate", epilog=examples("auxo data validate mine.arrow"))
def validate_command(file: Annotated[Path, typer.Argument(metavar="FILE")]) -> None:
    """Read all of a data set and say everything that is wrong with it.

    FILE is a federated file (.arrow), a table (.parquet, .csv) or a population file (.npz). The exit code is 0 if it
    can be used, and 2 if not.
    """
    with arrow_needed(file):
        from auxo.datasets.validate import validate  # noqa: PLC0415 - as above

        found = validate(file)
    for warning in found.warnings:
        typer.echo(f"warning: {file}: {warning}", err=True)
    if found.problems:
        for problem in found.problems:
            typer.echo(problem, err=True)
        more = " or more" if found.has_more else ""
        typer.echo(f"{file}: {counted(len(found.problems), 'problem')}{more}", err=True)
        raise typer.Exit(BAD_INPUT)
    samples = f"{found.train_samples:,} training and {found.test_samples:,} test samples"
    typer.echo(f"{file}: ok: {found.clients:,} clients, {samples}, {found.classes:,} {LEARNED[found.task]}")

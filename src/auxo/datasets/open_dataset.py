"""Any data set on disk as a population, by what the file is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from auxo.datasets.tables import BY_COMMON_NAMES, TableColumns, table_source
from auxo.files.errors import FileError, file_error
from auxo.files.npz import read_arrays
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_from_arrays

FEDERATED = (".arrow", ".feather")
"""What federated files are called."""

TABLES = (".parquet", ".csv")
"""What tables are called that are opened as they are."""

NPZ = ".npz"
"""What population files are called."""


def open_dataset(path: Path, columns: TableColumns = BY_COMMON_NAMES) -> FederatedData:
    """Return the population in a file: a federated file is mapped into memory, all others are read into it.

    ``columns`` says how a table is read, and of arrays whether their columns are standardised; other files say it
    themselves.
    """
    return open_named(path, columns)[0]


def open_named(path: Path, columns: TableColumns = BY_COMMON_NAMES) -> tuple[FederatedData, tuple[str, ...]]:
    """Do what `open_dataset` does, and return the names of groups, too, where a file has some."""
    check_kind(path)
    if path.suffix.lower() == NPZ:
        return population_from_arrays(read_arrays(path), path.stem, path, standardise=columns.standardise), ()
    with arrow_needed(path):
        from auxo.datasets.federated_file import as_population, collect, read_columns  # noqa: PLC0415 - optional

        is_federated = path.suffix.lower() in FEDERATED
        with options_of_convert(path, columns):
            found = read_columns(path) if is_federated else collect(table_source(path, columns))
        return as_population(found, path), found.groups


def check_kind(path: Path) -> None:
    """Check that there is a file of a known kind."""
    known = f"{' or '.join(FEDERATED)} (federated files), {', '.join(TABLES)} or {NPZ}"
    if not path.exists():
        raise file_error(path, "file", f"a data set: {known}", "no such file", "check the path")
    is_known = path.is_dir() or path.suffix.lower() in (*FEDERATED, *TABLES, NPZ)
    if not is_known:
        remedy = "bring it into one of these forms; `auxo data convert --list` names the forms that can be converted"
        raise file_error(path, "file", f"a data set: {known}", path.suffix or "no ending", remedy)


@contextmanager
def options_of_convert(path: Path, columns: TableColumns = BY_COMMON_NAMES) -> Iterator[None]:
    """Say where the options belong that an error about a table names, if the block ends with one."""
    try:
        yield
    except FileError as error:
        is_told = (columns.client, columns.features, columns.label) != (None, None, None)
        if is_told or path.suffix.lower() in FEDERATED or " --" not in str(error):
            raise
        out = path.with_suffix(".arrow")
        raise FileError(
            f"{error} (options of `auxo data convert {path} {out}`, which reads a table of any form; then use {out})"
        ) from error


@contextmanager
def arrow_needed(path: str | Path) -> Iterator[None]:
    """Say how to get pyarrow if the block finds it missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise FileError(f"{path}: to read and write this, Auxo needs pyarrow; pip install 'auxo[data]'") from error

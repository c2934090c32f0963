"""Any data set on disk as a population, by what the file is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from auxo.datasets.table_files import read_arrays
from auxo.datasets.tables import BY_COMMON_NAMES, TableColumns, table_source
from auxo.files.errors import FileError, file_error
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_from_arrays

FEDERATED = (".arrow", ".feather")
"""What federated files are called."""

TABLES = (".parquet", ".csv")
"""What tables are called that are opened as they are."""

NPZ = ".npz"
"""What population files are called."""


@dataclass(frozen=True)
class NamedData:
    """A population with the names of its classes and groups; both may be empty where a file has none."""

    data: FederatedData
    classes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def open_dataset(path: Path, columns: TableColumns = BY_COMMON_NAMES) -> FederatedData:
    """Return the population in a file: a federated file is mapped into memory, all others are read into it.

    ``columns`` says how a table is read; other files say it themselves.

    Raises:
        FileError: the file is of no known kind, or cannot be used.
    """
    return open_named(path, columns).data


def open_named(path: Path, columns: TableColumns = BY_COMMON_NAMES) -> NamedData:
    """Do what `open_dataset` does, and keep the names of classes and groups."""
    check_kind(path)
    if path.suffix.lower() == NPZ:
        return NamedData(population_from_arrays(read_arrays(path), path.stem, path))
    with arrow_needed(path):
        from auxo.datasets.federated_file import as_population, collect, read_columns  # noqa: PLC0415 - optional

        is_federated = path.suffix.lower() in FEDERATED
        found = read_columns(path) if is_federated else collect(table_source(path, columns))
        return NamedData(as_population(found, path), found.classes, found.groups)


def check_kind(path: Path) -> None:
    """Check that there is a file of a known kind.

    Raises:
        FileError: there is none.
    """
    known = f"{' or '.join(FEDERATED)} (federated files), {', '.join(TABLES)} or {NPZ}"
    if not path.exists():
        raise file_error(path, "file", f"a data set: {known}", "no such file", "check the path")
    is_known = path.is_dir() or path.suffix.lower() in (*FEDERATED, *TABLES, NPZ)
    if not is_known:
        remedy = "bring it into one of these forms; `auxo data convert --list` names the forms that can be converted"
        raise file_error(path, "file", f"a data set: {known}", path.suffix or "no ending", remedy)


@contextmanager
def arrow_needed(path: str | Path) -> Iterator[None]:
    """Say how to get pyarrow if the block finds it missing.

    Raises:
        FileError: pyarrow is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise FileError(f"{path}: to read and write this, Auxo needs pyarrow; pip install 'auxo[data]'") from error

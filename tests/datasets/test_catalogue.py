"""The catalogue: every loader can be imported, says what it wants, and says what is missing."""

from pathlib import Path

import pytest

from auxo.datasets.catalogue import LOADERS, TABLE
from auxo.files.errors import FileError

ON_DISK = [name for name in LOADERS if name != "hugging-face"]


def test_tables_come_first() -> None:
    assert next(iter(LOADERS)) == TABLE


@pytest.mark.parametrize("name", ON_DISK)
def test_every_loader_says_in_one_line_what_it_wants(name: str) -> None:
    assert 10 < len(LOADERS[name].path) <= 100
    assert "\n" not in LOADERS[name].path


@pytest.mark.parametrize("name", ON_DISK)
def test_every_loader_names_a_path_at_which_there_is_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nothing-here"):
        list(LOADERS[name].load(tmp_path / "nothing-here").clients())

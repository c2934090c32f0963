"""Archives of arrays as ``np.savez`` writes them; nothing in them is unpickled."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from auxo.files.errors import FileError, file_error


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file by name; bytes become strings."""
    arrays, place = {}, "file"
    try:
        # Opened here, because NumPy leaves its own file open when the archive in it is damaged.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, NpzFile):
                raise file_error(path, place, "an npz archive of arrays", "a single array", "write it with np.savez")
            for place in archive.files:
                arrays[place] = _as_text(archive[place])
    except FileError:
        raise
    except FileNotFoundError as error:
        raise file_error(path, place, "an npz archive of arrays", "no such file", "check the path") from error
    except Exception as error:  # damaged bytes make zip, deflate and NumPy's parser of headers raise almost anything
        remedy = "write numbers and strings, no Python objects, with np.savez"
        got = f"one that cannot be read ({error})"
        raise file_error(path, place, "an npz archive of arrays", got, remedy) from error
    return arrays


def _as_text(values: NDArray[Any] | bytes) -> NDArray[Any]:
    if isinstance(values, bytes):
        raise TypeError("not an array")
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values

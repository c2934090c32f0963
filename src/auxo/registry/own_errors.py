"""Errors that code of the user's own has raised: in one line, with the line of that code."""

import linecache
import re
import traceback
from collections.abc import Iterable
from pathlib import Path

# As Python shows it: what was raised in another process is at hand as text only, in a note of the error.
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


def place_in(error: Exception, files: Iterable[Path]) -> str | None:
    """Return the last line of these files that an error has passed, with its text; None: it has passed none."""
    own = {file.resolve() for file in files}
    for name, line, function in reversed(_FRAME.findall("".join(traceback.format_exception(error)))):
        if Path(name).resolve() in own:
            return f"{name}, line {line}, in {function}: `{linecache.getline(name, int(line)).strip()}`"
    return None


def error_words(error: Exception, file: Path | None) -> str:
    """Return an error's kind, its own words, and the line of the file that it has passed last."""
    place = None if file is None else place_in(error, (file,))
    return f"{type(error).__name__} ({error})" + (f" at {place}" if place else "")

"""Private answers that were given, kept on the client so that it repeats itself when it is asked the same again.

Noise that is drawn anew for the same question would average out, and would have to be paid for each time. What is kept
has its noise in it. An answer that is lost or damaged is made, and paid for, anew.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from auxo.core.asking import Answer
from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError

_MOST = 16  # answers kept; our choice: a server asks again at once, or not at all


def keep_answer(path: Path, answer: Answer) -> None:
    """Write an answer, and forget the oldest ones; a disk that fails keeps none."""
    said = json.dumps({"examples": answer.examples, "model": answer.model, "on_all": answer.on_all})
    content = f"{said}\n".encode() + answer.update.astype("<f4").tobytes()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, hashlib.sha256(content).digest() + content)
        files = sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        for old in files[:-_MOST]:
            old.unlink(missing_ok=True)
    except (OSError, FileError):
        return


def read_answer(path: Path) -> Answer | None:
    """Return an answer that was kept; None: there is none, or it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    checksum, content = data[:32], data[32:]
    if hashlib.sha256(content).digest() != checksum:
        return None
    said, update = content.split(b"\n", 1)
    return Answer(np.frombuffer(update, dtype="<f4").astype(np.float32), **json.loads(said))

"""Google's Speech Commands (Warden, 2018) by speaker: log-mel spectra of single words.

The folder is the unpacked archive: ``<word>/<speaker>_nohash_<number>.wav``, one second each. Background noise is left
out. ``testing_list.txt`` and ``validation_list.txt`` hold out whole speakers; here every speaker is a client that is to
be scored on words of its own, so the lists are not read, and some recordings of every speaker are held out instead.
"""

import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from auxo.core.types import Float32Array
from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.log_mel import RATE, log_mel
from auxo.files.errors import file_error

_NAME = re.compile(r"(?P<speaker>[0-9a-z]+)_nohash_(?P<number>[0-9]+)\.wav")
_REMEDY = "unpack speech_commands_v0.02.tar.gz again"


def speech_commands(path: Path) -> SampleSource:
    """Return spoken words by speaker, 32 bands by 32 frames as levels (uint8); labels are the words in order.

    The folder's names are read at once, its recordings when they are asked for.
    """
    words = _words(path)

    def clients() -> Iterator[ClientSamples]:
        for speaker, recordings in sorted(_by_speaker(path, words).items()):
            files = [path / words[label] / name for label, name in recordings]
            x = [log_mel(read_wav(str(file), file, "file")) for file in files]
            y = np.array([label for label, _ in recordings], dtype=np.int64)
            yield ClientSamples(speaker, np.stack(x), y)

    return SampleSource("speech-commands", path, words, clients)


def read_wav(file: str | BinaryIO, path: str | Path, place: str) -> Float32Array:
    """Return the samples of a recording, from -1 to 1; an error is about a place in ``path``."""
    expected = f"a wav file (16-bit PCM, {RATE} Hz, one channel)"
    try:
        with wave.open(file) as wav:
            kind = (wav.getsampwidth(), wav.getframerate(), wav.getnchannels())
            announced = wav.getnframes()
            data = wav.readframes(announced)
    except FileNotFoundError as error:
        raise file_error(path, place, expected, "no such file", _REMEDY) from error
    except (wave.Error, EOFError) as error:
        raise file_error(path, place, expected, f"something else ({error})", _REMEDY) from error
    if kind != (2, RATE, 1):
        got = f"{8 * kind[0]}-bit PCM, {kind[1]} Hz, {kind[2]} channels"
        raise file_error(path, place, expected, got, "convert it, as with `sox in.wav -b 16 -r 16000 -c 1 out.wav`")
    if announced == 0 or len(data) != 2 * announced:
        got = f"{len(data) // 2} of {announced}" if announced else "none"
        raise file_error(path, place, "all samples that it announces, and at least one", got, _REMEDY)
    return np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(1 << 15)


def _words(path: Path) -> tuple[str, ...]:
    folders = path.iterdir() if path.is_dir() else iter(())
    words = sorted(folder.name for folder in folders if folder.is_dir() and not folder.name.startswith(("_", ".")))
    if not words:
        got = "a folder without any" if path.is_dir() else "no such folder"
        raise file_error(path, "path", "a folder with one folder of recordings for each word", got, _REMEDY)
    return tuple(words)


def _by_speaker(path: Path, words: tuple[str, ...]) -> dict[str, list[tuple[int, str]]]:
    """Return the label and the file's name of every recording, by speaker."""
    found: dict[str, list[tuple[int, str]]] = {}
    for label, word in enumerate(words):
        names = sorted(file.name for file in (path / word).glob("*.wav") if not file.name.startswith("."))
        if not names:
            raise file_error(path / word, "folder", "recordings (*.wav)", "none", _REMEDY)
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                raise file_error(path / word, name, "a name such as 0a7c2a8d_nohash_0.wav", "another one", _REMEDY)
            found.setdefault(match["speaker"], []).append((label, name))
    return found

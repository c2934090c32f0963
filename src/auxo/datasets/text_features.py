"""Text as numbers: hashed words for linear models, windows of characters or words for models of language."""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from auxo.core.types import Float32Array, IntArray
from auxo.population.federated_data import StoredInputs

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_MARK = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[.,!?;:]")
UNKNOWN_TOKEN = 0
"""The token of what is not in a vocabulary, and of what lies before the beginning of a text."""

CHARACTERS = "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz{}|~"
"""Characters that have tokens of their own, from 1 on."""


def words(text: str) -> list[str]:
    """Return the words of a text in lower case.

    >>> words("It didn't work, twice!")
    ['it', "didn't", 'work', 'twice']
    """
    return _WORD.findall(text.lower())


def words_and_marks(text: str) -> list[str]:
    """Return the words of a text in lower case and its punctuation, as a model of language reads them.

    >>> words_and_marks("No. Really?")
    ['no', '.', 'really', '?']
    """
    return _MARK.findall(text.lower())


def hashed_words(text: str, size: int) -> Float32Array:
    """Return how often each word and each pair of neighbours occurs, in ``size`` places that their hashes point to.

    Counts are damped by the logarithm and the whole is scaled to length 1, so that long texts do not outweigh short
    ones. Hashes are CRC-32, the same in every process.
    """
    found = words(text)
    pairs = (f"{first} {second}" for first, second in pairwise(found))
    counts = Counter(zlib.crc32(part.encode()) % size for part in (*found, *pairs))
    features = np.zeros(size, dtype=np.float32)
    if counts:
        features[list(counts)] = 1 + np.log(np.fromiter(counts.values(), dtype=np.float32))
        features /= np.linalg.norm(features)
    return features


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by the characters or words they stand for; `UNKNOWN_TOKEN` stands for all others."""

    entries: tuple[str, ...]  # of tokens 1, 2, ...

    @staticmethod
    def of_words(texts: Iterable[Sequence[str]], size: int) -> "Vocabulary":
        """Return the most frequent words, of equally frequent ones the first in the alphabet; at most ``size`` - 1."""
        counts = Counter(word for text in texts for word in text)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return Vocabulary(tuple(ranked[: size - 1]))

    @property
    def names(self) -> tuple[str, ...]:
        """Return what every token stands for, as classes to be predicted."""
        return ("<unknown>", *self.entries)

    def tokens(self, text: Sequence[str]) -> IntArray:
        """Return the tokens of a text's characters or words."""
        index = {entry: token for token, entry in enumerate(self.entries, start=1)}
        if not isinstance(text, str):
            return np.array([index.get(part, UNKNOWN_TOKEN) for part in text], dtype=np.int64)
        # Characters are looked up all at once: an author may have written millions.
        codes = {ord(entry): token for entry, token in index.items() if len(entry) == 1}
        table = np.full(max(codes, default=0) + 2, UNKNOWN_TOKEN, dtype=np.int64)
        table[list(codes)] = list(codes.values())
        written = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        tokens: IntArray = table[np.minimum(written, len(table) - 1)]
        return tokens


BY_CHARACTER = Vocabulary(tuple(CHARACTERS))
"""The characters of English text."""


def windows(tokens: IntArray, length: int, at: IntArray | None = None) -> tuple[StoredInputs, IntArray]:
    """Return the ``length`` tokens before each place in a text, and the token in that place, which is to be predicted.

    Before the beginning there is `UNKNOWN_TOKEN`.

    ``at`` are the places; None: all.

    >>> x, y = windows(np.array([5, 6, 7]), length=2)
    >>> x.tolist(), y.tolist()
    ([[0, 0], [0, 5], [5, 6]], [5, 6, 7])
    """
    places = np.arange(len(tokens)) if at is None else at
    padded = np.concatenate([np.full(length, UNKNOWN_TOKEN), tokens])
    x: StoredInputs = padded[places[:, np.newaxis] + np.arange(length)].astype(np.int32)
    return x, tokens[places]

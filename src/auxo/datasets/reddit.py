"""Reddit's comments by author: ten words, and the one that comes next.

The files are JSON lines as the archives of Reddit distribute them (``RC_2015-01.bz2``), with author and body.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from auxo.core.rng import stream
from auxo.datasets.client_samples import ClientSamples, SampleSource, end_held_out
from auxo.datasets.json_lines import json_lines_files, json_objects, parted_by_client, text_entry
from auxo.datasets.text_features import UNKNOWN_TOKEN, Vocabulary, windows, words_and_marks
from auxo.files.errors import file_error

VOCABULARY = 10_000  # words
_WINDOW = 10  # words that the next one is told from
_PLACES = 200  # of an author's comments that are asked about at most; our choice
_FEWEST_COMMENTS = 5
_GONE = ("[deleted]", "[removed]")


def reddit(path: Path) -> SampleSource:
    """Return comments by author: tokens of words (int32), and the token of the word that comes next.

    Left out are authors with fewer than five comments, comments that were deleted, and bots: AutoModerator, and names
    that end in "bot", which is our choice. Words that are not among the 10,000 most frequent are no labels, nor are
    first words. An author's last places are held out, so that few comments are both trained on and tested with.

    The vocabulary is read at once, the comments again when they are asked for.

    """
    texts = (words_and_marks(body) for _, _, body in _comments(path))
    vocabulary = Vocabulary.of_words(texts, VOCABULARY + 1)
    if not vocabulary.entries:
        raise file_error(path, "comments", "at least one with words", "none", "check that this is the right file")

    def clients() -> Iterator[ClientSamples]:
        with parted_by_client(_comments(path)) as authors:
            for author, comments in authors:
                if len(comments) >= _FEWEST_COMMENTS:
                    samples = _samples(author, [body for _, body in comments], vocabulary)
                    if len(samples.y) >= 2:
                        yield samples

    return SampleSource("reddit", path, vocabulary.names, clients)


def _comments(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield author, line and body of comments that people wrote."""
    for file in json_lines_files(path):
        for line, comment in json_objects(file):
            author = text_entry(file, line, comment, "author")
            if comment.get("body") == "":
                continue
            body = text_entry(file, line, comment, "body")
            is_bot = author.lower() == "automoderator" or author.lower().endswith("bot")
            if author not in _GONE and body not in _GONE and not is_bot:
                yield author, line, body


def _samples(author: str, comments: list[str], vocabulary: Vocabulary) -> ClientSamples:
    texts = [words_and_marks(comment) for comment in comments]
    tokens = vocabulary.tokens(list(chain.from_iterable(texts)))  # all at once: each call makes an index of its own
    lengths = np.array([len(text) for text in texts])
    comment = np.repeat(np.arange(len(texts)), lengths)
    # Unknown words between comments keep a window within its own.
    places = np.arange(len(tokens)) + _WINDOW * comment
    spaced = np.full(len(tokens) + _WINDOW * len(texts), UNKNOWN_TOKEN)
    spaced[places] = tokens
    is_first = np.diff(comment, prepend=-1) > 0
    candidates = places[(tokens != UNKNOWN_TOKEN) & ~is_first]
    rng = stream(0, "places", "reddit", author)
    chosen = np.sort(rng.permutation(len(candidates))[:_PLACES])
    x, y = windows(spaced, _WINDOW, candidates[chosen])
    return ClientSamples(author, x, y, end_held_out(len(y)))

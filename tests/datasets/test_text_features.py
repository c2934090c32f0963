"""Text as numbers: words and their hashes, vocabularies, and windows before the next token."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.datasets.text_features import (
    BY_CHARACTER,
    CHARACTERS,
    UNKNOWN_TOKEN,
    Vocabulary,
    hashed_words,
    windows,
    words,
    words_and_marks,
)


def test_words_are_lower_case_and_keep_their_apostrophes() -> None:
    assert words("Don't STOP, 24 hours!") == ["don't", "stop", "24", "hours"]


def test_marks_stand_among_the_words() -> None:
    assert words_and_marks("Well... no?") == ["well", ".", ".", ".", "no", "?"]


def test_hashed_words_have_length_one_whatever_the_text_is() -> None:
    short, long = hashed_words("good", 64), hashed_words("good and bad and ugly " * 30, 64)
    assert np.linalg.norm(short) == np.float32(1)
    assert np.isclose(np.linalg.norm(long), 1)


def test_text_without_words_has_no_features() -> None:
    assert not hashed_words("?! -", 16).any()


def test_hashed_words_count_pairs_so_that_order_matters() -> None:
    assert not np.array_equal(hashed_words("not good but bad", 4096), hashed_words("not bad but good", 4096))


def test_hashes_are_the_same_in_every_process() -> None:
    # The checksum that catalogues of CRCs give for these digits.
    assert np.flatnonzero(hashed_words("123456789", 4096)).tolist() == [0xCBF43926 % 4096]


def test_vocabulary_keeps_the_most_frequent_words_and_breaks_ties_by_the_alphabet() -> None:
    vocabulary = Vocabulary.of_words([["b", "a", "c"], ["c", "d"]], size=4)
    assert vocabulary.names == ("<unknown>", "c", "a", "b")
    assert vocabulary.tokens(["c", "d", "b"]).tolist() == [1, UNKNOWN_TOKEN, 3]


@given(st.text(max_size=60))
@settings(max_examples=50)
def test_characters_have_the_tokens_that_looking_up_one_by_one_gives(text: str) -> None:
    assert BY_CHARACTER.tokens(text).tolist() == [CHARACTERS.find(character) + 1 for character in text]


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 8))
@settings(max_examples=50)
def test_every_window_holds_what_stands_before_its_place(tokens: list[int], length: int) -> None:
    x, y = windows(np.array(tokens, dtype=np.int64), length)
    padded = [UNKNOWN_TOKEN] * length + tokens
    assert x.dtype == np.int32
    assert x.tolist() == [padded[place : place + length] for place in range(len(tokens))]
    assert y.tolist() == tokens


def test_windows_are_cut_only_where_they_are_asked_for() -> None:
    x, y = windows(np.array([5, 6, 7, 8]), 2, at=np.array([3, 1]))
    assert x.tolist() == [[6, 7], [UNKNOWN_TOKEN, 5]]
    assert y.tolist() == [8, 6]

"""What a setting takes and holds, in words and in TOML."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from auxo.registry.expectation import expectation, nearest_choice, toml_value

scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
tables = st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), scalars, max_size=3)


@given(scalars | st.lists(scalars, max_size=4) | tables)
def test_toml_reads_back_what_was_written(value: object) -> None:
    assert tomllib.loads(f"value = {toml_value(value)}")["value"] == value


def test_paths_are_strings_and_tuples_are_lists() -> None:
    assert toml_value(Path("a b.npz")) == '"a b.npz"'
    assert toml_value((1, 2.5, True)) == "[1, 2.5, true]"


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "a whole number"),
        (bool, "true or false"),
        (float | None, "a number"),
        (Annotated[int, Field(ge=1)], "a whole number (at least 1)"),
        (Annotated[float, Field(ge=0, lt=1)], "a number (at least 0, below 1)"),
        (Literal["a", "b", "c"], '"a", "b" or "c"'),
        (tuple[float, ...], "a list of values, each a number"),
        (tuple[int, str], "a list [a whole number, a string]"),
        (dict[str, float], "a table of values, each a number"),
        (int | tuple[float, ...], "a whole number or a list of values, each a number"),
    ],
)
def test_types_are_told_in_words(annotation: object, words: str) -> None:
    assert expectation(annotation) == words


def test_the_nearest_choice_is_hinted_at() -> None:
    kinds = Literal["stacked", "vmap"]
    assert nearest_choice("staked", kinds) == '; did you mean "stacked"?'
    assert nearest_choice("qqqq", kinds) == nearest_choice(3, kinds) == nearest_choice("stacked", str) == ""

"""Tokens: what comes back is what was signed, and nothing else verifies."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.affinity import AffinityRecords, AffinitySettings, FeedbackColumns
from auxo.core.cohort_tree import CohortTree
from auxo.core.proofs import observe
from auxo.core.types import ROOT, CohortId
from auxo.files.key_file import Key
from auxo.protocol.codec import to_bytes
from auxo.protocol.tokens import Signer, Token, UsedTokens, records_of, token_digest
from auxo.testing.comparison import expect_same

TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
OLD, NEW = Key("11" * 32, until=50), Key("22" * 32)
SIGNER = Signer((OLD, NEW), "federation", valid_rounds=100)
CLUSTERS = 2


def record(rewards: list[float], cohort: str = "0.1") -> AffinityRecords:
    """Return the record of a client that a cohort has rewarded so."""
    held = AffinityRecords.empty(1, CLUSTERS)
    for reward in rewards:
        said = FeedbackColumns(CohortId(cohort), TREE, np.array([reward]), np.array([[0.3, reward]]), np.array([-1]), 1)
        held = observe(held, said, AffinitySettings())
    return held


@given(st.lists(st.floats(-1, 1), max_size=5), st.integers(-(2**62), 2**62), st.integers(0, 10**6))
def test_what_is_read_is_what_was_signed(rewards: list[float], client: int, now: int) -> None:
    held = record(rewards)
    read = SIGNER.read(SIGNER.sign(client, now, held), TREE, client, now)
    assert isinstance(read, Token)
    again = records_of([read], TREE, CLUSTERS)
    # What a token leaves out is of cohorts that have said nothing, and counts for nothing.
    expected = replace(held if rewards else records_of([None], TREE, CLUSTERS), explored=again.explored)
    silent = np.isnan(expected.similarity).all(axis=(2, 3))
    expect_same(
        to_bytes(replace(expected, generation=np.where(silent, -1, expected.generation))),
        to_bytes(again),
        "what was signed",
    )


@given(st.data())
def test_a_changed_bit_never_verifies(data: st.DataObject) -> None:
    text = SIGNER.sign(7, 3, record([0.5, -0.2]))
    raw = bytearray(base64.urlsafe_b64decode(text))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    read = SIGNER.read(base64.urlsafe_b64encode(bytes(raw)).decode(), TREE, 7, 3)
    assert read in {"forged", "unknown key"}


@given(st.text(max_size=300))
def test_whatever_comes_is_read_without_an_error(text: str) -> None:
    assert not isinstance(SIGNER.read(text, TREE, 7, 3), Token)


@pytest.mark.parametrize(
    ("client", "now", "signer", "flaw"),
    [
        (8, 3, SIGNER, "another's"),
        (7, 103, SIGNER, "expired"),
        (7, 2, SIGNER, "expired"),
        (7, 3, replace(SIGNER, keys=(Key("33" * 32),)), "unknown key"),
        (7, 3, replace(SIGNER, federation="another"), "forged"),
    ],
)
def test_who_when_and_where_a_token_holds(client: int, now: int, signer: Signer, flaw: str) -> None:
    assert signer.read(SIGNER.sign(7, 3, record([0.5])), TREE, client, now) == flaw


def test_after_a_rotation_older_tokens_verify_and_new_ones_bear_the_new_key() -> None:
    before = replace(SIGNER, keys=(OLD,)).sign(7, 3, record([0.5]))
    assert isinstance(SIGNER.read(before, TREE, 7, 3), Token)
    assert replace(SIGNER, keys=(OLD,)).read(SIGNER.sign(7, 3, record([0.5])), TREE, 7, 3) == "unknown key"


def test_a_token_of_a_tree_that_a_server_has_gone_back_behind_is_of_no_use() -> None:
    assert SIGNER.read(SIGNER.sign(7, 3, record([0.5])), CohortTree(), 7, 3) == "of no use"


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 50)), max_size=40), st.integers(0, 50))
def test_used_tokens_are_remembered_until_they_expire(used: list[tuple[int, int]], now: int) -> None:
    kept = UsedTokens().after(used, 0).after((), now)
    last = dict(used)
    assert kept.have(list(last)) == [expires > max(now, 0) and expires > 0 for expires in last.values()]
    assert len(kept.digests) == sum(expires > now and expires > 0 for expires in last.values())
    assert kept.have([token_digest("never seen")]) in (
        [False],
        [True] if token_digest("never seen") in last else [False],
    )

"""Tokens: what comes back is what was signed, and nothing else verifies."""

import binascii
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
from auxo.protocol.tokens import Flaw, Signer, Tokens, UsedTokens, records_of
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


def signed(client: int, now: int, held: AffinityRecords, signer: Signer = SIGNER) -> str:
    (token,) = signer.sign(np.array([client]), now, held)
    return token


def read(text: str, client: int = 7, now: int = 3, signer: Signer = SIGNER, tree: CohortTree = TREE) -> Tokens:
    return signer.read([text], np.array([client]), tree, now)


def flaw_of(text: str, client: int = 7, now: int = 3, signer: Signer = SIGNER) -> Flaw | None:
    return read(text, client, now, signer).flaws[0]


@given(st.lists(st.floats(-1, 1), max_size=5), st.integers(-(2**62), 2**62), st.integers(0, 10**6))
def test_what_is_read_is_what_was_signed(rewards: list[float], client: int, now: int) -> None:
    held = record(rewards)
    found = read(signed(client, now, held), client, now)
    assert found.flaws == (None,)
    again = records_of(found, TREE, CLUSTERS)
    # What a token leaves out is of cohorts that have said nothing, and counts for nothing.
    expected = replace(held if rewards else records_of(read(""), TREE, CLUSTERS), explored=again.explored)
    silent = np.isnan(expected.similarity).all(axis=(2, 3))
    expect_same(
        to_bytes(replace(expected, generation=np.where(silent, -1, expected.generation))),
        to_bytes(again),
        "what was signed",
    )


@given(st.lists(st.tuples(st.sampled_from(["0", "0.0", "0.1"]), st.floats(-1, 1)), max_size=12))
def test_tokens_that_are_signed_and_read_together_say_what_each_says_alone(said: list[tuple[str, float]]) -> None:
    each = [record([reward] * (number % 3), cohort) for number, (cohort, reward) in enumerate(said)]
    texts = [signed(number, 3, held) for number, held in enumerate(each)]
    found = SIGNER.read(texts, np.arange(len(texts)), TREE, 3)
    assert found.flaws == (None,) * len(texts)
    together = records_of(found, TREE, CLUSTERS)
    assert SIGNER.sign(np.arange(len(texts)), 3, together) == [
        signed(number, 3, records_of(read(text, number), TREE, CLUSTERS)) for number, text in enumerate(texts)
    ]


@given(st.data())
def test_a_changed_bit_never_verifies(data: st.DataObject) -> None:
    text = signed(7, 3, record([0.5, -0.2]))
    raw = bytearray(binascii.a2b_base64(text))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    assert flaw_of(binascii.b2a_base64(raw, newline=False).decode()) in {"forged", "unknown key"}


@pytest.mark.parametrize("rewards", [[], [0.5]])
def test_a_token_that_is_spelt_in_another_way_is_the_same_token_among_those_that_were_used(
    rewards: list[float],
) -> None:
    """The last character of some texts has bits that mean nothing: a used token must not pass for a new one by them."""
    text = signed(7, 3, record(rewards))
    raw = binascii.a2b_base64(text)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = len(text.rstrip("=")) - 1
    spelt = [text[:last] + letter + text[last + 1 :] for letter in letters]
    same = [one for one in spelt if binascii.a2b_base64(one) == raw]
    assert len(same) > 1
    used = UsedTokens().after(read(text).marks, read(text).expires, 3)
    assert all(used.have(read(one).marks).all() for one in same)
    assert not used.have(read(signed(8, 3, record(rewards)), 8).marks).any()


@given(st.text(max_size=300))
def test_whatever_comes_is_read_without_an_error(text: str) -> None:
    assert flaw_of(text) is not None


@pytest.mark.fault(22)
@given(st.binary(max_size=120))
def test_whatever_bytes_come_are_read_without_an_error(data: bytes) -> None:
    named = binascii.a2b_base64(signed(7, 3, record([])))[:9] + data  # version and key are right
    for one in (data, named):
        assert flaw_of(binascii.b2a_base64(one, newline=False).decode()) is not None


@pytest.mark.fault(27)
@pytest.mark.parametrize(
    ("client", "now", "signer", "flaw"),
    [
        (8, 3, SIGNER, "another's"),
        (7, 103, SIGNER, "expired"),
        (7, 2, SIGNER, "expired"),
        (7, 3, replace(SIGNER, keys=(Key("33" * 32),)), "unknown key"),
        (
            7,
            3,
            replace(SIGNER, federation="another"),
            "unknown key",
        ),  # a directory may see another, and nobody has lied
    ],
)
def test_who_when_and_where_a_token_holds(client: int, now: int, signer: Signer, flaw: str) -> None:
    assert flaw_of(signed(7, 3, record([0.5])), client, now, signer) == flaw


def test_after_a_rotation_older_tokens_verify_for_a_while_and_new_ones_bear_the_new_key() -> None:
    alone = replace(SIGNER, keys=(Key(OLD.secret),))
    before = signed(7, 3, record([0.5]), alone)
    assert flaw_of(before) is None
    assert flaw_of(before, now=49) is None
    assert flaw_of(before, now=50) == "unknown key"  # its key has had its time, and that is no forgery
    assert flaw_of(signed(7, 3, record([0.5])), signer=alone) == "unknown key"


@pytest.mark.parametrize("keys", [(), (NEW, OLD)])
def test_a_key_past_its_date_does_not_sign(keys: tuple[Key, ...]) -> None:
    with pytest.raises(ValueError, match="a last one without an end"):
        Signer(keys, "federation", 100)


def test_a_token_of_a_tree_that_a_server_has_gone_back_behind_is_of_no_use() -> None:
    assert read(signed(7, 3, record([0.5])), tree=CohortTree()).flaws == ("of no use",)


@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.integers(0, 50), max_size=40), st.integers(0, 50))
def test_used_tokens_are_remembered_until_they_expire(used: dict[int, int], now: int) -> None:
    marks, expires = np.array(list(used), dtype=np.int64), np.array(list(used.values()), dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    kept = UsedTokens().after(marks, expires, 0).after(nothing, nothing, now)
    np.testing.assert_array_equal(kept.have(marks), expires > now)
    assert len(kept.digests) == np.sum(expires > now)
    never = next(number for number in range(50) if number not in used)
    assert not kept.have(np.array([never])).any()

"""Tokens: a client's own is known, and no other text is."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from auxo.cli import app
from auxo.core.types import ClientId
from auxo.files.errors import FileError
from auxo.service.client_tokens import CLIENT_KEY_FILE, ClientTokens, client_tokens, named_by

NAMES = st.integers(-(2**64) + 1, 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
MINE = ClientTokens(b"one secret")
OTHERS = ClientTokens(b"another")


@given(NAMES)
def test_a_token_says_whose_it_is_to_its_own_service_alone(client: ClientId) -> None:
    token = MINE.issue(client)
    assert MINE.client_of(token) == named_by(token) == client
    assert OTHERS.client_of(token) is None
    assert not MINE.is_own(token)


@given(NAMES, st.data())
def test_a_token_with_any_other_character_is_nobodys(client: ClientId, data: st.DataObject) -> None:
    token = MINE.issue(client)
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(exclude_characters=token[place]))
    assert MINE.client_of(token[:place] + letter + token[place + 1 :]) is None


@given(st.text())
def test_no_text_is_a_token_by_chance(text: str) -> None:
    assert MINE.client_of(text) is None
    assert not MINE.is_own(text)
    named_by(text)


def test_the_service_s_own_token_is_no_client_s() -> None:
    assert MINE.is_own(MINE.own)
    assert not MINE.is_own(OTHERS.own)
    assert MINE.client_of(MINE.own) is None


@pytest.mark.parametrize("client", ["", "x" * 1025, 2**64, True, 1.5])
def test_who_cannot_be_called_so_gets_no_token(client: ClientId) -> None:
    with pytest.raises(ValueError, match="client: expected a number"):
        MINE.issue(client)


def test_the_key_is_made_once_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    first = client_tokens(folder)
    assert stat.S_IMODE((folder / CLIENT_KEY_FILE).stat().st_mode) == 0o600
    assert client_tokens(folder) == first
    assert first.secret.hex() not in repr(first)
    assert repr(first.secret) not in repr(first)
    (folder / CLIENT_KEY_FILE).chmod(0o644)
    with pytest.raises(FileError, match="all clients then need new tokens"):
        client_tokens(folder)


def test_the_command_prints_a_token_for_each_client(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["clients", "invite", str(tmp_path), "phone-7", "8"])
    assert printed.exit_code == 0
    tokens = client_tokens(tmp_path)
    assert [line.split(" ") for line in printed.output.splitlines()] == [
        ["phone-7", tokens.issue("phone-7")],
        ["8", tokens.issue("8")],
    ]


def test_the_command_refuses_a_key_that_others_can_read(tmp_path: Path) -> None:
    client_tokens(tmp_path)
    (tmp_path / CLIENT_KEY_FILE).chmod(0o640)
    refused = CliRunner().invoke(app, ["clients", "invite", str(tmp_path), "phone-7"])
    assert refused.exit_code == 2

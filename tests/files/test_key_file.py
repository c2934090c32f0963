"""The keys of a server: made once, for its owner alone, and rotated."""

import stat
from pathlib import Path

import pytest

from auxo.files.errors import FileError
from auxo.files.key_file import KEY_FILE, keys_at, rotate_keys


def test_a_key_is_made_once_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    (key,) = keys_at(tmp_path, 0, 60)
    assert keys_at(tmp_path, 0, 60) == (key,)
    assert len(bytes.fromhex(key.secret)) == 32
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert key.secret not in repr(key)


def test_a_new_key_signs_and_the_old_one_verifies_until_its_last_token_has_expired(tmp_path: Path) -> None:
    (first,) = keys_at(tmp_path, 10, 60)
    rotate_keys(tmp_path)
    old, new = keys_at(tmp_path, 20, 60)
    assert (old.secret, old.until, new.until) == (first.secret, 80, None)
    assert new.secret != old.secret
    assert keys_at(tmp_path, 79, 60) == (old, new)  # said once
    assert keys_at(tmp_path, 80, 60) == (new,)
    assert old.secret not in (tmp_path / KEY_FILE).read_text()
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


def test_rotations_that_no_server_has_seen_yet_leave_all_keys_in_place(tmp_path: Path) -> None:
    (first,) = keys_at(tmp_path, 1, 60)
    rotate_keys(tmp_path)
    rotate_keys(tmp_path)
    old, _, new = keys_at(tmp_path, 5, 60)
    assert (old.secret, old.until, new.until) == (first.secret, 65, None)


def test_where_nobody_signs_there_is_no_key_to_rotate(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="got no file"):
        rotate_keys(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    keys_at(tmp_path, 0, 60)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(FileError, match="0644"):
        keys_at(tmp_path, 0, 60)


@pytest.mark.parametrize("content", ["", "{}", '{"keys": []}', '{"keys": [{"secret": "abc", "until": null}]}'])
def test_a_damaged_key_is_no_key(tmp_path: Path, content: str) -> None:
    path = tmp_path / KEY_FILE
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(FileError, match="expected keys"):
        keys_at(tmp_path, 0, 60)

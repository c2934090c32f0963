"""The keys of a server: made once, for its owner alone, and rotated."""

import stat
from pathlib import Path

import pytest

from auxo.files.errors import FileError
from auxo.files.key_file import KEY_FILE, keys_in, rotate_keys


def test_a_key_is_made_once_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    (key,) = keys_in(tmp_path)
    assert keys_in(tmp_path) == (key,)
    assert len(bytes.fromhex(key.secret)) == 32
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert key.secret not in repr(key)


def test_a_new_key_signs_and_the_old_one_verifies_for_a_while(tmp_path: Path) -> None:
    (first,) = keys_in(tmp_path)
    old, new = rotate_keys(tmp_path, until=70)
    assert (old.secret, old.until, new.until) == (first.secret, 70, None)
    assert new.secret != old.secret
    assert keys_in(tmp_path) == (old, new)
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    keys_in(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(FileError, match="0644"):
        keys_in(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", '{"keys": []}', '{"keys": [{"secret": "abc", "until": null}]}'])
def test_a_damaged_key_is_no_key(tmp_path: Path, content: str) -> None:
    path = tmp_path / KEY_FILE
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(FileError, match="expected keys"):
        keys_in(tmp_path)

"""Answers in pieces."""

import hashlib
import resource

import pytest

from auxo.service.http_limits import HttpLimits
from auxo.service.uploads import PartArrived, Piece, Uploads


@pytest.mark.fault(8)
def test_a_piece_for_which_there_was_no_room_can_be_sent_again() -> None:
    whole = bytes(range(250)) * 400
    uploads = Uploads(HttpLimits())
    first, second = (Piece("n", at, len(whole), hashlib.sha256(whole).hexdigest()) for at in (0, 60_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # a part of the piece finds room
    try:
        with pytest.raises(OSError, match="File too large"):
            uploads.add("a", first, whole[:60_000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert uploads.received("a", "n") == PartArrived(0)
    assert uploads.add("a", first, whole[:60_000]) == PartArrived(60_000)
    assert uploads.add("a", second, whole[60_000:]) == whole
    uploads.close()


@pytest.mark.fault(28)
def test_two_processes_of_one_client_do_not_undo_each_other_s_pieces_and_a_third_takes_the_oldest_s_place() -> None:
    whole = bytes(range(250)) * 4
    uploads, sha256 = Uploads(HttpLimits()), hashlib.sha256(whole).hexdigest()
    for at in (0, 400):
        for nonce in ("older", "newer"):
            assert uploads.add("a", Piece(nonce, at, 1000, sha256), whole[at : at + 400]) == PartArrived(at + 400)
    assert uploads.add("a", Piece("third", 0, 1000, sha256), whole[:400]) == PartArrived(400)
    assert uploads.received("a", "older") == PartArrived(0)
    assert uploads.add("a", Piece("newer", 800, 1000, sha256), whole[800:]) == whole
    uploads.close()

"""`auxo keys rotate`: a server that runs signs with the new key, and tokens of the old one still hold."""

from pathlib import Path

from typer.testing import CliRunner

from auxo.cli import app
from auxo.core.proofs import PROVED
from auxo.runtime.server_checkpoints import ServerCheckpoints
from tests.runtime.test_server import Loop, new_server
from tests.runtime.test_signing import proofs_of, token_of


def test_a_server_that_runs_takes_a_new_key_up_and_nobody_loses_its_place(tmp_path: Path) -> None:
    folder, server = tmp_path / "federation", new_server()
    with ServerCheckpoints(folder) as checkpoints:
        checkpoints.restore(server)
        loop = Loop(server).play(8)
        before = proofs_of(server, loop.check_ins())
        assert before.count(PROVED) > len(before) / 2
        assert CliRunner().invoke(app, ["keys", "rotate", str(folder)]).exit_code == 0
        checkpoints.save(server)
        assert proofs_of(server, loop.check_ins()) == before
        old = {token_of(one)[2:12] for one in loop.check_ins() if token_of(one)}  # the name of the key
        loop.play(1)
        assert {token_of(one)[2:12] for one in loop.check_ins() if token_of(one)} - old
        assert proofs_of(server, loop.check_ins()).count(PROVED) > len(before) / 2


def test_a_directory_without_a_key_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["keys", "rotate", str(tmp_path)])
    assert result.exit_code == 2

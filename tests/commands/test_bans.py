"""`auxo bans`: who is banned, and to end a ban of a server that goes on."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from auxo.algorithms.base import OneCohort
from auxo.cli import app
from auxo.core.asking import Answer
from auxo.core.types import ROOT
from auxo.core.watchful import Watchful
from auxo.protocol.messages import CheckIn, TaskResult
from auxo.runtime.server import Server
from auxo.runtime.server_checkpoints import ServerCheckpoints


def new_server() -> Server:
    return Server(np.zeros(3), participants=6, rounds=50, method=OneCohort(), guard=Watchful())


def play(server: Server, rounds: int, bad: str) -> None:
    """Play rounds in which one client sends no numbers."""
    for _ in range(rounds):
        tasks = server.open_round(ROOT, server.match([CheckIn(f"phone-{number}") for number in range(6)])[ROOT])
        updates = {task: np.full(3, np.nan if task.client == bad else 0.1, dtype=np.float32) for task in tasks}
        server.close_round(
            ROOT, [TaskResult(one.client, one.cohort, one.round, Answer(update, 3)) for one, update in updates.items()]
        )


def banned_in(folder: Path) -> str:
    result = CliRunner().invoke(app, ["bans", "list", str(folder)])
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.fault(20)
def test_a_ban_is_listed_survives_a_restart_and_can_be_lifted(tmp_path: Path) -> None:
    """Fault 20: who is banned and comes again under the same name is refused, after a restart, too."""
    assert banned_in(tmp_path) == "nobody is banned\n"
    server = new_server()
    with ServerCheckpoints(tmp_path) as kept:
        kept.restore(server)
        play(server, 3, "phone-2")
        kept.save(server)
    assert banned_in(tmp_path).startswith(
        "phone-2: until round 203, sends no updates: NON_FINITE in cohort 0, round 1; "
    )

    again = new_server()
    with ServerCheckpoints(tmp_path) as kept:
        kept.restore(again)
        again.match([CheckIn("phone-2")])
        assert list(again.refused) == ["phone-2"]
        lifted = CliRunner().invoke(app, ["bans", "lift", str(tmp_path), "phone-2"])
        assert lifted.exit_code == 0, lifted.stderr
        kept.save(again)  # a moment between rounds
        again.match([CheckIn("phone-2")])
        assert again.refused == {}
    assert banned_in(tmp_path) == "nobody is banned\n"


def test_a_client_that_is_not_banned_cannot_be_let_in_again(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bans", "lift", str(tmp_path), "phone-9"])
    assert result.exit_code == 2
    assert "phone-9" in result.stderr

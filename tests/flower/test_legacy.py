"""Apps of Flower's older API are told how to move on, wherever they meet Auxo."""

import logging

import pytest

pytest.importorskip("flwr")

from flwr.app import Context
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from flwr.server.strategy import FedAvg as OldFedAvg
from flwr.server.workflow import DefaultWorkflow
from flwr.serverapp.strategy import FedAvg

from auxo.flower.client import AuxoClientApp, AuxoMod
from auxo.flower.failing import RunFailed
from auxo.flower.strategy import AuxoStrategy
from tests.flower.linear_app import initial
from tests.flower.local_grid import LocalGrid

MOVE_ON = r"older API.*@app\.train\(\).*@app\.main\(\).*how-to-upgrade-to-message-api"


def client_fn(context: Context) -> Client:
    return NumPyClient().to_client()


class Mine(OldFedAvg):
    pass


@pytest.mark.parametrize("base", [OldFedAvg, OldFedAvg(), Mine, lambda: Mine(fraction_fit=0.5), DefaultWorkflow()])
def test_strategies_are_told(base: object) -> None:
    with pytest.raises(TypeError, match=MOVE_ON):
        AuxoStrategy(base, participants=4)  # type: ignore[arg-type]


def test_clients_are_told_where_they_are_wrapped() -> None:
    with pytest.raises(TypeError, match=MOVE_ON):
        AuxoClientApp(client_fn)  # type: ignore[arg-type]
    mod = AuxoMod()
    with pytest.raises(TypeError, match=MOVE_ON):
        mod.of(ClientApp(client_fn, mods=[mod]))


def test_clients_that_are_not_wrapped_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="flwr"), pytest.raises(RunFailed, match=MOVE_ON):
        AuxoStrategy(FedAvg, participants=4).start(LocalGrid(ClientApp(client_fn), 4), initial(), 1, timeout=0.1)
    (told,) = {one.getMessage() for one in caplog.records if "nodes failed" in one.getMessage()}
    assert "fitins" in told
    assert "move the app to the message api" in told.lower()


def test_a_server_is_told() -> None:
    with pytest.raises(AttributeError, match=MOVE_ON):
        _ = AuxoStrategy(FedAvg, participants=4).initialize_parameters

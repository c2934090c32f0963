"""Why a federation can have no cohorts is said in its log, in the words of a simulation with Flower's own names."""

import pytest
from flwr.serverapp.strategy import FedAvg

from auxo.algorithms.auxo import Auxo
from auxo.flower.strategy import AuxoStrategy
from auxo.protocol.notes import why_no_partition
from tests.flower.linear_app import auxo_app, initial
from tests.flower.local_grid import LocalGrid


@pytest.mark.parametrize(
    ("participants", "rounds", "setting", "argument"),
    [
        (1, 20, "training.participants", "participants of AuxoStrategy"),
        (4, 2, "training.rounds", "num_rounds of start()"),
    ],
)
def test_the_log_says_that_no_partition_is_possible_and_what_to_change(
    participants: int, rounds: int, setting: str, argument: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", logger="flwr")
    strategy = AuxoStrategy(FedAvg, participants=participants)
    strategy.start(LocalGrid(auxo_app(groups=2), 4), initial(), num_rounds=rounds, timeout=5.0)
    words = why_no_partition(Auxo(), participants, rounds, 4)
    assert words is not None
    assert setting in words
    assert caplog.messages.count(words.replace(setting, argument)) == 1

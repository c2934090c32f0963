"""A federation so small that tests can run it."""

from collections.abc import Callable, Iterable
from pathlib import Path

from flwr.app import Message
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy

from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.flower.foreign_step import CohortSeen
from auxo.flower.result import AuxoResult
from auxo.flower.roll_call import CheckInBy
from auxo.flower.strategy import AuxoStrategy
from auxo.protocol.events import Event
from tests.flower.linear_app import auxo_app, initial
from tests.flower.local_grid import LocalGrid

NODES = 8


def federation(  # noqa: PLR0913 - by name
    *,
    rounds: int = 12,
    base: Strategy | Callable[[], Strategy] | Callable[[CohortSeen], Strategy] = FedAvg,
    app: ClientApp | None = None,
    change: Callable[[Message], Iterable[Message]] = lambda reply: [reply],
    check_in: CheckInBy = "piggyback",
    directory: Path | None = None,
    method: CohortAlgorithm | None = None,
    grid: LocalGrid | None = None,
    timeout: float = 5.0,
) -> tuple[AuxoResult, list[Event], LocalGrid]:
    """Run a federation of two groups in this process."""
    events: list[Event] = []
    grid = grid or LocalGrid(app or auxo_app(groups=2), NODES, change=change)
    strategy = AuxoStrategy(
        base, participants=NODES, method=method, check_in=check_in, directory=directory, on_event=events.append
    )
    return strategy.start(grid, initial(), num_rounds=rounds, timeout=timeout), events, grid


def members(result: AuxoResult, grid: LocalGrid) -> dict[str, set[int]]:
    """Return whose group, by number, each cohort's model fits: even and odd nodes are the two groups."""
    from tests.flower.linear_app import loss_of  # noqa: PLC0415

    fits: dict[str, set[int]] = {cohort: set() for cohort in result.cohorts}
    for place in range(len(grid.contexts)):
        best = min(result.cohorts, key=lambda cohort: loss_of(result.cohorts[cohort].arrays, place, groups=2))
        fits[best].add(place)
    return fits

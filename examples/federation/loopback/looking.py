"""What can be seen of a federation from outside: the events of its run, and the affinity records of its nodes."""

from pathlib import Path

from auxo.core.types import CohortId
from auxo.protocol.events import Event, Partitioned, RoundClosed, from_json
from auxo.runtime.client import Client


def events_in(directory: Path) -> list[Event]:
    """Return what a ServerApp has written down; its last line may not be complete yet."""
    path = directory / "events.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [from_json(line) for line in lines if line.endswith("\n")]


def partitions_in(directory: Path) -> list[Partitioned]:
    """Return the partitions that there were."""
    return [event for event in events_in(directory) if isinstance(event, Partitioned)]


def rounds_in(directory: Path) -> dict[CohortId, int]:
    """Return the last round that each cohort has closed, of those that train."""
    parted = {event.cohort for event in partitions_in(directory)}
    closed = {CohortId(event.cohort): event.round for event in events_in(directory) if isinstance(event, RoundClosed)}
    return {cohort: number for cohort, number in closed.items() if cohort not in parted}


def record_in(folder: Path) -> Client | None:
    """Return a node's client half as the file in its folder has it; None: there is none yet.

    Raises:
        CodecError: it is damaged.
    """
    files = list(folder.glob("*.affinity"))
    if len(files) != 1:
        return None
    client = Client(0)
    client.record_from_bytes(files[0].read_bytes())
    return client


def participations_in(folder: Path) -> int:
    """Return how often a node has taken part, as its own file says."""
    client = record_in(folder)
    return 0 if client is None else client.check_in().participations


def cohort_in(folder: Path) -> CohortId | None:
    """Return the cohort that a node would ask for, by its own file; None: it has no preference yet."""
    client = record_in(folder)
    request = None if client is None else client.check_in().request
    return None if request is None else request.cohort

"""The list of faults, as `faults.toml` has it; run as a script, the table of docs/faults.md."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

PLACES = ("local", "service", "flower", "ray", "privacy")
N_FAULTS = 38


@dataclass(frozen=True)
class Fault:
    number: int
    name: str
    outcome: str
    where: tuple[str, ...]  # of PLACES: each must have a test that shows it


def faults() -> list[Fault]:
    table = tomllib.loads((Path(__file__).parent / "faults.toml").read_text(encoding="utf-8"))["fault"]
    found = [Fault(row["number"], row["name"], row["outcome"], tuple(row["where"])) for row in table]
    assert [fault.number for fault in found] == list(range(1, N_FAULTS + 1)), "faults.toml: every number once, in order"
    assert all(fault.where and set(fault.where) <= set(PLACES) for fault in found), f"faults.toml: where is of {PLACES}"
    return found


def place_of(path: str) -> str:
    """Return where a test runs, by its file: a folder of a place's name, or its name in the file's own.

    >>> place_of("tests/service/test_store.py"), place_of("tests/engines/test_ray_cluster.py"), place_of("tests/x.py")
    ('service', 'ray', 'local')
    """
    parts = path.replace("/", "_").replace(".", "_").split("_")
    return next((place for place in PLACES if place in parts), "local")


def table() -> str:
    """Return the table of docs/faults.md."""
    rows = [f"| {one.number} | {one.name} | {one.outcome} | {', '.join(one.where)} |" for one in faults()]
    return "\n".join(["| | fault | outcome | shown on |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    print(table())  # noqa: T201 - for whoever runs it

"""Hyper-parameters of rivals and FL algorithms: what is tried, and the table of those that were best on other seeds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from auxo.files.typed_json import json_reader

TABLE = Path(__file__).with_name("tuned.json")

EVERYWHERE = "*"
"""In place of a population: the best on average over those that were tried, for all others."""

Settings = tuple[str, ...]  # "section.key=value" each


def _grid(section: str, **values: Sequence[object]) -> tuple[Settings, ...]:
    """Return every combination, the first one what the part has by default."""
    return tuple(
        tuple(f"{section}.{key}={value}" for key, value in zip(values, chosen, strict=True))
        for chosen in product(*values.values())
    )


METHOD_GRIDS: Mapping[str, tuple[Settings, ...]] = {
    "ifca": _grid("ifca", warm_start=(5, 1, 20)),
    "flexcfl": (
        *_grid("flexcfl", steps=(50, 10), group_rate=(0.0,)),
        *_grid("flexcfl", steps=(50,), group_rate=(0.1,)),
    ),
    # Distances between updates: one minus their cosine.
    "fl+hc": _grid("fl+hc", after=(10, 5), threshold=(1.0, 0.8)),
    # In units of the longest mean update so far. With eps_2 of 1.5 and less every population is cut into cohorts of a
    # few clients each: the longest of many updates is longer than that whatever the groups are.
    "cfl": _grid("cfl", eps_1=(0.4,), eps_2=(3.0, 2.0, 2.5, 5.0)),
    "icfl": (*_grid("icfl", attach=(0.2, 0.1), gap=(0.3,)), *_grid("icfl", attach=(0.2,), gap=(0.1,))),
}
"""What is tried of each rival; those that are not here have nothing to tune but K, which is told."""

PART_GRIDS: Mapping[str, tuple[Settings, ...]] = {
    "fedyogi": _grid("fedyogi", server_learning_rate=(0.01, 0.003, 0.03, 0.1)),
    "fedprox": _grid("fedprox", mu=(0.01, 0.1, 1.0)),
    "qfedavg": _grid("qfedavg", q=(1.0, 0.1)),
    "ftfa": _grid("ftfa", epochs=(5, 1, 10, 20)),
}
"""What is tried of the parts of FL algorithms, under the base: gains over a weak one do not count."""


@dataclass(frozen=True)
class Tuned:
    """The settings that were best, of those that were tried."""

    population: str
    part: str  # a method, or a part of an FL algorithm
    settings: Settings
    accuracy: float  # with them, mean over ``seeds``
    tried: int
    seeds: tuple[int, ...]


def read_table(path: Path = TABLE) -> tuple[Tuned, ...]:
    """Return the table; nothing while there is none."""
    return json_reader(tuple[Tuned, ...])(path.read_bytes()) if path.is_file() else ()


def write_table(table: Sequence[Tuned], path: Path = TABLE) -> None:
    """Write the table, sorted."""
    ordered = sorted(table, key=lambda one: (one.part, one.population))
    path.write_text(json.dumps([asdict(one) for one in ordered], indent=1) + "\n", encoding="utf-8")


def tuned_for(population: str, parts: Sequence[str], table: Sequence[Tuned]) -> Settings:
    """Return the settings of these parts on a population: its own, or those for everywhere; none: the defaults."""
    found: list[str] = []
    for part in parts:
        mine = {one.population: one.settings for one in table if one.part == part}
        found += mine.get(population, mine.get(EVERYWHERE, ()))
    return tuple(found)

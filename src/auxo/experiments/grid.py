"""A grid of experiments: the same configuration with several values of some settings, every combination a cell."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.registry.registry import short_name

_OPENING, _CLOSING = "[{", "]}"


@dataclass(frozen=True)
class GridAxis:
    """A setting and the values that it takes, one after another."""

    key: str  # section.key
    values: tuple[str, ...]  # as they are written in --set

    @property
    def title(self) -> str:
        """Return what a column of its values is called."""
        return self.key.rpartition(".")[2]


@dataclass(frozen=True)
class Cell:
    """One combination of values, with the experiment that it is."""

    choices: tuple[str, ...]  # a value of each axis, in their order
    name: str  # of its folder
    config: Config

    @property
    def words(self) -> tuple[str, ...]:
        """Return the values as people call them: a part of the user's own by its name alone."""
        return tuple(short_name(choice) for choice in self.choices)


def parse_axis(text: str) -> GridAxis:
    """Return the axis that SECTION.KEY=A,B,... stands for; commas in brackets and quotes belong to a value.

    >>> parse_axis("training.aggregator=fedavg,fedyogi")
    GridAxis(key='training.aggregator', values=('fedavg', 'fedyogi'))
    >>> parse_axis("population.groups=[3.0, 1.0],4").values
    ('[3.0, 1.0]', '4')
    """
    key, equals, listed = text.partition("=")
    values = tuple(value.strip() for value in _split(listed))
    if not equals or not key.strip() or not all(values):
        raise ConfigError(
            f"--grid {text}: expected section.key=value,value, such as training.aggregator=fedavg,fedyogi"
        )
    if len(set(values)) < len(values):
        raise ConfigError(f"--grid {text}: expected every value once, got {', '.join(values)}")
    return GridAxis(key.strip(), values)


def make_cells(axes: Sequence[GridAxis], load: Callable[[Sequence[str]], Config]) -> tuple[Cell, ...]:
    """Return every combination of the axes' values, the last axis fastest; without axes the one that there is.

    ``load`` returns the configuration with overrides, each SECTION.KEY=VALUE.
    """
    keys = [axis.key for axis in axes]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ConfigError(f"--grid {twice[0]}: expected once, with all its values separated by commas, got it twice")
    if "seed" in keys:
        raise ConfigError("--grid seed: seeds are no axis of a grid, but what it is averaged over; use --seeds")
    cells = []
    for choices in product(*(axis.values for axis in axes)):
        config = load([f"{key}={value}" for key, value in zip(keys, choices, strict=True)])
        cells.append(Cell(choices, _folder(axes, choices), config))
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise ConfigError(f"--grid: expected values that differ in letters and digits, got {', '.join(sorted(names))}")
    return tuple(cells)


def _folder(axes: Sequence[GridAxis], choices: Sequence[str]) -> str:
    """Return a name that is safe as a folder on every system, such as aggregator-fedavg_selector-oort."""
    named = (f"{axis.title}-{short_name(choice)}" for axis, choice in zip(axes, choices, strict=True))
    return "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", one).strip("-") for one in named)


def _split(listed: str) -> list[str]:
    """Return what stands between commas that are in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in listed:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts

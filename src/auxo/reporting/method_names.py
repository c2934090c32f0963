"""How methods are called and coloured: those that come with Auxo in words of their own, others by their names."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

from auxo.experiments.summary import BASE, ORACLE

AUXO = "auxo"

_OTHER_COLOURS = ("m0", "m1", "m2", "m3")
"""In the style sheet, for methods without a colour of their own; more methods than that use them again."""


@dataclass(frozen=True)
class MethodWords:
    """A method in a sentence, at the head of a table's row, and as one of those compared."""

    name: str
    title: str
    description: str


_KNOWN = {
    BASE: MethodWords("base", "base: one model for all", "one model for everybody (base)"),
    AUXO: MethodWords("Auxo", "Auxo: cohorts found", "cohorts found while training (Auxo)"),
    ORACLE: MethodWords("oracle", "oracle: true groups", "an oracle that is told the true groups"),
    "random": MethodWords("random", "random: K groups by chance", "K groups drawn at random (random)"),
    "cfl": MethodWords("CFL", "CFL: cut in two by cosines", "cohorts cut in two by everybody's updates (CFL)"),
    "fl+hc": MethodWords("FL+HC", "FL+HC: one dendrogram", "cohorts by one dendrogram of everybody's updates (FL+HC)"),
    "flexcfl": MethodWords("FlexCFL", "FlexCFL: K by pre-training", "K groups by what clients pre-train (FlexCFL)"),
    "fesem": MethodWords("FeSEM", "FeSEM: nearest of K models", "the nearest of K models for each client (FeSEM)"),
    "icfl": MethodWords("ICFL-style", "ICFL-style: split and merge", "clusters that split and merge (ICFL-style)"),
    "kfed": MethodWords("k-FED", "k-FED: K by inputs", "K groups by clients' inputs (k-FED)"),
    "ifca": MethodWords("IFCA", "IFCA: best of K models", "the best of K models for each client (IFCA)"),
    "paper": MethodWords("paper", "paper: Auxo to the letter", "Auxo as the paper prints it (paper)"),
}

_COLOURED = frozenset({BASE, AUXO, ORACLE})  # of their own


def words_for(method: str) -> MethodWords:
    """Return how a method is called.

    >>> words_for("auxo").name, words_for("fedavg-2").title
    ('Auxo', 'fedavg-2')
    """
    return _KNOWN.get(method, MethodWords(method, method, method))


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """Return each method's class in the style sheet.

    >>> method_colours(["base", "fedavg-2", "oracle"])
    {'base': 'base', 'fedavg-2': 'm0', 'oracle': 'oracle'}
    """
    others = cycle(_OTHER_COLOURS)
    return {method: method if method in _COLOURED else next(others) for method in methods}


def contenders(methods: Iterable[str]) -> tuple[str, ...]:
    """Return the methods that are on trial: neither the base that they are held against nor the oracle."""
    return tuple(method for method in methods if method not in {BASE, ORACLE})

"""The settings of Auxo that are its own, with their defaults: how it looks for groups, and how it tries a partition.

`Auxo` itself has the others. What clients do by `AffinitySettings` (core/affinity.py) and how rewards are made by
`RewardSettings` (core/rewards.py) other algorithms have as well.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from auxo.core.settings import Bounds, NonNegativeFloat, PositiveInt, ProperFraction, checked, setting


@dataclass(frozen=True)
@checked
class ClusteringSettings:
    """How groups are looked for."""

    # Each may become a branch with a model of its own, which judges are sent.
    clusters: Annotated[int, Bounds(ge=2, le=8)] = setting(
        8,
        "Most clusters of a cohort (the paper's K), and so the most children of a partition; how many there are is "
        "read from the updates.",
    )
    pool_rounds: PositiveInt = setting(
        3,
        "Rounds whose updates are looked at for the first time; twice as many each time that nothing came of it. "
        "The paper looks at one. Our choice.",
    )
    reads: Literal["updates", "sketches"] = setting(
        "updates",
        "What groups are looked for in: clients' updates, or the private sketches of these that they send besides.",
    )
    pool_most: PositiveInt = setting(1000, "Most of these updates that are kept: 16 MB of them; our choice.")


@dataclass(frozen=True)
@checked
class TrialSettings:
    """How a partition is tried."""

    alpha: Annotated[float, Bounds(gt=0, lt=1)] = setting(
        0.01,
        "Chance that a cohort is parted in its whole life although its members gain nothing by it; our choice.",
    )
    min_gain: ProperFraction = setting(
        0.02,
        "Share of their loss that members must gain by parting; less is not worth fewer samples. Our choice.",
    )
    liars: Annotated[float, Bounds(ge=0, lt=0.5)] | None = setting(
        None,
        "Share of judges that may lie: the gains of as many who gain most, and of as many who lose most, do not count "
        "unless their updates are far longer than usual. A group that is smaller than that, and not badly served by "
        "the model of all, is then not found. 0: all are believed, each up to one usual loss. Not set: 0.15 where "
        "claims are signed, and 0 elsewhere.",
    )
    most_rounds: Annotated[int, Bounds(ge=4)] = setting(
        16, "Rounds after which a trial ends that is not sure of anything; our choice."
    )
    judges: PositiveInt = setting(
        60,
        "Most judges of a round on trial. Where fewer than twice as many clients would be new to a trial by then, "
        "everybody judges, by a fifth of its samples that it does not train on meanwhile. Our choice.",
    )


@dataclass(frozen=True)
@checked
class SketchSettings:
    """What clients are asked to say of themselves, and at what price, where groups are looked for in sketches."""

    width: Annotated[int, Bounds(ge=2)] = setting(
        32, "Numbers in a sketch: fewer bear less noise, more tell clients better apart."
    )
    epsilon: NonNegativeFloat = setting(
        4.0, "Price of a sketch, once for each question; 0: sketches are sent as they are. Our choice."
    )
    label_epsilon: NonNegativeFloat = setting(
        2.0, "Price of the number of the nearest centre, once for each question; 0: as it is. Our choice."
    )
    gain_epsilon: NonNegativeFloat = setting(
        4.0, "Price of a judge's one word, once for each question; 0: as it is. Our choice."
    )
    judges: PositiveInt = setting(
        200,
        "Most judges of a round on trial; more than of those who tell losses, for one word says less. Our choice.",
    )
    pool_most: PositiveInt = setting(20_000, "Most sketches that are kept: 2.5 MB of them; our choice.")

"""The settings of Auxo that are its own, with their defaults: how it clusters, and how it tries a partition.

`Auxo` itself has the others. What clients do by `AffinitySettings` (core/affinity.py) and how rewards are made by
`RewardSettings` (core/rewards.py) other algorithms have as well.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from auxo.core.settings import (
    AtLeastTwo,
    Bounds,
    Fraction,
    NonNegativeFloat,
    PositiveInt,
    ProperFraction,
    checked,
    setting,
)


@dataclass(frozen=True)
@checked
class ClusteringSettings:
    """How participants are clustered."""

    # Each may become a branch with a model of its own, and a judge is asked about twice as many.
    clusters: Annotated[int, Bounds(ge=2, le=8)] = setting(
        8,
        "Most clusters of a cohort (the paper's K); a trial may join some, so this is the most children of a "
        "partition.",
    )
    pool_rounds: PositiveInt = setting(
        10, "Rounds whose updates K-means starts from; 1, as in the paper: a single one."
    )
    pool_per_cluster: PositiveInt = setting(50, "Fewest of these updates for each cluster; our choice.")
    pool_most: PositiveInt = setting(2000, "Most of these updates that are kept: 32 MB of them; our choice.")
    views: Literal["both", "plain"] = setting(
        "both",
        "Look at updates also without what class frequencies explain, and begin with that view unless the other shows "
        "much more structure; or only as they are.",
    )
    min_structure: NonNegativeFloat = setting(
        1.0,
        "What clusters must explain of updates they were not made from, in parts of what they would explain of a cloud "
        "without clusters, chance taken off; with less the cohort looks again later, and tries no partition.",
    )
    finds_number: bool = setting(
        True,
        "Take as many clusters as show most structure in the pool; otherwise always the most.",
    )
    leave_one_out: bool = setting(True, "Compare a participant with centres that do not contain it; the paper's do.")
    centre_memory: NonNegativeFloat = setting(
        10.0,
        "Weight of the last round's centres, in participants; 0, as in the paper: this round's labels only.",
    )
    kmeans_starts: PositiveInt = setting(10, "Tries of K-means, of which the best counts.")


@dataclass(frozen=True)
@checked
class TrialSettings:
    """How a partition is tried."""

    rounds: PositiveInt = setting(
        10, "Rounds that branches train alone before they are judged by the second half of them."
    )
    most_rounds: int = setting(
        40,
        "Rounds after which a trial ends; until then one goes on for as many rounds again while branches gain and it "
        "is open whether it is enough, or chance. Our choice.",
    )
    deviations: NonNegativeFloat = setting(
        3.0,
        "Deviations by which the members of two branches must be better off apart, so that it is not chance.",
    )
    score_deviations: NonNegativeFloat = setting(
        1.0,
        "Deviations by which their score must be better, too, where judges tell one: a smaller loss may be all there "
        "is to knowing which classes are frequent.",
    )
    min_gain: ProperFraction = setting(
        0.02,
        "Share of their loss that members of two branches must gain by parting; less is not worth fewer samples.",
    )
    judges_choose: bool = setting(
        True,
        "Judges are taken to have the model that fits one half of their samples best, and judge by the other half; "
        "false: the model that their cluster index leads to, as those who have validation data of their own do.",
    )
    min_participants: AtLeastTwo = setting(5, "Fewest participants a round that a branch may have; our choice.")
    looks_from: int = setting(
        20,
        "Participants a round from which on a cohort looks for groups; with fewer, too few would judge what it finds.",
    )
    horizon: PositiveInt = setting(10, "Rounds over which a model averages the noise of its steps; our choice.")
    waits_for: Fraction = setting(
        0.8,
        "Share of participants that must bring a cluster index before a trial begins: only their models part properly, "
        "and only their updates tell which clusters are alike. Our choice.",
    )
    patience: PositiveInt = setting(
        30,
        "Rounds after which a trial begins all the same, because most clients may never come back.",
    )
    rest: NonNegativeFloat = setting(
        1.0,
        "How long a cohort trains as it is after a trial that did not pay, in parts of the rounds behind it.",
    )

    def __post_init__(self) -> None:
        if self.looks_from < 2 * self.min_participants:
            raise ValueError(
                f"looks_from: expected enough for two branches of min_participants = {self.min_participants}, got "
                f"{self.looks_from}; raise it to {2 * self.min_participants} or more"
            )
        if self.most_rounds < self.rounds:
            raise ValueError(f"most_rounds: expected at least rounds = {self.rounds}, got {self.most_rounds}")

"""The settings of Auxo that are its own, with their defaults: how it clusters, and how it tries a partition.

`Auxo` itself has the others. What clients do by `AffinitySettings` (core/affinity.py) and how rewards are made by
`RewardSettings` (core/rewards.py) other algorithms have as well.
"""

from dataclasses import dataclass
from typing import Literal

from auxo.core.settings import setting


@dataclass(frozen=True)
class ClusteringSettings:
    """How participants are clustered."""

    clusters: int = setting(
        8,
        "Most clusters of a cohort (the paper's K); a trial may join some, so this is the most children of a "
        "partition.",
    )
    pool_rounds: int = setting(10, "Rounds whose updates K-means starts from; 1, as in the paper: a single one.")
    pool_per_cluster: int = setting(50, "Fewest of these updates for each cluster; our choice.")
    pool_most: int = setting(2000, "Most of these updates that are kept: 32 MB of them; our choice.")
    views: Literal["both", "plain"] = setting(
        "both",
        "Look at updates also without what class frequencies explain, and begin with that view unless the other shows "
        "much more structure; or only as they are.",
    )
    min_structure: float = setting(
        1.0,
        "What clusters must explain of updates they were not made from, in parts of what they would explain of a cloud "
        "without clusters, chance taken off; with less the cohort looks again later, and tries no partition.",
    )
    finds_number: bool = setting(
        True,
        "Take as many clusters as show most structure in the pool; otherwise always the most.",
    )
    leave_one_out: bool = setting(True, "Compare a participant with centres that do not contain it; the paper's do.")
    centre_memory: float = setting(
        10.0,
        "Weight of the last round's centres, in participants; 0, as in the paper: this round's labels only.",
    )
    kmeans_starts: int = setting(10, "Tries of K-means, of which the best counts.")

    def __post_init__(self) -> None:
        # Each may become a branch with a model of its own, and a judge is asked about twice as many.
        if not 2 <= self.clusters <= 8:
            raise ValueError(f"clusters: expected 2 to 8, got {self.clusters}")
        for name in ("kmeans_starts", "pool_rounds", "pool_per_cluster", "pool_most"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not 0 <= self.centre_memory < float("inf"):
            raise ValueError(f"centre_memory: expected a number >= 0, got {self.centre_memory}")
        if not 0 <= self.min_structure < float("inf"):
            raise ValueError(f"min_structure: expected a number >= 0, got {self.min_structure}")


@dataclass(frozen=True)
class TrialSettings:
    """How a partition is tried."""

    rounds: int = setting(10, "Rounds that branches train alone before they are judged by the second half of them.")
    most_rounds: int = setting(
        40,
        "Rounds after which a trial ends; until then one goes on for as many rounds again while branches gain and it "
        "is open whether it is enough, or chance. Our choice.",
    )
    deviations: float = setting(
        3.0,
        "Deviations by which the members of two branches must be better off apart, so that it is not chance.",
    )
    score_deviations: float = setting(
        1.0,
        "Deviations by which their score must be better, too, where judges tell one: a smaller loss may be all there "
        "is to knowing which classes are frequent.",
    )
    min_gain: float = setting(
        0.02,
        "Share of their loss that members of two branches must gain by parting; less is not worth fewer samples.",
    )
    judges_choose: bool = setting(
        True,
        "Judges are taken to have the model that fits one half of their samples best, and judge by the other half; "
        "false: the model that their cluster index leads to, as those who have validation data of their own do.",
    )
    min_participants: int = setting(5, "Fewest participants a round that a branch may have; our choice.")
    looks_from: int = setting(
        20,
        "Participants a round from which on a cohort looks for groups; with fewer, too few would judge what it finds.",
    )
    horizon: int = setting(10, "Rounds over which a model averages the noise of its steps; our choice.")
    waits_for: float = setting(
        0.8,
        "Share of participants that must bring a cluster index before a trial begins: only their models part properly, "
        "and only their updates tell which clusters are alike. Our choice.",
    )
    patience: int = setting(
        30,
        "Rounds after which a trial begins all the same, because most clients may never come back.",
    )
    rest: float = setting(
        1.0,
        "How long a cohort trains as it is after a trial that did not pay, in parts of the rounds behind it.",
    )

    def __post_init__(self) -> None:
        for name in ("rounds", "horizon", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.min_participants < 2:
            raise ValueError(f"min_participants: expected at least 2, got {self.min_participants}")
        if self.looks_from < 2 * self.min_participants:
            raise ValueError(
                f"looks_from: expected enough for two branches of min_participants = {self.min_participants}, got "
                f"{self.looks_from}; raise it to {2 * self.min_participants} or more"
            )
        if self.most_rounds < self.rounds:
            raise ValueError(f"most_rounds: expected at least rounds = {self.rounds}, got {self.most_rounds}")
        if not 0 <= self.waits_for <= 1:
            raise ValueError(f"waits_for: expected a share in [0, 1], got {self.waits_for}")
        if not 0 <= self.min_gain < 1:
            raise ValueError(f"min_gain: expected a share in [0, 1), got {self.min_gain}")
        for name in ("deviations", "score_deviations", "rest"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a number >= 0, got {getattr(self, name)}")

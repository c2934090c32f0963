"""Auxo by the letter: the rules as the paper prints them, where `AuxoSettings` departs from them."""

from auxo.algorithms.auxo import AuxoSettings
from auxo.core.affinity import AffinitySettings
from auxo.core.clustering import ClusteringSettings
from auxo.core.partition import Lemma, PartitionLimits
from auxo.core.rewards import RewardSettings


def paper_limits() -> PartitionLimits:
    """Return the time window of section 4.4; the paper does not wait for participants to bring labels."""
    return PartitionLimits(labelled=0.0)


def paper_settings() -> AuxoSettings:
    """Return Algorithm 1 and Lemma 1 to the letter; what the paper leaves open is as everywhere else.

    Predictions pile up, a label is that of the last visit, centres are those of this round's labels and contain the
    participant they are compared with, and a partition makes two children of all clusters, judged on the same samples
    that the labels come from. Everybody who is in time is aggregated, nobody else hears anything, and a cohort's
    learning rate follows its share of the participants.
    """
    return AuxoSettings(
        affinity=AffinitySettings(label_memory=0.0, label_trust=0.0, accumulate_predictions=True),
        clustering=ClusteringSettings(clusters=2, leave_one_out=False, centre_memory=0.0, most_starts=0),
        rewards=RewardSettings(leave_one_out=False, scale_by_known=False, weigh_length=False),
        criterion=Lemma(paper_limits()),
        cross_fit=False,
        late_feedback=False,
        admit_misfits=True,
        rate_scaling="linear",
    )

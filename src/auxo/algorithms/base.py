"""The base: one cohort for ever, plain federated learning with any aggregator, selector and local training."""

from dataclasses import dataclass

from auxo.core.plain_cohorts import PlainCohorts


@dataclass(frozen=True)
class OneCohort(PlainCohorts):
    """One model for everybody."""

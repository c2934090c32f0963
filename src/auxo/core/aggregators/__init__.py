"""Aggregators: participants' updates become one vector, and that moves a cohort's model by a server step.

FedAvg is in `fedavg`, FedYogi, FedAdam and FedAdagrad in `adaptive`, q-FedAvg in `q_fedavg`, median, trimmed mean and
Krum in `robust`, and what clips norms for any of them in `norm_clipping`.
"""

from auxo.core.aggregators.adaptive import FedAdagrad, FedAdam, FedYogi
from auxo.core.aggregators.aggregator import (
    Accumulator,
    Aggregator,
    KeepsOwn,
    RateScaling,
    Report,
    ServerState,
    WeightedMean,
    Weighting,
    asks_for_loss,
    at_rate,
    held_by_aggregator,
    rate_scale,
    update_weight,
)
from auxo.core.aggregators.fedavg import FedAvg

__all__ = [
    "Accumulator",
    "Aggregator",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedYogi",
    "KeepsOwn",
    "RateScaling",
    "Report",
    "ServerState",
    "WeightedMean",
    "Weighting",
    "asks_for_loss",
    "at_rate",
    "held_by_aggregator",
    "rate_scale",
    "update_weight",
]

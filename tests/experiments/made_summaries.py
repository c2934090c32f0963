"""Summaries with numbers chosen by hand, for whoever reads them."""

from dataclasses import replace
from typing import Any

from auxo.experiments.summary import AgainstBase, Between, MethodSummary, Summary

_METHOD = MethodSummary(
    is_finished=True,
    final_accuracy=0.5,
    variance=310.0,
    variance_beyond_binomial=210.0,
    worst_10=0.2,
    best_10=0.6,
    time_s=3600.0,
    participations=100,
    wasted_participations=10,
    device_s=7200.0,
    wasted_device_s=600.0,
    downloads=900,
    perplexity=None,
    cohorts=1,
    ari=None,
    lost=0,
    matched_accuracy=0.5,
    matched_ari=None,
    against_base=None,
)


def made_method(accuracy: float, **changes: Any) -> MethodSummary:
    """Return a method that has finished without a base; worst and best clients follow from its accuracy."""
    usual = {
        "final_accuracy": accuracy,
        "matched_accuracy": accuracy,
        "worst_10": accuracy - 0.3,
        "best_10": accuracy + 0.05,
    }
    return replace(_METHOD, **usual | changes)


def brought(
    speedup: float | None = None,
    resource_speedup: float | None = None,
    oracle_gain_share: float | None = None,
    between: Between | None = None,
) -> AgainstBase:
    return AgainstBase(speedup, resource_speedup, oracle_gain_share, between, between)


def made_summary(seed: int = 0, *, population: str = "toy", **methods: MethodSummary) -> Summary:
    return Summary(population, seed, "finished", methods)

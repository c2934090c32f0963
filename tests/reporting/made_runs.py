"""Runs with a few events chosen by hand, as the report reads them."""

import re
from dataclasses import replace

import numpy as np

from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.summary import MethodSummary, Status, Summary
from auxo.protocol.events import CohortScore, Evaluated, Event, Partitioned, RoundClosed
from tests.experiments.made_summaries import brought, made_method

HOUR = 3600.0


def closed(time_h: float, cohort: str, number: int, *, gain: float | None = None, needed: float = 0.02) -> RoundClosed:
    used, late, failed, rejected = 100, 12, 5, 1
    known, labelled, judged = 0, 0, 0 if gain is None else 50
    counts = (used, late, failed, rejected, 900.0, known, labelled, judged)
    return RoundClosed(time_h * HOUR, cohort, number, *counts, gain, needed, 0.8, 1, restarted=number == 2, misfits=3)


def evaluated(
    time_h: float, participations: int, accuracy: float, cohorts: dict[str, float] | None = None
) -> Evaluated:
    scores = tuple(CohortScore(name, 2, score) for name, score in (cohorts or {"0": accuracy}).items())
    return Evaluated(
        time_s=time_h * HOUR,
        round=participations / 100,
        participations=participations,
        wasted_participations=18,
        device_s=10 * HOUR,
        wasted_device_s=2 * HOUR,
        downloads=400,
        accuracy=accuracy,
        worst_10=accuracy - 0.2,
        best_10=accuracy + 0.05,
        variance=300.0,
        variance_beyond_binomial=200.0,
        cohorts=scores,
        ari=None,
        lost=0,
        matched_accuracy=accuracy,
        matched_ari=None,
        perplexity=None,
        tuning_device_s=0.0,
    )


BASE: tuple[Event, ...] = (
    closed(1, "0", 1),
    evaluated(1, 100, 0.4),
    closed(8, "0", 2),
    evaluated(8, 200, 0.62),
)
AUXO: tuple[Event, ...] = (
    closed(1, "0", 1),
    evaluated(1, 100, 0.4),
    closed(2, "0", 2, gain=0.03),
    Partitioned(2 * HOUR, "0", 2, ("0.0", "0.1"), (50, 50), 0.03),
    closed(3, "0.0", 3, gain=0.001),
    closed(3, "0.1", 3, gain=0.002),
    evaluated(4, 400, 0.93, {"0.0": 0.9, "0.1": 0.96}),
)

IFCA: tuple[Event, ...] = (  # told its cohorts, whose rounds are the root's; it knows no gain
    closed(1, "0", 1, needed=0.0),
    evaluated(1, 100, 0.4, {"0.0": 0.4, "0.1": 0.4, "0.3": 0.4}),
    closed(4, "0", 2, needed=0.0),
    evaluated(4, 200, 0.9, {"0.0": 0.9, "0.3": 0.9}),
)


def scores(accuracy: list[float], cohorts: list[str], groups: list[int] | None = None) -> ClientScores:
    group = None if groups is None else np.array(groups)
    return ClientScores(np.array(accuracy), np.full(len(accuracy), 10), np.array(cohorts), group)


AUXO_END = made_method(0.93, cohorts=2, ari=0.91, against_base=brought(3.4, 2.1))


def record(run: RunDirectory, **events: tuple[Event, ...]) -> RunDirectory:
    for method, happened in events.items():
        run.replace_events(method, (*run.events(method).events, *happened))
    return run


def finished(
    run: RunDirectory, *, population: str = "rotated digits", status: Status = "finished", **methods: MethodSummary
) -> RunDirectory:
    """Record a run of the base and Auxo; ``methods`` are other ends than the usual ones."""
    record(run, base=BASE, auxo=AUXO)
    run.write_clients("base", scores([0.2, 0.6, 0.8, 0.9], ["0"] * 4, [0, 0, 1, 1]))
    run.write_clients("auxo", scores([0.9, 0.9, 0.8, 0.7], ["0.0", "0.0", "0.1", "0.0"], [0, 0, 1, 1]))
    ends = {"base": made_method(0.62), "auxo": AUXO_END} | methods
    run.write_summary(Summary(population, 7, status, ends))
    return run


def several(run: RunDirectory) -> RunDirectory:
    """Record a run of methods that nobody has heard of, beside the base, Auxo and the oracle."""
    record(run, **{"fedavg-2": BASE, "grouped+": AUXO, "oracle": AUXO})
    run.write_clients("grouped+", scores([0.9, 0.9, 0.9, 0.9], ["0.0", "0.0", "0.1", "0.0"]))
    others = {
        "fedavg-2": made_method(0.55, against_base=brought()),
        "grouped+": replace(AUXO_END, final_accuracy=0.81, cohorts=3, ari=0.5, against_base=brought(1.7, 1.6, 0.6)),
        "oracle": made_method(0.94, cohorts=4, ari=1.0, against_base=brought(5.0)),
    }
    finished(run).write_summary(
        Summary("rotated digits", 7, "finished", {"base": made_method(0.62), "auxo": AUXO_END, **others})
    )
    return run


def words(html: str) -> str:
    """Return what a reader of the page sees, with plain spaces."""
    text = re.sub(r"<(style|desc|title)\b.*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))

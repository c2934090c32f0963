"""The contract of partition criteria."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from math import isclose, isfinite

import numpy as np

from auxo.core.grouping import groupings
from auxo.core.partition import Outlook, Partition, PartitionCriterion, PartitionLimits, RoundEvidence, Verdict
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Check, Contract, expect, expect_frozen, is_whole, run_checks

CONTRACT = Contract[PartitionCriterion]("a partition criterion", "PartitionCriterion in auxo.core.partition")
_JUDGED = 200  # participants a round; enough for any criterion to make up its mind


@dataclass(frozen=True)
class Case:
    """What a criterion may be asked to judge."""

    evidence: tuple[RoundEvidence, ...]
    outlook: Outlook


def _round(clusters: int, judged: int, strength: float, members: Sequence[int] | None = None) -> RoundEvidence:
    """Return a round in which groupings explain so much of everything, the more the finer they are."""
    finest = [strength * (max(grouping) + 1) / clusters for grouping in groupings(clusters)]
    return RoundEvidence(
        alignments=tuple(finest) if judged else (),
        alignment=0.02,
        judged=judged,
        members=tuple(members or [10 + cluster for cluster in range(clusters)]),
        dispersion=0.9,
        dispersion_within=0.9 * (1 - strength),
    )


def _evidence(window: int) -> Iterator[tuple[RoundEvidence, ...]]:
    """Yield what rounds may show: nothing, little, nobody judged, groups that are plain to see, or empty ones."""
    yield ()
    for clusters in (2, 4):
        for strength in (0.0, 0.3, 0.95):
            telling = _round(clusters, _JUDGED, strength)
            yield (telling,)
            yield (telling,) * (window + 2)
        nobody = _round(clusters, 0, 0.95)
        yield (nobody,) * (window + 2)
        yield (*(nobody,) * window, _round(clusters, _JUDGED, 0.95))
        yield (*(_round(clusters, _JUDGED, 0.0),) * 2, *(_round(clusters, _JUDGED, 0.95),) * window)
        empty = _round(clusters, _JUDGED, 0.95, members=[30, *[0] * (clusters - 1)])
        yield (empty,) * (window + 2)


def _outlooks() -> Iterator[Outlook]:
    for progress in (0.01, 0.2, 0.3, 0.45, 0.8, 1.0):
        yield Outlook(progress, total_participants=100, cohorts=1, check_ins=2000.0)
        yield Outlook(progress, total_participants=200, cohorts=3, check_ins=2000.0, labelled=0.2)
        yield Outlook(progress, total_participants=100, cohorts=1, check_ins=30.0)
        yield Outlook(progress, total_participants=4, cohorts=1, check_ins=2000.0)
        yield Outlook(progress, total_participants=100, cohorts=1, check_ins=0.0, labelled=0.0)


def cases(criterion: PartitionCriterion) -> list[Case]:
    """Return what a criterion is tried with."""
    evidence = list(_evidence(criterion.window))
    return [Case(seen, outlook) for outlook in _outlooks() for seen in evidence]


@CONTRACT.promise
def is_a_value(criterion: PartitionCriterion) -> None:
    """A criterion is a frozen value: all it knows of the past is the evidence."""
    expect_frozen(criterion)


@CONTRACT.promise
def wants_some_evidence(criterion: PartitionCriterion) -> None:
    """The window is a whole number of at least one round, and what lies before it makes no difference."""
    window = criterion.window
    expect(is_whole(window) and window >= 1, "a whole window of at least 1", repr(window))
    for case in cases(criterion):
        recent = criterion.judge(case.evidence[-window:], case.outlook)
        whole = criterion.judge(case.evidence, case.outlook)
        expect_same(recent, whole, f"the verdict of the last {window} rounds")


@CONTRACT.promise
def always_has_a_verdict(criterion: PartitionCriterion) -> None:
    """There is a verdict on any evidence: none, little, nobody judged, clusters without members."""
    for case in cases(criterion):
        verdict = criterion.judge(case.evidence, case.outlook)
        expect(isinstance(verdict, Verdict), "a Verdict", verdict)
        is_number = verdict.gain is None or isfinite(verdict.gain)
        expect(is_number and isfinite(verdict.needed), "a gain and a price that are finite", verdict)
        expect(verdict.children >= 1, "at least one child", verdict)


@CONTRACT.promise
def keeps_what_is_closed(criterion: PartitionCriterion) -> None:
    """It partitions nothing while its limits are not open, nor ever where they are closed."""
    closed = _with_limits(criterion, PartitionLimits.closed())
    for case in cases(criterion):
        if not criterion.limits.is_open(case.outlook):
            _expect_kept(criterion.judge(case.evidence, case.outlook), f"at {case.outlook}")
        if closed is not None:
            _expect_kept(closed.judge(case.evidence, case.outlook), "with closed limits")


def _expect_kept(verdict: Verdict, when: str) -> None:
    expect(not isinstance(verdict.decision, Partition), f"that the cohort is kept {when}", verdict.decision)


def _with_limits(criterion: object, limits: PartitionLimits) -> PartitionCriterion | None:
    """Return the criterion with other limits; None: they are no setting of it."""
    if not is_dataclass(criterion) or isinstance(criterion, type):
        return None
    if "limits" not in {field.name for field in fields(criterion)}:
        return None
    changed: object = replace(criterion, limits=limits)
    return changed if isinstance(changed, PartitionCriterion) else None


@CONTRACT.promise
def partitions_as_it_may(criterion: PartitionCriterion) -> None:
    """The children of a partition share all members, every cluster leads to one of them, and the limits allow them."""
    open_now = _with_limits(criterion, PartitionLimits(begin=0.0, end=1.0, labelled=0.0, min_participants=2))
    for one in (criterion, *((open_now,) if open_now is not None else ())):
        for case in cases(one):
            decision = one.judge(case.evidence, case.outlook).decision
            if isinstance(decision, Partition):
                _expect_partition(decision, one.limits, case)


def _expect_partition(partition: Partition, limits: PartitionLimits, case: Case) -> None:
    weights, routes, clusters = partition.weights, partition.routes, len(case.evidence[-1].members)
    is_shared = len(weights) >= 2 and min(weights) > 0 and isclose(sum(weights), 1.0, abs_tol=1e-9)
    expect(is_shared, "positive weights of two or more children that sum to 1", weights)
    is_reached = len(routes) == clusters and sorted(set(routes)) == list(range(len(weights)))
    expect(is_reached, f"routes of {clusters} clusters that reach {len(weights)} children", routes)
    expect(limits.allow(np.array(weights), case.outlook), f"what {limits} allow at {case.outlook}", partition)


@CONTRACT.promise
def repeats_itself(criterion: PartitionCriterion) -> None:
    """The same evidence gives the same verdict, whatever has been judged in between."""
    tried = cases(criterion)
    verdicts = [criterion.judge(case.evidence, case.outlook) for case in tried]
    again = [criterion.judge(case.evidence, case.outlook) for case in reversed(tried)]
    expect_same(verdicts, again[::-1], "the same verdicts in another order")


@CONTRACT.promise
def leaves_evidence_alone(criterion: PartitionCriterion) -> None:
    """Judging changes no evidence."""
    for case in cases(criterion):
        evidence = list(case.evidence)
        criterion.judge(evidence, case.outlook)
        expect(tuple(evidence) == case.evidence, "the evidence as it was", evidence)


CRITERION_CHECKS: tuple[Check[PartitionCriterion], ...] = (
    is_a_value,
    wants_some_evidence,
    always_has_a_verdict,
    keeps_what_is_closed,
    partitions_as_it_may,
    repeats_itself,
    leaves_evidence_alone,
)


def check_criterion(criterion: PartitionCriterion) -> None:
    """Check that a partition criterion keeps its contract.

    Raises:
        ContractBroken: it does not.

    >>> from auxo.core.partition import Lemma
    >>> check_criterion(Lemma())
    """
    run_checks(CRITERION_CHECKS, criterion)

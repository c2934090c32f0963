from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from auxo.core.partition import (
    CrossFittedGain,
    Keep,
    Lemma,
    Outlook,
    Partition,
    PartitionCriterion,
    PartitionLimits,
    RoundEvidence,
    Verdict,
)
from auxo.experiments.parts import CRITERIA
from auxo.testing import ContractBroken, check_criterion, criteria
from auxo.testing.contract import Check
from auxo.testing.criteria import CRITERION_CHECKS
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

CONTRACT: Mapping[str, PartitionCriterion] = {"gain": CrossFittedGain(), "lemma": Lemma(alpha=0.1)}


@dataclass(frozen=True)
class LessDispersion:
    """Partitions into all clusters once they take away most of the dispersion; it may do one thing wrong."""

    kind: str = ""
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    window: int = 3

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        if self.kind == "forgets" and isinstance(evidence, list):
            evidence.clear()
        if not evidence and self.kind != "hasty":
            return Verdict(Keep(), None, 0.5, 1, explains=False)
        seen = evidence[0] if self.kind == "nostalgic" else evidence[-1]
        fall = 1 - seen.dispersion_within / seen.dispersion
        needed = 0.5
        if self.kind == "moody":
            CALLS.append(1)
            needed = 0.01 * len(CALLS)
        members = np.array(seen.members)
        weights = members / members.sum()
        is_open = self.kind == "always open" or self.limits.is_open(outlook)
        allows = self.kind == "crowded" or (members.min() > 0 and self.limits.allow(weights, outlook))
        if members.min() == 0 or fall < needed or not is_open or not allows:
            return Verdict(Keep(), fall, needed, 1, explains=fall > 0)
        apart = Partition(tuple(range(len(members))), tuple(weights.tolist()))
        if self.kind == "heavy":
            apart = replace(apart, weights=tuple(float(count) for count in members))
        if self.kind == "astray":
            apart = replace(apart, routes=(0,) * len(members))
        return Verdict(apart, fall, needed, len(members), explains=True)


class Loose(LessDispersion):
    """Not frozen."""


CALLS: list[int] = []
BROKEN: list[tuple[Check[PartitionCriterion], PartitionCriterion]] = [
    (criteria.is_a_value, Loose()),
    (criteria.wants_some_evidence, LessDispersion(window=0)),
    (criteria.wants_some_evidence, LessDispersion("nostalgic", window=1)),
    (criteria.always_has_a_verdict, LessDispersion("hasty")),
    (criteria.keeps_what_is_closed, LessDispersion("always open")),
    (criteria.partitions_as_it_may, LessDispersion("crowded")),
    (criteria.partitions_as_it_may, LessDispersion("heavy")),
    (criteria.partitions_as_it_may, LessDispersion("astray")),
    (criteria.repeats_itself, LessDispersion("moody")),
    (criteria.leaves_evidence_alone, LessDispersion("forgets")),
]


def test_every_criterion_that_has_a_name_keeps_the_contract() -> None:
    assert {name: type(part) for name, part in CONTRACT.items()} == {
        name: CRITERIA.find(name) for name in CRITERIA.names
    }


@pytest.mark.parametrize("criterion", [*CONTRACT.values(), LessDispersion()], ids=lambda part: type(part).__name__)
@every(CRITERION_CHECKS)
def test_criteria_keep_the_contract(check: Check[PartitionCriterion], criterion: PartitionCriterion) -> None:
    check(criterion)


@pytest.mark.parametrize("name", CONTRACT)
def test_criteria_partition_in_some_of_the_cases_that_they_are_tried_with(name: str) -> None:
    criterion = CONTRACT[name]
    decisions = [criterion.judge(case.evidence, case.outlook).decision for case in criteria.cases(criterion)]
    assert any(isinstance(decision, Partition) for decision in decisions)
    assert any(isinstance(decision, Keep) for decision in decisions)


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[PartitionCriterion], part: PartitionCriterion) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(CRITERION_CHECKS, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="LessDispersion breaks a promise of a partition criterion: It partitions"):
        check_criterion(LessDispersion("always open"))

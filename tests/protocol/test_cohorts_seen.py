"""Leaves and families of cohorts, as far as events tell of them."""

from auxo.protocol.cohorts_seen import CohortsSeen, in_order
from auxo.protocol.events import CohortEnded, CohortScore, Evaluated, Partitioned


def evaluated(*cohorts: str) -> Evaluated:
    scores = tuple(CohortScore(cohort, 5, 0.9) for cohort in cohorts)
    return Evaluated(9.0, 1.0, 10, 0, 1.0, 0.0, 10, 0.9, 0.8, 1.0, 3.0, 2.0, scores, None, 0, 0.9, None, None, 0.0)


def ended(cohort: str) -> CohortEnded:
    return CohortEnded(9.0, cohort, 3)


SPLIT = Partitioned(5.0, "0", 2, ("0.0", "0.1"), (5, 5), 0.3)


def test_a_partition_makes_leaves_whether_or_not_clients_use_them() -> None:
    seen = CohortsSeen.of([ended("0"), evaluated("0"), SPLIT, evaluated("0.1")])
    assert in_order(seen.leaves) == ("0.0", "0.1")
    assert (seen.roots, seen.children) == (("0",), {"0": ("0.0", "0.1")})
    assert not seen.begin_several
    assert not seen.are_counted_by_use


def test_a_round_for_several_leaves_bears_the_name_of_the_root_which_is_none_of_them() -> None:
    seen = CohortsSeen.of([ended("0"), evaluated("0.0", "0.1", "0.3"), ended("0"), evaluated("0.0", "0.3")])
    assert in_order(seen.leaves) == ("0.0", "0.3")
    assert (seen.roots, seen.children) == (("0",), {"0": ("0.0", "0.1", "0.3")})
    assert seen.begin_several
    assert seen.are_counted_by_use


def test_one_model_in_use_of_several_is_still_a_start_with_several() -> None:
    seen = CohortsSeen.of([ended("0"), evaluated("0.2")])
    assert seen.leaves == {"0.2"}
    assert seen.begin_several


def test_cohorts_with_rounds_of_their_own_from_the_start_have_a_root_that_nobody_told_of() -> None:
    seen = CohortsSeen.of([ended("0.0"), ended("0.1"), ended("0.2"), evaluated("0.0", "0.1")])
    assert in_order(seen.leaves) == ("0.0", "0.1", "0.2")
    assert (seen.roots, seen.children) == (("0",), {"0": ("0.0", "0.1", "0.2")})
    assert seen.begin_several
    assert not seen.are_counted_by_use


def test_a_later_partition_of_a_cohort_that_was_there_from_the_start() -> None:
    later = Partitioned(6.0, "0.1", 3, ("0.1.0", "0.1.1"), (2, 3), None)
    seen = CohortsSeen.of([ended("0.0"), ended("0.1"), later])
    assert in_order(seen.leaves) == ("0.0", "0.1.0", "0.1.1")
    assert seen.children == {"0": ("0.0", "0.1"), "0.1": ("0.1.0", "0.1.1")}


def test_before_anything_happens_there_is_nothing() -> None:
    assert (CohortsSeen().leaves, CohortsSeen().roots) == (frozenset(), ())

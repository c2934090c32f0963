import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.clustering import Clusters
from auxo.core.evidence import round_evidence
from auxo.core.fingerprint import unit_rows
from auxo.core.gathering import dispersion
from auxo.core.grouping import alignments
from auxo.core.types import IntArray
from tests.core.made_updates import of_two_groups

EVERYBODY = np.ones(12, dtype=np.bool_)
GROUPS = np.arange(12) % 2
DIRECTIONS = unit_rows(of_two_groups(12).astype(np.float64))


def clusters(labels: IntArray, n_clusters: int = 2) -> Clusters:
    return Clusters(np.eye(n_clusters)[labels])


def test_the_evidence_is_how_alike_those_judged_are() -> None:
    judged = np.arange(12) < 9
    seen = round_evidence(DIRECTIONS, clusters(GROUPS), 2, np.where(judged, GROUPS, -1), judged)
    within, overall = alignments(DIRECTIONS[:9], GROUPS[:9], 2)

    assert seen.judged == 9
    assert seen.alignments == tuple(within.tolist())
    assert seen.alignment == overall
    assert seen.alignments[0] > seen.alignment


@pytest.mark.parametrize("judged", [0, 1])
def test_fewer_than_two_cannot_be_judged(judged: int) -> None:
    seen = round_evidence(DIRECTIONS, clusters(GROUPS), 2, GROUPS, np.arange(12) < judged)

    assert (seen.alignments, seen.alignment, seen.judged) == ((), 0.0, 0)


def test_members_are_counted_by_the_labels_of_this_round_whoever_is_judged() -> None:
    seen = round_evidence(DIRECTIONS, clusters(np.arange(12) // 5, 4), 4, GROUPS, np.zeros(12, dtype=np.bool_))

    assert seen.members == (5, 5, 2, 0)


def test_dispersion_falls_where_the_clusters_are_the_groups() -> None:
    alike_inside = round_evidence(DIRECTIONS, clusters(GROUPS), 2, GROUPS, EVERYBODY)
    mixed = round_evidence(DIRECTIONS, clusters(np.arange(12) // 6), 2, GROUPS, EVERYBODY)
    # Eq. 1: the clusters' own dispersions, each for as many participants as the cluster has.
    by_hand = (6 * dispersion(DIRECTIONS[::2]) + 6 * dispersion(DIRECTIONS[1::2])) / 12

    assert alike_inside.dispersion == mixed.dispersion == dispersion(DIRECTIONS)
    assert alike_inside.dispersion_within == pytest.approx(by_hand)
    assert alike_inside.dispersion_within < mixed.dispersion_within < mixed.dispersion


@settings(max_examples=20)
@given(st.permutations(range(12)))
def test_the_order_of_participants_changes_evidence_by_rounding_only(order: list[int]) -> None:
    directions, labels = DIRECTIONS.copy(), GROUPS.copy()
    one = round_evidence(directions, clusters(labels), 2, labels, EVERYBODY)
    other = round_evidence(directions[order], clusters(labels[order]), 2, labels[order], EVERYBODY)

    assert (one.members, one.judged) == (other.members, other.judged)
    assert one.alignments == pytest.approx(other.alignments)
    assert (one.alignment, one.dispersion, one.dispersion_within) == pytest.approx(
        (other.alignment, other.dispersion, other.dispersion_within)
    )
    np.testing.assert_array_equal(directions, DIRECTIONS)
    np.testing.assert_array_equal(labels, GROUPS)

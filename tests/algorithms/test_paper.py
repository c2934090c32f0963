from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, AuxoMemory
from auxo.algorithms.paper import Paper, PaperMemory
from auxo.core.affinity import AffinitySettings, Requests
from auxo.core.aggregators import Aggregator, FedAvg, FedYogi
from auxo.core.clustering import ClusteringSettings
from auxo.core.cohort_algorithm import CohortAlgorithm, Opening
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.own_state import own
from auxo.core.partition import Lemma, PartitionLimits
from auxo.core.rewards import RewardSettings
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import Partitioned, RoundClosed
from tests.algorithms.short_runs import Run, run

PRINTED = Auxo(
    affinity=AffinitySettings(label_memory=0.0, label_trust=0.0, accumulate_predictions=True, confirmations=0),
    clustering=ClusteringSettings(clusters=2, leave_one_out=False, centre_memory=0.0, most_starts=0),
    rewards=RewardSettings(leave_one_out=False, scale_by_known=False, weigh_length=False),
    decides="criterion",
    criterion=Lemma(PartitionLimits(labelled=0.0)),
    cross_fit=False,
    late_feedback=False,
    admit_misfits=True,
    by_unit=False,
    rate_scaling="linear",
    sharing="equal",
)
# Lemma 1 asks for more participants than a short run has, unless it is scaled.
READILY = Lemma(PartitionLimits(begin=0.2, end=0.8, labelled=0.0, min_participants=4), alpha=0.05)


def same_run(one: Run, other: Run) -> None:
    """Check that Auxo and the paper have gone the same way, bit for bit."""
    assert one.events == other.events
    assert one.state.coordinator.tree == other.state.coordinator.tree
    assert to_bytes(one.state.clients) == to_bytes(other.state.clients)
    for cohort, mine in one.state.coordinator.cohorts.items():
        auxo, paper = mine, other.state.coordinator.cohorts[cohort]
        kept = own(AuxoMemory, auxo.memory)
        assert to_bytes(paper) == to_bytes(replace(auxo, memory=PaperMemory(kept.clustering, kept.evidence)))


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
def test_the_paper_is_auxo_with_every_printed_rule_set_by_hand(aggregator: Aggregator) -> None:
    same_run(run(PRINTED, 8, aggregator), run(Paper(), 8, aggregator))


def test_the_paper_goes_on_alike_when_cohorts_are_partitioned() -> None:
    one = run(replace(PRINTED, criterion=READILY, start_round=2), 12)
    other = run(Paper(criterion=READILY, start_round=2), 12)

    same_run(one, other)
    assert [event for event in other.events if isinstance(event, Partitioned)]
    assert len(other.state.coordinator.tree.leaves) >= 2
    assert any(event.judged for event in other.events if isinstance(event, RoundClosed))


def test_the_paper_goes_on_alike_when_clustering_starts_anew() -> None:
    never = Lemma(PartitionLimits(begin=0.0, end=1.0, labelled=0.0))
    printed = replace(PRINTED.clustering, restart_after=1)
    one = run(replace(PRINTED, criterion=never, start_round=2, clustering=printed), 12)
    other = run(Paper(criterion=never, start_round=2, clustering=printed), 12)

    same_run(one, other)
    assert any(event.restarted for event in other.events if isinstance(event, RoundClosed))


def test_the_paper_is_a_cohort_algorithm_with_a_client_half_of_its_own() -> None:
    algorithm: CohortAlgorithm = Paper()

    assert isinstance(algorithm, CohortAlgorithm)
    assert Paper().client_half.affinity == PRINTED.affinity
    assert Paper().client_half.clusters == 2
    tree = CohortTree().partition(ROOT, (0, 1), (0.7, 0.3))
    assert Paper().openers(tree) == (CohortId("0.0"), CohortId("0.1"))
    assert Paper().shares(tree, tree.leaves) == (1.0, 1.0)


def test_a_start_before_the_first_round_is_refused() -> None:
    setting: dict[str, Any] = {"start_round": 0}

    with pytest.raises(ValueError, match="start_round: expected at least 1, got 0"):
        Paper(**setting)


def test_nobody_who_is_late_is_heard_and_all_train_on_all_their_samples_members_first() -> None:
    tree = CohortTree()
    requests = replace(
        Requests.silent(tree, np.zeros(4, dtype=np.int64)),
        cohort=np.zeros(4, dtype=np.int64),
        reward=np.array([0.0, 0.0, 0.5, 0.0]),
        ranked_first=np.ones(4, dtype=np.bool_),
    )
    state = CohortState(FedAvg().initial(np.zeros(3, dtype=np.float32)), round=9, memory=PaperMemory())
    selected = CheckIns(np.arange(4), requests)
    plan = Paper().plan(Opening(ROOT, tree, state, selected, np.ones(4, dtype=np.bool_), progress=0.3, share=4))

    assert not plan.hears_late
    assert plan.rows.tolist() == [2, 0, 1, 3]
    assert plan.asks.fold.tolist() == [-1] * 4
    assert (plan.offered, plan.asks.model.tolist()) == ((ROOT,), [0] * 4)

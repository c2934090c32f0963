"""The methods: which settings a configuration stands for, in both variants and one by one."""

from dataclasses import replace

import numpy as np
import pytest
from auxo.algorithms.paper_variant import paper_settings
from auxo.experiments.methods import ByGroup, auxo_settings, plans

from auxo.algorithms.auxo import AuxoSettings
from auxo.core.affinity import AffinityRecords, AffinitySettings, request
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.cohort_tree import CohortTree
from auxo.core.partition import CrossFittedGain, Lemma
from auxo.core.rng import stream
from auxo.core.types import ROOT
from auxo.experiments.config import Config
from auxo.experiments.config_file import parse_config
from auxo.experiments.demo import demo_config
from auxo.experiments.populations import make_population

OURS, PAPERS = AuxoSettings(), paper_settings()


def settings(*overrides: str) -> AuxoSettings:
    return auxo_settings(parse_config("", overrides))


def test_an_empty_configuration_means_the_algorithms_own_defaults() -> None:
    assert settings() == OURS


def test_the_papers_variant_means_the_papers_rules() -> None:
    assert settings("auxo.variant=paper") == PAPERS
    assert isinstance(PAPERS.criterion, Lemma)


def test_the_papers_variant_differs_only_in_the_rules() -> None:
    assert (PAPERS.start_round, PAPERS.sketch_size, PAPERS.weighting) == (
        OURS.start_round,
        OURS.sketch_size,
        OURS.weighting,
    )
    assert PAPERS.affinity.reward_decay == OURS.affinity.reward_decay


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("auxo.label_memory=0.3", replace(OURS, affinity=replace(OURS.affinity, label_memory=0.3))),
        ("auxo.label_trust=0.3", replace(OURS, affinity=replace(OURS.affinity, label_trust=0.3))),
        ("auxo.exploration=0.9", replace(OURS, affinity=replace(OURS.affinity, exploration=0.9))),
        ("auxo.exploration_decay=0.3", replace(OURS, affinity=replace(OURS.affinity, exploration_decay=0.3))),
        ("auxo.reward_decay=0.7", replace(OURS, affinity=replace(OURS.affinity, reward_decay=0.7))),
        (
            "auxo.accumulate_predictions=true",
            replace(OURS, affinity=replace(OURS.affinity, accumulate_predictions=True)),
        ),
        ("auxo.max_children=3", replace(OURS, clustering=replace(OURS.clustering, clusters=3))),
        ("auxo.centre_memory=0", replace(OURS, clustering=replace(OURS.clustering, centre_memory=0.0))),
        ("auxo.restart_after=99", replace(OURS, clustering=replace(OURS.clustering, restart_after=99))),
        ("auxo.most_starts=0", replace(OURS, clustering=replace(OURS.clustering, most_starts=0))),
        (
            "auxo.leave_one_out=false",
            replace(
                OURS,
                clustering=replace(OURS.clustering, leave_one_out=False),
                rewards=replace(OURS.rewards, leave_one_out=False),
            ),
        ),
        ("auxo.scale_by_known=false", replace(OURS, rewards=replace(OURS.rewards, scale_by_known=False))),
        ("auxo.start_round=17", replace(OURS, start_round=17)),
        ("auxo.sketch_size=99", replace(OURS, sketch_size=99)),
        ("auxo.cross_fit=false", replace(OURS, cross_fit=False)),
        ("auxo.late_feedback=false", replace(OURS, late_feedback=False)),
        ("auxo.admit_misfits=true", replace(OURS, admit_misfits=True)),
        ("auxo.criterion=lemma", replace(OURS, criterion=Lemma())),
        ("auxo.window=3", replace(OURS, criterion=CrossFittedGain(rounds=3))),
        ("auxo.min_gain=0.5", replace(OURS, criterion=CrossFittedGain(min_gain=0.5))),
        ("auxo.min_gain_further=0.5", replace(OURS, criterion=CrossFittedGain(min_gain_further=0.5))),
        ("auxo.min_judged=7", replace(OURS, criterion=CrossFittedGain(min_judged=7))),
        ("training.rate_scaling=sqrt", replace(OURS, rate_scaling="sqrt")),
        ("training.weighting=uniform", replace(OURS, weighting="uniform")),
        ("training.algorithm=fedavg", replace(OURS, aggregator=FedAvg())),
        ("training.server_learning_rate=0.5", replace(OURS, aggregator=FedYogi(server_learning_rate=0.5))),
    ],
)
def test_every_setting_changes_what_it_is_called_after_and_nothing_else(override: str, expected: AuxoSettings) -> None:
    assert expected != OURS
    assert settings(override) == expected


@pytest.mark.parametrize(
    ("override", "field", "value"),
    [
        ("partition_from=0.25", "begin", 0.25),
        ("partition_until=0.95", "end", 0.95),
        ("wait_for_labels=0.25", "labelled", 0.25),
        ("wait_until=0.15", "labelled_until", 0.15),
        ("min_participants=17", "min_participants", 17),
    ],
)
@pytest.mark.parametrize("criterion", ["gain", "lemma"])
def test_limits_hold_for_either_criterion(criterion: str, override: str, field: str, value: float) -> None:
    judge = settings(f"auxo.criterion={criterion}", f"auxo.{override}").criterion
    assert isinstance(judge, CrossFittedGain | Lemma)
    assert getattr(judge.limits, field) == value


def test_a_departure_can_be_had_in_the_papers_variant() -> None:
    assert settings("auxo.variant=paper", "auxo.cross_fit=true") == replace(PAPERS, cross_fit=True)
    judge = settings("auxo.variant=paper", "auxo.criterion=gain").criterion
    assert isinstance(judge, CrossFittedGain)
    assert judge.limits.labelled == 0


def test_the_paper_makes_two_children_unless_told_otherwise() -> None:
    assert settings("auxo.variant=paper").clustering.clusters == 2
    assert settings("auxo.variant=paper", "auxo.max_children=3").clustering.clusters == 3


def test_the_oracle_sends_clients_to_their_groups_once_there_are_cohorts() -> None:
    groups, clients = np.array([1, 0, 2, 1]), np.array([3, 2, 1])
    requests = request(AffinityRecords.empty(3, 2), AffinitySettings(), None)
    matching, rng = ByGroup(groups), stream(0, "test")
    assert matching.match(CohortTree(), clients, requests, rng).leaf.tolist() == [0, 0, 0]
    tree = CohortTree().partition(ROOT, (0, 1, 2), (0.25, 0.5, 0.25))
    leaves = matching.match(tree, clients, requests, rng).leaf
    assert [tree.cohorts[leaf] for leaf in leaves] == ["0.1", "0.2", "0.0"]


def test_the_oracle_has_two_plans_and_the_others_one() -> None:
    config = parse_config("", ["population.clients=200"])
    data = make_population(config)
    assert [len(plans(method, config, data)) for method in ("base", "auxo", "oracle")] == [1, 1, 2]
    assert [plan.partition is None for plan in plans("oracle", config, data)] == [False, True]


def test_the_demo_is_a_whole_configuration() -> None:
    config = demo_config(3)
    assert (config.seed, config.name) == (3, "demo")
    assert (config.training.algorithm, config.devices.availability) == ("fedyogi", "day-night")
    assert set(config.methods) == set(Config().methods)

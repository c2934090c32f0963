"""The client half of Auxo: affinity records, what a client asks for, what it learns (sections 4.3 and 5.1).

A device holds one row, a simulation holds the whole population as rows; both run this code and nothing else.
The server never sees a record: only the request a client chooses to send.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.cohort_tree import CohortTree
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray

_TIE_BREAK = 1e-9
FOLDS = 2  # halves of a client's samples between which a cross-fitting client alternates


@dataclass(frozen=True)
class AffinitySettings:
    """How clients weigh and explore cohorts."""

    reward_decay: float = 0.2  # gamma, section 4.3
    partition_bonus: float = 0.1  # Algorithm 1: R_child = R_parent + 0.1 * [L = k]
    exploration: float = 0.1  # epsilon of section 4.3
    exploration_decay: float = 0.8  # by the client's own participations; our choice
    label_trust: float = 1.0  # how much the margin of a cluster index counts against the other children; 0: not at all
    label_memory: float = 0.8  # weight of earlier visits in a cluster index; 0 copies the last one, as in the paper
    accumulate_predictions: bool = False  # the literal ExploreReward: shares pile up and outbid what was explored

    def __post_init__(self) -> None:
        for name in ("reward_decay", "exploration", "exploration_decay", "label_memory"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: expected a value in [0, 1], got {value}")
        for name in ("partition_bonus", "label_trust"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a number >= 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class AffinityRecords:
    """Affinity records, one row a client and one column a cohort of ``tree``.

    The cluster index of section 5.1 is the best of ``similarity``, a running mean over the client's visits for each
    half of its samples; ``generation`` says which start of the cohort's clustering it refers to.
    """

    tree: CohortTree  # every cohort any row has heard of
    heard: IntArray  # (clients,) how many of the tree's branches this client knows of
    reward: FloatArray  # (clients, cohorts)
    explored: BoolArray  # (clients, cohorts)
    similarity: FloatArray  # (clients, cohorts, FOLDS, clusters); NaN where there is none
    generation: IntArray  # (clients, cohorts); -1 where no similarity is held
    participations: IntArray  # (clients,) that ended with feedback

    @staticmethod
    def empty(n_clients: int, n_clusters: int) -> "AffinityRecords":
        """Return the records of clients that have never taken part."""
        return AffinityRecords(
            tree=CohortTree(),
            heard=np.zeros(n_clients, dtype=np.int64),
            reward=np.zeros((n_clients, 1)),
            explored=np.zeros((n_clients, 1), dtype=np.bool_),
            similarity=np.full((n_clients, 1, FOLDS, n_clusters), np.nan),
            generation=np.full((n_clients, 1), -1, dtype=np.int64),
            participations=np.zeros(n_clients, dtype=np.int64),
        )

    def clusters(self) -> IntArray:
        """Return the (clients, cohorts) cluster indices, -1 where there is none."""
        return _best(_mean_of_folds(self.similarity))


@dataclass(frozen=True)
class Requests:
    """Affinity requests, one row a client; every field is -1 where the client has nothing to say."""

    tree: CohortTree  # what the positions in ``cohort`` refer to; the server maps them by cohort id
    cohort: IntArray  # position in tree.cohorts
    cluster: IntArray  # cluster index held for that cohort, for routing
    cluster_by_fold: IntArray  # (rows, FOLDS) the same from one half of the samples each
    generation: IntArray  # which start of the cohort's clustering the indices refer to
    reward: FloatArray  # claimed reward for the requested cohort
    ranked_first: BoolArray  # the cohort is the client's first choice, not an exploration
    supported: BoolArray  # by a positive reward the cohort itself gave or by the cluster index, not by a prediction
    participations: IntArray


@dataclass(frozen=True)
class FeedbackColumns:
    """Affinity feedback of one cohort to its participants of one round, one row a participant."""

    cohort: CohortId
    tree: CohortTree  # the cohorts that exist now and their place in the tree
    instant_reward: FloatArray  # (rows,) delta R; NaN where the cohort is the only one and rewards say nothing
    similarity: FloatArray  # (rows, clusters) to this round's cluster centres; NaN where a cluster had no centre
    fold: IntArray  # (rows,) half the participant trained on; -1: on all its samples
    generation: int


def _mean_of_folds(similarity: FloatArray) -> FloatArray:
    held = ~np.isnan(similarity)
    count = held.sum(axis=-2)
    total = np.where(held, similarity, 0.0).sum(axis=-2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _best(similarity: FloatArray) -> IntArray:
    held = ~np.isnan(similarity)
    best = np.where(held, similarity, -np.inf).argmax(axis=-1)
    return np.where(held.any(axis=-1), best, -1)


def request(records: AffinityRecords, settings: AffinitySettings, rng: np.random.Generator | None) -> Requests:
    """Return what each client asks for at check-in; nobody explores when ``rng`` is None.

    A client that has never had feedback asks for nothing. Others ask for the known leaf with the highest reward, less
    the margin by which their own cluster index spoke against it when its ancestors were partitioned (see
    `label_margins`), or with probability ``exploration * exploration_decay ** participations`` for a random known leaf.
    """
    n, taken = len(records.heard), records.participations
    first = np.full(n, -1, dtype=np.int64)
    choice = np.full(n, -1, dtype=np.int64)
    explores, draws = np.zeros(n, dtype=np.bool_), np.zeros(n)
    if rng is not None:
        explores = rng.random(n) < settings.exploration * settings.exploration_decay**taken
        draws = rng.random(n)
    margins = label_margins(records)
    standing = records.reward - settings.label_trust * margins
    if rng is not None:  # of equal ones any, or all newcomers that did not fit would try the same cohort next
        standing = standing + _TIE_BREAK * rng.random(standing.shape)
    for version in np.unique(records.heard):
        leaves = _leaves_known_after(records.tree, int(version))
        mine = np.flatnonzero((records.heard == version) & (taken > 0))
        first[mine] = leaves[standing[np.ix_(mine, leaves)].argmax(axis=1)]
        choice[mine] = np.where(explores[mine], leaves[(draws[mine] * len(leaves)).astype(np.int64)], first[mine])
    asks = choice >= 0
    held = (np.arange(n), np.where(asks, choice, 0))
    similarity = records.similarity[held]
    return Requests(
        tree=records.tree,
        cohort=choice,
        cluster=np.where(asks, _best(_mean_of_folds(similarity)), -1),
        cluster_by_fold=np.where(asks[:, None], _best(similarity), -1),
        generation=np.where(asks, records.generation[held], -1),
        reward=np.where(asks, records.reward[held], 0.0),
        ranked_first=asks & (choice == first),
        supported=(choice == 0)  # who only knows the root has no choice; its cluster index decides
        | (asks & np.where(records.explored[held], records.reward[held] > 0, _is_labelled(records)[held])),
        participations=taken,
    )


def learn(records: AffinityRecords, feedback: FeedbackColumns, settings: AffinitySettings) -> AffinityRecords:
    """Return the records after every row has received its row of ``feedback``."""
    records = widen(records, feedback.tree)
    at = records.tree.index[feedback.cohort]
    # Before the partition is heard of, so that the cluster index of this very round leads to a child.
    similarity, generation = _learn_similarity(records, at, feedback, settings)
    records = hear(replace(records, similarity=similarity, generation=generation), feedback.tree, settings)
    explored = records.explored.copy()
    explored[:, at] = True
    return replace(
        records,
        reward=_learn_reward(records, at, feedback.instant_reward, settings),
        explored=explored,
        participations=records.participations + 1,
    )


def hear(records: AffinityRecords, tree: CohortTree, settings: AffinitySettings) -> AffinityRecords:
    """Return the records after every client has heard of the cohorts of ``tree``.

    A child starts with its parent's reward, and the child that holds the client's cluster with a bonus on top.
    """
    records = widen(records, tree)
    reward = records.reward.copy()
    clusters = records.clusters()
    for number, branch in enumerate(tree.branches):
        parent = tree.index[branch.cohort]
        routes = np.array([*branch.routes, -1])
        mine = np.where(records.generation[:, parent] == branch.generation, clusters[:, parent], -1)
        child_of_mine = routes[np.where(mine < len(branch.routes), mine, -1)]
        news = records.heard <= number
        for child_number, child in enumerate(branch.children):
            inherited = reward[:, parent] + settings.partition_bonus * (child_of_mine == child_number)
            reward[:, tree.index[child]] = np.where(news, inherited, reward[:, tree.index[child]])
    return replace(records, reward=reward, heard=np.full_like(records.heard, len(tree.branches)))


def widen(records: AffinityRecords, tree: CohortTree) -> AffinityRecords:
    """Return the records with a column for every cohort of ``tree``, which must be a later state of theirs."""
    known = len(records.tree.branches)
    if tree.branches[:known] != records.tree.branches:
        raise ValueError("tree: expected a later state of the tree these records refer to; are they of another run?")
    extra = len(tree.cohorts) - len(records.tree.cohorts)
    if extra == 0:
        return records

    def pad(column: FloatArray, value: float) -> FloatArray:
        return np.pad(column, [(0, 0), (0, extra), *[(0, 0)] * (column.ndim - 2)], constant_values=value)

    return replace(
        records,
        tree=tree,
        reward=pad(records.reward, 0.0),
        explored=np.pad(records.explored, [(0, 0), (0, extra)]),
        similarity=pad(records.similarity, np.nan),
        generation=np.pad(records.generation, [(0, 0), (0, extra)], constant_values=-1),
    )


def label_margins(records: AffinityRecords) -> FloatArray:
    """Return, for each client and cohort, by how much the client's similarities spoke for other children on the way.

    At each partition above a cohort: the similarity to the best cluster minus that to the best cluster routed towards
    the cohort, 0 where the client holds none. It keeps clients whose label was clear from leaving at every unlucky
    reward, and lets those whose label was a close call go and look.
    """
    margins = np.zeros_like(records.reward)
    for branch in records.tree.branches:
        parent = records.tree.index[branch.cohort]
        held = _mean_of_folds(records.similarity[:, parent])[:, : len(branch.routes)]
        held = np.where(np.isnan(held) | (records.generation[:, parent] != branch.generation)[:, None], -np.inf, held)
        missing = len(branch.routes) - held.shape[1]  # a partition by hand may have more children than clusters
        mean = np.pad(held, [(0, 0), (0, missing)], constant_values=-np.inf)
        best = mean.max(axis=1)
        for number, child in enumerate(branch.children):
            here = mean[:, np.array(branch.routes) == number].max(axis=1)
            against = np.where(np.isfinite(best), best - np.maximum(here, -1.0), 0.0)
            margins[:, records.tree.index[child]] = margins[:, parent] + against
    return margins


def _is_labelled(records: AffinityRecords) -> BoolArray:
    """Return whether the client's cluster index at the last partition above each cohort leads towards it."""
    labelled = np.zeros(records.reward.shape, dtype=np.bool_)
    clusters = records.clusters()
    for branch in records.tree.branches:
        parent = records.tree.index[branch.cohort]
        mine = np.where(records.generation[:, parent] == branch.generation, clusters[:, parent], -1)
        towards = np.array([*branch.routes, -1])[np.where(mine < len(branch.routes), mine, -1)]
        for number, child in enumerate(branch.children):
            labelled[:, records.tree.index[child]] = towards == number
    return labelled


def _leaves_known_after(tree: CohortTree, branches: int) -> IntArray:
    return np.array([tree.index[leaf] for leaf in CohortTree(tree.branches[:branches]).leaves], dtype=np.int64)


def _learn_reward(
    records: AffinityRecords, at: int, instant_reward: FloatArray, settings: AffinitySettings
) -> FloatArray:
    """Exploit and explore rewards (Algorithm 1) on one scale.

    Every cohort moves by gamma towards a target: the instant reward for the one that was visited, the same divided
    by its tree distance plus one for those the client has never visited. The printed rule adds that share up
    instead, and a sibling that was never seen soon outbids the cohort that gave the reward.
    """
    gamma = settings.reward_decay
    said = np.where(np.isnan(instant_reward), 0.0, instant_reward)[:, None]
    spread = said / (records.tree.distances[at] + 1)[None, :]
    visited = np.arange(records.reward.shape[1])[None, :] == at
    predicted = ~visited & ~records.explored
    moved = (1 - gamma) * records.reward + gamma * spread
    if settings.accumulate_predictions:
        reward = np.where(visited, moved, np.where(predicted, records.reward + spread, records.reward))
    else:
        reward = np.where(visited | predicted, moved, records.reward)
    return np.where(np.isnan(instant_reward)[:, None], records.reward, reward)


def _learn_similarity(
    records: AffinityRecords, at: int, feedback: FeedbackColumns, settings: AffinitySettings
) -> tuple[FloatArray, IntArray]:
    rows = np.arange(len(records.heard))
    slot = np.where(feedback.fold >= 0, feedback.fold, 0)
    similarity, generation = records.similarity.copy(), records.generation.copy()
    stale = generation[:, at] != feedback.generation
    similarity[stale, at] = np.nan
    before = similarity[rows, at, slot]
    now = feedback.similarity
    mixed = settings.label_memory * before + (1 - settings.label_memory) * now
    mixed = np.where(np.isnan(before), now, np.where(np.isnan(now), before, mixed))
    similarity[rows, at, slot] = mixed
    generation[:, at] = feedback.generation
    return similarity, generation


def take_rows(records: AffinityRecords, rows: IntArray) -> AffinityRecords:
    """Return the records of some clients."""
    return replace(
        records,
        heard=records.heard[rows],
        reward=records.reward[rows],
        explored=records.explored[rows],
        similarity=records.similarity[rows],
        generation=records.generation[rows],
        participations=records.participations[rows],
    )


def put_rows(records: AffinityRecords, rows: IntArray, some: AffinityRecords) -> AffinityRecords:
    """Return the records with those of the clients in ``rows`` replaced; both must refer to the same tree."""
    if some.tree != records.tree:
        raise ValueError("some.tree: expected the tree of the records they go back into; widen those first")
    columns = {}
    for name in ("heard", "reward", "explored", "similarity", "generation", "participations"):
        column = getattr(records, name).copy()
        column[rows] = getattr(some, name)
        columns[name] = column
    return replace(records, **columns)

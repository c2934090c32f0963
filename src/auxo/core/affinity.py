"""The client half of Auxo: affinity records, what a client asks for, what it learns (sections 4.3 and 5.1).

A device holds one row, a simulation holds the whole population as rows; both run this code and nothing else.
The server never sees a record: only the request a client chooses to send.
"""

from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

from auxo.core.cohort_tree import Branch, CohortTree
from auxo.core.columns import take
from auxo.core.settings import Bounds, Fraction, NonNegativeFloat, checked, setting
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]

_TIE_BREAK = 1e-9
_CHUNK_ROWS = 8192  # check-ins worked on at a time, so that intermediate columns stay in the processor's cache
_MOST_CLUSTERS = 127  # that an index of 8 bits can name
_MOST_REWARD = 1.0  # that a cohort gives
_MOST_CONFIRMED = 127  # that a count of 8 bits can hold; more would say nothing more
_T = TypeVar("_T", bound=np.generic)

FOLDS = 2  # halves of a client's samples: one to choose among models by, and one to judge the choice by


@dataclass(frozen=True)
@checked
class AffinitySettings:
    """How clients weigh and explore cohorts."""

    reward_decay: Fraction = setting(0.2, "Weight of the newest reward in a client's record (gamma, section 4.3).")
    partition_bonus: NonNegativeFloat = setting(
        0.1, "Reward on top for the child that holds the client's cluster (Algorithm 1)."
    )
    exploration: Fraction = setting(
        0.1,
        "Probability that a newcomer compares the cohorts' models once more or, without `confirmations`, asks for a "
        "cohort at random (epsilon of section 4.3).",
    )
    exploration_decay: Fraction = setting(0.8, "What a participation leaves of a client's exploration; our choice.")
    label_trust: NonNegativeFloat = setting(
        1.0,
        "How much the margin of a client's cluster index counts against other children; 0, as in the "
        "paper: not at all.",
    )
    label_memory: Fraction = setting(
        0.8,
        "Weight of a client's earlier visits in its cluster index; 0, as in the paper, copies the last one.",
    )
    accumulate_predictions: bool = setting(
        False,
        "Add up predicted rewards of cohorts never visited, as the paper prints it; they outbid what was explored.",
    )
    confirmations: Annotated[int, Bounds(ge=0, le=_MOST_CONFIRMED)] = setting(
        2,
        "Comparisons of the cohorts' models on its own samples that must name a cohort before a client trusts it, "
        "and another each time that it has trained twice as often; 0, as in the paper: nobody compares.",
    )


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
    confirmed: Int8Array  # (clients, cohorts) how often a comparison of models has named the cohort
    rewarded: Int32Array  # (clients, cohorts) how often the cohort has given a reward
    similarity: FloatArray  # (clients, cohorts, FOLDS, clusters); NaN where there is none
    generation: IntArray  # (clients, cohorts); -1 where no similarity is held
    participations: IntArray  # (clients,) that ended with feedback

    @staticmethod
    def empty(n_clients: int, n_clusters: int) -> "AffinityRecords":
        """Return the records of clients that have never taken part."""
        if n_clusters > _MOST_CLUSTERS:
            raise ValueError(f"n_clusters: expected at most {_MOST_CLUSTERS}, got {n_clusters}")
        return AffinityRecords(
            tree=CohortTree(),
            heard=np.zeros(n_clients, dtype=np.int64),
            reward=np.zeros((n_clients, 1)),
            explored=np.zeros((n_clients, 1), dtype=np.bool_),
            confirmed=np.zeros((n_clients, 1), dtype=np.int8),
            rewarded=np.zeros((n_clients, 1), dtype=np.int32),
            similarity=np.full((n_clients, 1, FOLDS, n_clusters), np.nan),
            generation=np.full((n_clients, 1), -1, dtype=np.int64),
            participations=np.zeros(n_clients, dtype=np.int64),
        )

    def clusters(self) -> IntArray:
        """Return the (clients, cohorts) cluster indices, -1 where there is none."""
        return _best(_mean_of_folds(self.similarity))


@dataclass(frozen=True)
class ClusterIndices:
    """What the similarities of records come to, row aligned with them: worked out once for each time they change."""

    best: Int8Array  # (rows, cohorts) cluster index; -1 where there is none
    margin: FloatArray  # (rows, cohorts) see `label_margins`
    leads_here: BoolArray  # (rows, cohorts) the index at the last partition above the cohort leads towards it

    @staticmethod
    def of(records: AffinityRecords) -> "ClusterIndices":
        """Return the indices of these records."""
        best = records.clusters().astype(np.int8)
        nothing = ClusterIndices(best, np.zeros_like(records.reward), np.zeros_like(records.explored))
        return nothing._followed(records, known=1)

    def widened(self, records: AffinityRecords) -> "ClusterIndices":
        """Return the indices of the same records after `widen`: what they say of cohorts they knew has not changed."""
        known = self.best.shape[1]
        pad = [(0, 0), (0, len(records.tree.cohorts) - known)]
        best = np.pad(self.best, pad, constant_values=-1)
        wide = ClusterIndices(best, np.pad(self.margin, pad), np.pad(self.leads_here, pad))
        return wide._followed(records, known)

    def _followed(self, records: AffinityRecords, known: int) -> "ClusterIndices":
        """Fill in what the indices say of cohorts from the number ``known`` on, which nobody else has seen yet."""
        for branch in records.tree.branches:
            parent, first = (records.tree.index[cohort] for cohort in (branch.cohort, branch.children[0]))
            if first >= known:
                children = slice(first, first + len(branch.children))
                towards = _child_led_to(records, branch, self.best[:, parent].astype(np.int64))
                self.leads_here[:, children] = towards[:, None] == np.arange(len(branch.children))
                self.margin[:, children] = self.margin[:, [parent]] + _margins_at(records, branch)
        return self


@dataclass(frozen=True)
class Requests:
    """Affinity requests, one row a client; indices are -1 where the client has nothing to say."""

    tree: CohortTree  # what the positions in ``cohort`` refer to; the server maps them by cohort id
    cohort: IntArray  # position in tree.cohorts
    cluster: IntArray  # cluster index held for that cohort, for routing
    generation: IntArray  # which start of the cohort's clustering the indices refer to
    reward: FloatArray  # claimed reward for the requested cohort
    ranked_first: BoolArray  # the cohort is the client's first choice, not an exploration
    supported: BoolArray  # by a positive reward the cohort itself gave or by the cluster index, not by a prediction
    confirmed: IntArray  # how often a comparison of models has named the cohort; 0: never, or it wants to compare
    participations: IntArray
    proof: IntArray | None = (
        None  # what is proved of a claim, see `auxo.core.proofs`; None: nobody signs, and all counts
    )

    @staticmethod
    def silent(tree: CohortTree, participations: IntArray) -> "Requests":
        """Return check-ins of clients that ask for nothing and have taken part so often."""
        n = len(participations)
        return Requests(
            tree=tree,
            cohort=np.full(n, -1),
            cluster=np.full(n, -1),
            generation=np.full(n, -1),
            reward=np.zeros(n),
            ranked_first=np.zeros(n, dtype=np.bool_),
            supported=np.zeros(n, dtype=np.bool_),
            confirmed=np.zeros(n, dtype=np.int64),
            participations=participations,
        )

    def take(self, rows: IntArray) -> "Requests":
        """Return the requests in ``rows``, in that order."""
        return take(self, rows)


@dataclass(frozen=True)
class FeedbackColumns:
    """Affinity feedback of one cohort to its participants of one round, one row a participant."""

    cohort: CohortId
    tree: CohortTree  # the cohorts that exist now and their place in the tree
    instant_reward: FloatArray  # (rows,) delta R; NaN where the cohort is the only one and rewards say nothing
    similarity: FloatArray  # (rows, clusters) to this round's cluster centres; NaN where a cluster had no centre
    fold: IntArray  # (rows,) half the participant trained on; -1: on all its samples
    generation: int
    placed: IntArray | None = None  # (rows,) position in tree.cohorts of the leaf whose model fitted best; -1: no word


def _mean_of_folds(similarity: FloatArray) -> FloatArray:
    one, other = similarity[..., 0, :], similarity[..., 1, :]
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, (one + other) / FOLDS))


def _best(similarity: FloatArray) -> IntArray:
    held = ~np.isnan(similarity)
    best = np.where(held, similarity, -np.inf).argmax(axis=-1)
    return np.where(held.any(axis=-1), best, -1)


def request(records: AffinityRecords, settings: AffinitySettings, rng: np.random.Generator | None) -> Requests:
    """Return what each client asks for at check-in; nobody explores when ``rng`` is None. See `request_rows`."""
    rows = np.where(records.participations > 0, np.arange(len(records.heard)), -1)
    return request_rows(records, ClusterIndices.of(records), rows, settings, rng)


def request_rows(
    records: AffinityRecords,
    indices: ClusterIndices,
    rows: IntArray,
    settings: AffinitySettings,
    rng: np.random.Generator | None,
) -> Requests:
    """Return what some clients ask for at check-in; nobody explores when ``rng`` is None.

    A client that has never had feedback asks for nothing. Others ask for the known leaf with the highest reward, less
    the margin by which their own cluster index spoke against it when its ancestors were partitioned (see
    `label_margins`). With probability ``exploration * exploration_decay ** participations`` they explore: they keep to
    themselves that comparisons have confirmed the leaf, and are offered another; where nobody compares models they ask
    for a random known leaf instead.

    Args:
        records: of those who have had feedback, and perhaps of others.
        indices: of the records.
        rows: (check-ins,) each client's row in the records; -1 for one that has never had feedback.
        settings: see `AffinitySettings`.
        rng: draws the same numbers whoever has had feedback.
    """
    asking = np.flatnonzero(rows >= 0)
    mine = rows[asking]
    taken, heard = records.participations[mine], records.heard[mine]
    exploring, draws = np.zeros(0, dtype=np.int64), np.zeros(len(rows))
    if rng is not None:
        chances = settings.exploration * settings.exploration_decay ** np.arange(taken.max(initial=0) + 1)
        exploring = np.flatnonzero(rng.random(len(rows))[asking] < chances[taken])
        draws = rng.random(len(rows))
    first = _first_choices(records, indices, rows, settings, rng)[asking]
    leaves = records.tree.leaves_by_age
    nth = (draws[asking[exploring]] * leaves.sum(axis=1)[heard[exploring]]).astype(np.int64)
    choice = first.copy()
    if settings.confirmations == 0:
        choice[exploring] = np.argsort(~leaves, axis=1, kind="stable")[heard[exploring], nth]
    cells = mine * len(records.tree.cohorts) + choice

    def held(column: NDArray[_T]) -> NDArray[_T]:
        return column.reshape(-1, *column.shape[2:]).take(cells, axis=0)

    def said(values: NDArray[_T], otherwise: float = -1) -> NDArray[_T]:
        column = np.full((len(rows), *values.shape[1:]), otherwise, dtype=values.dtype)
        column[asking] = values
        return column

    reward = held(records.reward)
    # Who only knows the root has no choice; its cluster index decides.
    supported = (choice == 0) | np.where(held(records.explored), reward > 0, held(indices.leads_here))
    confirmed = np.where(supported, held(records.confirmed), 0).astype(np.int64)
    confirmed[exploring] = 0
    return Requests(
        tree=records.tree,
        cohort=said(choice),
        cluster=said(held(indices.best)).astype(np.int64),
        generation=said(held(records.generation)),
        reward=said(reward, 0.0),
        ranked_first=said(choice == first, False),
        supported=said(supported, False),
        confirmed=said(confirmed, 0),
        participations=said(taken, 0),
    )


def _first_choices(
    records: AffinityRecords,
    indices: ClusterIndices,
    rows: IntArray,
    settings: AffinitySettings,
    rng: np.random.Generator | None,
) -> IntArray:
    """Return the known leaf that each client would rather have than any other; -1 where there is no row."""
    choice = np.full(len(rows), -1, dtype=np.int64)
    for begin in range(0, len(rows), _CHUNK_ROWS):
        some = rows[begin : begin + _CHUNK_ROWS]
        asks = some >= 0
        mine = some[asks]
        standing = records.reward.take(mine, axis=0)
        standing -= settings.label_trust * indices.margin.take(mine, axis=0)
        if rng is not None:  # of equal ones any, or all newcomers that did not fit would try the same cohort next
            ties = rng.random((len(some), standing.shape[1]))
            standing += _TIE_BREAK * (ties if asks.all() else ties[asks])
        standing[~_open_to(records, mine)] = -np.inf
        choice[begin : begin + _CHUNK_ROWS][asks] = standing.argmax(axis=1)
    return choice


def _open_to(records: AffinityRecords, mine: IntArray) -> BoolArray:
    """Return the leaves that each of these clients may ask for: those it knows of, below where it has been found.

    What a client has seen itself, when it compared models, neither labels nor rewards outweigh. Where it is no longer
    rewarded there it does not leave, but compares once more.
    """
    known = records.tree.leaves_by_age[records.heard[mine]]
    confirmed = records.confirmed.take(mine, axis=0)
    found, is_found = confirmed.argmax(axis=1), confirmed.max(axis=1) > 0
    return np.asarray(known & (records.tree.descends[found] | ~is_found[:, None]))


def learn(records: AffinityRecords, feedback: FeedbackColumns, settings: AffinitySettings) -> AffinityRecords:
    """Return the records after every row has received its row of ``feedback``.

    A row that has compared models and trained another leaf's learns nothing from the cohort but that.
    """
    learnt = learn_round(records, feedback, settings)
    return learnt if feedback.placed is None else _learn_place(learnt, feedback.placed, settings)


def learn_round(records: AffinityRecords, feedback: FeedbackColumns, settings: AffinitySettings) -> AffinityRecords:
    """Return the records after what the cohort says of a round, without what clients have found when they compared."""
    records = widen(records, feedback.tree)
    at = records.tree.index[feedback.cohort]
    placed = np.full(len(records.heard), -1) if feedback.placed is None else feedback.placed
    has_trained_it = (placed < 0) | (placed == at)
    # Before the partition is heard of, so that the cluster index of this very round leads to a child.
    similarity, generation = _learn_similarity(records, at, feedback, settings)
    records = hear(replace(records, similarity=similarity, generation=generation), feedback.tree, settings)
    explored = records.explored.copy()
    explored[has_trained_it, at] = True
    instant_reward = np.where(has_trained_it, feedback.instant_reward, np.nan)
    rewarded = records.rewarded.copy()
    rewarded[:, at] += ~np.isnan(instant_reward)
    return replace(
        records,
        rewarded=rewarded,
        reward=_learn_reward(records, at, instant_reward, settings),
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
        child_of_mine = _child_led_to(records, branch, clusters[:, parent])
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

    def pad(column: NDArray[_T], value: float = 0) -> NDArray[_T]:
        return np.concatenate((column, np.full_like(column, value, shape=(len(column), extra, *column.shape[2:]))), 1)

    return replace(
        records,
        tree=tree,
        reward=pad(records.reward),
        explored=pad(records.explored),
        confirmed=pad(records.confirmed),
        rewarded=pad(records.rewarded),
        similarity=pad(records.similarity, np.nan),
        generation=pad(records.generation, -1),
    )


def label_margins(records: AffinityRecords) -> FloatArray:
    """Return, for each client and cohort, by how much the client's similarities spoke for other children on the way.

    At each partition above a cohort: the similarity to the best cluster minus that to the best cluster routed towards
    the cohort, 0 where the client holds none. It keeps clients whose label was clear from leaving at every unlucky
    reward, and lets those whose label was a close call go and look.
    """
    return ClusterIndices.of(records).margin


def _margins_at(records: AffinityRecords, branch: Branch) -> FloatArray:
    """Return what one partition adds to the margins against each of its children: (rows, children)."""
    parent = records.tree.index[branch.cohort]
    held = _mean_of_folds(records.similarity[:, parent])[:, : len(branch.routes)]
    held = np.where(np.isnan(held) | (records.generation[:, parent] != branch.generation)[:, None], -np.inf, held)
    missing = len(branch.routes) - held.shape[1]  # a partition by hand may have more children than clusters
    mean = np.pad(held, [(0, 0), (0, missing)], constant_values=-np.inf)
    best = mean.max(axis=1)
    children = [mean[:, np.array(branch.routes) == number].max(axis=1) for number in range(len(branch.children))]
    return np.stack([np.where(np.isfinite(best), best - np.maximum(here, -1.0), 0.0) for here in children], axis=1)


def _child_led_to(records: AffinityRecords, branch: Branch, clusters: IntArray) -> IntArray:
    """Return the child number that each client's cluster index at a partition leads to; -1 where it says nothing."""
    is_current = records.generation[:, records.tree.index[branch.cohort]] == branch.generation
    usable = is_current & (clusters < len(branch.routes))
    return np.array([*branch.routes, -1])[np.where(usable, clusters, -1)]


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


def _learn_place(records: AffinityRecords, placed: IntArray, settings: AffinitySettings) -> AffinityRecords:
    """Make the leaf that a comparison has named the first choice: what a client has seen itself beats its label.

    Of a cohort that was partitioned since, the leaf below it that the client would rather have.
    """
    tree = records.tree
    reward, explored, confirmed = records.reward.copy(), records.explored.copy(), records.confirmed.copy()
    against = settings.label_trust * label_margins(records)
    standing = reward - against
    lead = max(settings.partition_bonus, 2 * _TIE_BREAK)
    for place in np.unique(placed[placed >= 0]).tolist():
        rows = np.flatnonzero(placed == place)
        again = np.minimum(confirmed[rows, place], _MOST_CONFIRMED - 1) + 1
        confirmed[rows] = 0  # what an earlier comparison has found elsewhere no longer holds
        confirmed[rows, place] = again
        explored[rows, place] = True
        below = np.isin(tree.cohorts, tree.leaves_of(tree.cohorts[place]))
        chosen = np.where(below, standing[rows], -np.inf).argmax(axis=1)
        others = np.where(tree.is_leaf & ~below, standing[rows], -np.inf).max(axis=1)
        moves = (standing[rows, chosen] <= others + _TIE_BREAK) | (reward[rows, chosen] <= 0)
        rows, chosen = rows[moves], chosen[moves]
        level = np.minimum(np.maximum(others[moves], 0.0) + lead, _MOST_REWARD)
        # Where that is not above the others, they come down, or who is of two minds would raise both for ever.
        lowered = np.minimum(reward[rows], (level - lead)[:, None] + against[rows])
        reward[rows] = np.where(tree.is_leaf & ~below, lowered, reward[rows])
        reward[rows, chosen] = level + against[rows, chosen]
    return replace(records, reward=reward, explored=explored, confirmed=confirmed)


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

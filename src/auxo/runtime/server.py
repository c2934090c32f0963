"""The server half for any FL loop: match check-ins, open and close cohorts' rounds; the loop itself stays the user's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo import AuxoSettings, Folded, Participants, Returned, folds_for
from auxo.core.affinity import FOLDS, Requests
from auxo.core.rng import stream
from auxo.core.types import BoolArray, ClientId, CohortId, Float32Array, IntArray
from auxo.core.validation import Reason
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.messages import AffinityFeedback, CheckIn, Task, TaskFailure, TaskResult
from auxo.runtime.coordinator import Coordinator, CoordinatorState


@dataclass(frozen=True)
class Rejection:
    """An answer that took part in nothing."""

    client: ClientId
    reason: Reason


@dataclass(frozen=True)
class _Open:
    """A round between its tasks and its results; forgotten when it closes."""

    tasks: tuple[Task, ...]
    participants: Participants


class Server:
    """Auxo's server half, driven by a loop of your own.

    A round of a cohort is `open_round` -> your training -> `close_round`; `match` says whose round a check-in
    belongs to. Between rounds it keeps the cohorts' models and nothing about clients. examples/plain_numpy.py is a
    whole loop.
    """

    def __init__(
        self,
        weights: Float32Array,
        *,
        participants: int,
        rounds: int,
        settings: AuxoSettings | None = None,
        seed: int = 0,
    ) -> None:
        """Start with one cohort.

        Args:
            weights: (parameters,) the initial model, flattened.
            participants: updates wanted in a round over all cohorts together.
            rounds: that each cohort trains, counted from the root; partition criteria look at the share done.
            settings: see `AuxoSettings`; the aggregator is among them.
            seed: of selection, clustering and fingerprints.
        """
        if not isinstance(weights, np.ndarray) or weights.ndim != 1 or weights.dtype.kind != "f" or not len(weights):
            raise ValueError("weights: expected a flat, non-empty array of floats; concatenate your layers' raveled arrays")
        self._rules = Coordinator(settings or AuxoSettings(), len(weights), participants, rounds, seed)
        self._state = self._rules.start(weights.astype(np.float32))
        self._open: dict[CohortId, _Open] = {}
        self._matches = 0
        self.rejections: tuple[Rejection, ...] = ()  # of the last `close_round`

    @property
    def cohorts(self) -> tuple[CohortId, ...]:
        """Return the cohorts that train now."""
        return self._state.tree.leaves

    @property
    def is_over(self) -> bool:
        """Return whether every cohort has trained its rounds."""
        return all(self.round(cohort) >= self._rules.total_rounds for cohort in self.cohorts)

    def weights(self, cohort: CohortId) -> Float32Array:
        """Return the cohort's model, flattened; a copy."""
        return self._state.cohorts[cohort].server.weights.copy()

    def round(self, cohort: CohortId) -> int:
        """Return how many rounds the cohort has closed, its ancestors' included."""
        return self._state.cohorts[cohort].round

    def match(self, check_ins: Sequence[CheckIn], *, everybody: bool = False) -> dict[CohortId, list[CheckIn]]:
        """Return the check-ins of each cohort that still trains; a request of any age, or none, finds a leaf.

        With ``everybody``, cohorts that have trained all their rounds are among them: whose model is for whom.
        """
        self._matches += 1
        rng = stream(self._rules.seed, "match", self._matches)
        leaf = self._rules.match(self._state, _rows(check_ins), self._requests(check_ins), rng).leaf
        found: dict[CohortId, list[CheckIn]] = {
            cohort: [] for cohort in self.cohorts if everybody or self.round(cohort) < self._rules.total_rounds
        }
        for check_in, position in zip(check_ins, leaf, strict=True):
            cohort = self._state.tree.cohorts[int(position)]
            if cohort in found:
                found[cohort].append(check_in)
        return found

    def open_round(self, cohort: CohortId, check_ins: Sequence[CheckIn]) -> list[Task]:
        """Select participants among the cohort's check-ins and return their tasks, at most its share; a client once.

        Raises:
            KeyError: the cohort does not train now.
        """
        state = self._state.cohorts[cohort]
        self._state = self._rules.note_check_ins(self._state, cohort, len(check_ins))
        wanted, _ = self._rules.wanted(self._state, cohort)
        once = list({check_in.client: check_in for check_in in check_ins}.values())
        select = stream(self._rules.seed, "select", cohort, self._matches)
        chosen = [once[int(row)] for row in np.sort(select.permutation(len(once))[:wanted])]
        requests = self._requests(chosen)
        fold = folds_for(
            self._rules.settings, state, self._rules.progress(self._state, cohort), requests.participations
        )
        brought = Participants.of(requests, _rows(chosen), self._vouched(requests, cohort), cohort, fold)
        order = np.argsort(~brought.known, kind="stable")
        tasks = tuple(
            Task(chosen[int(row)].client, cohort, state.round + 1, None if fold[row] < 0 else int(fold[row]))
            for row in order
        )
        self._open[cohort] = _Open(tasks, brought.take(order))
        return list(tasks)

    def close_round(self, cohort: CohortId, results: Sequence[TaskResult | TaskFailure]) -> list[AffinityFeedback]:
        """Aggregate, cluster, reward and perhaps partition; return the feedback to send.

        Results may come in any order. A participant without a result has failed. `rejections` tells which results
        took part in nothing, and why. Without any usable result nothing changes and no feedback is due.

        Raises:
            KeyError: no round of this cohort is open.
        """
        opened = self._open.pop(cohort)
        rejected: list[Rejection] = []
        answers = self._sorted_answers(cohort, opened, results, rejected)
        closed = self._rules.close(self._state, cohort, opened.participants, answers)
        folded = closed if isinstance(closed, Folded) else closed[1].folded
        rejected.extend(Rejection(opened.tasks[row].client, reason) for row, reason in folded.rejected)
        self.rejections = tuple(rejected)
        if isinstance(closed, Folded):
            return []
        self._state, outcome, columns = closed
        return [
            AffinityFeedback(
                client=opened.tasks[int(row)].client,
                cohort=cohort,
                tree=columns.tree,
                instant_reward=None if np.isnan(reward) else float(reward),
                similarity=tuple(None if np.isnan(value) else float(value) for value in similarity),
                fold=opened.tasks[int(row)].fold,
                generation=columns.generation,
            )
            for row, reward, similarity in zip(
                outcome.folded.rows, columns.instant_reward, columns.similarity, strict=True
            )
        ]

    def to_bytes(self) -> bytes:
        """Return all that must survive a crash; rounds that are open are lost and simply opened again."""
        return to_bytes(self._state)

    def restore(self, data: bytes) -> None:
        """Take up a state that `to_bytes` gave.

        Raises:
            CodecError: the bytes are damaged or not such a state.
        """
        self._state = from_bytes(CoordinatorState, data)
        self._open = {}

    def _sorted_answers(
        self,
        cohort: CohortId,
        opened: _Open,
        results: Sequence[TaskResult | TaskFailure],
        rejected: list[Rejection],
    ) -> Iterator[Returned]:
        """Yield results in the order of the tasks, so that their order of arrival decides nothing."""
        row_of = {task.client: row for row, task in enumerate(opened.tasks)}
        number = self._state.cohorts[cohort].round + 1
        mine: dict[int, TaskResult] = {}
        for result in results:
            if isinstance(result, TaskFailure):
                continue
            row = row_of.get(result.client)
            if result.cohort != cohort:
                rejected.append(Rejection(result.client, "UNKNOWN_COHORT"))
            elif row is None or row in mine or result.round != number:
                rejected.append(Rejection(result.client, "NOT_SELECTED"))
            else:
                mine[row] = result
        for row in sorted(mine):
            yield Returned(row, mine[row].update, mine[row].examples)

    def _vouched(self, requests: Requests, cohort: CohortId) -> BoolArray:
        """Return whose own request leads to the cohort without a draw."""
        rng = stream(self._rules.seed, "vouch", self._matches)
        matched = self._rules.match(self._state, np.arange(len(requests.cohort)), requests, rng)
        return matched.vouched & (matched.leaf == self._state.tree.index[cohort])

    def _requests(self, check_ins: Sequence[CheckIn]) -> Requests:
        """Return check-ins as columns; a request for a cohort that never was counts as no preference."""
        tree = self._state.tree
        wishes = [check_in.request for check_in in check_ins]
        none = -np.ones(len(wishes), dtype=np.int64)
        requests = Requests(
            tree=tree,
            cohort=none.copy(),
            cluster=none.copy(),
            cluster_by_fold=np.full((len(wishes), FOLDS), -1, dtype=np.int64),
            generation=none.copy(),
            reward=np.zeros(len(wishes)),
            ranked_first=np.zeros(len(wishes), dtype=np.bool_),
            supported=np.zeros(len(wishes), dtype=np.bool_),
            participations=np.array([max(check_in.participations, 0) for check_in in check_ins], dtype=np.int64),
        )
        for row, wish in enumerate(wishes):
            if wish is None or wish.cohort not in tree.index:
                continue
            requests.cohort[row] = tree.index[wish.cohort]
            requests.cluster[row] = wish.cluster
            requests.cluster_by_fold[row] = wish.cluster_by_fold
            requests.generation[row] = wish.generation
            requests.reward[row] = wish.reward if np.isfinite(wish.reward) else 0.0
            requests.ranked_first[row] = wish.ranked_first
        return requests


def _rows(check_ins: Sequence[CheckIn]) -> IntArray:
    return np.arange(len(check_ins))



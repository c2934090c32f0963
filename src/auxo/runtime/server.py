"""The server half for any FL loop: match check-ins, open and close cohorts' rounds; the loop stays the user's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo import AuxoSettings, CohortState, Folded, Participants, Returned, folds_for
from auxo.core.affinity import FOLDS, Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import BoolArray, ClientId, CohortId, Float32Array
from auxo.core.validation import Reason
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn, Task, TaskFailure, TaskResult
from auxo.runtime.coordinator import Coordinator, CoordinatorState

_TOO_MANY = 2**31  # visits, clusters or starts; nobody has that many, and what is no number of 64 bits is above it


@dataclass(frozen=True)
class Rejection:
    """An answer that took part in nothing."""

    client: ClientId
    reason: Reason


@dataclass(frozen=True)
class ServerRecord:
    """All of a server that must survive a crash."""

    state: CoordinatorState
    turns: int  # matches made and rounds opened so far; names their random streams


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
        if weights.ndim != 1 or weights.dtype.kind != "f" or not len(weights) or not np.isfinite(weights).all():
            raise ValueError(
                "weights: expected a flat, non-empty array of finite floats; concatenate your layers' raveled arrays"
            )
        self._rules = Coordinator(settings or AuxoSettings(), len(weights), participants, rounds, seed)
        self._state = self._rules.start(weights.astype(np.float32))
        self._open: dict[CohortId, _Open] = {}
        self._turns = 0
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
        """Return the cohort's model, flattened; a copy.

        Raises:
            KeyError: the cohort does not train now.
        """
        return self._of(cohort).server.weights.copy()

    def round(self, cohort: CohortId) -> int:
        """Return how many rounds the cohort has closed, its ancestors' included.

        Raises:
            KeyError: the cohort does not train now.
        """
        return self._of(cohort).round

    def match(self, check_ins: Sequence[CheckIn], *, everybody: bool = False) -> dict[CohortId, list[CheckIn]]:
        """Return the check-ins of each cohort that still trains; a request of any age, or none, finds a leaf.

        Of a client that checks in more than once the last check-in counts. With ``everybody``, cohorts that have
        trained all their rounds are among the answer: whose model is for whom. To ask that changes nothing.
        """
        check_ins = _once(check_ins)
        if not everybody:
            self._turns += 1
        rng = stream(self._rules.seed, "placement" if everybody else "match", self._turns)
        requests = _requests(check_ins, self._state.tree)
        leaf = self._rules.match(self._state, np.arange(len(check_ins)), requests, rng).leaf
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
        state, check_ins = self._of(cohort), _once(check_ins)
        self._turns += 1
        self._state = self._rules.note_check_ins(self._state, cohort, len(check_ins))
        wanted, _ = self._rules.wanted(self._state, cohort)
        select = stream(self._rules.seed, "select", cohort, self._turns)
        chosen = [check_ins[int(row)] for row in np.sort(select.permutation(len(check_ins))[:wanted])]
        requests = _requests(chosen, self._state.tree)
        fold = folds_for(
            self._rules.settings,
            state,
            self._rules.progress(self._state, cohort),
            np.array([check_in.client for check_in in chosen], dtype=np.int64),
            requests.participations,
        )
        rows = np.arange(len(chosen))
        brought = Participants.of(requests, rows, self._vouched(requests, cohort), cohort, fold)
        order = np.argsort(~brought.known, kind="stable")
        tasks = tuple(
            Task(chosen[int(row)].client, cohort, state.round + 1, None if fold[row] < 0 else int(fold[row]))
            for row in order
        )
        self._open[cohort] = _Open(tasks, brought.take(order))
        return list(tasks)

    def close_round(self, cohort: CohortId, results: Sequence[TaskResult | TaskFailure]) -> list[AffinityFeedback]:
        """Aggregate, cluster, reward and perhaps partition; return the feedback to send.

        Results may come in any order. A participant without a result has failed, and so has one with several.
        `rejections` tells which results took part in nothing, and why. Without any usable result nothing changes and
        no feedback is due.

        Raises:
            KeyError: no round of this cohort is open.
        """
        opened = self._open.pop(cohort, None)
        if opened is None:
            raise KeyError(f"{cohort}: no round is open; call open_round first (open: {_listed(self._open)})")
        answers, rejected = _sort_out(opened, cohort, self.round(cohort) + 1, results)
        closed = self._rules.close(self._state, cohort, opened.participants, iter(answers))
        folded = closed if isinstance(closed, Folded) else closed[1].folded
        rejected += [Rejection(opened.tasks[row].client, reason) for row, reason in folded.rejected]
        self.rejections = tuple(sorted(rejected, key=lambda one: (str(one.client), one.reason)))
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
        return to_bytes(ServerRecord(self._state, self._turns))

    def restore(self, data: bytes) -> None:
        """Take up a record that `to_bytes` gave, on a server that was made with the same arguments.

        Raises:
            CodecError: the bytes are damaged or not such a record.
            ValueError: they are of another model.
        """
        record = from_bytes(ServerRecord, data)
        for cohort, kept in record.state.cohorts.items():
            if len(kept.server.weights) != self._rules.n_params:
                raise ValueError(
                    f"{cohort}: expected {self._rules.n_params} parameters, got {len(kept.server.weights)}; "
                    "make the server with the model that the record is of"
                )
        self._state, self._turns = record.state, record.turns
        self._open, self.rejections = {}, ()

    def _of(self, cohort: CohortId) -> CohortState:
        if cohort not in self._state.cohorts:
            raise KeyError(f"{cohort}: not a cohort that trains now; these do: {_listed(self.cohorts)}")
        return self._state.cohorts[cohort]

    def _vouched(self, requests: Requests, cohort: CohortId) -> BoolArray:
        """Return whose own request leads to the cohort without a draw."""
        rng = stream(self._rules.seed, "vouch", self._turns)
        matched = self._rules.match(self._state, np.arange(len(requests.cohort)), requests, rng)
        led_here: BoolArray = matched.vouched & (matched.leaf == self._state.tree.index[cohort])
        return led_here


def _once(check_ins: Sequence[CheckIn]) -> list[CheckIn]:
    return list({check_in.client: check_in for check_in in check_ins}.values())


def _listed(cohorts: Iterable[CohortId]) -> str:
    return ", ".join(cohorts) or "none"


def _sort_out(
    opened: _Open, cohort: CohortId, number: int, results: Sequence[TaskResult | TaskFailure]
) -> tuple[list[Returned], list[Rejection]]:
    """Return the answers to the round's tasks in the order of the tasks, so that their arrival decides nothing."""
    row_of = {task.client: row for row, task in enumerate(opened.tasks)}
    answers: dict[int, list[TaskResult]] = {}
    rejected: list[Rejection] = []
    for result in results:
        if not isinstance(result, TaskResult):
            continue
        sender: object = result.client
        row = row_of.get(ClientId(int(sender))) if isinstance(sender, int | np.integer) else None
        if result.cohort != cohort:
            rejected.append(Rejection(result.client, "UNKNOWN_COHORT"))
        elif row is None or result.round != number:
            rejected.append(Rejection(result.client, "NOT_SELECTED"))
        else:
            answers.setdefault(row, []).append(result)
    # To take the first of several would let the order of arrival decide.
    several = [answer for same in answers.values() if len(same) > 1 for answer in same]
    rejected += [Rejection(answer.client, "NOT_SELECTED") for answer in several]
    single = [
        Returned(row, answers[row][0].update, answers[row][0].examples)
        for row in sorted(answers)
        if len(answers[row]) == 1
    ]
    return single, rejected


def _requests(check_ins: Sequence[CheckIn], tree: CohortTree) -> Requests:
    """Return check-ins as columns; whatever in them cannot be counts as nothing said."""
    n = len(check_ins)
    requests = Requests(
        tree=tree,
        cohort=np.full(n, -1),
        cluster=np.full(n, -1),
        cluster_by_fold=np.full((n, FOLDS), -1),
        generation=np.full(n, -1),
        reward=np.zeros(n),
        ranked_first=np.zeros(n, dtype=np.bool_),
        supported=np.zeros(n, dtype=np.bool_),
        participations=np.array([_count(one.participations, 0) for one in check_ins], dtype=np.int64),
    )
    for row, check_in in enumerate(check_ins):
        # Types are what the transport promised; a peer that breaks the promise must not break the round.
        wish: object = check_in.request
        cohort: object = wish.cohort if isinstance(wish, AffinityRequest) else None
        if not isinstance(wish, AffinityRequest) or not isinstance(cohort, str) or cohort not in tree.index:
            continue
        requests.cohort[row] = tree.index[CohortId(cohort)]
        requests.cluster[row] = _count(wish.cluster, -1)
        by_fold: object = wish.cluster_by_fold
        if isinstance(by_fold, tuple) and len(by_fold) == FOLDS:
            requests.cluster_by_fold[row] = [_count(cluster, -1) for cluster in by_fold]
        requests.generation[row] = _count(wish.generation, -1)
        claimed: object = wish.reward
        requests.reward[row] = claimed if isinstance(claimed, int | float) and np.isfinite(claimed) else 0.0
        requests.ranked_first[row] = wish.ranked_first is True
    return requests


def _count(value: object, otherwise: int) -> int:
    if not isinstance(value, int | np.integer) or not 0 <= int(value) < _TOO_MANY:
        return otherwise
    return int(value)

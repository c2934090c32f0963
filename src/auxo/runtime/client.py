"""The client half on a device: one affinity record, a check-in before training, feedback after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from auxo.core.affinity import FOLDS, AffinityRecords, AffinitySettings, FeedbackColumns, learn, request
from auxo.core.rng import stream
from auxo.core.types import ClientId, CohortId
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn
from auxo.runtime.client_numbers import plain_id

_LARGEST = 1.0 + 1e-6  # reward or cosine, with what rounding may add


@dataclass(frozen=True)
class ClientRecord:
    """All that a device keeps between check-ins."""

    affinity: AffinityRecords | None = None  # one row; None before the first feedback
    check_ins: int = 0  # so far; names the random stream of the next
    federation: str = ""  # whose feedback it has had; "": nobody's, or of one that does not say
    rounds: Mapping[CohortId, int] = field(default_factory=dict)  # the last of each cohort that it has had feedback to
    token: str = ""  # the last that it was given

    def __post_init__(self) -> None:
        if self.affinity is not None and len(self.affinity.heard) != 1:
            raise ValueError(f"affinity: expected the record of 1 client, got {len(self.affinity.heard)}")


def check_in_of(
    client: ClientId, affinity: AffinityRecords, settings: AffinitySettings, rng: np.random.Generator | None
) -> CheckIn:
    """Return the check-in that a record of one row leads to; without a generator nobody explores."""
    asked = request(affinity, settings, rng)
    wish = AffinityRequest(
        cohort=asked.tree.cohorts[int(asked.cohort[0])],
        reward=float(asked.reward[0]),
        cluster=int(asked.cluster[0]),
        generation=int(asked.generation[0]),
        ranked_first=bool(asked.ranked_first[0]),
        confirmed=int(asked.confirmed[0]),
    )
    return CheckIn(client, wish, int(asked.participations[0]))


class Client:
    """A device's side of Auxo; it runs the same code as a simulated population, over one row.

    >>> Client(7).check_in()
    CheckIn(client=7, request=None, participations=0)
    """

    def __init__(self, client: ClientId, *, seed: int = 0, settings: AffinitySettings | None = None) -> None:
        """Make a client without a record.

        Args:
            client: its id in the federation: a number of up to 64 bits, or a name.
            seed: of its exploration; mixed with the id, so all clients may share one.
            settings: how it weighs and explores cohorts.

        Raises:
            ValueError: the id is nothing that a client can be called.
        """
        name = plain_id(client)
        if name is None:
            raise ValueError(
                f"client: expected a number of up to 64 bits or a name of 1 to 1024 characters, got {client!r:.80}"
            )
        self.client = name
        self._seed = seed
        self._settings = settings or AffinitySettings()
        self._record = ClientRecord()

    def check_in(self, *, explore: bool = True) -> CheckIn:
        """Return what to send when the device is ready to train, or, without exploring, to ask whose model to use."""
        self._record = replace(self._record, check_ins=self._record.check_ins + 1)
        if self._record.affinity is None:
            return CheckIn(self.client)
        rng = stream(self._seed, "client", self.client, self._record.check_ins)
        check_in = check_in_of(self.client, self._record.affinity, self._settings, rng if explore else None)
        if check_in.request is None or not self._record.token:
            return check_in
        return replace(check_in, request=replace(check_in.request, token=self._record.token))

    def receive(self, feedback: AffinityFeedback) -> None:
        """Learn from the feedback to the last task; one that has been delivered before changes nothing.

        Raises:
            ValueError: the feedback is for another client, of another federation than the record, older than a
                partition the client has heard of, or holds what cannot be; nothing was learnt.
        """
        self._check_sender(feedback)
        if feedback.round and feedback.round <= self._record.rounds.get(feedback.cohort, 0):
            return
        affinity = self._record.affinity or AffinityRecords.empty(1, len(feedback.similarity))
        self._check(feedback, affinity)
        columns = FeedbackColumns(
            cohort=feedback.cohort,
            tree=feedback.tree,
            instant_reward=np.array([np.nan if feedback.instant_reward is None else feedback.instant_reward]),
            similarity=np.array([[np.nan if value is None else value for value in feedback.similarity]], dtype=float),
            fold=np.array([-1 if feedback.fold is None else feedback.fold]),
            generation=feedback.generation,
            placed=None if feedback.placed is None else np.array([feedback.tree.index[feedback.placed]]),
        )
        self._record = replace(
            self._record,
            affinity=learn(affinity, columns, self._settings),
            federation=feedback.federation,
            rounds={**self._record.rounds, feedback.cohort: feedback.round},
            token=feedback.token or self._record.token,
        )

    def record_to_bytes(self) -> bytes:
        """Return the record for the device to keep."""
        return to_bytes(self._record)

    def record_from_bytes(self, data: bytes) -> None:
        """Take up a record that was kept; losing it is no harm beyond having to explore again.

        Raises:
            CodecError: the bytes are damaged or not a record.
        """
        self._record = from_bytes(ClientRecord, data)

    def _check_sender(self, feedback: AffinityFeedback) -> None:
        if feedback.client != self.client:
            raise ValueError(
                f"feedback.client: expected {self.client}, got {feedback.client}; deliver it to its client"
            )
        if self._record.affinity is not None and feedback.federation != self._record.federation:
            raise ValueError(
                f"feedback.federation: expected {self._record.federation!r} as in the record, got "
                f"{feedback.federation!r:.80}; leave it, or make a new Client to join another federation"
            )

    def _check(self, feedback: AffinityFeedback, affinity: AffinityRecords) -> None:
        said = (feedback.instant_reward, *feedback.similarity)
        if not all(value is None or -_LARGEST <= value <= _LARGEST for value in said):
            raise ValueError(
                f"feedback.instant_reward, similarity: expected numbers from -1 to 1, or None, got {said!r:.80}; "
                "pass on what the server gave"
            )
        if feedback.cohort not in feedback.tree.index:
            raise ValueError(
                f"feedback.cohort: {feedback.cohort} is not in feedback.tree; pass on what the server gave"
            )
        if feedback.placed is not None and feedback.placed not in feedback.tree.index:
            raise ValueError(
                f"feedback.placed: {feedback.placed} is not in feedback.tree; pass on what the server gave"
            )
        if feedback.fold not in (None, *range(FOLDS)):
            raise ValueError(f"feedback.fold: expected None or a number below {FOLDS}, got {feedback.fold}")
        clusters = affinity.similarity.shape[-1]
        if clusters == 0 or len(feedback.similarity) != clusters:
            raise ValueError(
                f"feedback.similarity: expected {clusters or 'at least 1'} as in the record, "
                f"got {len(feedback.similarity)}; make a new Client to join another run"
            )
        known = affinity.tree.branches
        if feedback.tree.branches[: len(known)] != known:
            raise ValueError(
                f"feedback.tree: expected a later state of {affinity.tree.cohorts}, got {feedback.tree.cohorts}, of "
                "another run or of an earlier time; leave it, or make a new Client to join another run"
            )

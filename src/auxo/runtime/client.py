"""The client half on a device: one affinity record, a check-in before training, feedback after it."""

import numpy as np

from auxo.core.affinity import AffinityRecords, AffinitySettings, FeedbackColumns, learn, request
from auxo.core.rng import stream
from auxo.core.types import ClientId
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn


class Client:
    """A device's side of Auxo; it runs the same code as a simulated population, over one row.

    >>> Client(7).check_in()
    CheckIn(client=7, request=None, participations=0)
    """

    def __init__(self, client: int, *, seed: int = 0, settings: AffinitySettings | None = None) -> None:
        """Make a client without a record.

        Args:
            client: its id in the federation.
            seed: of its exploration; mixed with the id, so all clients may share one.
            settings: how it weighs and explores cohorts.
        """
        self.client = ClientId(client)
        self._seed = seed
        self._settings = settings or AffinitySettings()
        self._check_ins = 0
        self._record: AffinityRecords | None = None

    def check_in(self) -> CheckIn:
        """Return what to send when the device is ready to train."""
        self._check_ins += 1
        if self._record is None:
            return CheckIn(self.client)
        rng = stream(self._seed, "client", self.client, self._check_ins)
        asked = request(self._record, self._settings, rng)
        first, second = asked.cluster_by_fold[0].tolist()
        wish = AffinityRequest(
            cohort=asked.tree.cohorts[int(asked.cohort[0])],
            reward=float(asked.reward[0]),
            cluster=int(asked.cluster[0]),
            cluster_by_fold=(first, second),
            generation=int(asked.generation[0]),
            ranked_first=bool(asked.ranked_first[0]),
        )
        return CheckIn(self.client, wish, int(asked.participations[0]))

    def receive(self, feedback: AffinityFeedback) -> None:
        """Learn from the feedback to the last task.

        Raises:
            ValueError: the feedback is for another client, or of another run than the record.
        """
        if feedback.client != self.client:
            raise ValueError(f"feedback.client: expected {self.client}, got {feedback.client}; deliver it to its client")
        similarity = np.array([np.nan if value is None else value for value in feedback.similarity], dtype=np.float64)
        record = self._record or AffinityRecords.empty(1, len(similarity))
        columns = FeedbackColumns(
            cohort=feedback.cohort,
            tree=feedback.tree,
            instant_reward=np.array([np.nan if feedback.instant_reward is None else feedback.instant_reward]),
            similarity=similarity[None, :],
            fold=np.array([-1 if feedback.fold is None else feedback.fold]),
            generation=feedback.generation,
        )
        self._record = learn(record, columns, self._settings)

    def record_to_bytes(self) -> bytes | None:
        """Return the affinity record for the device to keep; None while there is none."""
        return None if self._record is None else to_bytes(self._record)

    def record_from_bytes(self, data: bytes) -> None:
        """Take up a record that was kept; losing it is no harm beyond having to explore again.

        Raises:
            CodecError: the bytes are damaged or not a record.
        """
        self._record = from_bytes(AffinityRecords, data)

"""PyramidFL: Oort's choice between clients, and among those chosen more work for the fast and less upload for most.

Li, Zeng, Zhang, Cao, "PyramidFL: A Fine-grained Client Selection Framework for Efficient Federated Learning",
MobiCom 2022, sections 4.3 and 4.4; the formulas are those of the authors' code (liecn/PyramidFL,
training/param_server.py, prune_client_tasks), with three differences. An update's length is that of the update: the
code takes the distance between an update and the model. A drop-out shortens the upload alone, for the download is
whole; the code shortens both. Local work is counted in whole passes over a client's samples, where the code counts
batches.
"""

from dataclasses import dataclass, field

import numpy as np

from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState, own
from auxo.core.selectors import Asked, UsualWork
from auxo.core.selectors.oort import Oort, OortMemory
from auxo.core.settings import Fraction, PositiveInt, checked, setting
from auxo.core.turnout import Turnout
from auxo.core.types import FloatArray, IntArray

_MOST_MORE = 10  # times the usual work on top of it, at most; as in the authors' code


@dataclass(frozen=True)
@checked
class PyramidFL:
    """Oort, with drop-out of uploads by rank and local work that fills the time a round takes anyway."""

    oort: Oort = field(default_factory=Oort)
    dropout_least: float = setting(0.1, "Chance of a tensor not to be sent, for the most useful participant.")
    dropout_most: float = setting(0.6, "What that chance rises to with the rank, for the least useful one.")
    more_work: Fraction = setting(0.5, "Share of the time a participant would wait that it trains on; 0: never.")
    most_epochs: PositiveInt = setting(5, "Passes over its samples at most, or training.epochs if those are more.")

    def __post_init__(self) -> None:
        if not 0 <= self.dropout_least <= self.dropout_most < 1:
            raise ValueError(
                "dropout_least, dropout_most: expected 0 <= least <= most < 1, got "
                f"{self.dropout_least} and {self.dropout_most}"
            )

    own_states = (OortMemory,)
    asks_for_loss = True

    def begin(self, parent: OwnState | None = None) -> OwnState:
        """Return what Oort begins with."""
        return self.oort.begin(parent)

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        """Return whom Oort selects."""
        return self.oort.select(memory, candidates, rows, wanted, rng)

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        """Return what Oort learns; its table also has what ranks and times need."""
        return self.oort.learn(memory, turnout)

    def work(self, memory: OwnState, clients: IntArray, usual: UsualWork) -> Asked:
        """Return the passes and the upload of each participant; who is not known does the usual work.

        A newcomer ranks first, as in the authors' code, where its samples stand for the update nobody has seen.
        """
        table = own(OortMemory, memory).table
        places = table.places(clients)

        def column(values: FloatArray) -> FloatArray:
            found = np.full(len(places), np.nan)
            found[places >= 0] = values[places[places >= 0]]
            return found

        dropout = self.dropout(column(table.gain))
        usual_s, saved_s = column(table.usual_s), dropout * column(table.upload_s)
        shorter_s = usual_s - np.where(np.isfinite(saved_s), saved_s, 0.0)
        return Asked(self.epochs(usual_s, shorter_s, column(table.epoch_s), usual), 1 - dropout)

    def dropout(self, gain: FloatArray) -> FloatArray:
        """Return each participant's chance to leave a tensor out, by its rank among all; of equals the same.

        >>> PyramidFL().dropout(np.array([5.0, 1.0, 9.0, 1.0, np.nan])).round(2).tolist()
        [0.3, 0.4, 0.2, 0.4, 0.1]
        """
        useful = np.where(np.isfinite(gain), gain, np.inf)
        ascending = np.sort(useful)
        rank = len(useful) - np.searchsorted(ascending, useful, side="right")
        return self.dropout_least + rank * (self.dropout_most - self.dropout_least) / max(len(useful), 1)

    def epochs(self, usual_s: FloatArray, shorter_s: FloatArray, epoch_s: FloatArray, usual: UsualWork) -> IntArray:
        """Return the passes of each participant: a share of those that fit into the time it would wait.

        Args:
            usual_s: (participants,) time for the usual work and a whole upload; NaN: nobody knows.
            shorter_s: the same with the upload that is expected.
            epoch_s: of that, a pass over the samples.
            usual: work, and how many participants complete the round: it waits for so many of the fastest.
        """
        known = np.flatnonzero(np.isfinite(shorter_s) & (epoch_s > 0))
        epochs = np.full(len(usual_s), usual.epochs, dtype=np.int64)
        if len(known) == 0:
            return epochs
        fastest = known[np.argsort(usual_s[known], kind="stable")[: usual.share]]
        waits_s = np.maximum(shorter_s[fastest].max() - shorter_s[known], 0.0)
        more = np.minimum(_MOST_MORE * usual.epochs, self.more_work * np.floor(waits_s / epoch_s[known]))
        most = max(self.most_epochs, usual.epochs)
        epochs[known] = np.minimum(usual.epochs + more.astype(np.int64), most)
        return epochs

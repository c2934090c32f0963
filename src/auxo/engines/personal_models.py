"""Models that clients have made their own: tuned on their training samples, many clients at once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.personalisers import Tuning
from auxo.core.rng import random_bits
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.runtime.threads import one_thread
from auxo.simulation.devices import Devices
from auxo.training.trainer import Job, LocalTraining, Trainer


@dataclass(frozen=True)
class PersonalModels:
    """How clients tune the models that they use; what comes out follows from the client and the seed alone."""

    trainer: Trainer
    data: FederatedData
    settings: LocalTraining  # of the tuning
    seed: int

    @staticmethod
    def by(
        tuning: Tuning | None, trainer: Trainer, data: FederatedData, participants: LocalTraining, seed: int
    ) -> "PersonalModels | None":
        """Return what tunes models so; None where nothing is tuned.

        Args:
            tuning: as a personaliser has it.
            trainer: of the models.
            data: the clients' samples.
            participants: how they train in rounds; the tuning takes from it what it does not say itself.
            seed: of the order of samples.
        """
        if tuning is None or tuning.epochs == 0:
            return None
        settings = replace(
            participants,
            epochs=tuning.epochs,
            proximal=tuning.proximal,
            learning_rate=participants.learning_rate if tuning.learning_rate is None else tuning.learning_rate,
            batch_size=participants.batch_size if tuning.batch_size is None else tuning.batch_size,
        )
        # Another order of samples than that of the client's first visit.
        own_seed = int(random_bits(seed, "personalise", np.zeros(1, dtype=np.int64))[0] >> np.uint64(1))
        return PersonalModels(trainer, data, settings.fitting(data), own_seed)

    def tuned(self, weights: Float32Array, clients: IntArray) -> Iterator[Float32Array]:
        """Yield the model of each of these clients, in order, tuned from ``weights``.

        One whose tuning diverges keeps the model that it was given.
        """
        jobs = [Job(client, visit=0) for client in clients.tolist()]
        with one_thread():
            for answer in self.trainer.train(weights, self.data, jobs, self.settings, self.seed):
                mine = weights + answer.update
                yield mine if np.isfinite(mine).all() else weights

    def device_s(self, devices: Devices, clients: IntArray) -> FloatArray:
        """Return how long each client's device is busy with it; the model is there, and nothing is sent."""
        passed = self.settings.epochs * self.data.train.counts(clients)
        return np.asarray(passed * devices.compute_s_per_sample[clients])

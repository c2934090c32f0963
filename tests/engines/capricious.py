"""Parts that fail on demand; in a module of their own, because processes elsewhere have to import it."""

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from auxo.core.aggregators import Accumulator, FedYogi, ServerState
from auxo.core.asking import Answer
from auxo.core.layers import Layer
from auxo.core.types import Float32Array, FloatArray, InputArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.trainer import Job, LocalTraining, Trainer

# Numbers of visits that have a meaning of their own.
DIES_ONCE = 1_000_000
DIES_ALWAYS = 2_000_000
RAISES = 3_000_000
LOOKS = 4_000_000


@dataclass(frozen=True)
class Capricious:
    """Trains like another trainer, except for jobs whose visit says what to do instead."""

    inner: Trainer
    mark: Path  # exists once it has died

    @property
    def n_params(self) -> int:
        return self.inner.n_params

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.inner.layers

    def initial_weights(self, seed: int) -> Float32Array:
        return self.inner.initial_weights(seed)

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        jobs: Sequence[Job],
        settings: LocalTraining,
        seed: int,
        out: Float32Array | None = None,
    ) -> Iterator[Answer]:
        visits = {job.visit for job in jobs}
        if DIES_ALWAYS in visits:
            os._exit(3)
        if DIES_ONCE in visits:
            die_unless(self.mark)
        if RAISES in visits:
            raise ValueError("x: expected 5 features, got 6")
        if LOOKS in visits and (data.x.flags.writeable or data.train.y.flags.writeable):
            raise ValueError("a copy of the data was made")
        if LOOKS in visits and (len(data.test.y) or any(data.client_names) or data.groups is not None):
            raise ValueError("more was sent than training needs")
        yield from self.inner.train(weights, data, jobs, settings, seed, out)

    def predict(self, weights: Float32Array, x: InputArray) -> IntArray:
        return self.inner.predict(weights, x)

    def losses(self, weights: Float32Array, x: InputArray, y: IntArray) -> FloatArray:
        return self.inner.losses(weights, x, y)


@dataclass(frozen=True)
class CapriciousStep:
    """FedYogi that says in which process it is, and may end that once or always."""

    folder: Path
    dies: Literal["never", "once", "always"] = "never"

    def initial(self, weights: Float32Array) -> ServerState:
        return FedYogi().initial(weights)

    def accumulate(self, state: ServerState) -> Accumulator:
        return FedYogi().accumulate(state)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        if self.dies == "always":
            os._exit(3)
        if self.dies == "once":
            die_unless(self.folder / "died")
        (self.folder / str(os.getpid())).touch()
        return FedYogi().step(state, movement, rate_scale)


def die_unless(mark: Path) -> None:
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

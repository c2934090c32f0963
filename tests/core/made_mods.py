"""A client mod: what a careful client does to all that it says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import Do
from auxo.core.types import Float32Array, IntArray


@dataclass(frozen=True)
class Careful:
    """Clips the length of each update, rounds its losses and its claimed reward, and leaves some tasks alone."""

    longest: float = 0.1
    refuses: int = -1  # number of a client that does nothing

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        for client, answer in zip(device.clients.tolist(), do(asks, device), strict=True):
            if isinstance(answer, Failure) or client == self.refuses:
                yield answer if isinstance(answer, Failure) else Failure("no")
                continue
            judged = tuple(replace(one, loss=round(one.loss, 2)) for one in answer.judged)
            yield replace(answer, update=self.clipped(answer.update), judged=judged)

    def clipped(self, update: Float32Array) -> Float32Array:
        length = float(np.linalg.norm(update))
        return update if length <= self.longest else (update * (self.longest / length)).astype(np.float32)

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        return replace(requests, reward=np.round(requests.reward, 1))

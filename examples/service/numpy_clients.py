"""Clients of the example: logistic regression in plain numpy; half of them label the same inputs the other way."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import auxo
from auxo.service.link import ClientPatience, ServiceAway

FEATURES, SAMPLES = 10, 60
Array = NDArray[np.floating]


def loss(w: Array, inputs: Array, labels: Array) -> float:
    """Mean loss of a model on some samples."""
    return float(np.logaddexp(0, (1 - 2 * labels) * (inputs @ w)).mean())


def train(w: Array, inputs: Array, labels: Array) -> Array:
    """Logistic regression by gradient descent on some samples: new weights minus old."""
    new = w.astype(float)
    for _ in range(10):
        new += 0.5 * inputs.T @ (labels - 1 / (1 + np.exp(-inputs @ new))) / len(labels)
    return new - w


@dataclass
class Clients:
    """Some clients, each in a thread of its own, as long as the federation lasts."""

    count: int
    folder: Path  # where each keeps what it has learnt of its cohorts
    counted: list[int] = field(default_factory=list)  # by client: how often it took part, and that counted
    errors: list[str] = field(default_factory=list)
    is_stopped: threading.Event = field(default_factory=threading.Event)
    before_training: Callable[[int], None] = lambda client: None  # is called with who is about to train

    def __post_init__(self) -> None:
        """Draw their samples; in groups that nobody is told of."""
        rng = np.random.default_rng(0)  # noqa: TID251 - data of one's own, drawn as in any script
        truth, sign = rng.standard_normal(FEATURES), np.where(np.arange(self.count) % 2 == 0, 1.0, -1.0)
        self.x = rng.standard_normal((self.count, SAMPLES, FEATURES))
        self.y = (self.x @ truth * sign[:, None] > 0).astype(float)
        self.counted = [0] * self.count
        self._threads: list[threading.Thread] = []

    def start(self, url: str, tokens: list[str]) -> None:
        """Have all of them take part until it is over."""
        for client, token in enumerate(tokens):
            thread = threading.Thread(target=self._take_part, args=(client, url, token), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _take_part(self, client: int, url: str, token: str) -> None:
        x, y = self.x[client], self.y[client]

        def train_mine(w: Array, inputs: Array, labels: Array) -> Array:
            self.before_training(client)
            return train(w, inputs, labels)

        patience = ClientPatience(longest_s=2.0, gives_up_s=300.0, elsewhere_s=2.0)
        try:
            with auxo.connect(url, token, state=self.folder / f"{client}.record", patience=patience) as session:
                while not self.is_stopped.is_set() and (done := session.take_part(loss, train_mine, x, y)) is not None:
                    self.counted[client] += done.counted
        except ServiceAway as error:
            if not self.is_stopped.is_set():
                self.errors.append(f"client {client}: {error}")
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self.errors.append(f"client {client}: {type(error).__name__}: {error}")

    def join(self, timeout_s: float) -> None:
        """Wait until all have ended."""
        for thread in self._threads:
            thread.join(timeout_s)

    def accuracy(self, weights: Array, group: int) -> float:
        """Mean accuracy of one model on the clients of a group."""
        mine = slice(group, None, 2)
        return float(((self.x[mine] @ weights > 0) == self.y[mine]).mean())

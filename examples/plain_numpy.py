"""A federated loop by hand, in plain numpy, that adopts Auxo: half of the clients label the same inputs the other way.

Auxo is what stands between check-in and feedback; the data, the model, its training and the loop are your own.
"""

import numpy as np
from numpy.typing import NDArray

from auxo import Auxo, Client, Server, TaskResult

CLIENTS, FEATURES, SAMPLES, ROUNDS, PARTICIPANTS = 120, 10, 40, 60, 40
Array = NDArray[np.floating]

rng = np.random.default_rng(0)  # noqa: TID251 - data of one's own, drawn as in any script
truth = rng.standard_normal(FEATURES)
sign = np.where(np.arange(CLIENTS) % 2 == 0, 1.0, -1.0)  # the hidden groups; Auxo never sees this
x = rng.standard_normal((CLIENTS, SAMPLES, FEATURES))
y = (x @ truth * sign[:, None] > 0).astype(float)


def loss(w: Array, client: int, fold: int | None) -> float:
    """Mean loss of a model on a client's samples, or on one half of them."""
    return float(np.logaddexp(0, (1 - 2 * y[client]) * (x[client] @ w))[fold :: 1 if fold is None else 2].mean())


def train(w: Array, client: int, fold: int | None) -> tuple[NDArray[np.float32], int]:
    """Logistic regression by gradient descent on a client's samples, or on one half of them."""
    mine = slice(fold, None, 1 if fold is None else 2)
    inputs, labels, new = x[client, mine], y[client, mine], w.astype(float)
    for _ in range(10):
        new += 0.5 * inputs.T @ (labels - 1 / (1 + np.exp(-inputs @ new))) / len(labels)
    return (new - w).astype(np.float32), SAMPLES


def accuracy(weights: Array, clients: list[int]) -> float:
    """Mean accuracy of one model on some clients."""
    return float(((x[clients] @ weights > 0) == y[clients]).mean())


def main() -> dict[str, float]:
    """Train with Auxo and return each cohort's accuracy on the clients that ask for it."""
    server = Server(np.zeros(FEATURES, np.float32), participants=PARTICIPANTS, rounds=ROUNDS, method=Auxo())
    clients = [Client(number) for number in range(CLIENTS)]
    days = np.random.default_rng(1)  # noqa: TID251
    while not server.is_over:
        online = [clients[number].check_in() for number in np.flatnonzero(days.random(CLIENTS) < 0.8)]
        for cohort, check_ins in server.match(online).items():
            results = []
            for task in server.open_round(cohort, check_ins):  # it may be asked to compare models, and to judge some
                one, fold = int(task.client), task.fold
                best = min(task.offered, key=lambda name: loss(server.weights(name), one, fold))
                halves = (0, 1) if fold is None else (1 - fold, fold)  # to judge by, and to choose by
                out, in_ = (tuple(loss(server.weights(name), one, by) for name in task.held_out) for by in halves)
                work = train(server.weights(best), one, fold)
                results.append(TaskResult(one, cohort, task.round, *work, trained=best, held_out=out, held_in=in_))
            for feedback in server.close_round(cohort, results):
                clients[int(feedback.client)].receive(feedback)
    members = server.match([client.check_in(explore=False) for client in clients], everybody=True)
    return {name: accuracy(server.weights(name), [int(one.client) for one in mine]) for name, mine in members.items()}


if __name__ == "__main__":
    for name, score in main().items():
        print(f"cohort {name}: accuracy {score:.3f} on the clients that ask for it")

"""A federated loop by hand, in plain numpy, that adopts Auxo: half of the clients label the same inputs the other way.

Auxo is what stands between check-in and feedback; the data, the model, its training and the loop are your own.
"""

import numpy as np
from numpy.typing import NDArray

from auxo import Auxo, Client, Server

CLIENTS, FEATURES, SAMPLES, ROUNDS, PARTICIPANTS = 120, 10, 40, 60, 40
Array = NDArray[np.floating]

rng = np.random.default_rng(0)  # noqa: TID251 - data of one's own, drawn as in any script
truth = rng.standard_normal(FEATURES)
sign = np.where(np.arange(CLIENTS) % 2 == 0, 1.0, -1.0)  # the hidden groups; Auxo never sees this
x = rng.standard_normal((CLIENTS, SAMPLES, FEATURES))
y = (x @ truth * sign[:, None] > 0).astype(float)


def loss(w: Array, inputs: Array, labels: Array) -> float:
    """Mean loss of a model on some samples."""
    return float(np.logaddexp(0, (1 - 2 * labels) * (inputs @ w)).mean())


def train(w: Array, inputs: Array, labels: Array) -> Array:
    """Logistic regression by gradient descent on some samples: new weights minus old."""
    new = w.astype(float)
    for _ in range(10):
        new += 0.5 * inputs.T @ (labels - 1 / (1 + np.exp(-inputs @ new))) / len(labels)
    return new - w


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
            for task in server.open_round(cohort, check_ins):
                one = int(task.client)
                results.append(clients[one].do(task, server.weights, loss, train, x[one], y[one]))
            for feedback in server.close_round(cohort, results):
                clients[int(feedback.client)].receive(feedback)
    members = server.match([client.check_in(explore=False) for client in clients], everybody=True)
    return {name: accuracy(server.weights(name), [int(one.client) for one in mine]) for name, mine in members.items()}


if __name__ == "__main__":
    for name, score in main().items():
        print(f"cohort {name}: accuracy {score:.3f} on the clients that ask for it")

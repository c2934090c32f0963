"""A federated loop by hand, in plain numpy, that adopts Auxo: half of the clients label the same inputs the other way."""

import numpy as np

from auxo import AuxoSettings, Client, FedAvg, Server, TaskResult

CLIENTS, FEATURES, SAMPLES, ROUNDS, PARTICIPANTS = 200, 10, 40, 60, 40
rng = np.random.Generator(np.random.PCG64(0))
truth = rng.standard_normal(FEATURES)
sign = np.where(np.arange(CLIENTS) % 2 == 0, 1.0, -1.0)  # the hidden groups; Auxo never sees this
x = rng.standard_normal((CLIENTS, SAMPLES, FEATURES))
y = (x @ truth * sign[:, None] > 0).astype(float)


def train(weights: np.ndarray, client: int, fold: int | None) -> tuple[np.ndarray, int]:
    """Logistic regression by gradient descent on one client's samples, or on one half of them."""
    mine = slice(None) if fold is None else slice(fold, None, 2)
    inputs, labels, w = x[client, mine], y[client, mine], weights.astype(float)
    for _ in range(10):
        w += 0.5 * inputs.T @ (labels - 1 / (1 + np.exp(-inputs @ w))) / len(labels)
    return (w - weights).astype(np.float32), len(labels)


def accuracy(weights: np.ndarray, clients: np.ndarray) -> float:
    """Mean accuracy of one model on some clients."""
    return float(((x[clients] @ weights > 0) == y[clients]).mean())


def main() -> dict[str, float]:
    """Train with Auxo and return each cohort's accuracy on the clients that ask for it."""
    server = Server(
        np.zeros(FEATURES, np.float32), participants=PARTICIPANTS, rounds=ROUNDS, settings=AuxoSettings(aggregator=FedAvg())
    )
    clients = [Client(number) for number in range(CLIENTS)]
    while not server.is_over:
        online = [client.check_in() for client in clients if rng.random() < 0.8]
        for cohort, check_ins in server.match(online).items():
            results = [
                TaskResult(task.client, cohort, task.round, *train(server.weights(cohort), task.client, task.fold))
                for task in server.open_round(cohort, check_ins)
            ]
            for feedback in server.close_round(cohort, results):
                clients[feedback.client].receive(feedback)
    members = server.match([client.check_in() for client in clients], everybody=True)
    return {
        cohort: accuracy(server.weights(cohort), np.array([check_in.client for check_in in check_ins]))
        for cohort, check_ins in members.items()
    }


if __name__ == "__main__":
    for name, score in main().items():
        print(f"cohort {name}: accuracy {score:.3f} on its members")

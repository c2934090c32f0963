"""A server's loop with a handful of clients, in which nothing is set but how many there are."""

import numpy as np
import pytest

from auxo import Auxo, Client, Server
from auxo.core.rng import stream
from auxo.core.types import ClientId, Float32Array

FEATURES, SAMPLES, ROUNDS = 6, 40, 20


def samples(client: int, groups: int, seed: int) -> tuple[Float32Array, Float32Array]:
    """Return a client's samples; those of one group share their true weights."""
    true = stream(seed, "true", client % groups).normal(size=FEATURES)
    rng = stream(seed, "samples", client)
    x = rng.normal(size=(SAMPLES, FEATURES))
    return x.astype(np.float32), (x @ true + 0.1 * rng.normal(size=SAMPLES)).astype(np.float32)


def loss(weights: Float32Array, x: Float32Array, y: Float32Array) -> float:
    return float(((x @ weights - y) ** 2).mean())


def train(weights: Float32Array, x: Float32Array, y: Float32Array) -> Float32Array:
    after = weights.copy()
    for _ in range(3):
        after -= 0.2 * x.T @ (x @ after - y) / len(y)
    return after - weights


def cohorts_of(clients: int, groups: int, seed: int) -> dict[ClientId, str]:
    """Return whose model each client uses at the end of the loop in the README."""
    server = Server(np.zeros(FEATURES, dtype=np.float32), participants=clients, rounds=ROUNDS, method=Auxo(), seed=seed)
    devices = [Client(number, seed=seed) for number in range(clients)]
    while not server.is_over:
        for cohort, check_ins in server.match([device.check_in() for device in devices]).items():
            tasks = server.open_round(cohort, check_ins)
            results = [
                devices[int(task.client)].do(
                    task, server.weights, loss, train, *samples(int(task.client), groups, seed)
                )
                for task in tasks
            ]
            for feedback in server.close_round(cohort, results):
                devices[int(feedback.client)].receive(feedback)
    asked = server.match([device.check_in(explore=False) for device in devices], everybody=True)
    return {one.client: cohort for cohort, check_ins in asked.items() for one in check_ins}


@pytest.mark.parametrize("clients", [4, 6, 8, 12, 16, 30])
def test_two_groups_are_found(clients: int) -> None:
    found = cohorts_of(clients, groups=2, seed=100)
    assert {found[client] for client in range(0, clients, 2)} | {found[client] for client in range(1, clients, 2)} == {
        "0.0",
        "0.1",
    }
    assert len({found[client] for client in range(0, clients, 2)}) == 1
    assert len({found[client] for client in range(1, clients, 2)}) == 1


@pytest.mark.parametrize("clients", [4, 8, 16])
def test_without_groups_there_is_no_partition(clients: int) -> None:
    for seed in range(100, 104):
        assert set(cohorts_of(clients, groups=1, seed=seed).values()) == {"0"}

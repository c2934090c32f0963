"""What do signed claims and a guard cost a server, as a share of the rounds of the same run?

    python benchmarks/guarding.py --json benchmarks/results/guarding.json
    python benchmarks/guarding.py --sizes 200,10,24 --json FILE

A federation in one process: every client trains a softmax regression on its own samples, and a `Server` signs, verifies
and guards; three clients check in for each that takes part. The time that a round takes is that of the server's
functions and of one client's training: clients train side by side, and what they wait for on the network is left out,
so that the share is larger than it is anywhere. The more classes, the larger is the model: what is signed does not
depend on that, and all else does. Times are the processor's: others may be at work on the machine.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from auxo import Auxo, Client, Server
from auxo.core.rng import stream
from auxo.core.watchful import Watchful
from auxo.files.key_file import Key
from auxo.protocol.messages import Task, TaskFailure, TaskResult
from auxo.runtime.signing import Signing

_FEATURES, _SAMPLES, _EPOCHS = 784, 100, 5
_TRUE_CLASSES = 10  # that samples are of; a model may know of more
SIZES = ((100, 10, 24), (200, 10, 24), (400, 10, 24), (200, 128, 12), (100, 1280, 6))
"""Participants, classes and rounds: 7,840, 100,352 and 1,003,520 numbers."""


class Clock:
    """Adds up how long some functions take."""

    def __init__(self) -> None:
        self.took_s = 0.0

    def timed(self, kind: type, *names: str) -> None:
        """Have the methods of a class take note of their time."""
        for name in names:
            setattr(kind, name, self._around(getattr(kind, name)))

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def around(*given: Any, **named: Any) -> Any:
            began_s = time.process_time()
            try:
                return function(*given, **named)
            finally:
                self.took_s += time.process_time() - began_s

        return around


def train(weights: Any, x: Any, y: Any) -> Any:
    """Return what some epochs of SGD in batches of ten change."""
    model = np.asarray(weights, dtype=np.float32).reshape(_FEATURES, -1).copy()
    for _ in range(_EPOCHS):
        for begin in range(0, len(x), 10):
            some, labels = x[begin : begin + 10], y[begin : begin + 10]
            scores = some @ model
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            shares[np.arange(len(labels)), labels] -= 1
            model -= 0.1 * some.T @ shares / len(labels)
    return model.ravel() - np.asarray(weights).ravel()


def loss(weights: Any, x: Any, y: Any) -> float:
    """Return the mean cross entropy."""
    scores = x @ np.asarray(weights).reshape(_FEATURES, -1)
    scores -= scores.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]))


def done(client: Client, task: Task, server: Server, x: Any, y: Any) -> TaskResult | TaskFailure:
    """Return what a client answers."""
    row = int(task.client)
    return client.do(task, server.weights, loss, train, x[row], y[row])


@dataclass(frozen=True)
class Cost:
    """What was measured in a federation."""

    numbers: int  # in a model
    participants: int  # of a round of all cohorts
    rounds: int
    participations: int
    cohorts: int
    signing_s: float  # to read, to verify and to sign tokens
    guarding_s: float
    server_s: float  # both of them included
    training_s: float  # of one client in each round


def measured(participants: int, classes: int, rounds: int, signing: Clock, guarding: Clock) -> Cost:
    """Return what a federation of so many participants spends on a model of so many classes."""
    clients = 3 * participants
    rng = stream(0, "samples")
    x = rng.standard_normal((clients, _SAMPLES, _FEATURES)).astype(np.float32)
    y = (x[..., :_TRUE_CLASSES].argmax(axis=2) + (np.arange(clients) % 2)[:, None] * 5) % _TRUE_CLASSES
    server = Server(
        np.zeros(_FEATURES * classes), participants=participants, rounds=rounds, method=Auxo(), guard=Watchful()
    )
    server.sign_with([Key("5c" * 32)])
    signing.took_s = guarding.took_s = 0.0
    devices = [Client(number) for number in range(clients)]
    server_s, training_s, answered = 0.0, 0.0, 0
    while not server.is_over:
        check_ins = [client.check_in() for client in devices]
        began_s = time.process_time()
        matched = server.match(check_ins)
        server_s += time.process_time() - began_s
        for cohort, here in matched.items():
            began_s = time.process_time()
            tasks: list[Task] = server.open_round(cohort, here)
            server_s += time.process_time() - began_s
            began_s = time.process_time()
            results = [done(devices[int(task.client)], task, server, x, y) for task in tasks]
            training_s += (time.process_time() - began_s) / max(len(tasks), 1)
            answered += len(tasks)
            began_s = time.process_time()
            told = server.close_round(cohort, results)
            server_s += time.process_time() - began_s
            for feedback in told:
                devices[int(feedback.client)].receive(feedback)
    spent = signing.took_s, guarding.took_s, server_s, training_s
    return Cost(_FEATURES * classes, participants, rounds, answered, len(server.tree.leaves), *spent)


def _size(text: str) -> tuple[int, int, int]:
    participants, classes, rounds = map(int, text.split(","))
    return participants, classes, rounds


def main() -> None:
    """Measure, print, and write records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes",
        type=_size,
        nargs="+",
        default=SIZES,
        metavar="PARTICIPANTS,CLASSES,ROUNDS",
        help="federations, one after another",
    )
    parser.add_argument("--json", type=Path, help="where to write the records")
    arguments = parser.parse_args()
    signing, guarding = Clock(), Clock()
    signing.timed(Signing, "with_proofs", "given")
    guarding.timed(Watchful, "admit", "strike", "are_suspect")
    found = []
    for participants, classes, rounds in arguments.sizes:
        cost = measured(participants, classes, rounds, signing, guarding)
        ours_s = cost.signing_s + cost.guarding_s
        print(
            f"{cost}: {1e6 * ours_s / cost.participations:.0f} microseconds for each participation, "
            f"{ours_s / (cost.server_s + cost.training_s):.1%} of a round where all else is instant"
        )
        found.append(asdict(cost))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"guarding": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The work that every engine is given, and how a peer reports; needs numpy alone, for peers run where auxo is not.

A round: all 200 participants train for one local epoch in batches of 6, and FedAvg weighs them by their samples.
Everybody starts from the same weights, so that training losses agree after as many rounds: they differ by the order of
samples only. The classes can be told apart a little, which makes that loss worth comparing; it says nothing of quality.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

PARTICIPANTS = 200
FEWEST_SAMPLES, MOST_SAMPLES = 20, 60
SIDE = 28  # of an image, in pixels
FEATURES = SIDE * SIDE
CLASSES = 62  # FEMNIST: digits and letters of both cases
HIDDEN = 128
KERNEL = 5
CHANNELS = (32, 64)  # of LEAF's FEMNIST CNN
BATCH_SIZE = 6
LEARNING_RATE = 0.05
CORES = 2

SEED = 0
_SIGNAL = 0.3  # of a class, where noise is 1: our own choice
_SCALE = 0.5  # of the inputs: our own choice

_SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "softmax": {"out": (FEATURES, CLASSES)},
    "mlp": {"hidden": (FEATURES, HIDDEN), "out": (HIDDEN, CLASSES)},
    "cnn": {
        "conv1": (KERNEL, KERNEL, 1, CHANNELS[0]),
        "conv2": (KERNEL, KERNEL, *CHANNELS),
        "hidden": ((SIDE // 4) ** 2 * CHANNELS[1], HIDDEN),
        "out": (HIDDEN, CLASSES),
    },
}
WORKLOADS = tuple(_SHAPES)


@dataclass(frozen=True)
class Samples:
    """All participants' samples; participant ``i`` has the rows from ``offsets[i]`` up to ``offsets[i + 1]``."""

    x: NDArray[np.float32]  # (samples, FEATURES)
    y: NDArray[np.int64]  # (samples,)
    offsets: NDArray[np.int64]  # (PARTICIPANTS + 1,)

    def rows(self, participant: int) -> slice:
        """Return where a participant's samples are."""
        return slice(int(self.offsets[participant]), int(self.offsets[participant + 1]))

    def sizes(self) -> NDArray[np.int64]:
        """Return how many samples each participant has, (PARTICIPANTS,)."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Layer:
    """A layer's first weights; the last axis of ``weight`` is the layer's outputs, the one before its inputs."""

    weight: NDArray[np.float32]  # (inputs, outputs), or (rows, columns, inputs, outputs) of a convolution
    bias: NDArray[np.float32]  # (outputs,)


@dataclass(frozen=True)
class Task:
    """What a peer is asked to do on its command line."""

    workload: str
    rounds: int  # timed
    warmup: int  # before them: compilation, caches, processes


def make_samples() -> Samples:
    """Return the samples: the same wherever they are made."""
    rng = _generator("samples")
    sizes = rng.integers(FEWEST_SAMPLES, MOST_SAMPLES, size=PARTICIPANTS, endpoint=True)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    prototypes = rng.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    y = rng.integers(0, CLASSES, size=offsets[-1])
    noise = rng.standard_normal((len(y), FEATURES), dtype=np.float32)
    x = _SCALE * (_SIGNAL * prototypes[y] + noise)
    return Samples(x.astype(np.float32), y.astype(np.int64), offsets.astype(np.int64))


def initial_weights(workload: str) -> dict[str, Layer]:
    """Return the layers by name, first to last: weights of a variance of 1 / inputs, biases of zero.

    The hidden layer of the CNN takes its inputs row by row, in a row column by column, in a column channel by channel.
    """
    rng = _generator("weights")
    layers = {}
    for name, shape in _SHAPES[workload].items():
        weight = rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(math.prod(shape[:-1])))
        layers[name] = Layer(weight, np.zeros(shape[-1], dtype=np.float32))
    return layers


def local_order(participant: int, round: int, n_samples: int) -> NDArray[np.int64]:
    """Return the order in which a participant goes through its samples."""
    return _generator("order", participant, round).permutation(n_samples)


def read_task(description: str | None) -> Task:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--rounds", type=int, default=10, help="timed rounds (default: 10)")
    parser.add_argument("--warmup", type=int, default=3, help="rounds before them (default: 3)")
    arguments = parser.parse_args()
    return Task(arguments.workload, arguments.rounds, arguments.warmup)


def report(engine: str, task: Task, round_s: Sequence[float], loss: float, packages: Sequence[str]) -> None:
    """Print the one line of JSON that whoever measures reads.

    Args:
        round_s: seconds of every round, those of the warm-up first; these are not reported.
        loss: mean cross entropy of all samples under the weights after the last round.
        packages: distributions whose versions belong to the result.
    """
    timed = list(round_s[task.warmup :])
    if len(timed) != task.rounds:
        raise ValueError(f"round_s: expected {task.warmup} + {task.rounds} rounds, got {len(round_s)}")
    versions: Mapping[str, str] = {name: version(name) for name in packages}
    line = {"engine": engine, "workload": task.workload, "round_s": timed, "loss": loss, "versions": versions}
    print(json.dumps(line), flush=True)


def _generator(purpose: str, *path: int) -> np.random.Generator:
    """Return the generator of a purpose."""
    number = int.from_bytes(purpose.encode(), "big")
    return np.random.default_rng((SEED, number, *path))  # noqa: TID251 - a peer's environment has no auxo.core.rng

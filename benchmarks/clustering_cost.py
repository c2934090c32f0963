"""What finding cohorts costs beside training them: 200 participants of ResNet-18, 11 million parameters.

    python benchmarks/clustering_cost.py --json build/clustering_cost.json

Training is measured on a few participants and counted for all, on both cores. Auxo's share is all that it does with
updates besides adding them up: checking, lengths and fingerprints of 200 updates of that size, and the closing of a
round that ends with a look at three rounds of them, as few do: rewards, pool, structure and clusters. Beside it,
scikit-learn's K-means on the updates themselves in float32; what does not fit into memory (9 GB, and a copy) is told
from smaller models, to whose size its time is proportional.
"""

import argparse
import json
import time
import tracemalloc
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import auxo_rounds
import numpy as np
from peers import workload as work
from rich.console import Console
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from auxo.algorithms.auxo import Auxo, Pooling
from auxo.algorithms.auxo.views import Prints
from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer, Asks
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Closing, Participants
from auxo.core.cohort_state import CohortState
from auxo.core.fingerprint import Fingerprint
from auxo.core.gathering import Gathered, examine
from auxo.core.partition import Outlook
from auxo.core.rng import stream
from auxo.core.types import ROOT, Float32Array, FloatArray, IntArray
from auxo.models.resnet import ResNet18
from auxo.training.torch_trainer import TorchTrainer
from auxo.training.trainer import Job, LocalTraining

PARTICIPANTS = 200
TRAINED = 3  # participants whose training is measured
DISTINCT = 8  # updates that stand for all
PLAIN_PARAMETERS = (200_000, 400_000, 800_000)
CLUSTERS = 4


@dataclass(frozen=True)
class Record:
    """What a round of ResNet-18 costs, in seconds on two cores."""

    workload: str
    participants: int
    parameters: int
    training_s: float
    examining_s: float  # checks, lengths and fingerprints
    clustering_s: float  # a round's end with a look
    clustering_share: float  # of both together in training
    clustering_mib: float  # the most that clustering held at a time
    fingerprints_mib: float  # participants x sketch
    plain_kmeans_s: float  # float32 K-means on the updates, one start
    plain_kmeans_share: float
    plain_gib: float  # participants x parameters


def main() -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the records")
    arguments = parser.parse_args()
    record = measure()
    Console().print(asdict(record))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps([asdict(record)], indent=1) + "\n")


def measure() -> Record:
    """Return what a round costs."""
    data = auxo_rounds.as_population(work.make_samples())
    trainer = TorchTrainer(partial(ResNet18, work.SIDE, work.CLASSES)).suited_to(data)
    weights = trainer.initial_weights(work.SEED)
    jobs = [Job(client, 0) for client in range(TRAINED)]
    started = time.perf_counter()
    updates = [answer.update for answer in trainer.train(weights, data, jobs, LocalTraining(), work.SEED)]
    samples = data.train.counts()
    per_sample_s = (time.perf_counter() - started) / samples[:TRAINED].sum()
    training_s = per_sample_s * samples.sum() / work.CORES
    with threadpool_limits(1):
        fingerprint = Fingerprint(trainer.n_params, layers=trainer.layers)
        examining_s, prints, lengths = _examine(updates, fingerprint)
        clustering_s, mib = _look(prints, lengths, fingerprint.blocks)
        plain_s = _plain_kmeans_s(trainer.n_params)
    spent_s = examining_s / work.CORES + clustering_s  # workers examine the updates they make
    return Record(
        workload="clustering",
        participants=PARTICIPANTS,
        parameters=trainer.n_params,
        training_s=training_s,
        examining_s=examining_s / work.CORES,
        clustering_s=clustering_s,
        clustering_share=spent_s / training_s,
        clustering_mib=mib,
        fingerprints_mib=prints.directions.nbytes / 2**20,
        plain_kmeans_s=plain_s,
        plain_kmeans_share=plain_s / training_s,
        plain_gib=4 * PARTICIPANTS * trainer.n_params / 2**30,
    )


def _examine(updates: list[Float32Array], fingerprint: Fingerprint) -> tuple[float, Prints, FloatArray]:
    """Return the seconds it takes to examine 200 updates one after another, and what is kept of them."""
    rng = stream(work.SEED, "clustering-cost")
    fingerprint.of(updates[0])  # its signs are drawn once in a run
    distinct = [
        updates[number % TRAINED] + rng.standard_normal(len(updates[0]), dtype=np.float32) * updates[0].std()
        for number in range(DISTINCT)
    ]
    started = time.perf_counter()
    found = [examine(Answer(distinct[number % DISTINCT], 40), fingerprint) for number in range(PARTICIPANTS)]
    seconds = time.perf_counter() - started
    kept = [examined for examined in found if not isinstance(examined, str)]
    columns = ([one.direction for one in kept], [one.outputs for one in kept], [one.inputs for one in kept])
    return seconds, Prints(*(np.array(column) for column in columns)), np.array([one.length for one in kept])


def _look(prints: Prints, lengths: FloatArray, blocks: IntArray) -> tuple[float, float]:
    """Return the seconds of closing a round that ends with a look, and the memory it needs at most in MiB."""
    aggregator, everybody, algorithm = FedAvg(), np.arange(PARTICIPANTS), Auxo()
    rng = stream(work.SEED, "clustering-cost", "close")
    claims = Claims(
        vouched=np.ones(PARTICIPANTS, dtype=np.bool_),
        known=np.ones(PARTICIPANTS, dtype=np.bool_),
        label=np.full(PARTICIPANTS, -1),
        generation=np.ones(PARTICIPANTS, dtype=np.int64),
    )
    gathered = Gathered(
        movements=(np.zeros(1),),
        rows=everybody,
        late=everybody < 0,
        model=np.zeros_like(everybody),
        losses=np.full(PARTICIPANTS, np.nan),
        outputs=prints.outputs,
        inputs=prints.inputs,
        directions=prints.directions,
        blocks=blocks,
        lengths=lengths,
        examples=np.full(PARTICIPANTS, 30),
        aggregated=everybody,
        misfits=0,
        rejected=(),
    )
    server = aggregator.initial(np.zeros(1, dtype=np.float32))
    closing = Closing(
        cohort=ROOT,
        states=(CohortState(server, memory=Pooling()),),
        participants=Participants(everybody, (ROOT,), Asks(everybody % 2, np.zeros_like(everybody)), notes=claims),
        outlook=Outlook(progress=0.3, total_participants=PARTICIPANTS, cohorts=2, check_ins=1000.0),
        share=PARTICIPANTS,
    )
    for _ in range(algorithm.clustering.pool_rounds - 1):
        pooled = algorithm.close(closing, gathered, aggregator, rng)
        assert pooled is not None  # noqa: S101 - there are updates
        closing = replace(closing, states=pooled.states)
    started = time.perf_counter()
    algorithm.close(closing, gathered, aggregator, rng)
    seconds = time.perf_counter() - started
    tracemalloc.start()
    algorithm.close(closing, gathered, aggregator, rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak / 2**20


def _plain_kmeans_s(parameters: int) -> float:
    """Return the seconds of K-means on whole updates, from the slope over models that fit into memory."""
    rng = stream(work.SEED, "clustering-cost", "plain")
    seconds = []
    for smaller in PLAIN_PARAMETERS:
        centres = rng.standard_normal((CLUSTERS, smaller), dtype=np.float32)
        updates = centres[np.arange(PARTICIPANTS) % CLUSTERS]
        updates += rng.standard_normal(updates.shape, dtype=np.float32)
        started = time.perf_counter()
        KMeans(CLUSTERS, n_init=1, random_state=0).fit(updates)
        seconds.append(time.perf_counter() - started)
    slope = np.polyfit(PLAIN_PARAMETERS, seconds, 1)[0]
    return float(slope * parameters)


if __name__ == "__main__":
    main()

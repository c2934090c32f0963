"""What finding cohorts costs beside training them: 200 participants of ResNet-18, 11 million parameters.

    python benchmarks/clustering_cost.py --json build/clustering_cost.json

Training is measured on a few participants and counted for all, on both cores. Auxo's share is all that it does with
updates besides adding them up: checking, lengths and fingerprints of 200 updates of that size, and clustering and
rewards for 200 participants. Beside it, scikit-learn's K-means on the updates themselves in float32; what
does not fit into memory (9 GB, and a copy) is told from smaller models, to whose size its time is proportional.
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

from auxo.algorithms.auxo import Auxo, AuxoMemory, ClusteringSettings, TrialSettings
from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer, Asks
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Closing, Participants
from auxo.core.cohort_state import CohortState
from auxo.core.fingerprint import Fingerprint
from auxo.core.gathering import Gathered, Returned, examine
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
    clustering_s: float  # clustering and rewards
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
        examining_s, directions, lengths = _examine(updates, fingerprint)
        clustering_s, mib = _cluster(directions, lengths, fingerprint.blocks)
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
        fingerprints_mib=directions.nbytes / 2**20,
        plain_kmeans_s=plain_s,
        plain_kmeans_share=plain_s / training_s,
        plain_gib=4 * PARTICIPANTS * trainer.n_params / 2**30,
    )


def _examine(updates: list[Float32Array], fingerprint: Fingerprint) -> tuple[float, FloatArray, FloatArray]:
    """Return the seconds it takes to examine 200 updates one after another, and what is kept of them."""
    rng = stream(work.SEED, "clustering-cost")
    fingerprint.of(updates[0])  # its signs are drawn once in a run
    distinct = [
        updates[number % TRAINED] + rng.standard_normal(len(updates[0]), dtype=np.float32) * updates[0].std()
        for number in range(DISTINCT)
    ]
    started = time.perf_counter()
    answer = Returned(0, Answer(None, None))  # that says nothing besides its update
    found = [examine(distinct[number % DISTINCT], 40, answer, fingerprint) for number in range(PARTICIPANTS)]
    seconds = time.perf_counter() - started
    kept = [examined for examined in found if not isinstance(examined, str)]
    return seconds, np.array([one.direction for one in kept]), np.array([one.length for one in kept])


def _cluster(directions: FloatArray, lengths: FloatArray, blocks: IntArray) -> tuple[float, float]:
    """Return the seconds of what closing a round does with fingerprints, and the memory it needs at most in MiB."""
    aggregator, everybody = FedAvg(), np.arange(PARTICIPANTS)
    algorithm = Auxo(
        clustering=ClusteringSettings(clusters=CLUSTERS, pool_rounds=1, pool_per_cluster=1, min_structure=0.0),
        trial=TrialSettings(waits_for=1.0, patience=10**6),  # it follows clusters, and tries no partition
    )
    rng = stream(work.SEED, "clustering-cost", "close")
    claims = Claims(
        vouched=np.ones(PARTICIPANTS, dtype=np.bool_),
        known=np.ones(PARTICIPANTS, dtype=np.bool_),
        label=rng.integers(-1, CLUSTERS, PARTICIPANTS),
        generation=np.ones(PARTICIPANTS, dtype=np.int64),
    )
    gathered = Gathered(
        movements=(np.zeros(1),),
        rows=everybody,
        late=everybody < 0,
        model=np.zeros_like(everybody),
        losses=np.full(PARTICIPANTS, np.nan),
        outputs=np.zeros((PARTICIPANTS, 0)),
        directions=directions,
        blocks=blocks,
        lengths=lengths,
        examples=np.full(len(directions), 30),
        aggregated=everybody,
        misfits=0,
        rejected=(),
    )
    server = aggregator.initial(np.zeros(1, dtype=np.float32))
    closing = Closing(
        cohort=ROOT,
        states=(CohortState(server, round=5, memory=AuxoMemory()),),
        participants=Participants(everybody, (ROOT,), Asks(everybody % 2, np.zeros_like(everybody)), notes=claims),
        outlook=Outlook(progress=0.3, total_participants=PARTICIPANTS, cohorts=2, check_ins=1000.0),
        share=PARTICIPANTS,
    )
    first = algorithm.close(closing, gathered, aggregator, rng)  # starts the centres
    assert first is not None  # noqa: S101 - there are updates
    closing = replace(closing, states=first.states)
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

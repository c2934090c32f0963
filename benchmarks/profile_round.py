"""Where the time of a round goes: a sampling profiler over Auxo's own rounds in one process.

    python benchmarks/profile_round.py
    python benchmarks/profile_round.py --workload softmax --json build/profile.json
    python benchmarks/profile_round.py --workload cnn --rounds 3

The work is that of throughput.py with all that finds cohorts switched on, and a hidden layer of 64 units in the MLP. A
hundred times a second of processor time the profiler asks which line of the package is at work, and counts it for that
part.
"""

import argparse
import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
from peers import workload as work
from threadpoolctl import threadpool_limits

import auxo
from auxo.engines.memory import keep_freed_memory
from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, RunConfig, TrainingConfig
from auxo.experiments.runner import run_method
from auxo.population.federated_data import FederatedData, Samples

INTERVAL_S = 0.01
PACKAGE = str(Path(auxo.__file__).parent)
# Parts by what a file's path starts with; the first that fits counts.
PARTS = {
    "experiments/evaluation": "",  # not of a round, nor is the next: it loads torch
    "models/module_factory": "",
    "training/local_samples": "order of samples",
    "training/stacked_batches": "order of samples",
    "core/rng": "order of samples",
    "training/": "local training",
    "models/": "local training",
    "population/": "local training",
    "core/validation": "checking updates",
    "core/fingerprint": "fingerprints",
    "core/aggregators": "mean of updates",
    "core/clustering": "clustering and rewards",
    "core/grouping": "clustering and rewards",
    "core/rewards": "clustering and rewards",
    "core/partition": "clustering and rewards",
    "core/claims": "clustering and rewards",
    "core/evidence": "clustering and rewards",
    "core/gate": "clustering and rewards",
    "core/gathering": "clustering and rewards",
    "algorithms/": "clustering and rewards",
}
# What local training of images does besides.
PARTS_OF_IMAGES = {
    "training/kernels/convolution/tiled_conv": "convolutions",
    "training/kernels/convolution/im2col_conv": "convolutions",
    "training/kernels/stacked_conv": "convolutions",
    "training/kernels/convolution/hwnc_pooling": "pooling",
    "training/kernels/stacked_pooling": "pooling",
    "training/kernels/linear_chain": "linear layers",
    "training/kernels/stacked_layers": "linear layers",
}
MODELS = {"mlp": "mlp", "softmax": "softmax", "cnn": "leaf-cnn"}
REST = "check-in, matching, feedback, clock"


def main() -> None:
    """Profile, print a table in Markdown, and write the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=MODELS, default="mlp")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path, help="where to write the records")
    arguments = parser.parse_args()
    records = profile(arguments.workload, arguments.rounds)
    print("| part | us a participant | share |\n|---|---:|---:|")
    for record in records:
        print(f"| {record['part']} | {record['us_per_participant']:,.0f} | {record['share']:.1%} |")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(records, indent=1) + "\n")


def profile(workload: str, rounds: int) -> list[dict[str, object]]:
    """Return the parts of a round, the longest first."""
    samples = work.make_samples()
    data = FederatedData(
        name="profile",
        x=samples.x,
        train=Samples(np.arange(len(samples.y)), samples.y, samples.offsets),
        test=Samples(np.zeros(1, dtype=np.int64), samples.y[:1], np.minimum(np.arange(work.PARTICIPANTS + 1), 1)),
        n_classes=work.CLASSES,
        client_names=tuple(str(number) for number in range(work.PARTICIPANTS)),
    )
    config = Config(
        population=PopulationConfig(clients=work.PARTICIPANTS),
        training=TrainingConfig(
            aggregator="fedavg",
            model=MODELS[workload],
            rounds=rounds,
            participants=work.PARTICIPANTS,
            learning_rate=work.LEARNING_RATE,
            batch_size=work.BATCH_SIZE,
        ),
        devices=DevicesConfig(kind="equal", availability="always", overcommit=0.0),
        run=RunConfig(workers=1, evaluate_every=rounds),
    )
    keep_freed_memory()  # as worker processes do
    parts = {**PARTS_OF_IMAGES, **PARTS} if workload == "cnn" else PARTS
    with threadpool_limits(1), _sampled(parts) as counts:
        run_method("auxo", config, data)
    counts.pop("", None)
    total = sum(counts.values())
    return [
        {
            "workload": workload,
            "part": part,
            "us_per_participant": 1e6 * INTERVAL_S * count / (rounds * work.PARTICIPANTS),
            "share": count / total,
        }
        for part, count in counts.most_common()
    ]


@contextmanager
def _sampled(parts: dict[str, str]) -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()

    def look(number: int, frame: FrameType | None) -> None:
        while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        if frame is not None:
            inside = frame.f_code.co_filename[len(PACKAGE) + 1 :]
            counts[next((part for start, part in parts.items() if inside.startswith(start)), REST)] += 1

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        yield counts
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


if __name__ == "__main__":
    main()

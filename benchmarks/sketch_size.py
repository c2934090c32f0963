"""What does the size of a fingerprint cost? Agreement with planted groups for sketches of a model of 7,850 parameters.

    python benchmarks/sketch_size.py

Softmax regression on 784 features; the largest size keeps every parameter. Prints a table in Markdown.
"""

import os
import sys

from auxo.experiments.config import (
    Config,
    DevicesConfig,
    HeterogeneityName,
    PopulationConfig,
    RunConfig,
    TrainingConfig,
)
from auxo.experiments.populations import make_population
from auxo.experiments.runner import run_method

SIZES = (16, 64, 256, 1024, 2048, 4096, 7850)
HETEROGENEITIES: tuple[HeterogeneityName, ...] = ("concept", "label")


def main() -> None:
    """Run Auxo with each size and print what it found."""
    sys.stdout.write("| size | " + " | ".join(f"{name}: ARI, accuracy" for name in HETEROGENEITIES) + " |\n")
    sys.stdout.write("|---" * (len(HETEROGENEITIES) + 1) + "|\n")
    for size in SIZES:
        cells = []
        for heterogeneity in HETEROGENEITIES:
            config = Config(
                population=PopulationConfig(
                    source="synthetic", clients=600, groups=4, heterogeneity=heterogeneity, features=784
                ),
                devices=DevicesConfig(kind="equal", overcommit=0.0),
                training=TrainingConfig(
                    aggregator="fedavg",
                    learning_rate=0.05,
                    batch_size=10,
                    rounds=60,
                    participants=100,
                    sketch_size=size,
                ),
                run=RunConfig(evaluate_every=60),
            )
            final = run_method("auxo", config, make_population(config)).final
            cells.append(f"{final.ari:.2f}, {final.accuracy:.3f}")
        sys.stdout.write(f"| {size:,} | " + " | ".join(cells) + " |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

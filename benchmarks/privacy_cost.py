"""What local privacy costs: accuracy by promise and budget, and time by the size of the model.

    python benchmarks/privacy_cost.py --json benchmarks/results/privacy_cost.json
    python benchmarks/bench_tables.py benchmarks/results/privacy_cost.json docs/privacy.md

Accuracy is that of one model for all on handwritten digits (650 numbers), 1,000 clients of 60 to 120 samples, 200 of
them in each of 50 rounds, so that a client takes part ten times on average and its budget lasts for twenty visits. Time
is the processor's, of one answer of a client of its own: noise with the system's entropy, and the ledger on its disk.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from auxo.experiments.config_file import parse_config
from auxo.experiments.populations import make_population
from auxo.experiments.private_clients import privacy_terms
from auxo.experiments.runner import run_method
from auxo.privacy.accounting import Gaussian, PrivacyBudget, RandomisedResponse
from auxo.privacy.draws import SecretDraws
from auxo.privacy.ledger import Ledger
from auxo.privacy.mechanisms import gaussian

SETTINGS = (
    "population.clients=1000",
    'population.heterogeneity="none"',
    "population.samples=[60, 120]",
    "population.noise=1.0",
    "training.batch_size=30",
    "training.learning_rate=0.1",
    "training.aggregator=fedavg",
    "training.rounds=50",
    "training.participants=200",
    "run.evaluate_every=50",
)
PROMISES = {  # each with the best clip of .03, .1, .3, 1 and 3 on seed 100, at epsilon 8
    "none": (),
    "sample level": ("privacy.protocol=local", "privacy.promise=sample", "privacy.clip=0.3"),
    "client level": ("privacy.protocol=local", "privacy.promise=client", "privacy.clip=0.03"),
    "paper's noise, shared": ("privacy.protocol=paper", "privacy.noise=shared", "privacy.clip=0.3"),
    "paper's noise, each client": ("privacy.protocol=paper", "privacy.noise=per_client", "privacy.clip=0.1"),
}
EPSILONS = (2.0, 4.0, 8.0)
SIZES = (650, 10_000, 100_000, 1_000_000)
_TIMES = 20


@dataclass(frozen=True)
class Accuracy:
    """One run."""

    promise: str
    epsilon: float
    seed: int
    accuracy: float
    noise: float | None  # clips on each number; None: none


@dataclass(frozen=True)
class Taken:
    """Milliseconds of one answer."""

    numbers: int
    noise_ms: float  # to clip an update and to draw its noise
    accounting_ms: float  # to work out what it comes to, with all that was released before
    ledger_ms: float  # to write it down, with what the disk takes


def accuracies(seeds: range) -> Iterator[Accuracy]:
    """Yield a run of each promise, each budget and each seed."""
    for seed in seeds:
        data = make_population(parse_config("", [*SETTINGS, f"seed={seed}"]))
        for promise, settings in PROMISES.items():
            for epsilon in EPSILONS if settings else EPSILONS[:1]:
                config = parse_config("", [*SETTINGS, *settings, f"privacy.epsilon={epsilon}", f"seed={seed}"])
                terms = privacy_terms(config, data.n_clients)
                found = run_method("base", config, data).final.accuracy
                yield Accuracy(promise, epsilon, seed, found, None if terms is None else terms.noise)


def times() -> Iterator[Taken]:
    """Yield what an answer of each size takes."""
    for size in SIZES:
        update = np.ones(size, dtype=np.float32)
        begun = time.process_time()
        for _ in range(_TIMES):
            gaussian(update, 1.0, 1.0, SecretDraws().normal(size))
        noise_ms = 1e3 * (time.process_time() - begun) / _TIMES
        budget, choice = PrivacyBudget(100.0, 1e-6), RandomisedResponse(0.1, 4)
        budget.holds({Gaussian(9.0 + size): 1, choice: 1})  # imports what is slow to import
        begun = time.process_time()
        for count in range(_TIMES):
            budget.holds({Gaussian(8.0 + size): 2 + count, choice: 1})
        accounting_ms = 1e3 * (time.process_time() - begun) / _TIMES
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "a" / "ledger", Path(folder) / "b" / "mark", "client")
            ledger.charge({choice: 1}, None)
            begun = time.perf_counter()
            for _ in range(_TIMES):
                ledger.charge({choice: 1}, None)
            ledger_ms = 1e3 * (time.perf_counter() - begun) / _TIMES
        yield Taken(size, noise_ms, accounting_ms, ledger_ms)


def main() -> None:
    """Measure, and write records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="where to write the records")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    arguments = parser.parse_args()
    found = []
    for one in accuracies(range(arguments.first, arguments.first + arguments.seeds)):
        print(one, flush=True)
        found.append(asdict(one))
    records = {"privacy": found, "privacytime": [asdict(one) for one in times()]}
    arguments.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()

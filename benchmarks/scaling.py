"""How the speed of a round changes with its participants and with the size of the model.

    python benchmarks/scaling.py --json build/scaling.json

The network is that of throughput.py's `mlp`, with a hidden layer of any width. Every figure stands beside the limit
(limits.py) in the same run. How a round changes with the population is measured by population.py.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import auxo_rounds
import limits
import numpy as np
from peers import workload as work
from rich.console import Console
from rich.table import Table

from auxo.core.rng import stream
from auxo.models.small_models import Mlp
from auxo.population.federated_data import FederatedData, Samples
from auxo.training.torch_trainer import TorchTrainer

PARTICIPANTS = (10, 30, 100, 300, 1000)
# Hidden units, and participants few enough to be done within seconds.
MODELS = ((12, 200), (118, 200), (1182, 64), (11820, 12))


@dataclass(frozen=True)
class Record:
    """A point of a curve."""

    workload: str  # "participants" or "parameters": what grows
    participants: int
    parameters: int
    participants_per_s: float
    limit_share: float


def main() -> None:
    """Measure both curves, print them, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the records")
    arguments = parser.parse_args()
    records = measure(Console())
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")


def measure(console: Console) -> list[Record]:
    """Return the records of both curves."""
    records = [_measure("participants", participants, work.HIDDEN) for participants in PARTICIPANTS]
    records += [_measure("parameters", participants, hidden) for hidden, participants in MODELS]
    console.print(_table(records))
    return records


def _measure(workload: str, participants: int, hidden: int) -> Record:
    data = _population(participants)
    trainer = TorchTrainer(partial(Mlp, work.FEATURES, work.CLASSES, hidden)).suited_to(data)
    weights = trainer.initial_weights(work.SEED)
    seconds, _ = auxo_rounds.timed(trainer, weights, data, rounds=(2, 5))
    rate = participants / statistics.median(seconds)
    products = partial(limits.mlp, hidden)
    limit = limits.participants_per_s(products, limits.steps_of(data.train.counts()), repeats=3)
    return Record(workload, participants, trainer.n_params, rate, rate / limit)


def _population(participants: int) -> FederatedData:
    """Return so many clients, each with the samples of one of the workload's."""
    samples = work.make_samples()
    drawn = stream(work.SEED, "scaling").permutation(np.arange(participants) % work.PARTICIPANTS)
    rows = np.concatenate([np.arange(samples.offsets[client], samples.offsets[client + 1]) for client in drawn])
    offsets = np.concatenate([[0], np.cumsum(samples.sizes()[drawn])])
    nothing = np.zeros(0, dtype=np.int64)
    return FederatedData(
        name="scaling",
        x=samples.x,
        train=Samples(rows, samples.y[rows], offsets),
        test=Samples(nothing, nothing, np.zeros(participants + 1, dtype=np.int64)),
        n_classes=work.CLASSES,
        client_names=tuple(str(number) for number in range(participants)),
    )


def _table(records: Sequence[Record]) -> Table:
    table = Table("what grows", title="participants a second, and the share of the limit")
    for heading in ("participants", "parameters", "participants/s", "share of limit"):
        table.add_column(heading, justify="right")
    for record in records:
        table.add_row(
            record.workload,
            f"{record.participants:,}",
            f"{record.parameters:,}",
            f"{record.participants_per_s:,.1f}",
            f"{record.limit_share:.2f}",
        )
    return table


if __name__ == "__main__":
    main()

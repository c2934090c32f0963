"""What FL algorithms cost: participants a second of one core with each of them, beside FedAvg's in the same run.

    python benchmarks/algorithms.py --json build/algorithms.json
    python benchmarks/algorithms.py --only mlp

The work is that of throughput.py. FedProx has a proximal term in every step. q-FedAvg asks every participant for its
loss at the model that it is sent, and so do Oort and PyramidFL, which also keeps tensors back; unless its products come
with training that is a third of an epoch's multiplications. The robust aggregators look at all updates of a round side
by side. Where participants have epochs of their own, one to three by turns, the rate is held against that of two epochs
for everybody: as many steps. Whole rounds are measured, in one process, by the processor's time and not by the clock on
the wall: it is ratios that are asked for, and others may use the machine.
Algorithms take turns; each one's figure is the best of its turns' median rounds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import auxo_rounds
from auxo_rounds import How
from peers import workload as work
from rich.console import Console
from rich.table import Table

ALGORITHMS: dict[str, tuple[How, str]] = {  # and what each is held against
    "fedavg": (How(), "fedavg"),
    "fedprox": (How(overrides=("training.client=fedprox", "fedprox.mu=0.1")), "fedavg"),
    "fedyogi": (How(overrides=("training.aggregator=fedyogi",)), "fedavg"),
    "qfedavg": (How(overrides=("training.aggregator=qfedavg",)), "fedavg"),
    "oort": (How(overrides=("training.selector=oort",)), "fedavg"),
    "pyramidfl, usual epochs": (How(overrides=("training.selector=pyramidfl", "pyramidfl.more_work=0")), "fedavg"),
    "median": (How(overrides=("training.aggregator=median",)), "fedavg"),
    "multi_krum": (How(overrides=("training.aggregator=multi_krum",)), "fedavg"),
    "fedavg, two epochs": (How(overrides=("training.epochs=2",)), "fedavg, two epochs"),
    "fedavg, one to three epochs": (How(own_epochs=(1, 2, 3)), "fedavg, two epochs"),
}
# Turns, rounds of a turn, rounds to warm up.
BUDGETS = {"mlp": (3, 5, 2), "softmax": (3, 5, 2), "cnn": (1, 1, 0)}


@dataclass(frozen=True)
class Record:
    """One algorithm on one workload."""

    workload: str
    algorithm: str
    participants_per_s: float
    against: str
    ratio: float  # to the rate of that one in the same run
    loss: float  # on all training samples after the last round


def main() -> None:
    """Measure, print a table, and write the records."""
    arguments = _arguments()
    console = Console()
    records: list[Record] = []
    for workload in arguments.only or BUDGETS:
        records += measure(workload, console)
        if arguments.json:  # after every workload, so that nothing is lost when a later one is stopped
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")
    console.print(_table(records))


def measure(workload: str, console: Console) -> list[Record]:
    """Return the records of one workload, algorithm after algorithm in turns."""
    turns, rounds, warmup = BUDGETS[workload]
    rates: dict[str, float] = {}
    losses: dict[str, float] = {}
    for turn in range(turns):
        for name, (plain, _) in ALGORITHMS.items():
            console.print(f"{workload}: turn {turn + 1} of {turns}, {name} ...", style="dim")
            how = replace(plain, clock=time.process_time)
            seconds, losses[name] = auxo_rounds.rounds_s(workload, rounds, warmup, "one process", how)
            rates[name] = max(rates.get(name, 0.0), work.PARTICIPANTS / statistics.median(seconds))
    return [
        Record(workload, name, rate, ALGORITHMS[name][1], rate / rates[ALGORITHMS[name][1]], losses[name])
        for name, rate in rates.items()
    ]


def _table(records: Sequence[Record]) -> Table:
    table = Table("workload", "algorithm", title="participants a second of one core")
    for heading in ("participants/s", "times", "of"):
        table.add_column(heading, justify="right")
    for one in records:
        table.add_row(one.workload, one.algorithm, f"{one.participants_per_s:,.1f}", f"{one.ratio:.2f}", one.against)
    return table


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the records")
    parser.add_argument("--only", nargs="+", choices=BUDGETS, help="workloads (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Are those that Auxo is held against well tuned? The base of a reference, and all methods and FL algorithms.

    python benchmarks/tune_base.py writers --set population.file=writers.arrow --rates 0.01 0.02 0.05
        --server-rates 0.003 0.006 0.01
    python benchmarks/tune_base.py --methods                    # all rivals and FL algorithms, in about 10 minutes
    python benchmarks/tune_base.py --methods ifca fedyogi --only concept

Gains over a weak base, or a weak rival, do not count. With the name of a reference, every cell is the base's accuracy
(or perplexity) at the end of the reference's own run, one model for all, one seed; the reference uses the best. The
first row is FedAvg, the others are FedYogi with these learning rates of the server.

With --methods the grids of tuned_settings.py are tried on planted populations (and on writers and speech, where the
data are), on seeds that no comparison uses. The best settings go into benchmarks/tuned.json, which methods.py reads.
Runs that are done are kept beside it, and not done again by the same code.
"""

import argparse
import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tune_methods import FIRST_SEED, POPULATIONS, tunable, tune
from tuned_settings import TABLE

from auxo.experiments.config import Config
from auxo.experiments.config_file import load_config
from auxo.experiments.populations import make_population
from auxo.experiments.runner import run_method


def main() -> None:
    """Try the grid and print it."""
    arguments = _arguments()
    console = Console()
    if arguments.methods is not None:
        folder = arguments.data or (Path(os.environ["AUXO_DATA"]) if "AUXO_DATA" in os.environ else None)
        table = arguments.json or TABLE
        tune(arguments.methods or tunable(), arguments.only, arguments.seeds, folder, arguments.jobs, table)
        return
    data = make_population(load_config(arguments.reference, arguments.set))
    records: list[dict[str, object]] = []
    for server_rate in (None, *arguments.server_rates):
        for rate in arguments.rates:
            aggregator = "fedavg" if server_rate is None else "fedyogi"
            final = run_method("base", _config(arguments, aggregator, server_rate, rate), data).final
            records.append(
                {
                    "reference": str(arguments.reference),
                    "aggregator": aggregator,
                    "server_learning_rate": server_rate,
                    "learning_rate": rate,
                    "accuracy": final.accuracy,
                    "perplexity": final.perplexity,
                }
            )
            console.print(records[-1], highlight=False)
            if arguments.json is not None:
                arguments.json.write_text(json.dumps(records, indent=1) + "\n")
    console.print(_table(records))


def _config(arguments: argparse.Namespace, aggregator: str, server_rate: float | None, rate: float) -> Config:
    settings = [
        f"training.aggregator={aggregator}",
        f"training.learning_rate={rate}",
        f"{aggregator}.server_learning_rate={1.0 if server_rate is None else server_rate}",  # FedAvg's own is 1
    ]
    return load_config(arguments.reference, [*arguments.set, *settings])


def _table(records: list[dict[str, object]]) -> Table:
    rates = sorted({float(str(record["learning_rate"])) for record in records})
    table = Table("aggregator", *(f"{rate:g}" for rate in rates), title="the base by the clients' learning rate")
    rows = dict.fromkeys((str(record["aggregator"]), record["server_learning_rate"]) for record in records)
    for aggregator, server_rate in rows:
        mine = {
            float(str(record["learning_rate"])): record
            for record in records
            if (record["aggregator"], record["server_learning_rate"]) == (aggregator, server_rate)
        }
        title = aggregator if server_rate is None else f"{aggregator}, server {server_rate}"
        table.add_row(title, *(_cell(mine.get(rate)) for rate in rates))
    return table


def _cell(record: dict[str, object] | None) -> str:
    if record is None:
        return ""
    if record["perplexity"] is not None:
        return f"{float(str(record['perplexity'])):.3f}"
    return f"{100 * float(str(record['accuracy'])):.2f} %"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=Path, nargs="?", help="a reference's name, or a configuration file")
    parser.add_argument("--data", type=Path, help="folder with the data, with --methods (default: AUXO_DATA)")
    parser.add_argument("--rates", type=float, nargs="+", help="clients' learning rates, with a reference")
    parser.add_argument("--server-rates", type=float, nargs="*", default=[], help="FedYogi's learning rates")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="as for auxo run")
    parser.add_argument(
        "--methods", nargs="*", metavar="NAME", help="tune these methods and parts of FL algorithms; no name: all"
    )
    parser.add_argument("--only", nargs="+", default=POPULATIONS, metavar="NAME", help="populations, with --methods")
    parser.add_argument("--seeds", type=int, default=1, help=f"seeds from {FIRST_SEED} on, with --methods")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at the same time, with --methods")
    parser.add_argument("--json", type=Path, help="where to write the records (--methods: benchmarks/tuned.json)")
    arguments = parser.parse_args()
    if (arguments.reference is None) == (arguments.methods is None):
        parser.error("expected the name of a reference, or --methods")
    if arguments.reference is not None and not arguments.rates:
        parser.error("expected --rates with a reference")
    return arguments


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

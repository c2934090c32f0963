"""How many participants a second: Auxo beside other frameworks, on the same work, in the same run, on two cores.

    python benchmarks/throughput.py --json build/throughput.json
    python benchmarks/throughput.py --json build/throughput.json --peers fedjax,pfl,flower
    python benchmarks/throughput.py --only mlp

A round: 200 participants with 20 to 60 samples train for an epoch in batches of 6, and FedAvg takes the mean. Engines
take turns, so that a noisy minute hits all of them; each one's figure is the best of its turns' median rounds. `loop`
is a bare PyTorch loop on one core. The limit is what limits.py says. Environments of peers are made on demand in
build/peers, which takes minutes the first time; a peer that cannot be had is left out, and the output says why.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import auxo_rounds
import bare_loop
import limits
from peers import workload as work
from peers.run import PEERS, Skipped, measure
from rich.console import Console
from rich.table import Table

OURS = ("auxo", "auxo-ray")


@dataclass(frozen=True)
class Budget:
    """How long a workload is measured."""

    turns: int
    rounds: int  # a turn
    warmup: int
    peer_rounds: int
    limit_repeats: int


BUDGETS = {
    "mlp": Budget(turns=2, rounds=10, warmup=3, peer_rounds=4, limit_repeats=5),
    "softmax": Budget(turns=1, rounds=10, warmup=3, peer_rounds=4, limit_repeats=5),
    "cnn": Budget(turns=3, rounds=2, warmup=1, peer_rounds=2, limit_repeats=1),
}


@dataclass(frozen=True)
class Record:
    """One engine on one workload."""

    workload: str
    engine: str
    participants_per_s: float
    limit_share: float | None  # of the limit in the same run; ours only
    times_fastest_peer: float | None  # ours only, None without peers
    times_loop: float | None  # ours only
    loss: float  # on all training samples after the last round: engines that do the same work agree
    rounds: int  # that loss is after so many
    cohorts_participants_per_s: float | None = None  # the same with all that finds cohorts at work; `auxo` only


def main() -> None:
    """Measure, print a table, and write the records."""
    arguments = _arguments()
    console = Console()
    peers = [name for name in arguments.peers.split(",") if name]
    unknown = set(peers) - set(PEERS)
    if unknown:
        sys.exit(f"--peers: expected some of {', '.join(PEERS)}, got {', '.join(sorted(unknown))}")
    records: list[Record] = []
    for workload in arguments.only or BUDGETS:
        records += measure_workload(workload, peers, console)
        if arguments.json:  # after every workload, so that nothing is lost when a later one is stopped
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")
    console.print(_table(records))


def measure_workload(workload: str, peers: Sequence[str], console: Console) -> list[Record]:
    """Return the records of one workload, engine after engine in turns."""
    budget, steps = BUDGETS[workload], limits.steps_of(work.make_samples().sizes())
    engines: dict[str, Callable[[], tuple[list[float], float] | str]] = {
        "auxo": lambda: auxo_rounds.rounds_s(workload, budget.rounds, budget.warmup),
        "loop": lambda: bare_loop.rounds_s(workload, max(1, budget.rounds // 3), 1),
    }
    if find_spec("ray"):
        engines["auxo-ray"] = lambda: auxo_rounds.rounds_s(workload, budget.rounds, budget.warmup, "ray")
    else:
        console.print('auxo-ray: left out, since ray is not installed (pip install "auxo[ray]")')
    for peer in peers:
        engines[peer] = lambda peer=peer: _peer(peer, workload, budget)  # type: ignore[misc]
    rates: dict[str, float] = {}
    losses: dict[str, tuple[float, int]] = {}
    cohorts = limit = 0.0
    for turn in range(budget.turns):
        limit = max(limit, limits.participants_per_s(limits.PRODUCTS[workload], steps, repeats=budget.limit_repeats))
        for name, run in list(engines.items()):
            console.print(f"{workload}: turn {turn + 1} of {budget.turns}, {name} ...", style="dim")
            found = run()
            if isinstance(found, str):
                console.print(f"{name}: left out, since {found}")
                del engines[name]
                continue
            seconds, loss = found
            rates[name] = max(rates.get(name, 0.0), work.PARTICIPANTS / statistics.median(seconds))
            losses[name] = loss, len(seconds)
        seconds, _ = auxo_rounds.rounds_s(workload, budget.rounds, budget.warmup, how=auxo_rounds.How("auxo"))
        cohorts = max(cohorts, work.PARTICIPANTS / statistics.median(seconds))
    fastest = max((rates[peer] for peer in peers if peer in rates), default=None)
    return [
        Record(
            workload,
            name,
            participants_per_s=rate,
            limit_share=rate / limit if name in OURS else None,
            times_fastest_peer=rate / fastest if fastest and name in OURS else None,
            times_loop=rate / rates["loop"] if name in OURS else None,
            loss=losses[name][0],
            rounds=losses[name][1],
            cohorts_participants_per_s=cohorts if name == "auxo" else None,
        )
        for name, rate in rates.items()
    ]


def _peer(peer: str, workload: str, budget: Budget) -> tuple[list[float], float] | str:
    result = measure(peer, workload, budget.peer_rounds)
    return result.reason if isinstance(result, Skipped) else (result.round_s, result.loss)


def _table(records: Sequence[Record]) -> Table:
    table = Table("workload", "engine", title="participants a second")
    for heading in ("participants/s", "times fastest peer", "times bare loop", "share of limit", "finding cohorts"):
        table.add_column(heading, justify="right")
    for record in records:
        table.add_row(
            record.workload,
            record.engine,
            f"{record.participants_per_s:,.1f}",
            _figure(record.times_fastest_peer),
            _figure(record.times_loop),
            _figure(record.limit_share),
            "" if record.cohorts_participants_per_s is None else f"{record.cohorts_participants_per_s:,.1f}",
        )
    return table


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the records")
    parser.add_argument("--peers", default="", help=f"frameworks to compare with, some of {','.join(PEERS)}")
    parser.add_argument("--only", nargs="+", choices=BUDGETS, help="workloads (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    main()

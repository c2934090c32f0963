"""Flower on the workload: its simulation runtime, message API and FedAvg, with one Ray actor of one CPU for each core.

    FLWR_TELEMETRY_ENABLED=0 python -m peers.flower_rounds --workload mlp --rounds 3

The strategy calls its evaluation on the server before the first round and after each one: here that is a clock. Actors
keep the samples and the network between rounds and cut batches from tensors, which is faster than a data loader.
"""

import os
import sys
import time
from itertools import pairwise

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peers import workload as work
from peers.flower_client import train
from peers.torch_networks import network, train_loss


def main() -> None:
    """Train, time each round and report."""
    task = work.read_task(__doc__)
    if os.environ.get("FLWR_TELEMETRY_ENABLED") != "0":
        sys.exit("Flower would report this run to its makers: set FLWR_TELEMETRY_ENABLED=0 before it starts.")
    client_app, server_app = ClientApp(), ServerApp()
    client_app.train()(train)

    def serve(grid: Grid, context: Context) -> None:
        run_rounds(grid, task)

    server_app.main()(serve)
    run_simulation(
        server_app,
        client_app,
        num_supernodes=work.PARTICIPANTS,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": work.CORES, "logging_level": "ERROR", "log_to_driver": False},
        },
    )


def count_replies(replies: list[RecordDict], weighted_by: str) -> MetricRecord:
    """Return how many participants trained; stands where Flower would average their metrics."""
    return MetricRecord({"replies": len(replies)})


def run_rounds(grid: Grid, task: work.Task) -> None:
    """Run all rounds from the server's side, and report them."""
    made = network(task.workload)
    ends_s: list[float] = []

    def note_time(round: int, arrays: ArrayRecord) -> None:
        ends_s.append(time.perf_counter())

    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=work.PARTICIPANTS,
        min_available_nodes=work.PARTICIPANTS,
        train_metrics_aggr_fn=count_replies,
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(made.state_dict()),
        num_rounds=task.warmup + task.rounds,
        train_config=ConfigRecord({"workload": task.workload}),
        evaluate_fn=note_time,
    )
    # Flower goes on without the participants that fail, and a round of nothing but failures is a fast one.
    replies = [int(str(metrics["replies"])) for metrics in result.train_metrics_clientapp.values()]
    if replies != [work.PARTICIPANTS] * (task.warmup + task.rounds):
        raise RuntimeError(f"expected {work.PARTICIPANTS} participants to reply in each round, got {replies}")
    made.load_state_dict(result.arrays.to_torch_state_dict())
    round_s = [end - begin for begin, end in pairwise(ends_s)]
    loss = train_loss(made, work.make_samples())
    work.report("flower", task, round_s, loss, ("flwr", "ray", "torch", "numpy"))


if __name__ == "__main__":
    main()

"""What the server does: Flower's FedAvg, once for each cohort that is found."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from auxo.algorithms.auxo import Auxo, ClusteringSettings
from auxo.flower import AuxoStrategy
from opposites import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train all rounds, or what is left of them: the directory remembers."""
    nodes, rounds = int(context.run_config["nodes"]), int(context.run_config["rounds"])
    strategy = AuxoStrategy(
        lambda: FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1),
        participants=nodes,
        method=Auxo(clustering=ClusteringSettings(pool_rounds=int(context.run_config["pool-rounds"]))),
        directory=str(context.run_config["directory"]) or None,
    )
    result = strategy.start(
        grid,
        ArrayRecord(task.initial_model()),
        num_rounds=rounds,
        timeout=float(context.run_config["timeout"]),
    )
    print(f"cohorts: {', '.join(result.cohorts)}", flush=True)

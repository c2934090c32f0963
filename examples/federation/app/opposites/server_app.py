"""What the server does."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from opposites import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train all rounds."""
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=int(context.run_config["nodes"]))
    strategy.start(grid, ArrayRecord(task.initial_model()), num_rounds=int(context.run_config["rounds"]))

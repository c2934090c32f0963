"""What the server does."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from auxo.flower import AuxoStrategy
from digits.task import make_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train a model over all clients."""
    strategy = AuxoStrategy(FedAvg, participants=16)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(make_model().state_dict()),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
    print("at the end:", result.evaluate_metrics_clientapp[max(result.evaluate_metrics_clientapp)])
    print("cohorts:", ", ".join(result.cohorts))

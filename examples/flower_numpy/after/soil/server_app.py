"""What the server does."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from auxo.flower import AuxoStrategy
from soil.task import initial_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train a model over all farms."""
    strategy = AuxoStrategy(FedAvg, participants=8)
    result = strategy.start(
        grid=grid,
        initial_arrays=initial_model(),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
    print("loss at the end:", result.evaluate_metrics_clientapp[max(result.evaluate_metrics_clientapp)])
    print("cohorts:", ", ".join(result.cohorts))

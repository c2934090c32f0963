"""What the server does."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from auxo import Auxo
from auxo.algorithms.auxo import ClusteringSettings, TrialSettings
from auxo.flower import AuxoStrategy
from soil.task import initial_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train a model over all farms."""
    # Limits for 8 farms. With 20 and more participants a round, the defaults will do: leave method out.
    method = Auxo(
        judge_share=1.0,
        clustering=ClusteringSettings(clusters=2, pool_rounds=3, pool_per_cluster=8),
        trial=TrialSettings(rounds=4, looks_from=6, min_participants=2, patience=5),
    )
    strategy = AuxoStrategy(FedAvg, participants=8, method=method)
    result = strategy.start(
        grid=grid,
        initial_arrays=initial_model(),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
    print("loss at the end:", result.evaluate_metrics_clientapp[max(result.evaluate_metrics_clientapp)])
    print("cohorts:", ", ".join(result.cohorts))

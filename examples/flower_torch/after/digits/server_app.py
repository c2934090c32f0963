"""What the server does."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from auxo import Auxo
from auxo.algorithms.auxo import ClusteringSettings, TrialSettings
from auxo.flower import AuxoStrategy
from digits.task import make_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train a model over all clients."""
    # Limits for 16 clients. With 20 and more participants a round, the defaults will do: leave method out.
    method = Auxo(
        judge_share=1.0,
        clustering=ClusteringSettings(clusters=2, pool_rounds=4, pool_per_cluster=16),
        trial=TrialSettings(rounds=6, looks_from=8, min_participants=2, patience=5),
    )
    strategy = AuxoStrategy(FedAvg, participants=16, method=method)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(make_model().state_dict()),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
    print("at the end:", result.evaluate_metrics_clientapp[max(result.evaluate_metrics_clientapp)])
    print("cohorts:", ", ".join(result.cohorts))

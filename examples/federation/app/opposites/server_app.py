"""What the server does: Flower's FedAvg, once for each cohort that is found."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.flower import AuxoStrategy
from opposites import task

app = ServerApp()


def for_few_nodes(looks_from: int) -> Auxo:
    """Return Auxo with limits for a handful of nodes.

    The defaults are for hundreds of clients, of which a part is there at a time. Here all of them are, in every round:
    little evidence in a round, but soon from everybody.
    """
    return Auxo(
        judge_share=1.0,  # everybody judges
        clustering=ClusteringSettings(
            clusters=2,
            pool_rounds=2,  # clusters start from the updates of two rounds,
            pool_per_cluster=4,  # at least four for each
        ),
        trial=TrialSettings(
            rounds=3,  # that two branches train alone
            min_participants=2,  # a branch may be this small
            looks_from=looks_from,  # a cohort of fewer does not look for groups of its own
            deviations=2.0,  # with so few judges three are out of reach
        ),
    )


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train all rounds, or what is left of them: the directory remembers."""
    nodes, rounds = int(context.run_config["nodes"]), int(context.run_config["rounds"])
    strategy = AuxoStrategy(
        lambda: FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1),
        participants=nodes,
        method=for_few_nodes(int(context.run_config["looks-from"])),
        directory=str(context.run_config["directory"]) or None,
    )
    result = strategy.start(
        grid,
        ArrayRecord(task.initial_model()),
        num_rounds=rounds,
        timeout=float(context.run_config["timeout"]),
    )
    print(f"cohorts: {', '.join(result.cohorts)}", flush=True)

"""The configuration of `auxo demo`: a built-in population with hidden groups, small enough for a minute."""

from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, RunConfig, TrainingConfig


def demo_config(seed: int) -> Config:
    """Return handwritten digits that four hidden groups of clients see turned, on phones that come and go.

    All numbers are our own choices. The slowdown stretches the run over days, as a model of useful size would:
    otherwise it were over before most clients have ever been on line. The server's learning rate is the one of
    0.003, 0.01, 0.03 and 0.1 that is best for the base.
    """
    return Config(
        seed=seed,
        name="demo",
        population=PopulationConfig(source="digits", clients=1000, groups=4, heterogeneity="rotation"),
        devices=DevicesConfig(
            kind="synthetic", slowdown=50.0, availability="day-night", share_online=0.4, overcommit=0.25
        ),
        training=TrainingConfig(aggregator="fedyogi", rounds=300, participants=100),
        parts={"fedyogi": {"server_learning_rate": 0.03}},
        run=RunConfig(evaluate_every=5),
    )

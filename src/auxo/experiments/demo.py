"""The configuration of `auxo demo`: a built-in population with hidden groups, small enough for a minute."""

from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, RunConfig, TrainingConfig


def demo_config(seed: int) -> Config:
    """Return handwritten digits that four hidden groups of clients see turned, on phones that come and go."""
    return Config(
        seed=seed,
        name="demo",
        population=PopulationConfig(source="digits", clients=1000, groups=4, heterogeneity="rotation"),
        devices=DevicesConfig(kind="synthetic", availability="day-night", share_online=0.4, overcommit=0.25),
        training=TrainingConfig(algorithm="fedyogi", rounds=100, participants=100),
        run=RunConfig(evaluate_every=2),
    )

"""Options that stand for settings."""

from pathlib import Path

from auxo.commands.options import all_overrides


def test_options_are_settings_and_what_set_says_comes_last() -> None:
    assert all_overrides(None, None) == []
    given = all_overrides(["seed=3"], Path("my clients.npz"), "ray", "auto")
    assert given == [
        "population.source=file",
        'population.file="my clients.npz"',
        "run.engine=ray",
        'run.ray_address="auto"',
        "seed=3",
    ]

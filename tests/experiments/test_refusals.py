import pytest

from auxo.core.cohort_algorithm import Circumstances
from auxo.experiments.config_file import parse_config
from auxo.experiments.refusals import circumstances_of, refusal, refusals


@pytest.mark.parametrize(
    ("overrides", "obstacles"),
    [
        ([], ()),
        (["devices.availability=day-night"], ('devices.availability = "day-night"',)),
        (["devices.availability=day-night", "devices.share_online=1.0"], ()),
        (["devices.dropout=0.1"], ("devices.dropout = 0.1",)),
        (["devices.deadline_s=90", "devices.dropout=0.5"], ("devices.dropout = 0.5", "devices.deadline_s = 90")),
    ],
)
def test_what_keeps_clients_away_is_told_by_its_setting(overrides: list[str], obstacles: tuple[str, ...]) -> None:
    config = parse_config("", [*overrides, "training.rounds=7", "training.participants=20"])

    assert circumstances_of(config, clients=99) == Circumstances(99, 20, 7, obstacles)
    assert circumstances_of(config, clients=99).is_everybody_reachable == (not obstacles)


def test_only_methods_that_cannot_be_run_refuse() -> None:
    config = parse_config("", ["devices.availability=day-night", "training.rounds=9"])
    methods = ("base", "auxo", "oracle", "cfl", "fl+hc", "flexcfl", "ifca", "fesem", "icfl", "kfed", "random")
    found = refusals(methods, config, clients=500)

    assert set(found) == {"cfl", "fl+hc"}
    assert refusal("cfl", config, clients=500) == found["cfl"]
    assert "clusters clients after round 10, but there are 9" in found["fl+hc"]

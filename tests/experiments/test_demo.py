from auxo.core.aggregators import FedYogi
from auxo.experiments.config import Config
from auxo.experiments.demo import demo_config
from auxo.experiments.parts import AGGREGATORS


def test_the_demo_is_a_whole_configuration() -> None:
    config = demo_config(3)
    assert (config.seed, config.name) == (3, "demo")
    assert (config.training.aggregator, config.devices.availability) == ("fedyogi", "day-night")
    assert config.maker.make(AGGREGATORS, "fedyogi") == FedYogi(server_learning_rate=0.03)
    assert set(config.methods) == set(Config().methods)

from typing import Any

import numpy as np
import pytest

from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.populations import make_population
from auxo.experiments.private_clients import privacy_mods, privacy_terms
from auxo.experiments.runner import run_method
from auxo.privacy.local_privacy import LocalPrivacy


def _config(method: str = "base", **privacy: Any) -> Config:
    return Config.model_validate(
        {
            "seed": 100,
            "methods": [method],
            "population": {"source": "synthetic", "clients": 60, "groups": 2, "features": 6, "classes": 3},
            "training": {"rounds": 6, "participants": 20, "learning_rate": 0.1},
            "devices": {"overcommit": 0.0},
            "privacy": privacy,
        }
    )


def test_without_a_protocol_there_is_no_mod() -> None:
    assert privacy_mods(_config(), 60) == ()


def test_a_budget_lasts_for_twice_the_mean_visits_unless_it_is_said() -> None:
    terms = privacy_terms(_config(protocol="local"), 60)
    assert terms is not None
    assert terms.participations == 4
    terms = privacy_terms(_config(protocol="local", participations=7), 60)
    assert terms is not None
    assert terms.participations == 7


@pytest.mark.parametrize(("epsilon", "sigma"), [(2.0, 1.0), (4.0, 0.77), (8.0, 0.6)])
def test_the_noise_of_the_paper_is_what_it_prints(epsilon: float, sigma: float) -> None:
    terms = privacy_terms(_config(protocol="paper", epsilon=epsilon), 60)
    assert terms is not None
    assert terms.noise == pytest.approx(sigma)
    shared = privacy_terms(_config(protocol="paper", epsilon=epsilon, noise="shared"), 60)
    assert shared is not None
    assert shared.noise == pytest.approx(sigma / np.sqrt(20))


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ({"protocol": "paper", "epsilon": 3.0}, "privacy.sigma: expected a number because the paper prints none"),
        ({"protocol": "local", "sigma": 1.0}, "the noise follows from the budget: remove it"),
        ({"sigma": 1.0}, 'privacy.protocol = "none"'),
    ],
)
def test_settings_that_do_not_go_together_are_refused(privacy: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _config(**privacy)


@pytest.mark.parametrize(("key", "name"), [("aggregator", "qfedavg"), ("selector", "oort")])
def test_parts_that_need_losses_are_refused(key: str, name: str) -> None:
    config = _config(protocol="paper", epsilon=2.0)
    config = config.model_copy(update={"training": config.training.model_copy(update={key: name})})
    with pytest.raises(ConfigError, match=f'training.{key}: "{name}" goes by clients\' losses'):
        privacy_mods(config, 60)


@pytest.mark.parametrize("promise", ["client", "sample"])
def test_a_private_run_trains_and_ends_when_budgets_are_spent(promise: str) -> None:
    config = _config(protocol="local", promise=promise, epsilon=50.0, participations=1)
    data = make_population(config)
    events: list[object] = []
    result = run_method("base", config, data, lambda _, event: events.append(event))
    assert 0 < result.final.accuracy <= 1
    again = run_method("base", config, data)
    assert again.final.accuracy == result.final.accuracy  # noise from the seed
    other = run_method("base", _config(protocol="none"), data)
    assert other.final.accuracy != result.final.accuracy


def test_all_methods_of_cohorts_run_with_the_noise_of_the_paper() -> None:
    for method in ("auxo", "paper", "ifca"):
        config = _config(method, protocol="paper", epsilon=8.0, noise="shared")
        data = make_population(config)
        assert 0 < run_method(method, config, data).final.accuracy <= 1


def test_the_mod_of_a_run_is_simulated_and_of_its_seed() -> None:
    (mod,) = privacy_mods(_config(protocol="paper", epsilon=8.0), 60)
    assert mod == LocalPrivacy.simulated(mod.terms, 100)  # type: ignore[union-attr]


@pytest.mark.slow
def test_workers_give_the_bits_of_one_process() -> None:
    config = _config(protocol="local", epsilon=8.0)
    data = make_population(config)
    many = config.model_copy(update={"run": config.run.model_copy(update={"workers": 2})})
    assert run_method("base", many, data).final == run_method("base", config, data).final

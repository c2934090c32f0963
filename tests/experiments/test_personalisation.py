"""Runs whose clients make models their own: nothing but their scores changes, whatever the workers."""

from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from auxo.core.personalisers import Tuning
from auxo.engines.personal_models import PersonalModels
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config
from auxo.experiments.method_runs import tuning
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.runner import MethodResult, run_method
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import Evaluated
from auxo.training.trainer import LocalTraining
from tests.experiments.test_evaluation import small

LAST = "run.evaluate_every=12"


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return make_population(small())


def told(result: MethodResult) -> list[dict[str, object]]:
    return [asdict(event) for event in result.events]


def test_zero_epochs_change_nothing_bit_for_bit(data: FederatedData) -> None:
    plain, zero = (
        run_method("auxo", small(*settings), data) for settings in ((), ("training.personaliser=ftfa", "ftfa.epochs=0"))
    )
    assert told(plain) == told(zero)
    np.testing.assert_array_equal(plain.scores.correct, zero.scores.correct)


def test_tuning_changes_scores_and_nothing_else_and_is_charged_apart(data: FederatedData) -> None:
    plain, tuned = (run_method("base", small(LAST, *more), data) for more in ((), ("training.personaliser=ftfa",)))
    cohort = next(iter(plain.state.coordinator.cohorts))
    np.testing.assert_array_equal(
        plain.state.coordinator.cohorts[cohort].server.weights, tuned.state.coordinator.cohorts[cohort].server.weights
    )
    # Two groups name the classes differently: one model for all cannot know that, a client's own samples do.
    assert tuned.final.accuracy > plain.final.accuracy + 0.1
    assert (tuned.final.device_s, tuned.final.time_s) == (plain.final.device_s, plain.final.time_s)
    assert plain.final.tuning_device_s == 0.0
    compute_s = tuned.final.tuning_device_s / (5 * float(data.train.counts().sum()))
    assert 0.01 < compute_s < 1.0  # of a sample, on a mean device


def test_each_client_is_scored_with_its_own_model(data: FederatedData) -> None:
    config = small(LAST, "training.personaliser=fine-tuning", "fine-tuning.learning_rate=0.3", "run.perplexity=true")
    result, trainer = run_method("auxo", config, data), trainer_for(config, data)
    tree, cohorts = result.state.coordinator.tree, result.state.coordinator.cohorts
    personal = PersonalModels.by(Tuning(1, 0.3), trainer, data, LocalTraining(0.1, 6, 1), config.seed)
    assert personal is not None
    losses = []
    for client, place in enumerate(result.scores.cohort.tolist()):
        (model,) = personal.tuned(cohorts[tree.cohorts[place]].server.weights, np.array([client]))
        rows = data.test.of(client)
        x, y = data.inputs(data.test.x_rows[rows]), data.test.y[rows]
        assert result.scores.correct[client] == (trainer.predict(model, x) == y).sum()
        losses.append(trainer.losses(model, x, y).mean())
    assert len(cohorts) > 1
    assert result.final.perplexity == pytest.approx(float(np.exp(np.mean(losses))))


def test_workers_make_no_difference(data: FederatedData) -> None:
    results = [
        run_method("base", small("training.personaliser=ftfa", f"run.workers={workers}"), data) for workers in (1, 2)
    ]
    assert told(results[0]) == told(results[1])


def test_a_torch_model_is_tuned_in_the_same_way() -> None:
    config = small_mlp("training.personaliser=ftfa")
    result = run_method("base", config, make_population(config))
    again = run_method("base", small_mlp("training.personaliser=ftfa", "run.workers=2"), make_population(config))
    plain = run_method("base", small_mlp(), make_population(config))
    assert told(result) == told(again)
    assert result.final.accuracy > plain.final.accuracy


def small_mlp(*overrides: str) -> Config:
    return small("training.model=mlp", "training.rounds=4", "population.clients=60", *overrides)


def test_every_evaluation_on_the_way_is_of_tuned_models_too(data: FederatedData) -> None:
    result = run_method("base", small("training.personaliser=ftfa", "run.evaluate_every=3"), data)
    spent = [event.tuning_device_s for event in result.events if isinstance(event, Evaluated)]
    assert len(spent) > 2
    assert all(one == other > 0 for one, other in pairwise(spent))


def test_settings_are_a_section_of_the_personalisers_name() -> None:
    config = parse_config('[training]\npersonaliser = "fine-tuning"\n[fine-tuning]\nepochs = 3\npull = 0.1\n')
    part = config.maker.make(*next((kind, name) for _, kind, name in config.parts_in_use() if name == "fine-tuning"))
    assert getattr(part, "tuning", None) == Tuning(3, proximal=0.1)
    with pytest.raises(ValueError, match="expected a personaliser"):
        parse_config('[training]\npersonaliser = "fedyogi"')


@pytest.mark.parametrize("said", ["5", "'much'", "Tuning"])
def test_a_personaliser_that_says_something_else_is_refused(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strange.py").write_text(
        "from dataclasses import dataclass\n\nfrom auxo.core.personalisers import Tuning\n\n\n"
        f"@dataclass(frozen=True)\nclass Strange:\n    tuning = {said}\n"
    )
    with pytest.raises(ConfigError, match=r"training\.personaliser: expected a Tuning or None as its `tuning`, got "):
        tuning(small("training.personaliser=strange.py:Strange"))

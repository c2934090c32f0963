"""Models that clients have made their own: by hand, and what they are charged."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.core.personalisers import Tuning
from auxo.engines.personal_models import PersonalModels
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_of
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.simulation.devices import Devices
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import LocalTraining


def one_client() -> FederatedData:
    """Return a client with the training samples x = 1 of class 0 and x = -1 of class 1, and one test sample."""
    return population_of(
        x=np.array([[1.0], [-1.0], [2.0]], dtype=np.float32),
        y=np.array([0, 1, 0]),
        client=np.zeros(3, dtype=np.int64),
        test=np.array([False, False, True]),
        name="one",
    )


def test_two_passes_over_two_samples_are_as_worked_out_by_hand() -> None:
    # With weights (w, -w) and no bias the probability of the right class is p = 1 / (1 + exp(-2 w)) for both samples,
    # so a step of the whole batch adds rate * (1 - p) to w: at w = 0 it is 0.5 / 2 = 0.25, and then
    # 0.25 + 0.5 * (1 - 1 / (1 + exp(-0.5))) = 0.438770.
    data = one_client()
    personal = PersonalModels.by(
        Tuning(2, learning_rate=0.5, batch_size=2), SoftmaxTrainer(1, 2), data, LocalTraining(), seed=3
    )
    assert personal is not None
    (model,) = personal.tuned(np.zeros(4, dtype=np.float32), np.array([0]))
    np.testing.assert_allclose(model, [0.438770, -0.438770, 0.0, 0.0], atol=1e-6)


def test_a_pull_holds_the_second_step_back_by_hand() -> None:
    # The second step's gradient has pull * (w - 0) added: 0.438770 - 0.5 * 0.4 * 0.25 = 0.388770.
    personal = PersonalModels.by(
        Tuning(2, learning_rate=0.5, batch_size=2, proximal=0.4),
        SoftmaxTrainer(1, 2),
        one_client(),
        LocalTraining(proximal=9.0),
        seed=3,
    )
    assert personal is not None
    (model,) = personal.tuned(np.zeros(4, dtype=np.float32), np.array([0]))
    np.testing.assert_allclose(model, [0.388770, -0.388770, 0.0, 0.0], atol=1e-6)


def test_what_a_tuning_does_not_say_is_as_participants_have_it() -> None:
    data = one_client()
    participants = LocalTraining(learning_rate=0.3, batch_size=2, epochs=9)
    personal = PersonalModels.by(Tuning(1), SoftmaxTrainer(1, 2), data, participants, seed=0)
    assert personal is not None
    assert personal.settings == replace(participants, epochs=1)


def test_a_tuning_that_diverges_leaves_the_model_as_it_was() -> None:
    data = one_client()
    start = np.array([1.0, -1.0, 0.0, 0.0], dtype=np.float32)
    tuning = Tuning(3, learning_rate=3e38, proximal=1e30)
    personal = PersonalModels.by(tuning, SoftmaxTrainer(1, 2), data, LocalTraining(), seed=0)
    assert personal is not None
    (model,) = personal.tuned(start, np.array([0]))
    np.testing.assert_array_equal(model, start)


def test_it_is_charged_by_passes_samples_and_the_speed_of_the_device() -> None:
    data = one_client()
    devices = Devices(np.array([0.25]), np.array([1e6]), np.array([1e6]))
    personal = PersonalModels.by(Tuning(3), SoftmaxTrainer(1, 2), data, LocalTraining(), seed=0)
    assert personal is not None
    assert personal.device_s(devices, np.array([0])).tolist() == [3 * 2 * 0.25]


@pytest.mark.parametrize("tuning", [None, Tuning(0)])
def test_without_a_pass_nothing_is_tuned(tuning: Tuning | None) -> None:
    assert PersonalModels.by(tuning, SoftmaxTrainer(1, 2), one_client(), LocalTraining(), seed=0) is None


def test_a_clients_own_model_is_the_same_bits_whoever_tunes_beside_it() -> None:
    data = synthetic_population(clients=9, groups=2, heterogeneity=LabelPermutation(), features=4, classes=3, seed=0)
    start = np.zeros(15, dtype=np.float32)
    for tuning in (Tuning(2), Tuning(1, learning_rate=0.2, batch_size=3, proximal=0.5)):
        personal = PersonalModels.by(tuning, SoftmaxTrainer(4, 3), data, LocalTraining(), seed=0)
        assert personal is not None
        together = list(personal.tuned(start, np.arange(9)))
        assert len({model.tobytes() for model in together}) == 9
        for client, model in enumerate(together):
            (alone,) = personal.tuned(start, np.array([client]))
            np.testing.assert_array_equal(model, alone)

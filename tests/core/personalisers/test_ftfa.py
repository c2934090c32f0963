import pytest

from auxo.core.personalisers import AsItIs, Tuning
from auxo.core.personalisers.fine_tuning import FineTuning
from auxo.core.personalisers.ftfa import Ftfa


def test_ftfa_is_plain_sgd_on_all_layers_as_participants_train() -> None:
    assert Ftfa().tuning == Tuning(5, learning_rate=None, batch_size=None, proximal=0.0)


def test_fine_tuning_that_says_no_more_than_ftfa_is_ftfa() -> None:
    assert FineTuning(epochs=3, learning_rate=0.2).tuning == Ftfa(epochs=3, learning_rate=0.2).tuning
    assert FineTuning(pull=0.5).tuning.proximal == 0.5
    assert AsItIs().tuning is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": -1}, "epochs: expected at least 0, got -1"),
        ({"learning_rate": 0.0}, "learning_rate: expected a positive number, or none, got 0.0"),
        ({"batch_size": 0}, "batch_size: expected at least 1, or none, got 0"),
        ({"pull": -1.0}, "pull: expected a number >= 0, got -1.0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        FineTuning(**settings)  # type: ignore[arg-type]

"""Flower's own example apps, in their shape, wrapped by a line on each side: found, saved, served to a new node."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from safetensors.numpy import load_file

import auxo
from tests.flower.wrapped_apps import APPS, NODES, run_wrapped


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Nets as small as these are slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", APPS)
def test_cohorts_are_found_saved_and_served_to_nodes_that_never_trained(name: str, tmp_path: Path) -> None:
    app, ran = APPS[name], run_wrapped(name, tmp_path)
    assert all(any(words in one for one in ran.warned) for words in app.told), ran.warned
    assert len(ran.warned) == len(app.told)

    run = auxo.load(tmp_path, model=ran.model, inputs=auxo.ModelInputs(app.inputs, app.classes))
    even, odd = ({run.place(str(100 + place)).cohort for place in range(first, NODES, 2)} for first in (0, 1))
    assert (len(even), len(odd), even & odd) == (1, 1, set())
    for new, (cohort,) in ((50, even), (51, odd)):
        x, y, others, answers = ran.load_data(new)
        place = run.place(x, y)
        assert place.cohort == cohort
        assert (run.predict(others, place) == answers).mean() > 0.8


def test_what_an_unchanged_app_saves_is_the_model_of_one_of_the_cohorts(tmp_path: Path) -> None:
    ran = run_wrapped("quickstart_pytorch", tmp_path)
    (words,) = ran.warned
    saved = load_file(tmp_path / "final_model.safetensors")
    named = words.split("model of cohort ")[1].split()[0]
    for cohort in ("0.0", "0.1"):
        kept = load_file(tmp_path / "models" / f"{cohort}.safetensors")
        assert set(kept) == set(saved)
        assert all(np.array_equal(saved[one], kept[one]) for one in kept) == (cohort == named)

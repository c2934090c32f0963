"""What a run has left: models by cohort, who belongs where, predictions for new clients, scores and figures."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import auxo
from auxo.api.client_data import population_from
from auxo.api.finished_run import FinishedRun, Place
from auxo.cli import app
from auxo.core.types import CohortId
from auxo.files.errors import FileError
from auxo.protocol.messages import AffinityRequest, CheckIn
from tests.api.small_clients import CLASSES, FEATURES, NAMES, clients, samples
from tests.population.saved import save_population


def cohort_of(run: FinishedRun, number: int) -> str:
    return run.clients[f"phone {number:03d}"].cohort


def test_groups_are_cohorts_and_every_client_is_in_the_table(run: FinishedRun) -> None:
    assert set(run.clients) == set(clients())
    assert len({cohort_of(run, number) for number in range(0, 60, 2)}) == 1
    assert len({cohort_of(run, number) for number in range(60)}) == 2


def test_a_new_client_finds_its_cohort_by_its_samples_and_is_told_its_labels(run: FinishedRun) -> None:
    for number in (1000, 1001):
        x, y = samples(number)
        place = run.place(x[:20], NAMES[y[:20]])
        assert place.cohort == cohort_of(run, number % 2)
        assert (place.models, place.samples) == (2, 20)
        assert place.is_sure
        assert min(place.losses, key=lambda cohort: place.losses[cohort]) == place.cohort
        likely = run.probabilities(x[20:], place)
        assert likely.sum(axis=1) == pytest.approx(1)
        assert place.margin is not None
        assert place.margin > 0
        predicted = run.predict(x[20:], place)
        assert set(predicted.tolist()) <= set(NAMES.tolist())
        assert (predicted == NAMES[y[20:]]).mean() > 0.8
        assert run.models[place.cohort].accuracy(x[20:], y[20:]) == (predicted == NAMES[y[20:]]).mean()


def test_fewer_samples_can_be_asked_for(run: FinishedRun) -> None:
    x, y = samples(1000)
    assert run.place(x, y, most_samples=5).samples == 5


def test_a_client_of_the_run_is_placed_by_its_name_at_no_cost(run: FinishedRun) -> None:
    assert run.place("phone 003") == Place(CohortId(cohort_of(run, 3)), is_sure=not run.clients["phone 003"].lost)
    with pytest.raises(KeyError, match="nobody: no client of this name was evaluated"):
        run.place("nobody")


def test_a_client_is_placed_by_its_own_record(run: FinishedRun) -> None:
    wish = AffinityRequest(CohortId("0.1"), reward=0.3, cluster=-1, generation=-1, ranked_first=True)
    assert run.place(CheckIn(7, wish)) == Place(CohortId("0.1"))
    old = AffinityRequest(CohortId("0"), reward=0.3, cluster=-1, generation=-1, ranked_first=True)
    assert not run.place(CheckIn(7, old)).is_sure
    with pytest.raises(ValueError, match="got an empty one; give its samples"):
        run.place(auxo.Client(7))


def test_samples_without_labels_cannot_be_placed(run: FinishedRun) -> None:
    with pytest.raises(ValueError, match="y: expected the labels"):
        run.place(samples(0)[0])


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((3, FEATURES + 1)), [0, 1, 2], r"expected inputs of shape \(6,\)"),
        (np.full((3, FEATURES), np.nan), [0, 1, 2], "expected finite numbers"),
        (np.zeros((3, FEATURES)), [0, 1], "a label for each of 3 inputs"),
        (np.zeros((3, FEATURES)), [0, 1, CLASSES], "expected numbers from 0 to 2, got 0 to 3"),
        (np.zeros((3, FEATURES)), ["left", "up", "right"], "got 'up'"),
        (np.zeros((0, FEATURES)), np.zeros(0, int), "one at least"),
        (np.array([["a"] * FEATURES]), [0], "expected numbers"),
    ],
)
def test_what_is_not_such_as_the_run_was_trained_on_is_refused(
    run: FinishedRun, x: object, y: object, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        run.place(x, y)


def test_the_model_of_a_cohort_is_a_linear_layer_as_torch_has_it(run: FinishedRun) -> None:
    model = run.models["0.0"]
    assert model.path == run.path / "auxo" / "models" / "0.0.safetensors"
    assert {name: tensor.shape for name, tensor in model.tensors.items()} == {
        "weight": (CLASSES, FEATURES),
        "bias": (CLASSES,),
    }
    with pytest.raises(TypeError, match="softmax regression in numpy"):
        model.module()
    with pytest.raises(KeyError, match=r"0.7: no such cohort; there are: 0.0, 0.1"):
        run.models["0.7"]


def test_the_base_is_there_as_well(run: FinishedRun) -> None:
    base = run.of("base")
    assert list(base.models) == ["0"]
    x, y = samples(1000)
    assert base.place(x, y) == Place(CohortId("0"))
    assert base.losers is None
    with pytest.raises(ValueError, match="expected one of base, auxo"):
        run.of("ifca")


def test_scores_come_as_arrays_and_as_a_data_frame(run: FinishedRun) -> None:
    scores = run.scores()
    assert scores["accuracy"].mean() == pytest.approx(run.summary.methods["auxo"].final_accuracy, abs=1e-6)
    assert scores["base_accuracy"].mean() == pytest.approx(run.summary.methods["base"].final_accuracy, abs=1e-6)
    assert (scores["visits"] > 0).any()
    pandas = pytest.importorskip("pandas")
    frame = run.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc["phone 003", "cohort"] == cohort_of(run, 3)
    assert run.curve()["accuracy"][-1] == run.summary.methods["auxo"].final_accuracy


def test_figures_are_svg_documents(run: FinishedRun) -> None:
    figures = run.figures
    assert set(figures) == {"accuracy-over-time", "accuracy-over-work", "clients", "cohort-tree"}
    for figure in figures.values():
        assert ElementTree.fromstring(figure).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - ours


def test_the_coordinator_s_state_is_that_of_the_models(run: FinishedRun) -> None:
    assert run.coordinator.tree == run.tree
    for cohort, model in run.models.items():
        assert np.array_equal(run.coordinator.cohorts[CohortId(cohort)].server.weights, model.weights)


def test_the_same_samples_from_a_file_are_prepared_as_the_run_s_were(run: FinishedRun, tmp_path: Path) -> None:
    # Raw, in a file that knows no names of labels, and with clients that the run has never seen.
    new = {f"new {number}": samples(number) for number in range(1000, 1010)}
    save_population(tmp_path / "new.npz", population_from(new))
    opened = run.opened(tmp_path / "new.npz")
    placed = run.place_all(opened)
    assert list(placed.cohort) == [cohort_of(run, number % 2) for number in range(10)]
    found = run.predict_all(opened, placed.cohort)
    assert found.accuracy > 0.8
    x, y = new["new 1003"]
    mine = found.client == 3
    assert sorted(found.label[mine].tolist()) == sorted(y.tolist())
    assert len(set(found.row[mine].tolist())) == len(y)
    expected = run.models[placed.cohort[3]].predict(x)
    assert np.array_equal(np.sort(run.label_names(found.predicted[mine])), np.sort(expected))


def test_a_run_that_is_none_or_has_no_end_is_refused(run: FinishedRun, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected a run directory"):
        auxo.load(tmp_path / "nothing")
    summary = json.loads((run.path / "summary.json").read_text(encoding="utf-8"))
    for method in summary["methods"].values():
        method["is_finished"] = False
    (tmp_path / "config.toml").write_text((run.path / "config.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    with pytest.raises(FileError, match="let the run finish"):
        auxo.load(tmp_path)
    summary["methods"]["base"]["is_finished"] = True
    summary["status"] = "interrupted"
    (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    words = "expected the end of auxo, got a run that has come to that of base only; let it finish with `auxo resume"
    with pytest.raises(FileError, match=words):
        auxo.load(tmp_path)
    assert auxo.load(tmp_path, method="base").method == "base"
    done = CliRunner().invoke(app, ["predict", str(tmp_path), "new.csv"])
    assert done.exit_code == 2
    assert "--method base" in done.output

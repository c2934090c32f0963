"""The Python entry: the forms of clients it takes, models as classes, and the same bits as the command line."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import auxo
from auxo.api.client_data import population_from
from auxo.api.finished_run import FinishedRun
from auxo.cli import app
from auxo.datasets.open_dataset import open_dataset
from tests.api.small_clients import CLASSES, FEATURES, QUICK, clients, samples
from tests.population.saved import save_population

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402
from torch import Tensor, nn  # noqa: E402


class MyNet(nn.Module):
    def __init__(self, features: tuple[int, ...], classes: int, hidden: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features[0], hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x)
        return out


def test_a_class_is_trained_and_its_own_state_dict_takes_the_model_of_a_cohort(tmp_path: Path) -> None:
    run = auxo.simulate(
        clients(20),
        model=MyNet,
        model_args={"hidden": 5},
        rounds=3,
        participants=10,
        settings=QUICK,
        out=tmp_path / "run",
    )
    (cohort,) = run.models
    net = MyNet((FEATURES,), CLASSES, hidden=5)
    net.load_state_dict(load_file(tmp_path / "run" / "auxo" / "models" / f"{cohort}.safetensors"))
    x, _ = samples(3)
    mine = run.models[cohort].module()
    assert isinstance(mine, MyNet)
    made = torch.from_numpy(run.opened({"one": samples(3)}).data.x)
    with torch.no_grad():
        assert torch.equal(net(made), mine(made))
        assert np.array_equal(run.label_names(net(made).argmax(dim=1).numpy()), run.models[cohort].predict(x))

    again = auxo.load(tmp_path / "run")
    assert np.array_equal(again.models[cohort].weights, run.models[cohort].weights)


@pytest.mark.filterwarnings("ignore:base. accuracy .* is no better than chance")
def test_what_has_no_name_of_its_own_can_be_trained_and_is_given_again_to_load_it(tmp_path: Path) -> None:
    class Within(MyNet):
        pass

    first = auxo.simulate(clients(10), model=Within, rounds=1, participants=5, methods=["base"], out=tmp_path / "a")
    other = auxo.simulate(clients(10), model=MyNet, rounds=1, participants=5, methods=["base"], out=tmp_path / "b")
    assert np.array_equal(first.models["0"].weights, other.models["0"].weights)
    text = (tmp_path / "a" / "config.toml").read_text(encoding="utf-8").replace("lent:Within", "lent:Forgotten")
    (tmp_path / "a" / "config.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="give it again; give it by model="):
        auxo.load(tmp_path / "a").models["0"]
    assert np.array_equal(auxo.load(tmp_path / "a", model=Within).models["0"].weights, first.models["0"].weights)


@pytest.mark.filterwarnings("ignore:base. accuracy .* is no better than chance")
def test_a_module_with_weights_is_started_from(tmp_path: Path) -> None:
    net = MyNet((FEATURES,), CLASSES)
    run = auxo.simulate(
        clients(10),
        model=net,
        rounds=1,
        participants=5,
        methods=["base"],
        settings={"training.learning_rate": 1e-30, "training.aggregator": "fedavg"},
    )
    for name, tensor in net.state_dict().items():
        assert np.array_equal(run.models["0"].tensors[name], tensor.numpy())


def test_it_gives_the_bits_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "phones.npz"
    save_population(file, population_from({f"phone {number:03d}": samples(number) for number in range(30)}))
    sizes: dict[str, Any] = {"rounds": 6, "participants": 12}
    auxo.simulate(file, **sizes, settings=QUICK, out=tmp_path / "file")
    auxo.simulate(open_dataset(file).standardised(), **sizes, settings=QUICK, out=tmp_path / "python")
    chosen = ['methods=["base", "auxo"]', *(f"training.{key}={value}" for key, value in sizes.items())]
    chosen += [f"{key}={value}" for key, value in QUICK.items()]
    overrides = [word for one in chosen for word in ("--set", one)]
    done = CliRunner().invoke(app, ["run", *overrides, "--population", str(file), "--out", str(tmp_path / "commands")])
    assert done.exit_code == 0, done.output

    for name in ("summary.json", "auxo/clients.csv", "auxo/models/0.safetensors", "auxo/events.jsonl"):
        expected = (tmp_path / "commands" / name).read_bytes()
        assert (tmp_path / "file" / name).read_bytes() == expected, name
        assert (tmp_path / "python" / name).read_bytes() == expected, name


def test_without_a_place_of_its_own_a_run_goes_with_its_result() -> None:
    run = auxo.simulate(clients(10), rounds=1, participants=5, methods=["base"])
    path, models = run.path, run.of("base").models
    assert path.is_dir()
    assert len(run.models["0"].weights)
    del run
    gc.collect()
    assert path.is_dir()  # somebody still uses its models
    del models
    gc.collect()
    assert not path.exists()


def test_a_run_starts_from_the_cohorts_of_another(run: FinishedRun) -> None:
    few: dict[str, Any] = {"rounds": 4, "participants": 30, "settings": QUICK}
    again = auxo.simulate(clients(), cohorts=run, model=MyNet, **few)
    assert again.tree == run.tree
    alone = auxo.simulate(clients(), model=MyNet, **few)
    assert alone.tree.leaves == ("0",)
    ours, theirs = (one.summary.methods["auxo"].final_accuracy for one in (again, alone))
    assert ours > theirs + 0.05


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"participants": 90}, "expected at most the 10 clients of clients, got 90"),
        ({"settings": {"training.rouns": 3}}, "did you mean training.rounds"),
        ({"methods": ["auxi"]}, "auxi"),
        ({"model": 3}, "expected a class or a function that makes a module, got int"),
        ({"model": "mpl"}, 'did you mean "mlp"'),
    ],
)
def test_what_cannot_be_run_is_said_before(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        auxo.simulate(clients(10), **{"rounds": 1, "out": tmp_path / "run", **changes})
    assert not (tmp_path / "run").exists()


def test_a_run_of_data_from_python_cannot_be_run_by_its_configuration_alone(tmp_path: Path) -> None:
    auxo.simulate(clients(10), rounds=1, participants=5, methods=["base"], out=tmp_path / "run")
    done = CliRunner().invoke(app, ["run", str(tmp_path / "run" / "config.toml"), "--out", str(tmp_path / "again")])
    assert done.exit_code == 2
    assert "they were given to auxo.simulate" in done.output.replace("\n", " ")
    assert not (tmp_path / "again").exists()


def test_every_public_name_is_there_and_nothing_is_imported_before_it_is_asked_for() -> None:
    assert sorted(auxo.__all__) == [name for name in auxo.__all__ if getattr(auxo, name) is not None]
    assert set(auxo.__all__) <= set(dir(auxo))
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        auxo.simulat  # noqa: B018


def test_what_has_to_be_known_is_warned_of_and_printed_with_the_run() -> None:
    with pytest.warns(RuntimeWarning, match="auxo: no partition is possible: ") as warned:
        run = auxo.simulate(clients(12), rounds=5, participants=1, methods=["auxo"], settings=QUICK)
    words = [str(one.message) for one in warned]
    assert any(one.endswith("raise training.participants, to at most the 12 clients that there are") for one in words)
    assert repr(run).splitlines()[1:] == [f"note: {one}" for one in words]

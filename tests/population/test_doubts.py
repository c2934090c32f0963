"""What is doubtful about labels and columns is said, whichever way they come in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import auxo
from auxo.api.client_data import population_from
from auxo.cli import app
from auxo.core.rng import stream
from auxo.population.doubts import doubts

Clients = dict[str, tuple[NDArray[Any], NDArray[Any]]]


def clients(label: Callable[[int, int], object], constant: bool = False) -> Clients:
    """Return 40 clients with 30 samples each, whose labels depend on the client and on the row."""
    found = {}
    for number in range(40):
        x = stream(0, "doubts", number).normal(size=(30, 3))
        x[:, 1] = 7.0 if constant else x[:, 1]
        found[f"c{number}"] = (x, np.array([label(number, row) for row in range(30)]))
    return found


def as_csv(path: Path, made: Clients) -> Path:
    rows = [
        f"{name},{','.join(map(str, one))},{y}"
        for name, (xs, ys) in made.items()
        for one, y in zip(xs, ys, strict=True)
    ]
    path.write_text("\n".join(["client,a,b,c,label", *rows]), encoding="utf-8")
    return path


DOUBTFUL = [
    (clients(lambda client, row: "yes"), "all samples have the same label, 'yes': there is nothing to learn"),
    (clients(lambda client, row: 1 + row % 3), "labels begin at 1: what is below has no sample"),
    (clients(lambda client, row: client * 30 + row), "there are 1,200 different labels among 1,200 samples"),
    (clients(lambda client, row: f"c{client}"), "every client has one label, which nobody else has"),
    (clients(lambda client, row: row % 2, constant=True), "the same value in all training samples"),
]


@pytest.mark.parametrize(("made", "words"), DOUBTFUL, ids=["one", "from 1", "unique", "the client", "constant"])
def test_what_is_doubtful_is_said_from_python_and_by_the_commands(made: Clients, words: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert any(one.startswith(words) for one in doubts(population_from(made, standardise=True)))
    done = CliRunner().invoke(
        app, ["data", "convert", str(as_csv(tmp_path / "t.csv", made)), str(tmp_path / "t.arrow")]
    )
    assert done.exit_code == 0, done.output
    assert f"note: {words}" in done.output


def test_nothing_is_doubtful_about_ordinary_data() -> None:
    assert doubts(population_from(clients(lambda client, row: (client + row) % 3), standardise=True)) == ()


@pytest.mark.filterwarnings("ignore:base. ")
def test_it_is_warned_of_and_told_before_a_run(tmp_path: Path) -> None:
    made, words = DOUBTFUL[1]
    with pytest.warns(RuntimeWarning, match=words):
        auxo.simulate(made, rounds=1, participants=4, methods=["base"])
    sets = [
        word for one in ('methods=["base"]', "training.rounds=1", "training.participants=4") for word in ("--set", one)
    ]
    pytest.importorskip("pyarrow")
    path = as_csv(tmp_path / "t.csv", made)
    done = CliRunner().invoke(app, ["run", *sets, "--population", str(path), "--out", str(tmp_path / "run")])
    assert f"note: {words}" in done.output


def test_spaces_around_names_make_no_clients_and_no_classes(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = as_csv(tmp_path / "t.csv", clients(lambda client, row: ("no", "yes", "no ", " yes")[row % 4]))
    lines = path.read_text(encoding="utf-8").splitlines()
    spaced = [line.replace(",", " ,", 1) if number % 2 else line for number, line in enumerate(lines[1:])]
    path.write_text("\n".join([lines[0], *spaced]), encoding="utf-8")
    done = CliRunner().invoke(app, ["data", "convert", str(path), str(tmp_path / "t.arrow")])
    assert "40 clients, 1,200 samples, 2 classes" in done.output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"c1": (np.zeros((0, 3)), np.zeros(0, dtype=int))},
            "client 'c1': expected samples, got none; leave this client",
        ),
        (
            {"c1": (np.ones((2, 3)), np.array(["0", "1"]))},
            "expected labels of one kind, got numbers of client .* texts of",
        ),
        ({"c2 ": (np.ones((2, 3)), np.array([0, 1]))}, "spaces around them left out, got 'c2' twice"),
    ],
)
def test_clients_from_python_that_cannot_be_meant_are_refused(change: Clients, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        population_from(clients(lambda client, row: row % 2) | change)

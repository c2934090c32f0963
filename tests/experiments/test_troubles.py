"""Runs that must not pass for good ones: what they say of themselves, and by which exit code they end."""

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from auxo.algorithms.auxo import Auxo
from auxo.cli import app
from auxo.core.rng import stream
from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.federated_file import read_columns, write_columns, write_federated_file
from auxo.experiments.comparison import compare
from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, RunConfig, TrainingConfig
from auxo.experiments.config_file import parse_config
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment, run_method
from auxo.experiments.summary import Summary
from auxo.experiments.troubles import Look, at_chance, cause_of
from auxo.population.federated_data import FederatedData, Samples
from auxo.protocol.events import RoundClosed, UpdateRejected
from auxo.protocol.notes import ONE_SAMPLE
from auxo.reporting.comparison_report import comparison_page
from auxo.reporting.facts import gather_facts
from auxo.reporting.progress import Budget, MethodProgress, PlainProgress
from auxo.reporting.report import headline, write_report

CONFIG = Config(
    seed=1,
    methods=("base",),
    population=PopulationConfig(source="digits", clients=40, groups=2, heterogeneity="rotation"),
    training=TrainingConfig(rounds=6, participants=10, aggregator="fedavg"),
    devices=DevicesConfig(kind="equal", availability="always", overcommit=0.0),
    run=RunConfig(evaluate_every=1000),
)
DIVERGING = CONFIG.model_copy(update={"training": CONFIG.training.model_copy(update={"learning_rate": 1e20})})
SMALL = (
    *("--set", "population.clients=40", "--set", "training.participants=10", "--set", "training.rounds=6"),
    *("--set", "devices.availability=always", "--set", "training.aggregator=fedavg"),
)


def run_into(path: Path, config: Config) -> tuple[Summary, list[str]]:
    notes: list[str] = []
    directory = RunDirectory.create(path, "")
    return run_experiment(config, directory, lambda label, event: None, notes.append), notes


def test_a_run_that_diverges_has_failed_and_names_the_cause(tmp_path: Path) -> None:
    summary, notes = run_into(tmp_path / "run", DIVERGING)
    base = summary.methods["base"]
    assert summary.status == "failed"
    assert (base.is_finished, summary.finished) == (False, {})
    (words,) = base.troubles
    assert words.startswith("cohort 0 in round 1 of 6 was given up, with 0 rounds closed in all: 1000 updates were ref")
    assert "training has diverged: lower training.learning_rate (1e+20)" in words
    assert "deadline" not in words
    assert notes == [f"base: {words}"]
    facts = gather_facts(RunDirectory.open(tmp_path / "run"))
    assert headline(facts) == "This run failed: base did not train the rounds asked for."
    assert "1000 updates were refused" in write_report(RunDirectory.open(tmp_path / "run"), facts).read_text()


@pytest.mark.parametrize(
    ("overrides", "section"),
    [
        ([], "fedyogi"),
        (["training.aggregator=median"], "median.server"),
        (["training.aggregator=clipped", "clipped.aggregator=qfedavg"], "clipped.aggregator.server"),
    ],
)
def test_the_rate_to_lower_is_named_where_it_is_set(overrides: list[str], section: str) -> None:
    config = parse_config("", overrides)
    refused = [UpdateRejected(0.0, "0", 1, "client-03", "NON_FINITE")]
    data = make_population(CONFIG)
    look = Look(config, data, trainer_for(CONFIG, data))
    assert cause_of(refused, look).endswith(f"the server_learning_rate of [{section}]")


def test_the_progress_of_a_run_that_diverges_counts_the_rounds_that_were_trained() -> None:
    result = run_method("base", DIVERGING, make_population(DIVERGING))
    progress = MethodProgress()
    for event in result.events:
        progress = progress.after(event)
    assert progress.is_over
    assert progress.rounds_done(Budget.of(DIVERGING)) == 0


def test_the_command_of_a_run_that_diverges_ends_with_an_exit_code_of_its_own(tmp_path: Path) -> None:
    out, figures = tmp_path / "run", tmp_path / "figures.json"
    command = ["run", *SMALL, "--set", "training.learning_rate=1e20", "--set", 'methods=["base", "auxo"]']
    result = CliRunner().invoke(app, [*command, "--out", str(out), "--json", str(figures)])
    assert result.exit_code == 1
    assert "6/6 rounds" not in result.output
    assert "the run of seed 0 failed: base, auxo did not train the rounds asked for" in result.output
    assert '"status": "failed"' in figures.read_text()
    again = CliRunner().invoke(app, ["compare", *command[1:], "--seeds", "2", "--out", str(tmp_path / "seeds")])
    assert again.exit_code == 1
    assert "the run of seed 0 failed" in again.output


# Numbers that are none, in the data.


def with_nan(data: FederatedData, client: int) -> FederatedData:
    """Return the data with one input of one client that is no number, and is nobody else's."""
    x = np.concatenate([data.x, data.x[:1]]).astype(np.float32)
    x[-1, 3] = np.nan
    rows = data.train.x_rows.copy()
    rows[data.train.offsets[client]] = len(x) - 1
    return replace(data, x=x, train=replace(data.train, x_rows=rows))


def test_one_number_that_is_none_is_found_before_it_makes_all_inputs_what_it_is(tmp_path: Path) -> None:
    rng = stream(0, "samples")
    parts = [
        ClientSamples(f"phone-{one}", rng.normal(size=(20, 4)).astype("f4"), rng.integers(0, 2, 20))
        for one in range(12)
    ]
    file = tmp_path / "clients.arrow"
    write_federated_file(SampleSource("phones", tmp_path, ("no", "yes"), lambda: iter(parts)), file)
    columns = read_columns(file)
    x = np.array(columns.x)
    x[np.flatnonzero((columns.client == 7) & ~columns.is_test)[0], 3] = np.nan
    write_columns(replace(columns, x=x), file)
    result = CliRunner().invoke(app, ["run", "--population", str(file), *SMALL, "--out", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert f"1 training samples of 1 clients, the first of them {columns.clients[7]}" in result.output
    assert not (tmp_path / "run").exists()


def test_updates_of_a_client_with_a_number_that_is_none_are_refused_and_its_data_named() -> None:
    config = CONFIG.model_copy(update={"training": CONFIG.training.model_copy(update={"participants": 40})})
    data = with_nan(make_population(config), 7)
    result = run_method("base", config, data)
    (trouble,) = result.troubles
    assert not trouble.is_failure
    assert f"updates of 1 clients were refused, again and again those of {data.client_names[7]} (6" in trouble.words
    assert f"The training samples of client {data.client_names[7]} hold NaN or infinite numbers" in trouble.words
    assert sum(isinstance(event, RoundClosed) for event in result.events) == CONFIG.training.rounds


# Chance.


def test_a_model_that_has_learnt_nothing_says_so() -> None:
    data = make_population(CONFIG)
    shuffled = replace(data, train=replace(data.train, y=stream(0, "labels").permutation(data.train.y)))
    (trouble,) = run_method("base", CONFIG, shuffled).troubles
    assert "is no better than chance: to answer class" in trouble.words
    assert not trouble.is_failure
    assert run_method("base", CONFIG, data).troubles == ()


def test_an_accuracy_is_held_against_that_of_the_most_common_class() -> None:
    data = make_population(CONFIG)
    everybody = np.arange(data.n_clients)
    one_class = replace(
        data,
        train=replace(data.train, y=np.zeros_like(data.train.y)),
        test=replace(data.test, y=np.where(np.arange(len(data.test.y)) % 4 == 0, 1, 0)),
    )
    assert at_chance(0.75, everybody, one_class) is not None
    assert at_chance(0.9, everybody, one_class) is None
    assert at_chance(0.75, everybody, data) is None


def test_with_few_test_samples_nothing_is_said_to_be_no_better_than_chance() -> None:
    data = make_population(CONFIG)
    offsets = np.minimum(np.arange(data.n_clients + 1), 3)
    few = replace(data, test=Samples(data.test.x_rows[:3], np.array([0, 1, 2]), offsets))
    few = replace(few, train=replace(few.train, y=np.zeros_like(few.train.y)))
    trouble = at_chance(2 / 3, np.arange(data.n_clients), few)
    assert trouble is not None
    assert trouble.words == (
        "3 test samples are too few to tell whether accuracy 66.7 % is better than to answer class 0 always, which is "
        "right 33.3 % of the time; hold out more"
    )


# Models that give no numbers.

NOT_A_NUMBER = """
import torch


class Rooted(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.linear = torch.nn.Linear(64, classes)

    def forward(self, x):
        return torch.sqrt(-1 - self.linear(x.flatten(1)).square())
"""


def test_a_model_that_returns_what_is_no_number_is_told_so_and_is_right_for_nobody(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(NOT_A_NUMBER, encoding="utf-8")
    training = CONFIG.training.model_copy(update={"model": f"{file}:Rooted"})
    summary, _ = run_into(tmp_path / "run", CONFIG.model_copy(update={"training": training}))
    assert summary.status == "failed"
    (words,) = summary.methods["base"].troubles
    assert "the model returns what is no number for those of" in words
    assert "before it has learnt anything: mend the model or its loss" in words
    assert "learning_rate" not in words
    assert summary.methods["base"].final_accuracy == 0


# Partitions that cannot be.

FIRST = 6  # round after which the first partition can be made: three rounds are pooled, and three are a trial's least


@pytest.mark.parametrize(
    ("participants", "rounds", "words"),
    [
        (1, 200, "two cohorts need two participants a round, and there is 1; raise training.participants"),
        (2, 200, None),
        (
            100,
            FIRST - 1,
            f"the first can be made after round {FIRST}, and there are {FIRST - 1}; raise training.rounds",
        ),
        (100, FIRST, None),
        (4, FIRST, None),
    ],
)
def test_auxo_says_beforehand_that_it_will_partition_nothing(participants: int, rounds: int, words: str | None) -> None:
    said = Auxo().why_no_partition(participants, rounds)
    assert (said is None) if words is None else (said is not None and words in said)


def test_a_run_in_which_no_partition_is_possible_says_so_at_the_start_and_in_its_summary(tmp_path: Path) -> None:
    few = CONFIG.training.model_copy(update={"rounds": FIRST - 1})
    summary, notes = run_into(tmp_path / "run", CONFIG.model_copy(update={"methods": ("auxo",), "training": few}))
    assert len(notes) == 1
    assert notes[0].startswith("auxo: no partition is possible: ")
    assert summary.methods["auxo"].troubles == (notes[0].removeprefix("auxo: "),)
    assert summary.status == "finished"


def test_a_gain_that_judges_are_not_sure_of_is_told_everywhere(tmp_path: Path) -> None:
    training = CONFIG.training.model_copy(update={"rounds": 25, "participants": 40})
    never_sure = {"auxo": {"trial": {"alpha": 1e-30}}}  # as a handful of clients are
    config = CONFIG.model_copy(update={"methods": ("base", "auxo"), "training": training, "parts": never_sure})
    notes: list[str] = []
    directory, lines = RunDirectory.create(tmp_path / "run", ""), io.StringIO()
    progress = PlainProgress(Budget.of(config), lines)
    summary = run_experiment(config, directory, progress.on_event, notes.append)
    assert summary.methods["auxo"].cohorts == 1
    words = next(words for words in summary.methods["auxo"].troubles if words.startswith("judges were not sure of"))
    assert re.search(r"a partition of cohort 0 on trial, although their loss was \d\d % less by it: from so few", words)
    assert f"auxo: {words}" in notes
    assert "judges were not sure of what cohort 0 had on trial, and it rests" in lines.getvalue()
    page = write_report(directory, gather_facts(directory)).read_text()
    assert words in page
    assert "no groups it saw were worth a partition" not in page
    assert words in comparison_page(compare([summary]), [])


def test_a_run_whose_clients_have_one_sample_each_says_that_nobody_judged(tmp_path: Path) -> None:
    data = make_population(CONFIG)
    first = data.train.offsets[:-1]
    one_each = replace(
        data.train, offsets=np.arange(data.n_clients + 1), x_rows=data.train.x_rows[first], y=data.train.y[first]
    )
    training = CONFIG.training.model_copy(update={"rounds": 14, "participants": 40})
    config = CONFIG.model_copy(update={"methods": ("base", "auxo"), "training": training})
    notes: list[str] = []
    directory = RunDirectory.create(tmp_path / "run", "")
    lines = io.StringIO()
    progress = PlainProgress(Budget.of(config), lines)
    summary = run_experiment(config, directory, progress.on_event, notes.append, replace(data, train=one_each))
    words = next(words for words in summary.methods["auxo"].troubles if words.startswith("nobody judged"))
    assert words == f"nobody judged a partition on trial, so that nobody knows what it would bring: {ONE_SAMPLE}"
    assert f"auxo: {words}" in notes
    page = write_report(directory, gather_facts(directory)).read_text()
    assert "clients have one sample each, and to judge takes two" in page
    assert "nobody judged what was on trial" in page
    assert "no groups it saw were worth a partition" not in page
    assert "nobody judged what cohort 0 had on trial, and it rests" in lines.getvalue()
    assert "has found no groups worth a partition" not in lines.getvalue()
    compared = comparison_page(compare([summary]), [])
    assert "clients have one sample each, and to judge takes two" in compared

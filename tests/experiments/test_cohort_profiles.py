"""What distinguishes cohorts: shares of classes, means of inputs, how both go together, and who is in the middle."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auxo.core.rng import stream
from auxo.experiments.cohort_profiles import profile_cohorts, read_profiles, write_profiles
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.files.errors import FileError
from auxo.population.federated_data import FederatedData, Samples
from auxo.population.preparation import Preparation

CLIENTS, SAMPLES = 8, 50


def population() -> FederatedData:
    """Return clients of which the later half has larger widths, fewer red ones, and red where the others are blue."""
    rng = stream(3, "test", "profiles")
    x = rng.normal(size=(CLIENTS * SAMPLES, 2)).astype(np.float32)
    late = np.repeat(np.arange(CLIENTS) >= CLIENTS // 2, SAMPLES)
    x[late, 1] += 2
    y = np.where(late, x[:, 0] > 0.5, x[:, 0] < 0).astype(np.int64)
    samples = Samples(np.arange(len(y)), y, np.arange(CLIENTS + 1) * SAMPLES)
    done = Preparation(columns=("age", "width"), classes=("blue", "red"))
    names = tuple(f"c{number}" for number in range(CLIENTS))
    return FederatedData("two kinds", x, samples, samples, 2, names, preparation=done)


def scores(cohorts: list[str], clients: list[int] | None = None) -> ClientScores:
    rows = None if clients is None else np.array(clients)
    return ClientScores(np.zeros(len(cohorts)), np.ones(len(cohorts), dtype=np.int64), np.array(cohorts), client=rows)


HALVES = ["0.0"] * 4 + ["0.1"] * 4


def test_shares_and_means_are_those_of_the_cohort_s_samples() -> None:
    data = population()
    found = profile_cohorts(data, scores(HALVES))
    assert (found.answers, found.inputs) == (("blue", "red"), ("age", "width"))
    first, second = found.cohorts
    assert (first.cohort, first.clients, first.samples) == ("0.0", 4, 200)
    early = slice(0, 200)
    assert first.answers[1] == pytest.approx(data.train.y[early].mean(), abs=1e-3)
    standard = (data.x - data.x.mean(axis=0)) / data.x.std(axis=0)
    assert first.inputs == pytest.approx(standard[early].mean(axis=0), abs=1e-3)
    red = data.train.y[early] == 1
    assert first.pairs[1] == pytest.approx(standard[early][red].mean(axis=0), abs=1e-3)
    assert first.pairs[1][0] < -0.5 < 0.5 < second.pairs[1][0]


def test_clients_nearest_to_the_centre_are_named_and_an_odd_one_comes_last() -> None:
    data = population()
    found = profile_cohorts(data, scores(["0.0", "0.0", "0.0", "0.1", "0.1", "0.0", "0.1", "0.1"]))
    assert set(found.cohorts[0].nearest) == {"c0", "c1", "c2", "c5"}
    assert found.cohorts[0].nearest[-1] == "c5"
    assert found.cohorts[0].members == ("c0", "c1", "c2", "c5")


def test_only_clients_that_were_evaluated_are_looked_at() -> None:
    found = profile_cohorts(population(), scores(["0.0", "0.1"], [2, 7]))
    assert [one.members for one in found.cohorts] == [("c2",), ("c7",)]
    assert found.everybody.samples == 2 * SAMPLES


def test_of_numbers_to_be_learned_there_are_means_and_products() -> None:
    data = population()
    targets = np.where(np.arange(len(data.x)) < 200, data.x[:, 0], -data.x[:, 0])[:, np.newaxis]
    rows = np.arange(len(data.x))
    samples = replace(data.train, y=rows)
    prices = replace(
        data,
        train=samples,
        test=samples,
        n_classes=1,
        task="regression",
        targets=targets,
        preparation=Preparation(columns=("age", "width"), classes=("price",), task="regression"),
    )
    first, second = profile_cohorts(prices, scores(HALVES)).cohorts
    assert first.pairs[0][0] > 0.5
    assert second.pairs[0][0] < -0.5


def test_tokens_and_inputs_of_many_numbers_are_left_out() -> None:
    data = population()
    wide = replace(data, x=np.zeros((len(data.x), 300), dtype=np.float32), preparation=Preparation())
    found = profile_cohorts(wide, scores(HALVES))
    assert (found.inputs, found.everybody.pairs) == ((), ())
    assert found.answers == ("class 0", "class 1")
    image = replace(data, x=data.x[:, :, np.newaxis], preparation=Preparation())
    assert profile_cohorts(image, scores(HALVES)).inputs == ("pixel 0 0", "pixel 1 0")
    tokens = replace(data, x=np.zeros((len(data.x), 2), dtype=np.int32), preparation=Preparation())
    assert profile_cohorts(tokens, scores(HALVES)).inputs == ()


def test_what_is_written_is_read_again_and_damage_is_told(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", "")
    run.replace_events("auxo", ())
    found = profile_cohorts(population(), scores(HALVES))
    assert read_profiles(run, "auxo") is None
    write_profiles(run, "auxo", found)
    assert read_profiles(run, "auxo") == found
    (run.path / "auxo" / "cohorts.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FileError, match="expected what distinguishes cohorts, as JSON"):
        read_profiles(run, "auxo")


def test_a_number_that_is_none_and_a_client_without_samples_do_no_harm() -> None:
    data = population()
    data.x[3, 0] = np.nan
    offsets = data.train.offsets.copy()
    offsets[1] = 0  # the first client's samples are the second's, too
    odd = replace(data, train=replace(data.train, offsets=offsets))
    found = profile_cohorts(odd, scores(HALVES))
    assert np.isfinite([one.inputs for one in found.cohorts]).all()
    assert found.cohorts[0].clients == 4

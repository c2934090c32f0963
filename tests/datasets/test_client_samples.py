"""What a loader gives: held-out samples, checks, and leaving out small clients."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.datasets.client_samples import (
    ClientSamples,
    SampleSource,
    check_samples,
    draw_held_out,
    without_small_clients,
)
from auxo.files.errors import FileError


def samples(client: str, count: int, value: float = 0.0) -> ClientSamples:
    return ClientSamples(client, np.full((count, 2), value, np.float32), np.zeros(count, np.int64))


def source(*parts: ClientSamples) -> SampleSource:
    return SampleSource("toy", Path("toy.json"), ("no", "yes"), lambda: iter(parts))


@given(st.integers(2, 200), st.floats(0.01, 0.99))
@settings(max_examples=50)
def test_some_but_not_all_samples_are_held_out_near_the_share(count: int, share: float) -> None:
    is_test = draw_held_out("a", count, share)
    assert 1 <= is_test.sum() <= count - 1
    assert abs(is_test.sum() - share * count) <= 1


def test_a_single_sample_is_to_train_on() -> None:
    assert draw_held_out("a", 1).tolist() == [False]


def test_what_is_held_out_is_the_same_every_time_and_another_for_other_clients() -> None:
    assert draw_held_out("a", 40).tolist() == draw_held_out("a", 40).tolist()
    assert draw_held_out("a", 40).tolist() != draw_held_out("b", 40).tolist()


@pytest.mark.parametrize(
    ("given_samples", "message"),
    [
        (
            ClientSamples("a", np.zeros((2, 2), np.float32), np.zeros(3, np.int64)),
            "client 'a': expected 2 labels, got 3",
        ),
        (
            ClientSamples("a", np.zeros((2, 2), np.float32), np.zeros(2, np.int64), np.zeros(1, np.bool_)),
            "client 'a': expected 2 marks of train or test, got 1",
        ),
        (ClientSamples("a", np.zeros((1, 3), np.float32), np.zeros(1, np.int64)), r"inputs of shape \(2,\), as before"),
        (
            ClientSamples("a", np.zeros((2, 2), np.float32), np.array([0, 2])),
            "client 'a', sample 1: expected labels from 0 to 1, got 2; number the classes",
        ),
        (
            ClientSamples("a", np.array([[0, 0], [0, np.inf]], np.float32), np.zeros(2, np.int64)),
            "client 'a', sample 1: expected finite numbers",
        ),
    ],
)
def test_samples_that_do_not_fit_are_refused_by_name(given_samples: ClientSamples, message: str) -> None:
    with pytest.raises(FileError, match=message):
        check_samples(source(), given_samples, (2,))


def test_clients_with_too_few_samples_in_all_their_parts_together_are_left_out() -> None:
    kept = without_small_clients(source(samples("a", 2), samples("b", 3), samples("a", 2), samples("c", 1)), 4)
    assert [(part.client, len(part.y)) for part in kept.clients()] == [("a", 2), ("a", 2)]


def test_asking_for_more_samples_than_any_client_has_is_refused() -> None:
    kept = without_small_clients(source(samples("a", 2), samples("b", 3)), 4)
    with pytest.raises(FileError, match="expected a client with 4 samples or more, got 3 at most"):
        list(kept.clients())


def test_nothing_is_read_before_clients_are_asked_for() -> None:
    read: list[str] = []

    def clients() -> Iterator[ClientSamples]:
        read.append("clients")
        yield samples("a", 2)

    kept = without_small_clients(SampleSource("toy", Path("toy.json"), ("no",), clients), 2)
    assert not read
    assert len(list(kept.clients())) == 1
    assert len(read) == 2

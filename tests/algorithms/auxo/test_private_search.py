"""Groups that are found in private sketches, in whole small federations; and what a hostile client can say."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from auxo.algorithms.auxo import Auxo, ClusteringSettings, SketchSettings
from auxo.algorithms.auxo.private_trial import PrivateTrial
from auxo.algorithms.auxo.sketch_pool import SketchPool
from auxo.core.affinity import AffinitySettings
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import ClientMod, Do
from auxo.core.types import ROOT
from auxo.privacy.private_words import PrivateWords
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.simulation.virtual_time import SimulationState
from tests.algorithms.auxo.test_federations import Small, phase_of, population

CLIENTS, PARTICIPANTS, ROUNDS = 400, 60, 30
PRIVATE = Auxo(
    clustering=ClusteringSettings(reads="sketches"), sketches=SketchSettings(width=8, epsilon=8.0, gain_epsilon=4.0)
)


@dataclass(frozen=True)
class ChangesAnswers:
    """A client mod that puts another answer in the place of each."""

    change: Callable[[int, Ask, Answer], Answer]

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        for ask, client, answer in zip(asks, device.clients.tolist(), do(asks, device), strict=True):
            yield answer if isinstance(answer, Failure) else self.change(client, ask, answer)


def small(
    *, groups: bool, seed: int, algorithm: Auxo = PRIVATE, mods: tuple[ClientMod, ...] = (), rounds: int = ROUNDS
) -> Small:
    data = population(CLIENTS, seed, groups=groups)
    made = Small.of(data, rounds, PARTICIPANTS, seed, algorithm)
    world = replace(made.simulation.world, mods=(*mods, PrivateWords(seed)))
    return replace(made, simulation=replace(made.simulation, world=world))


@pytest.mark.parametrize("seed", [100, 101])
def test_two_groups_are_found_by_what_clients_say_privately(seed: int) -> None:
    found = small(groups=True, seed=seed)
    last = found.end()

    groups, placed = population(CLIENTS, seed, groups=True).groups, found.simulation.placement(last)
    assert groups is not None
    assert len(found.partitions) == 1
    assert adjusted_rand_score(groups[placed.vouched], placed.cohort[placed.vouched]) > 0.95


def test_labels_alone_lead_clients_to_their_cohorts() -> None:
    alone = replace(
        PRIVATE,
        affinity=AffinitySettings(confirmations=0, exploration=0.0),
        sketches=replace(PRIVATE.sketches, label_epsilon=6.0),
    )
    found = small(groups=True, seed=100, algorithm=alone, rounds=12)
    last = found.end()

    groups, placed = population(CLIENTS, 100, groups=True).groups, found.simulation.placement(last)
    assert groups is not None
    assert len(found.partitions) == 1
    assert adjusted_rand_score(groups[placed.vouched], placed.cohort[placed.vouched]) > 0.8


@pytest.mark.parametrize("seed", [100, 101])
def test_where_there_are_no_groups_there_is_no_partition(seed: int) -> None:
    found = small(groups=False, seed=seed)
    found.end()

    assert found.partitions == []


def test_nobody_is_asked_the_same_question_twice_and_judges_tell_no_losses() -> None:
    asked: list[tuple[int, str, str]] = []

    def note(client: int, ask: Ask, answer: Answer) -> Answer:
        assert answer.judged == ()
        if ask.words is not None:
            prices = {"sketch": ask.words.sketch, "label": ask.words.label, "gain": ask.words.gain}
            asked.extend((client, ask.words.about, word) for word, price in prices.items() if price is not None)
        return answer

    small(groups=True, seed=100, mods=(ChangesAnswers(note),)).end()

    assert len(asked) == len(set(asked))
    assert {word for _, _, word in asked} == {"sketch", "label", "gain"}


@pytest.mark.parametrize("kind", [SketchPool, PrivateTrial])
def test_a_run_resumed_in_the_middle_gives_the_same_bits(kind: type) -> None:
    many = replace(PRIVATE, sketches=replace(PRIVATE.sketches, epsilon=4.0))  # sketches, so that they take some rounds
    made = small(groups=True, seed=100, algorithm=many)
    state, stored = made.start(), list[bytes]()
    while not made.simulation.is_over(state):
        phase = phase_of(state) if state.coordinator.tree.leaves == (ROOT,) else None
        is_under_way = (isinstance(phase, SketchPool) and len(phase.rounds) == 2) or (
            isinstance(phase, PrivateTrial) and phase.rounds == 2
        )
        if isinstance(phase, kind) and is_under_way and not stored:
            stored.append(to_bytes(state))
        state = made.simulation.step(state)

    resumed = from_bytes(SimulationState, stored[0], PRIVATE.own_states)

    assert to_bytes(resumed) == stored[0]
    assert to_bytes(made.end(resumed)) == to_bytes(state)


_HUGE = tuple([1e5] * 7)


@pytest.mark.parametrize(
    "lie",
    [
        {"sketch": ()},
        {"sketch": (1.0, 2.0), "label": 99, "gain": 1e9},
        {"sketch": (float("nan"),) * 7, "label": -1, "gain": float("nan")},
        {"sketch": _HUGE, "label": 0, "gain": -1.0},
    ],
)
def test_one_client_in_twenty_that_says_what_cannot_be_or_lies_prevents_no_partition(lie: dict[str, object]) -> None:
    def forge(client: int, ask: Ask, answer: Answer) -> Answer:
        if ask.words is None or client % 20:
            return answer
        return replace(answer, **lie)  # type: ignore[arg-type]  # of whatever kind

    found = small(groups=True, seed=100, mods=(ChangesAnswers(forge),))
    last = found.end()

    groups, placed = population(CLIENTS, 100, groups=True).groups, found.simulation.placement(last)
    assert groups is not None
    assert len(found.partitions) >= 1
    honest = placed.vouched & (np.arange(CLIENTS) % 20 > 0)
    assert adjusted_rand_score(groups[honest], placed.cohort[honest]) > 0.9


def test_liars_force_no_partition_where_there_are_no_groups() -> None:
    def forge(client: int, ask: Ask, answer: Answer) -> Answer:
        if ask.words is None or client % 20:
            return answer
        return replace(answer, sketch=(1.0,) * len(answer.sketch), label=None if answer.label is None else 0, gain=1.2)

    found = small(groups=False, seed=100, mods=(ChangesAnswers(forge),))
    found.end()

    assert found.partitions == []

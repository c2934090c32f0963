"""A guard in federations: whom it refuses takes part in nothing, whoever runs the rounds."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.core.affinity import Requests
from auxo.core.asking import Answer
from auxo.core.cohort_state import CoordinatorState
from auxo.core.matching import NOWHERE, CheckIns
from auxo.core.own_state import own
from auxo.core.rng import stream
from auxo.core.types import ROOT
from auxo.protocol.codec import to_bytes
from auxo.protocol.messages import CheckIn, Task, TaskResult
from auxo.runtime.rounds import match, open_round, there_for
from auxo.runtime.server import Server
from auxo.testing.small_federation import N_CLIENTS, SmallFederation, in_process, rules_of
from auxo.testing.troubled_engine import Troubled, diverged, of_some
from tests.runtime.made_rounds import SAME_SECRET
from tests.testing.bans import Banned, Bans

N_PARAMS = 3


def banned(state: CoordinatorState) -> list[int]:
    return [int(client) for client in own(Banned, state.guard).clients]


def test_who_is_refused_is_matched_nowhere_and_not_selected() -> None:
    rules = rules_of(OneCohort(), guard=Bans())
    state = SmallFederation.of(rules).start().coordinator
    state = replace(state, guard=Banned(np.array([3, 5]), np.array([1, 2])))
    check_ins = CheckIns(np.arange(8), Requests.silent(state.tree, np.zeros(8, dtype=np.int64)))
    arrived = match(rules, state, check_ins, stream(0, "match"))
    opened = open_round(rules, state, there_for(rules, state, ROOT, arrived), attempt=0)

    assert arrived.refused.rows.tolist() == [3, 5]
    assert arrived.refused.reasons == ("banned for 1 more rounds", "banned for 2 more rounds")
    assert np.flatnonzero(arrived.matched.cohort == NOWHERE).tolist() == [3, 5]
    assert sorted(opened.participants.clients.tolist()) == [0, 1, 2, 4, 6, 7]


def test_in_a_simulation_senders_of_bad_updates_stay_away_for_as_many_rounds() -> None:
    bad = Troubled(in_process(), of_some(diverged))
    seen: list[tuple[list[int], list[int]]] = []  # banned, and selected while they are
    for state in SmallFederation.of(rules_of(OneCohort(), guard=Bans(rounds=2)), bad).states():
        opened = state.paces[ROOT].open_round
        if opened is not None:
            seen.append((banned(state.coordinator), opened.participants.clients.tolist()))

    assert not any(set(away) & set(selected) for away, selected in seen)
    ever = {client for away, _ in seen for client in away}
    assert ever
    assert ever <= set(range(0, N_CLIENTS, 4))
    later = {client for _, selected in seen[6:] for client in selected}
    assert later & {client for away, _ in seen[:3] for client in away}  # a ban ends


def new_server(guard: Bans | None = None) -> Server:
    return Server(
        np.zeros(N_PARAMS),
        participants=4,
        rounds=9,
        method=OneCohort(),
        guard=Bans() if guard is None else guard,
        secret=SAME_SECRET,
    )


def answer(task: Task, *, is_bad: bool) -> TaskResult:
    update = np.full(N_PARAMS, np.nan if is_bad else 0.1, dtype=np.float32)
    return TaskResult(task.client, task.cohort, task.round, Answer(update, 3))


def round_of(server: Server, bad: set[int]) -> None:
    check_ins = [CheckIn(number) for number in range(4)]
    tasks = server.open_round(ROOT, server.match(check_ins)[ROOT])
    server.close_round(ROOT, [answer(task, is_bad=task.client in bad) for task in tasks])


def test_a_server_refuses_whom_the_guard_refuses_and_says_why() -> None:
    server = new_server()
    round_of(server, bad={1, 2})

    found = server.match([CheckIn(number) for number in range(4)])
    assert [one.client for one in found[ROOT]] == [0, 3]
    assert server.refused == {1: "banned for 3 more rounds", 2: "banned for 3 more rounds"}
    tasks = server.open_round(ROOT, [CheckIn(number) for number in range(4)])  # whatever the loop says
    assert sorted(int(task.client) for task in tasks) == [0, 3]
    placed = server.match([CheckIn(1)], everybody=True)
    assert [one.client for one in placed[ROOT]] == [1]  # whose model it uses is another matter


def test_a_guard_sees_a_round_that_came_to_nothing() -> None:
    server = new_server()
    with pytest.warns(RuntimeWarning, match="NON_FINITE"):
        round_of(server, bad={0, 1, 2, 3})

    assert server.round(ROOT) == 0
    assert len(server.match([CheckIn(0)])[ROOT]) == 0


def test_what_a_guard_keeps_survives_a_crash_with_the_server() -> None:
    server, other = new_server(), new_server()
    round_of(server, bad={2})
    other.restore(server.to_bytes())

    assert other.to_bytes() == server.to_bytes()
    other.match([CheckIn(2)])
    assert list(other.refused) == [2]
    with pytest.raises(ValueError, match=r"guard\.rounds: 3 in the record, 1 here"):
        new_server(Bans(rounds=1)).restore(server.to_bytes())


def test_a_guard_that_refuses_nobody_changes_no_bit() -> None:
    one, other = (SmallFederation.of(rules_of(OneCohort(), guard=guard)).end() for guard in (None, Bans()))

    assert banned(other.coordinator) == []
    assert to_bytes(replace(one, coordinator=replace(one.coordinator, guard=Banned()))) == to_bytes(other)

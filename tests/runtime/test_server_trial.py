"""A server whose cohort tries a partition: two groups of clients, each drawn to a point of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from auxo import Auxo, Client, Server, Task, TaskResult
from auxo.algorithms.auxo import ClusteringSettings, OnTrial, TrialSettings
from auxo.algorithms.auxo.judges import seals
from auxo.core.asking import Answer, Judgement
from auxo.core.folds import all_but
from auxo.core.own_state import own
from auxo.core.rng import stream
from auxo.core.types import ROOT, ClientId, CohortId, Float32Array
from auxo.protocol.codec import from_bytes, to_bytes
from tests.core.made_updates import saying
from tests.runtime.made_rounds import SAME_SECRET

N_PARAMS, CLIENTS, PARTICIPANTS, ROUNDS = 6, 120, 30, 24
Judge = Callable[[Server, Task], Any]


def target(client: int) -> Float32Array:
    point: Float32Array = (4 * np.eye(N_PARAMS)[client % 2]).astype(np.float32)
    return point


def loss(weights: Float32Array, client: int) -> float:
    return float(((weights - target(client)) ** 2).mean())


def judged_by(task: Task) -> tuple[CohortId, ...]:
    return tuple(task.models[place] for place in task.ask.judges)


def honest(server: Server, task: Task) -> tuple[float, ...]:
    return tuple(loss(server.weights(name), int(task.client)) for name in judged_by(task))


def silent(server: Server, task: Task) -> None:
    return None


def server_of(trial: TrialSettings) -> Server:
    """Return a server whose clients are many for these settings, unless they have most of them judge in a round."""
    return Server(
        np.zeros(N_PARAMS, dtype=np.float32),
        secret=SAME_SECRET,
        participants=PARTICIPANTS,
        rounds=ROUNDS,
        method=Auxo(clustering=ClusteringSettings(clusters=4, pool_rounds=3), trial=trial),
    )


@dataclass
class Loop:
    """A server, its clients, a loop, and all tasks that there were."""

    judge: Judge = honest
    server: Server = field(default_factory=lambda: server_of(TrialSettings(judges=12, most_rounds=10)))
    clients: list[Client] = field(default_factory=lambda: [Client(number) for number in range(CLIENTS)])
    tasks: list[Task] = field(default_factory=list)

    def answer(self, task: Task) -> TaskResult:
        offered = range(len(task.models))[: task.ask.choices]
        best = min(offered, key=lambda place: loss(self.server.weights(task.models[place]), int(task.client)))
        noise = stream(0, "noise", task.client, task.round).standard_normal(N_PARAMS)
        update = 0.2 * (target(int(task.client)) - self.server.weights(task.models[best])) + 0.05 * noise
        said = self.judge(self.server, task)
        judged: Any = tuple(Judgement(one, other_loss=one) for one in said) if isinstance(said, tuple | list) else said
        answer = Answer(update.astype(np.float32), 10, model=best, judged=judged)
        return TaskResult(task.client, task.cohort, task.round, answer)

    def opened(self) -> dict[CohortId, list[Task]]:
        check_ins = self.server.match([client.check_in() for client in self.clients])
        return {cohort: self.server.open_round(cohort, here) for cohort, here in check_ins.items()}

    def close(self, cohort: CohortId, results: Sequence[TaskResult]) -> None:
        for feedback in self.server.close_round(cohort, results):
            self.clients[int(feedback.client)].receive(feedback)

    def play(self) -> bool:
        """Train a round of every cohort; return whether anybody was asked to judge."""
        asked = False
        for cohort, tasks in self.opened().items():
            self.tasks += tasks
            asked = asked or any(task.ask.judges for task in tasks)
            self.close(cohort, [self.answer(task) for task in tasks])
        return asked

    def until_over(self) -> "Loop":
        while not self.server.is_over:
            self.play()
        return self

    def until_judged(self) -> list[Task]:
        """Return the tasks of the first round with judges, which is open."""
        while True:
            (tasks,) = self.opened().values()
            if any(task.ask.judges for task in tasks):
                return tasks
            self.close(ROOT, [self.answer(task) for task in tasks])


def test_a_trial_that_pays_becomes_a_partition_into_the_groups() -> None:
    loop = Loop().until_over()

    assert len(loop.server.cohorts) == 2
    members = loop.server.match([client.check_in(explore=False) for client in loop.clients], everybody=True)
    for cohort, check_ins in members.items():
        assert len({int(one.client) % 2 for one in check_ins}) == 1
        assert loss(loop.server.weights(cohort), int(check_ins[0].client)) < 0.05
    assert loop.server.rejections == ()


def test_on_trial_all_train_the_cohorts_model_and_some_who_are_there_for_the_first_time_judge_all() -> None:
    loop = Loop()
    tasks = loop.until_judged()
    judges = [task for task in tasks if task.ask.judges]
    held = {name for task in tasks for name in task.models} - {ROOT}

    assert held
    assert all(name.startswith("0~") for name in held)
    assert 0 < len(judges) <= 12
    for task in tasks:
        assert task.ask.fold is None  # clients are many, and nobody keeps samples back
        assert task.models[: task.ask.choices] == (ROOT,)
    for task in judges:
        assert set(judged_by(task)) == set(task.models) == {ROOT, *held}
    own = loop.server.weights(ROOT)
    for name in held:
        assert loop.server.weights(name).shape == (N_PARAMS,)
        assert not np.array_equal(loop.server.weights(name), own)


def test_nobody_judges_a_trial_twice_or_after_it_has_trained_in_it() -> None:
    loop = Loop()
    been, judges = set[ClientId](), list[ClientId]()
    while loop.server.cohorts == (ROOT,):
        is_on_trial = isinstance(loop.server.record.state.cohorts[ROOT].memory, OnTrial)
        (tasks,) = loop.opened().values()
        if is_on_trial:
            asked = [task.client for task in tasks if task.ask.judges]
            assert not been & set(asked)
            been |= {task.client for task in tasks}
            judges += asked
        loop.close(ROOT, [loop.answer(task) for task in tasks])

    assert len(judges) == len(set(judges)) > 0


def test_where_clients_are_few_half_of_them_train_the_branch_of_their_label_and_all_judge_by_the_rest() -> None:
    loop = Loop(server=server_of(TrialSettings(judges=CLIENTS)))
    tasks = loop.until_judged()
    trained = [task.models[0] for task in tasks]

    assert {task.ask.fold for task in tasks} == {all_but(1)}
    assert all(task.ask.judges for task in tasks)
    assert all(task.ask.choices == 1 for task in tasks)
    assert trained.count(ROOT) >= PARTICIPANTS / 2
    # Who has been there in the trial has a label, and the branches are of the groups.
    branch_of = {(int(task.client) % 2, task.models[0]) for task in tasks if task.models[0] != ROOT}
    assert len(branch_of) == len({name for _, name in branch_of}) == 2


def test_a_models_weights_are_a_copy() -> None:
    loop = Loop()
    loop.until_judged()
    loop.server.weights(CohortId("0~0"))[:] = 7

    assert not (loop.server.weights(CohortId("0~0")) == 7).any()


@pytest.mark.parametrize("name", ["0~99", "0~-1", "0~", "0~x", "0~0~0", "~0", "1~0", "", "0~00"])
def test_a_model_that_does_not_exist_is_named_with_those_that_do(name: str) -> None:
    loop = Loop()
    loop.until_judged()
    with pytest.raises(KeyError, match=rf"{name}: no model of this name; there are: 0, 0~0, 0~1"):
        loop.server.weights(CohortId(name))


def test_after_a_trial_its_models_are_gone() -> None:
    loop = Loop()
    loop.until_judged()
    while loop.server.cohorts == (ROOT,):
        loop.play()
    with pytest.raises(KeyError, match=r"0~0: no model of this name; there are: 0\.0, 0\.1'"):
        loop.server.weights(CohortId("0~0"))


def test_a_trial_that_nobody_judges_ends_without_a_partition() -> None:
    with pytest.warns(RuntimeWarning, match="nobody judged .* on trial, .* see Answer.judged") as warned:
        loop = Loop(judge=silent).until_over()

    assert len(warned) == len({str(one.message) for one in warned})
    assert loop.server.cohorts == (ROOT,)
    assert any(task.ask.judges for task in loop.tasks)
    judged = {task.round for task in loop.tasks if task.ask.judges}
    assert all({one, one + 1, one + 2} - judged for one in judged)  # two rounds of silence end a trial


IMPOSSIBLE: dict[str, Judge] = {
    "too few": lambda server, task: honest(server, task)[:-1] if task.ask.judges else None,
    "too many": lambda server, task: (*honest(server, task), 1.0),
    "a number": lambda server, task: 1.0,
    "texts": lambda server, task: ("1.0",) * len(task.ask.judges),
    "nothing": lambda server, task: (None,) * len(task.ask.judges),
    "one that is NaN": lambda server, task: (*honest(server, task)[:-1], np.nan),
    "infinity": lambda server, task: (np.inf,) * len(task.ask.judges),
    "one below 0": lambda server, task: (-1.0, *honest(server, task)[1:]),
    "one beyond all floats": lambda server, task: (10**400, *honest(server, task)[1:]),
    "one beyond float32": lambda server, task: (1e300, *honest(server, task)[1:]),
    "an array of two axes": lambda server, task: np.ones((2, 2)),
    "tuples": lambda server, task: ((1.0,),) * len(task.ask.judges),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_losses_that_cannot_be_count_as_not_said(case: str) -> None:
    said, unsaid = Loop(judge=IMPOSSIBLE[case]), Loop(judge=silent)
    for loop in (said, unsaid):
        tasks = loop.until_judged()
        loop.close(ROOT, [loop.answer(task) for task in tasks])

    assert said.server.rejections == ()
    assert said.server.to_bytes() == unsaid.server.to_bytes()


def test_losses_of_numpy_and_in_a_list_are_losses() -> None:
    plain, other = Loop(), Loop(judge=lambda server, task: [np.float32(one) for one in honest(server, task)])
    records = []
    for loop in (plain, other):
        tasks = loop.until_judged()
        loop.close(ROOT, [loop.answer(task) for task in tasks])
        records.append(loop.server.to_bytes())
    silence = Loop(judge=silent)
    tasks = silence.until_judged()
    silence.close(ROOT, [silence.answer(task) for task in tasks])

    assert len(records[1]) == len(records[0]) > len(silence.server.to_bytes())


def test_huge_losses_break_nothing() -> None:
    loop = Loop(judge=lambda server, task: (3e38,) * len(task.ask.judges)).until_over()
    assert loop.server.cohorts == (ROOT,)


def test_who_does_not_say_what_it_has_trained_has_trained_the_model_that_it_was_told_to() -> None:
    said, unsaid = (Loop(server=server_of(TrialSettings(judges=CLIENTS))) for _ in range(2))
    for loop in (said, unsaid):
        tasks = loop.until_judged()
        assert len({task.models[0] for task in tasks}) == 3  # the cohort's own, and a branch of each group
        results = [saying(loop.answer(task), model=0 if loop is said else None) for task in tasks]
        loop.close(ROOT, results)
        assert loop.server.rejections == ()

    assert said.server.to_bytes() == unsaid.server.to_bytes()


def test_a_held_model_that_was_not_offered_is_refused() -> None:
    loop = Loop()
    tasks = loop.until_judged()
    results = [loop.answer(task) for task in tasks]
    judge = next(row for row, task in enumerate(tasks) if task.ask.judges)  # who has more models than it may train
    results[judge] = saying(results[judge], model=1)
    loop.close(ROOT, results)

    assert [(one.client, one.reason) for one in loop.server.rejections] == [(tasks[judge].client, "UNKNOWN_COHORT")]


def test_a_trial_survives_a_crash() -> None:
    loop, again = Loop(), Loop()
    loop.until_judged()
    again.server.restore(loop.server.to_bytes())

    for name in ("0", "0~0", "0~1"):
        np.testing.assert_array_equal(again.server.weights(CohortId(name)), loop.server.weights(CohortId(name)))


def test_tasks_and_results_of_a_trial_go_over_the_wire() -> None:
    loop = Loop()
    task = next(task for task in loop.until_judged() if task.ask.judges)
    result = loop.answer(task)

    assert from_bytes(Task, to_bytes(task)) == task
    assert from_bytes(TaskResult, to_bytes(result)).answer.judged == result.answer.judged


def heard(server: Server) -> list[int]:
    """Return the marks of the judges that a trial has heard."""
    return [int(seal) for seal in own(OnTrial, server.record.state.cohorts[ROOT].memory).evidence.said.seals]


def test_marks_of_judges_cannot_be_made_again_without_the_secret_which_no_client_hears() -> None:
    loop = Loop()
    tasks = loop.until_judged()
    secret = loop.server.record.state.secret
    judges = np.array([int(task.client) for task in tasks if task.ask.judges])
    said = loop.server.close_round(ROOT, [loop.answer(task) for task in tasks])

    generation = own(OnTrial, loop.server.record.state.cohorts[ROOT].memory).generation
    assert heard(loop.server)
    assert set(heard(loop.server)) <= set(seals(judges, generation, secret).tolist())
    for guess in ("", "0", "another"):
        assert not set(heard(loop.server)) & set(seals(np.arange(CLIENTS), generation, guess).tolist())
    assert all(secret.encode() not in to_bytes(message) for message in (*tasks, *said))


def test_a_server_draws_its_secret_and_keeps_it_when_it_goes_on() -> None:
    one, other = (Server(np.zeros(2), participants=2, rounds=2, method=Auxo()) for _ in range(2))
    drawn = one.record.state.secret

    assert len(drawn) == 64
    assert drawn != other.record.state.secret
    assert drawn not in repr(one.record)
    other.restore(one.to_bytes())
    assert other.record.state.secret == drawn


@pytest.mark.parametrize("secret", ["", "x" * 65])
def test_a_secret_that_cannot_be_a_key_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match=f"secret: expected 1 to 64 bytes, got {len(secret)}"):
        Server(np.zeros(2), participants=2, rounds=2, method=Auxo(), secret=secret)

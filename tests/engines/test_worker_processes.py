import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import active_children
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from auxo.core.asking import Answer, Ask
from auxo.core.layers import Layer
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, InputArray, IntArray
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.runtime.closing import Closed
from auxo.runtime.failures import Raised, TrainingFailed
from auxo.runtime.patience import Patience
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.core.made_mods import Careful
from tests.engines.rounds import Round, bits, round_of, round_of_several, round_on_trial, without

DATA = synthetic_population(
    clients=50, groups=2, heterogeneity=LabelPermutation(), features=6, classes=4, samples=(5, 12), test_samples=1
)
TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
ENGINE = InProcess(TRAINER, DATA, LocalTraining(), seed=3)
WEIGHTS = stream(0, "weights").standard_normal(TRAINER.n_params).astype(np.float32)
# Many more jobs than workers hold at a time, halves and whole clients, one client often.
JOBS = [Job(row, visit=row % 3, ask=Ask(fold=(None, 0, 1)[row % 3])) for row in range(50)] + [Job(0, 1)] * 250
ROUND = round_of(WEIGHTS, JOBS)


def run(engine: InProcess | WorkerProcesses, task: Round = ROUND) -> Closed:
    return engine.run_round(task.rules, task.closing, task.training)


@pytest.mark.parametrize("workers", [2, 3])
def test_worker_processes_give_the_bits_of_one_process(workers: int) -> None:
    with WorkerProcesses(ENGINE, workers) as engine:
        assert bits(run(engine)) == bits(run(ENGINE))
        # The weights of one round must not stay behind for the next.
        another = round_of(2 * WEIGHTS, JOBS[:5])
        assert bits(run(engine, another)) == bits(run(ENGINE, another))


def test_several_models_give_the_bits_of_one_process_whatever_came_before() -> None:
    choosers = [replace(job, ask=replace(job.ask, model=(-1, -1, 0, 2)[place % 4])) for place, job in enumerate(JOBS)]
    three = round_of_several([WEIGHTS, -WEIGHTS, 2 * WEIGHTS], choosers)
    others = round_of_several([2 * WEIGHTS, WEIGHTS, -WEIGHTS], choosers[:7])
    two = round_of_several([-WEIGHTS, WEIGHTS], [replace(job, ask=replace(job.ask, model=-1)) for job in JOBS])
    with WorkerProcesses(ENGINE, workers=2) as engine:
        for task in (three, others, ROUND, two, three):
            assert bits(run(engine, task)) == bits(run(ENGINE, task))
    gathered = run(ENGINE, three).gathered
    assert set(gathered.model.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(np.isnan(gathered.losses), gathered.rows % 4 > 1)


def test_a_trial_gives_the_bits_of_one_process() -> None:
    on_trial, other = round_on_trial(WEIGHTS, JOBS), round_on_trial(2 * WEIGHTS, JOBS[:7])
    with WorkerProcesses(ENGINE, workers=2) as engine:
        modded = replace(on_trial, training=replace(on_trial.training, mods=(Careful(longest=0.01, refuses=3),)))
        for task in (on_trial, ROUND, other, modded, on_trial):
            assert bits(run(engine, task)) == bits(run(ENGINE, task))
        assert bits(run(engine, modded)) != bits(run(engine, on_trial))
    closed = run(ENGINE, on_trial)
    assert set(closed.gathered.model.tolist()) == {0, 1, 2, 3}  # the cohort's own model, and branches of the first
    # Those of the second candidate move by updates of the own model that are nearest to them.
    assert [one is not None for one in closed.gathered.movements] == [True] * 6
    asked = [len(job.ask.judges) for job in on_trial.training.jobs]
    np.testing.assert_array_equal(np.isfinite(closed.gathered.judged.loss).sum(axis=1), asked)
    assert closed.outcome is not None
    in_time = ~on_trial.training.late  # who comes late judges models that have moved on
    assert closed.outcome.notes.judged == int((np.array(asked) > 0)[in_time].sum()) > 20


def test_a_sketch_of_another_size_is_another_matter() -> None:
    small = replace(ROUND, rules=replace(ROUND.rules, sketch_size=7))
    with WorkerProcesses(ENGINE, workers=2) as engine:
        assert bits(run(engine)) == bits(run(ENGINE))
        assert bits(run(engine, small)) == bits(run(ENGINE, small))


def test_a_round_without_jobs_changes_nothing() -> None:
    with WorkerProcesses(ENGINE, workers=2) as engine:
        closed = run(engine, round_of(WEIGHTS, []))

    assert closed.outcome is None
    assert closed.gathered.movements == (None,)


def test_refused_updates_keep_their_reasons() -> None:
    diverging = replace(ENGINE, settings=LocalTraining(learning_rate=1e30))
    with WorkerProcesses(diverging, workers=2) as engine:
        closed = run(engine)

    assert closed.outcome is None
    assert len(closed.gathered.rejected) == len(JOBS)
    assert closed.gathered.rejected == run(diverging).gathered.rejected


def test_workers_train_only_while_they_run_and_leave_nobody_behind() -> None:
    engine = WorkerProcesses(ENGINE, workers=2)
    with pytest.raises(RuntimeError, match="with WorkerProcesses"):
        run(engine)
    with engine:
        run(engine)
        assert len(active_children()) == 2
    assert active_children() == []
    with pytest.raises(RuntimeError, match="with WorkerProcesses"):
        run(engine)


@pytest.mark.parametrize("workers", [-1, 0, 1])
def test_one_worker_is_no_use(workers: int) -> None:
    with pytest.raises(ValueError, match=f"workers: expected at least 2, got {workers}"):
        WorkerProcesses(ENGINE, workers)


@dataclass(frozen=True)
class Unusual:
    """Trains like TRAINER once ``happens`` has let it."""

    n_params: int = TRAINER.n_params
    layers: tuple[Layer, ...] = TRAINER.layers

    def initial_weights(self, seed: int) -> Float32Array:
        return WEIGHTS

    def happens(self, jobs: Sequence[Job]) -> None: ...

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        jobs: Sequence[Job],
        settings: LocalTraining,
        seed: int,
        out: Float32Array | None = None,
    ) -> Iterator[Answer]:
        self.happens(jobs)
        yield from TRAINER.train(weights, data, jobs, settings, seed, out)

    def predict(self, weights: Float32Array, x: InputArray) -> IntArray:
        return np.zeros(len(x), dtype=np.int64)

    def losses(self, weights: Float32Array, x: InputArray, y: IntArray) -> FloatArray:
        return np.zeros(len(x))


@dataclass(frozen=True)
class DiesOnce(Unusual):
    """Ends its process when it meets client 7 for the first time."""

    mark: Path = Path()

    def happens(self, jobs: Sequence[Job]) -> None:
        if any(job.client_row == 7 for job in jobs) and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.fault(1, 34)
def test_a_worker_that_dies_costs_its_participants_a_second_try_and_nothing_else(tmp_path: Path) -> None:
    notes: list[str] = []
    mortal = InProcess(DiesOnce(mark=tmp_path / "died"), DATA, LocalTraining(), seed=3)
    with WorkerProcesses(mortal, 2, notes.append) as engine:
        found = bits(run(engine))
        again = bits(run(engine))

    assert found == bits(run(ENGINE))
    assert again == found
    assert notes == ["a worker process died (exit code -9); its participants train again in a new one"]


@dataclass(frozen=True)
class StopsOnce(Unusual):
    """Stops, by a signal or by waiting for nothing, when it meets client 7 for the first time after a mark is there."""

    begin: Path = Path()
    mark: Path = Path()
    by_signal: bool = True

    def happens(self, jobs: Sequence[Job]) -> None:
        if any(job.client_row == 7 for job in jobs) and self.begin.exists() and not self.mark.exists():
            self.mark.write_text(str(os.getpid()))
            if self.by_signal:
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                Event().wait()


@pytest.mark.processes
@pytest.mark.fault(1, 7)
@pytest.mark.parametrize("by_signal", [True, False], ids=["stopped", "hanging"])
def test_a_worker_that_neither_works_nor_dies_is_killed_and_its_participants_train_again(
    tmp_path: Path, by_signal: bool
) -> None:
    notes: list[str] = []
    stops = InProcess(
        StopsOnce(begin=tmp_path / "begin", mark=tmp_path / "mark", by_signal=by_signal), DATA, LocalTraining(), seed=3
    )
    patience = Patience(silence_s=2.0, floor_s=4.0, times=1.0)
    with WorkerProcesses(stops, 2, notes.append, patience) as engine:
        assert bits(run(engine)) == bits(run(ENGINE))
        (tmp_path / "begin").touch()
        found = bits(run(engine))
        assert not Path(f"/proc/{(tmp_path / 'mark').read_text()}").exists()  # nor will it ever wake up
        assert bits(run(engine)) == found
    assert found == bits(run(ENGINE))
    why = "gave no sign of life for 2 s" if by_signal else "made no progress for 4 s"
    assert notes == [f"a worker process {why} and was killed (exit code -9); its participants train again in a new one"]


@dataclass(frozen=True)
class DiesOfOne(Unusual):
    """Ends its process, as for want of memory, whenever it meets client 7."""

    def happens(self, jobs: Sequence[Job]) -> None:
        if any(job.client_row == 7 for job in jobs):
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.fault(34)
def test_a_participant_that_kills_its_worker_even_alone_has_failed_and_the_round_goes_on() -> None:
    notes: list[str] = []
    with WorkerProcesses(InProcess(DiesOfOne(), DATA, LocalTraining(), seed=3), 2, notes.append) as engine:
        found = bits(run(engine))
    assert found == bits(run(ENGINE, without(ROUND, 7)))
    assert [note for note in notes if "in row 7 has cost 2 processes" in note]
    assert sum("a worker process died (exit code -9)" in note for note in notes) == 3


@dataclass(frozen=True)
class AlwaysDies(Unusual):
    """Ends its process instead of training."""

    def happens(self, jobs: Sequence[Job]) -> None:
        os._exit(3)


@pytest.mark.fault(34)
def test_participants_that_kill_every_worker_are_an_error_that_says_what_to_do() -> None:
    notes: list[str] = []
    with (
        WorkerProcesses(InProcess(AlwaysDies(), DATA, LocalTraining(), seed=3), 2, notes.append) as engine,
        pytest.raises(
            RuntimeError, match=r"3 participants one after another .*exit code 3.*run again with fewer workers"
        ),
    ):
        run(engine)
    assert len(notes) >= 2
    assert active_children() == []


@dataclass(frozen=True)
class Objects(Unusual):
    """Raises for client 7."""

    def happens(self, jobs: Sequence[Job]) -> None:
        if any(job.client_row == 7 for job in jobs):
            raise ValueError("x: expected 5 features, got 6")


def test_what_a_trainer_raises_is_raised_here_and_the_engine_can_be_used_again() -> None:
    with WorkerProcesses(InProcess(Objects(), DATA, LocalTraining(), seed=3), workers=2) as engine:
        with pytest.raises(ValueError, match="expected 5 features, got 6"):
            run(engine)
        others = round_of(WEIGHTS, [job for job in JOBS if job.client_row != 7])
        assert bits(run(engine, others)) == bits(run(ENGINE, others))


class OddError(Exception):
    """An error that cannot be taken to bytes and back: it is made with two arguments, and keeps a function."""

    def __init__(self, what: str, how: object) -> None:
        super().__init__(f"{what} is odd")
        self.how = lambda: how


@dataclass(frozen=True)
class Odd(Unusual):
    """Raises what only its own process can hold."""

    def happens(self, jobs: Sequence[Job]) -> None:
        raise OddError("a tensor", self)


def test_an_error_that_only_the_worker_can_hold_is_told_with_its_name_its_words_and_where_it_was_raised() -> None:
    notes: list[str] = []
    with (
        WorkerProcesses(InProcess(Odd(), DATA, LocalTraining(), seed=3), 2, notes.append) as engine,
        pytest.raises(
            TrainingFailed, match=r"^tests\.engines\.test_worker_processes\.OddError: a tensor is odd"
        ) as raised,
    ):
        run(engine)
    assert notes == []  # no worker has died of it
    assert 'raise OddError("a tensor", self)' in raised.value.__notes__[0]


@pytest.mark.parametrize(
    "error", [KeyError("weight"), OSError(2, "No such file"), ZeroDivisionError(), ValueError(object())]
)
def test_errors_of_python_are_what_they_were_after_the_way_through_words(error: Exception) -> None:
    again = Raised.of(error).error()
    are_plain = all(isinstance(one, str | int) for one in error.args)
    assert (type(again), str(again)) == (type(error), str(error)) if are_plain else isinstance(again, TrainingFailed)


@dataclass(frozen=True)
class Giant(Unusual):
    """Has more parameters than any machine has memory."""

    n_params: int = 2**45


def test_more_memory_than_there_is_is_refused_before_anything_starts() -> None:
    giant = replace(ROUND, rules=replace(ROUND.rules, n_params=2**45))
    with (
        WorkerProcesses(InProcess(Giant(), DATA, LocalTraining(), seed=3), workers=2) as engine,
        pytest.raises(MemoryError, match=r"expected \d+\.\d GiB of free memory .* run with fewer workers"),
    ):
        run(engine, giant)
    assert active_children() == []


ORPHANS = """
import signal
import time
from auxo.runtime.forked import fork
def work(connection):
    while True:  # as one that trains: it never looks at its pipe
        sum(range(1000))
forked = fork(work)
while not any(forked.beats()):  # it has not begun
    time.sleep(0.01)
print(forked.process.pid, flush=True)
signal.pause()
"""


@pytest.mark.fault(3, 38)
@pytest.mark.parametrize("is_stopped", [False, True], ids=["at work", "stopped"])
def test_a_worker_in_the_middle_of_its_training_ends_soon_after_its_parent(is_stopped: bool) -> None:
    command = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:  # noqa: S603 - our own code
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        os.kill(orphan, signal.SIGSTOP if is_stopped else 0)
        parent.kill()
    for _ in range(100):
        try:
            os.kill(orphan, 0)
        except ProcessLookupError:
            return
        if " Z " in Path(f"/proc/{orphan}/stat").read_text():  # ended, and nobody has asked how
            return
        time.sleep(0.1)
    os.kill(orphan, signal.SIGKILL)
    raise AssertionError("it lives on")

"""The Ray engine on a real cluster; how it gets at one is in test_ray_connection.py."""

import gc
import os
import select
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from auxo.algorithms.oracle import KnownGroups
from auxo.core.asking import Ask
from auxo.core.partition import Partition
from auxo.core.rng import stream
from auxo.engines import ray_cluster
from auxo.engines.in_process import InProcess
from auxo.engines.ray_cluster import RayCluster
from auxo.engines.ray_connection import ClusterError, connect
from auxo.experiments.config import Config
from auxo.experiments.config_file import parse_config
from auxo.experiments.method_runs import local_training
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.runner import Stage, run_method
from auxo.experiments.world import make_world
from auxo.protocol.codec import to_bytes
from auxo.runtime.closing import Closed
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.training.trainer import Job
from tests.core.made_mods import Careful
from tests.engines.capricious import DIES_ALWAYS, DIES_ONCE, LOOKS, RAISES, Capricious, CapriciousStep
from tests.engines.rounds import Round, bits, round_of, round_of_several, round_on_trial, without

# What Ray itself leaves behind when it starts and ends.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file .*/dev/null:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

# Two groups that name the classes differently: a partition pays, and is found within a few rounds.
SMALL = """
[population]
source = "synthetic"
clients = 90
groups = 2
heterogeneity = "concept"
features = 6
classes = 3
samples = [20, 30]
test_samples = 10

[training]
aggregator = "fedavg"
rounds = 12
participants = 40
learning_rate = 0.1
batch_size = 10

[auxo.clustering]
clusters = 2
pool_rounds = 2

[ifca]
cohorts = 2
warm_start = 2
"""
CONFIG = parse_config(SMALL)
DATA = make_population(CONFIG)


def in_process(config: Config) -> InProcess:
    return InProcess(trainer_for(config, DATA), DATA, local_training(config), config.seed)


def on(engine: Engine, config: Config) -> Stage:
    return Stage(trainer_for(config, DATA), make_world(config, DATA, engine))


HERE = in_process(CONFIG)
WEIGHTS = stream(0, "weights").standard_normal(HERE.trainer.n_params).astype(np.float32)
# Many more jobs than trainers hold at a time, halves and whole clients, one client often.
JOBS = [Job(row, visit=row % 3, ask=Ask(fold=(None, 0, 1)[row % 3])) for row in range(90)] + [Job(0, 1)] * 250
ROUND = round_of(WEIGHTS, JOBS)
WAIT_MS = 60_000


@dataclass(frozen=True)
class Cluster:
    """An engine with two trainers that all tests here share, and what it has noted."""

    engine: RayCluster
    notes: list[str]


@pytest.fixture(scope="module")
def connected() -> Iterator[None]:
    """Be connected to one cluster; all engines in this module use it."""
    with connect(None, cpus=3, object_store_bytes=200_000_000):
        yield
    gc.collect()  # so that nothing that Ray leaves behind shows in other tests


@pytest.fixture(scope="module")
def running(connected: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    notes: list[str] = []
    trainer = Capricious(HERE.trainer, tmp_path_factory.mktemp("marks") / "died")
    with RayCluster(replace(HERE, trainer=trainer), workers=2, on_note=notes.append) as engine:
        yield Cluster(engine, notes)


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    running.notes.clear()
    return running


def run(engine: InProcess | RayCluster, task: Round = ROUND) -> Closed:
    return engine.run_round(task.rules, task.closing, task.training)


def with_rules(rules: Federation) -> Round:
    return replace(ROUND, rules=rules)


def with_visit(visit: int) -> Round:
    """Return the round with one job in its middle of which a `Capricious` trainer makes something."""
    return round_of(WEIGHTS, [*JOBS[:100], Job(7, visit), *JOBS[100:]])


@pytest.mark.parametrize("with_call_bytes", [0, 2**16])
def test_a_round_gives_the_bits_of_one_process_whatever_came_before(
    cluster: Cluster, with_call_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Models travel through the object store, or with the calls.
    monkeypatch.setattr(ray_cluster, "_WITH_CALL_BYTES", with_call_bytes)
    another = round_of(2 * WEIGHTS, JOBS[:5])
    small = with_rules(replace(ROUND.rules, sketch_size=7))
    choosers = [replace(job, ask=replace(job.ask, model=(-1, -1, 0, 2)[place % 4])) for place, job in enumerate(JOBS)]
    several = round_of_several([WEIGHTS, -WEIGHTS, 2 * WEIGHTS], choosers)
    on_trial = round_on_trial(WEIGHTS, JOBS)
    modded = replace(on_trial, training=replace(on_trial.training, mods=(Careful(longest=0.01, refuses=3),)))
    for task in (ROUND, another, small, several, on_trial, modded, ROUND):
        assert bits(run(cluster.engine, task)) == bits(run(HERE, task))
    assert cluster.notes == []


def test_a_round_without_jobs_changes_nothing(cluster: Cluster) -> None:
    closed = run(cluster.engine, round_of(WEIGHTS, []))
    assert closed.outcome is None
    assert closed.gathered.movements == (None,)


def test_refused_updates_keep_their_reasons(cluster: Cluster) -> None:
    far = round_of(np.full_like(WEIGHTS, np.inf), JOBS)
    here, there = run(HERE, far), run(cluster.engine, far)
    assert here.outcome is None
    assert there.outcome is None
    assert len(there.gathered.rejected) == len(JOBS)
    assert there.gathered.rejected == here.gathered.rejected


@pytest.mark.parametrize(("method", "selector"), [("auxo", "uniform"), ("ifca", "uniform"), ("ifca", "pyramidfl")])
def test_a_run_of_several_cohorts_gives_the_bits_of_one_process(method: str, selector: str, cluster: Cluster) -> None:
    config = parse_config(SMALL, [f"training.selector={selector}"])
    here, there = (run_method(method, config, DATA, stage=on(engine, config)) for engine in (HERE, cluster.engine))
    assert len(there.state.coordinator.tree.leaves) > 1
    assert to_bytes(there.state) == to_bytes(here.state)
    assert there.events == here.events


@pytest.mark.parametrize("aggregator", ["qfedavg", "multi_krum", "fedadam"])
def test_a_run_with_any_kind_of_aggregator_gives_the_bits_of_one_process(aggregator: str, cluster: Cluster) -> None:
    config = parse_config(SMALL, [f"training.aggregator={aggregator}"])
    here, there = (run_method("auxo", config, DATA, stage=on(engine, config)) for engine in (HERE, cluster.engine))
    assert to_bytes(there.state) == to_bytes(here.state)
    assert there.events == here.events


@pytest.mark.fault(34)
def test_a_worker_that_dies_costs_its_participants_a_second_try_and_nothing_else(cluster: Cluster) -> None:
    task = with_visit(DIES_ONCE)
    found, again = run(cluster.engine, task), run(cluster.engine, task)
    assert bits(found) == bits(again) == bits(run(HERE, task))
    (note,) = cluster.notes
    assert note.endswith(" of 2 was lost; its participants train again")


@pytest.mark.fault(34)
def test_a_participant_that_kills_its_worker_even_alone_has_failed_and_the_round_goes_on(cluster: Cluster) -> None:
    task = with_visit(DIES_ALWAYS)
    others = replace(
        task.training,
        jobs=[replace(job, client_row=-1) if job.visit == DIES_ALWAYS else job for job in task.training.jobs],
    )
    assert bits(run(cluster.engine, task)) == bits(run(HERE, without(replace(task, training=others), -1)))
    (note,) = [note for note in cluster.notes if "has cost 2 processes" in note]
    assert "in row 7 " in note
    # With others, and twice alone; an answer that Ray is yet to send can be lost with its process, and is given again.
    assert sum(" of 2 was lost; its participants train again" in note for note in cluster.notes) >= 3


@pytest.mark.slow
@pytest.mark.fault(34)
def test_where_all_participants_kill_their_workers_the_error_says_what_to_do(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"3 participants one after another .* run again with fewer") as error:
        run(cluster.engine, round_of(WEIGHTS, [Job(7, DIES_ALWAYS)] * 5))  # of four chunks one has two of them
    assert error.value.__suppress_context__  # nobody needs what Ray has to say about it
    assert bits(run(cluster.engine)) == bits(run(HERE))


def test_what_a_trainer_raises_is_raised_here_and_the_engine_can_be_used_again(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="expected 5 features, got 6"):
        run(cluster.engine, with_visit(RAISES))
    assert bits(run(cluster.engine)) == bits(run(HERE))


def test_data_are_shared_and_say_no_more_than_training_needs(cluster: Cluster) -> None:
    assert bits(run(cluster.engine, with_visit(LOOKS))) == bits(run(HERE, with_visit(LOOKS)))


@pytest.mark.fault(1)
def test_a_cohort_that_dies_costs_its_round_a_second_try_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    rules = replace(ROUND.rules, aggregator=CapriciousStep(tmp_path, "once"))
    found = run(cluster.engine, with_rules(rules))
    assert bits(found) == bits(run(HERE))
    assert cluster.notes == ["the Ray actor of cohort 0 was lost; its round is run again"]


@pytest.mark.slow
def test_a_cohort_that_always_dies_is_an_error_that_says_what_to_do(cluster: Cluster) -> None:
    rules = replace(ROUND.rules, aggregator=CapriciousStep(Path(), "always"))
    with pytest.raises(RuntimeError, match=r"cohort 0 was lost 3 times in round 6, .* run again on nodes"):
        run(cluster.engine, with_rules(rules))


def test_a_cohort_is_one_process_until_it_is_partitioned(cluster: Cluster, tmp_path: Path) -> None:
    scheduled = KnownGroups(np.arange(90) % 2, at=0.25)
    task = with_rules(replace(ROUND.rules, aggregator=CapriciousStep(tmp_path), algorithm=scheduled))
    outlooks = (replace(ROUND.closing.outlook, cohorts=1, progress=progress) for progress in (0.1, 0.3))
    early, late = (replace(task, closing=replace(ROUND.closing, outlook=outlook)) for outlook in outlooks)
    run(cluster.engine, early)
    run(cluster.engine, early)
    (process,) = (int(path.name) for path in tmp_path.iterdir())
    ending = select.poll()
    ending.register(os.pidfd_open(process), select.POLLIN)
    assert ending.poll(0) == []
    outcome = run(cluster.engine, late).outcome
    assert outcome is not None
    assert isinstance(outcome.decision, Partition)
    assert ending.poll(WAIT_MS)


@pytest.mark.slow
@pytest.mark.usefixtures("connected")
def test_a_torch_model_gives_the_bits_of_one_process_also_when_the_engine_has_ended() -> None:
    config = parse_config(SMALL, ["training.model=mlp", "training.rounds=4", "training.sketch_size=50"])
    here = in_process(config)
    engine = RayCluster(here, workers=1)
    with engine:
        there = run_method("auxo", config, DATA, stage=on(engine, config))
    assert to_bytes(there.state) == to_bytes(run_method("auxo", config, DATA, stage=on(here, config)).state)
    with pytest.raises(RuntimeError, match="with RayCluster"):
        run(engine)


@pytest.mark.usefixtures("running")
def test_more_workers_than_cpus_join_in_later() -> None:
    notes: list[str] = []
    with RayCluster(HERE, workers=4, on_note=notes.append) as engine:
        assert bits(run(engine)) == bits(run(HERE))
    assert notes == ["1 of 4 Ray workers have started; the others join in once there are CPUs for them"]


@pytest.mark.usefixtures("connected")
def test_data_that_do_not_fit_are_refused_with_what_they_need() -> None:
    x = np.broadcast_to(np.float32(0), (2**30, 64))  # takes no memory as long as nobody copies it
    with (
        pytest.raises(ClusterError, match=r"data take 262,144 MiB .* has \d+ MiB; start Ray with more of it"),
        RayCluster(replace(HERE, data=replace(DATA, x=x)), workers=1),
    ):
        pass


@pytest.mark.usefixtures("connected")
def test_a_process_is_connected_to_one_cluster_at_a_time() -> None:
    with pytest.raises(ClusterError, match=r"already, and cannot connect to 10\.0\.0\.1:6379 as well"):
        connect("10.0.0.1:6379")


def test_no_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="workers: expected at least 1, or none, got 0"):
        RayCluster(HERE, workers=0)

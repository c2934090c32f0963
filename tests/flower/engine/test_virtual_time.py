"""The simulator with a Flower ClientApp in it: cohorts are found in virtual time, and where nodes run does not show."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from auxo.algorithms.auxo import Auxo
from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.core.aggregators import FedAvg
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.flower.engine.virtual_time import AppTraining, clients_with
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import Event, Partitioned, RoundClosed
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.simulation.availability import AlwaysOnline, Availability
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.traces.availability import draw_availability
from auxo.traces.synthetic import synthetic_trace
from tests.flower.linear_app import auxo_app, fill, initial

CLIENTS, PARTICIPANTS, GROUPS = 24, 12, 2


def simulated(
    engine: AppTraining, method: CohortAlgorithm, rounds: int, availability: Availability | None = None
) -> tuple[SimulationState, list[Event]]:
    """Run a federation of the app in virtual time."""
    rules = Federation(
        method, FedAvg(), engine.n_params, total_participants=PARTICIPANTS, total_rounds=rounds, layers=engine.layers
    )
    events: list[Event] = []
    with engine:
        world = World(
            data=clients_with([24] * CLIENTS),
            devices=SyntheticDevices().draw(CLIENTS, seed=0),
            availability=AlwaysOnline(CLIENTS) if availability is None else availability,
            engine=engine,
        )
        simulation = Simulation(rules, world, events.append)
        state = simulation.start(start(rules, engine.initial_weights))
        while not simulation.is_over(state):
            state = simulation.step(state)
    return state, events


def losses(state: SimulationState, engine: AppTraining) -> list[float]:
    """Return the loss of each client at the best of the models."""
    models = [engine.arrays(one.server.weights) for one in state.coordinator.cohorts.values()]
    app, found = fill(ClientApp(), GROUPS), []
    for client in range(CLIENTS):
        context = Context(1, client, {"partition-id": client}, RecordDict(), {})
        told = [Message(RecordDict({"arrays": arrays}), client + 2, "evaluate") for arrays in models]
        replies = [app(message, context) for message in told]
        found.append(min(float(str(r.content.metric_records["metrics"]["eval_loss"])) for r in replies))
    return found


@pytest.fixture(autouse=True)
def as_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be made outside an engine."""
    from flwr.supercore.task_identity import TaskIdentity  # noqa: PLC0415

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def test_an_app_with_the_client_half_finds_its_groups_among_phones_that_come_and_go() -> None:
    engine = AppTraining(auxo_app(GROUPS, halves=True), initial(), CLIENTS)
    trace = synthetic_trace(CLIENTS, seed=0, share=0.8).sessions
    assert trace is not None
    state, events = simulated(engine, Auxo(), 30, draw_availability(trace, CLIENTS, seed=0))
    (partition,) = [event for event in events if isinstance(event, Partitioned)]
    assert len(partition.children) == GROUPS
    assert events[-1].time_s > 100  # of virtual time
    alone, _ = simulated(AppTraining(auxo_app(GROUPS), initial(), CLIENTS), OneCohort(), 30)
    assert max(losses(state, engine)) < 0.1 * min(losses(alone, engine))


def test_a_plain_app_is_put_into_the_client_half_and_judges_by_its_own_evaluation() -> None:
    engine = AppTraining(fill(ClientApp(), GROUPS), initial(), CLIENTS)
    state, events = simulated(engine, Auxo(), 30)
    assert [event for event in events if isinstance(event, Partitioned)]
    assert len(state.coordinator.tree.leaves) == GROUPS


def test_where_nodes_run_does_not_show_in_a_single_bit() -> None:
    found = [
        to_bytes(simulated(AppTraining(auxo_app(GROUPS, halves=True), initial(), CLIENTS, workers), Auxo(), 12)[0])
        for workers in (1, 2)
    ]
    assert found[0] == found[1]


def test_participants_compare_models_by_the_apps_evaluation() -> None:
    engine = AppTraining(auxo_app(GROUPS), initial(), CLIENTS)
    state, events = simulated(engine, Ifca(cohorts=2, warm_start=1), 15)
    assert len(state.coordinator.cohorts) == 2
    assert [event for event in events if isinstance(event, RoundClosed)]
    assert max(losses(state, engine)) < 0.2


def troubled(number: int) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        partition = int(str(context.node_config["partition-id"]))
        arrays = message.content.array_records["arrays"]
        values = {name: array.numpy() + 1.0 for name, array in arrays.items()}
        if partition < 6 and number == 0:
            raise ZeroDivisionError
        if partition < 6 and number == 1:
            values["b"] = np.zeros(7)
        if partition < 6 and number == 2:
            values["w"] = values["w"] * np.nan
        examples = -1 if partition < 6 and number == 3 else 5
        metrics = MetricRecord({"num-examples": examples})
        trained = ArrayRecord({name: Array(value) for name, value in values.items()})
        return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)

    return app


@pytest.mark.parametrize("number", range(4))
def test_an_app_that_fails_or_replies_nonsense_costs_its_own_update_only(number: int) -> None:
    state, events = simulated(AppTraining(troubled(number), initial(), CLIENTS), OneCohort(), 4)
    closed = [event for event in events if isinstance(event, RoundClosed)]
    assert [event.round for event in closed] == [1, 2, 3, 4]
    (cohort,) = state.coordinator.cohorts.values()
    assert np.allclose(cohort.server.weights, 4.0)


def test_a_round_without_nodes_is_refused() -> None:
    engine = AppTraining(ClientApp(), initial(), 2)
    with pytest.raises(RuntimeError, match="use `with AppTraining"):
        engine.run_round(None, None, None)  # type: ignore[arg-type]


def test_numbers_of_samples_are_all_that_a_population_needs() -> None:
    data = clients_with([3, 0, 5])
    assert data.n_clients == 3
    assert data.train.counts().tolist() == [3, 0, 5]
    assert replace(data, groups=np.zeros(3, dtype=np.int64)).groups is not None
    with pytest.raises(ValueError, match="none below 0"):
        clients_with([1, -1])

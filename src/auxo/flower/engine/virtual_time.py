"""The library's simulator with a Flower `ClientApp` in it: devices, traces and virtual time around the user's own app.

`AppTraining` is an engine (`auxo.runtime.engine`): who takes part, who is late and how long a round takes is decided by
the simulation, and each participant's work is a message to the app, as it would get it from `AuxoStrategy`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from auxo.core.affinity import AffinitySettings
from auxo.core.asking import Answer, Failure
from auxo.core.cohort_algorithm import Closing
from auxo.core.layers import Layer
from auxo.core.types import CohortId, Float32Array, IntArray
from auxo.flower.client import AuxoClientApp, NodeHalf
from auxo.flower.engine.grid import InProcessGrid
from auxo.flower.engine.nodes import FIRST_NODE, ConfigValue, NodeConfig, SimulatedNodes, partitions
from auxo.flower.foreign_step import examples_in
from auxo.flower.model_arrays import AppArray, ModelArrays, update_between
from auxo.flower.wire import NO_UPDATE, Letterhead, Trying, ask, take_said
from auxo.population.federated_data import FederatedData, NumberedNames, Samples
from auxo.protocol.messages import Task
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.federation import Federation
from auxo.training.trainer import Job

_ARRAYS, _CONFIG, _WEIGHT = "arrays", "config", "num-examples"  # what Flower's strategies call them
_FEDERATION = "0"  # of a simulation, whose clients' records are the simulator's


def clients_with(samples: Sequence[int] | IntArray) -> FederatedData:
    """Return a population of which only the numbers of samples are known: the app has the samples themselves.

    The simulation charges each client for as many.

    >>> clients_with([20, 35]).train.counts().tolist()
    [20, 35]
    """
    counts = np.asarray(samples, dtype=np.int64)
    if counts.ndim != 1 or (counts < 0).any():
        raise ValueError(f"samples: expected a number for each client, none below 0, got {samples!r:.100}")
    rows = np.zeros(int(counts.sum()), dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    return FederatedData(
        name="app",
        x=np.zeros((1, 1), dtype=np.float32),
        train=Samples(rows, rows, np.concatenate([[0], np.cumsum(counts)])),
        test=Samples(nothing, nothing, np.zeros(len(counts) + 1, dtype=np.int64)),
        n_classes=1,
        client_names=NumberedNames(len(counts)),
    )


@dataclass
class AppTraining:
    """Trains participants by a ClientApp; use as a context manager.

    Node ``i`` is client ``i`` of the population: its partition-id. An `AuxoClientApp` is asked as `AuxoStrategy` would
    ask it; any other app is put into Auxo's client half first, and trains on all its samples. All updates of a round
    are held at once. Epochs, batches and rates are the app's own; `World.epochs` should say the same.
    """

    app: ClientApp
    initial_arrays: ArrayRecord
    clients: int
    workers: int = 1
    train_config: ConfigRecord = field(default_factory=ConfigRecord)
    run_config: dict[str, ConfigValue] = field(default_factory=dict)
    node_config: NodeConfig | None = None
    _model: ModelArrays = field(init=False)
    _grid: InProcessGrid | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._model = ModelArrays.of(self.initial_arrays)

    @property
    def n_params(self) -> int:
        """Return the length of the flat model."""
        return self._model.n_params

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the tensors that the flat model is made of."""
        return self._model.layers

    def initial_weights(self, seed: int) -> Float32Array:
        """Return the model that all methods start from; it does not depend on the seed."""
        return self._model.flat(self.initial_arrays).astype(np.float32)

    def arrays(self, weights: Float32Array) -> ArrayRecord:
        """Return a flat model as the app's arrays."""
        return self._model.record(weights, self.initial_arrays)

    def __enter__(self) -> Self:
        """Start the nodes."""
        handler: ClientAppCallable = self.app
        if not isinstance(self.app, AuxoClientApp):
            handler = partial(NodeHalf(halves=False).answer, train=self.app, app=self.app)
        nodes = SimulatedNodes(handler, self.clients, self.node_config or partitions(self.clients), self.run_config)
        self._grid = InProcessGrid(nodes, self.workers)
        self._grid.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop them."""
        if self._grid is not None:
            self._grid.__exit__(*error)
            self._grid = None

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the app's replies."""
        if self._grid is None:
            raise RuntimeError("the nodes are not running; use `with AppTraining(...) as engine:`")
        if training.mods:
            raise ValueError(
                "mods: expected none beside an app, got some; give them to it, AuxoClientApp(client_mods=...)"
            )
        models = [self.arrays(weights) for weights in training.models]
        starts = [self._floats(arrays) for arrays in models]
        messages = [self._message(job, models, closing, training.epochs) for job in training.jobs]
        replies = self._grid.send_and_receive(messages)
        answers = [self._answer(job, reply, starts) for job, reply in zip(training.jobs, replies, strict=True)]
        return close_round(rules, self._as_done(closing, training, answers), returned_by(training, answers))

    def _message(self, job: Job, models: Sequence[ArrayRecord], closing: Closing, usual_epochs: int) -> Message:
        places, asked = job.ask.needed(len(models))
        names = tuple(CohortId(str(place)) for place in places)
        number = closing.states[0].round + 1
        task = Task(job.client_row, names[0], number, names, asked)
        config = ConfigRecord({**self.train_config, "server-round": number})
        if asked.work != 1.0:
            config["epochs"] = round(usual_epochs * asked.work)
        content = RecordDict({_ARRAYS: models[places[0]], _CONFIG: config})
        beside = {name: models[place] for name, place in zip(names[1:], places[1:], strict=True)}
        tries = Trying(beside, ConfigRecord({"server-round": number}))
        head = Letterhead.of(_FEDERATION, AffinitySettings())
        whole = ask(content, head, task, tries if beside or asked.judges else None)
        return Message(whole, FIRST_NODE + job.client_row, "train")

    def _answer(self, job: Job, reply: Message, starts: Sequence[Sequence[AppArray]]) -> Answer | Failure:
        if reply.has_error():
            return Failure(str(reply.error.reason))
        said = take_said(reply).result
        answer = Answer(NO_UPDATE, 0) if said is None else said.answer
        trained = job.ask.needed(len(starts))[0][answer.model or 0]
        records = list(reply.content.array_records.values())
        after = self._model.floats(records[0]) if len(records) == 1 else None
        if after is None:
            return Failure(f"expected the arrays of the model, {self._model.described()}, got others")
        update = update_between(starts[trained], after, np.empty(self.n_params, dtype=np.float32))
        return replace(answer, update=update, examples=examples_in(reply, _WEIGHT), model=trained)

    def _as_done(self, closing: Closing, training: Training, answers: Sequence[Answer | Failure]) -> Closing:
        """Return the round with no half for those who have trained on all their samples all the same."""
        asks = closing.participants.asks
        fold = asks.fold.copy()
        for row, one in zip(training.rows, answers, strict=True):
            if isinstance(one, Answer) and one.on_all:
                fold[row] = -1
        return replace(closing, participants=replace(closing.participants, asks=replace(asks, fold=fold)))

    def _floats(self, arrays: ArrayRecord) -> list[AppArray]:
        found = self._model.floats(arrays)
        assert found is not None  # noqa: S101 - they were made from the model
        return found

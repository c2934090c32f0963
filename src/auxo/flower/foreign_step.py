"""A Flower strategy as an aggregator: the accumulator collects admitted replies, the strategy makes the next model.

The strategy's own objects cannot be part of a state that goes to bytes, so they stand in a table, and a `ServerState`
holds the number of its own: `StrategyNumber`. Nothing in the table changes once a state refers to it, but for what
configuring a round changes: a step works on a copy. Branches on trial so have a strategy each.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, Strategy

from auxo.core.aggregators import Accumulator, Report, ServerState
from auxo.core.own_state import OwnState, own
from auxo.core.types import Float32Array, FloatArray
from auxo.flower.logs import LOG
from auxo.flower.model_arrays import ModelArrays, mean_of
from auxo.flower.strategy_state import hand_over
from auxo.flower.wire import message_of


@dataclass(frozen=True)
class CohortSeen:
    """What whoever makes a strategy is told of the cohort that it is for."""

    name: str
    participants: int  # updates that a round of it wants; of a branch on trial: that it is sent to


MakeStrategy = Callable[[CohortSeen], Strategy]


@dataclass(frozen=True)
class StrategyNumber:
    """Which strategy of the table a model goes by."""

    number: int


@dataclass
class StrategyEntry:
    """A strategy and the model that it has made."""

    strategy: Strategy
    arrays: ArrayRecord
    made_for: CohortSeen
    round: int = 0  # that it was last configured for
    metrics: MetricRecord | None = None  # of the round that it has made the model in


@dataclass(frozen=True)
class ForeignReply:
    """A participant's reply, and the arrays that it was sent."""

    message: Message
    start: ArrayRecord


@dataclass
class StrategyTable:
    """The strategies of all models, by number."""

    make: MakeStrategy
    asks_cohort: bool = False  # what makes strategies looks at the cohort that they are for
    entries: dict[int, StrategyEntry] = field(default_factory=dict)
    _next: int = 0

    def add(self, entry: StrategyEntry) -> StrategyNumber:
        """Take an entry into the table."""
        self.entries[self._next] = entry
        self._next += 1
        return StrategyNumber(self._next - 1)

    def put(self, number: int, entry: StrategyEntry) -> None:
        """Take an entry into the table under the number that a checkpoint has it."""
        self.entries[number] = entry
        self._next = max(self._next, number + 1)

    def of(self, kept: OwnState) -> StrategyEntry:
        """Return the strategy and the model that a state goes by."""
        return self.entries[own(StrategyNumber, kept).number]

    def made_for(self, kept: OwnState, cohort: CohortSeen) -> StrategyEntry:
        """Return the entry with a strategy that was made for this cohort, with what the one so far remembers."""
        entry = self.of(kept)
        if self.asks_cohort and entry.made_for != cohort:
            strategy = self.make(cohort)
            hand_over(entry.strategy, strategy, self.make(entry.made_for))
            entry.strategy, entry.made_for = strategy, cohort
        return entry

    def keep_only(self, used: Iterable[StrategyNumber]) -> None:
        """Forget what no state refers to."""
        numbers = {kept.number for kept in used}
        self.entries = {number: entry for number, entry in self.entries.items() if number in numbers}


class Movement(np.ndarray[tuple[int, ...], np.dtype[np.float64]]):
    """How far a strategy has moved a model, with what it has made."""

    after: StrategyEntry
    weights: Float32Array  # of the model that it has made

    @staticmethod
    def to(after: StrategyEntry, before: Float32Array, now: Float32Array) -> "Movement":
        """Return the way between two vectors."""
        movement = np.subtract(now, before).view(Movement)
        movement.after, movement.weights = after, now
        return movement


class ForeignStep:
    """An aggregator whose server step is a Flower strategy's. All replies of a round are kept until it closes."""

    own_states = (StrategyNumber,)

    def __init__(self, table: StrategyTable, model: ModelArrays, first: CohortSeen, arrays: ArrayRecord) -> None:
        self._table, self._model = table, model
        self._first, self._arrays = first, arrays

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round, with a new strategy; the model is the arrays it was made with."""
        kept = self._table.add(StrategyEntry(self._table.make(self._first), self._arrays, self._first))
        return ServerState(np.array(weights, dtype=np.float32), (), 0, kept)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return what replies are collected in: participants x parameters."""
        return _Replies(self._table.of(state.own), state.weights, self._model)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state with the strategy's model; ``rate_scale`` multiplies how far it has moved.

        Raises:
            TypeError: the movement is none of a strategy.
        """
        if not isinstance(movement, Movement):
            raise TypeError("movement: expected what a strategy has made, got another vector")
        after, weights = movement.after, movement.weights
        if rate_scale != 1.0:
            before = self._table.of(state.own).arrays
            after = replace(after, arrays=mean_of([before, after.arrays], (1 - rate_scale, rate_scale)))
            weights = self._model.flat(after.arrays).astype(np.float32)
        return ServerState(weights, (), state.steps + 1, self._table.add(after))


class _Replies:
    """A round's admitted replies on their way to a strategy."""

    def __init__(self, entry: StrategyEntry, weights: Float32Array, model: ModelArrays) -> None:
        self._entry, self._weights, self._model = entry, weights, model
        self._replies: list[Message] = []

    def add(self, update: Float32Array, report: Report) -> None:
        """Keep one more reply; one that began from another model is told as if it had begun from this one."""
        reply = report.reply
        if not isinstance(reply, ForeignReply):
            raise TypeError(f"reply: expected a Flower reply with each update, got {type(reply).__name__}")
        same = reply.start is self._entry.arrays
        message = reply.message if same else _moved(reply, self._entry.arrays)
        self._replies.append(_counting(message, weighting_key(self._entry.strategy), report.examples))

    def result(self) -> FloatArray | None:
        """Let the strategy aggregate; None: nothing came, or nothing can be made of it."""
        if not self._replies:
            return None
        strategy = copy.deepcopy(self._entry.strategy)
        try:
            arrays, metrics = strategy.aggregate_train(self._entry.round, self._replies)
        except Exception as error:  # noqa: BLE001 - whatever a strategy raises costs the round, not the run
            LOG.warning("%s could not aggregate %d replies: %s", type(strategy).__name__, len(self._replies), error)
            return None
        if arrays is None:
            return None
        after = self._model.floats(arrays)
        if after is None or not all(np.isfinite(values).all() for values in after):
            LOG.warning("%s made a model that is not finite, or another one; it is not used", type(strategy).__name__)
            return None
        entry = StrategyEntry(strategy, arrays, self._entry.made_for, self._entry.round, metrics)
        return Movement.to(entry, self._weights, self._model.flat32(after))


def _moved(reply: ForeignReply, to: ArrayRecord) -> Message:
    """Return a reply with the same update to other arrays."""
    content = reply.message.content
    (name, arrays), *_ = content.array_records.items()
    moved = {}
    for key, array in arrays.items():
        values = array.numpy()
        if values.dtype.kind == "f":
            values = (to[key].numpy().astype(np.float64) + (values - reply.start[key].numpy())).astype(values.dtype)
        moved[key] = Array(np.asarray(values))
    beside = {key: kept for key, kept in content.items() if key != name}
    return message_of(RecordDict({name: ArrayRecord(moved), **beside}), reply.message.metadata)


def wrapped(strategy: object) -> Iterator[Strategy]:
    """Yield a strategy, and those inside of it: wrappers such as those for differential privacy hold another one."""
    while isinstance(strategy, Strategy):
        yield strategy
        strategy = getattr(strategy, "strategy", None)


def examples_in(message: Message, weight: str) -> int:
    """Return how many examples are behind a reply, by the metric of that name; 0, which is refused: it does not say."""
    # Flower's own views of a message's records are dear, and made anew each time.
    for record in message.content.values():
        value = record.get(weight) if isinstance(record, MetricRecord) else None
        if isinstance(value, int | float) and math.isfinite(value):
            return math.ceil(value)  # Flower lets weights be any number
    return 0


def _counting(message: Message, key: str, examples: int) -> Message:
    """Return a reply that claims no more examples than count; see `auxo.core.usual_updates`."""
    claims = {
        name: record
        for name, record in message.content.items()
        if isinstance(record, MetricRecord)
        and isinstance(claimed := record.get(key), int | float)
        and math.ceil(claimed) > examples
    }
    if not claims:
        return message
    capped = {name: MetricRecord({**record, key: examples}) for name, record in claims.items()}
    return message_of(RecordDict({**message.content, **capped}), message.metadata)


def weighting_key(strategy: Strategy) -> str:
    """Return the metric that says how many examples are behind a reply."""
    keys = (getattr(inside, "weighted_by_key", None) for inside in wrapped(strategy))
    return next((key for key in keys if isinstance(key, str)), "num-examples")


def fewest_nodes(strategy: Strategy, kind: str) -> int:
    """Return how many nodes a strategy waits for before it trains or evaluates, as far as it says."""
    for inside in wrapped(strategy):
        said = [getattr(inside, name, None) for name in ("min_available_nodes", f"min_{kind}_nodes")]
        if fewest := [number for number in said if isinstance(number, int)]:
            return max(fewest)
    return 1


def never_evaluates(strategy: Strategy) -> bool:
    """Return whether a strategy of Flower's own is set to evaluate on no node, so that nobody need be looked for."""
    for inside in wrapped(strategy):
        if not type(inside).__module__.startswith("flwr."):
            return False
        if type(inside).configure_evaluate is FedAvg.configure_evaluate:
            return getattr(inside, "fraction_evaluate", None) == 0
    return False

"""`AuxoStrategy`: any Flower strategy, once for each cohort that is found while clients train."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.serverapp.strategy.strategy_utils import log_strategy_start_info

from auxo.algorithms.auxo import Auxo
from auxo.core.affinity import AffinitySettings
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.guard import Guard, Unguarded
from auxo.core.layers import Layer
from auxo.core.types import ROOT
from auxo.core.usual_updates import MOST_WEIGHT
from auxo.core.watchful import Watchful
from auxo.files.checkpoint_pace import parse_interval
from auxo.flower.base_strategy import Base, BaseStrategy, warn_of_own_start
from auxo.flower.cohort_run import CohortRun, Limits
from auxo.flower.evaluation import Evaluate, Evaluation
from auxo.flower.foreign_step import CohortSeen, ForeignStep, StrategyTable
from auxo.flower.logs import LOG
from auxo.flower.model_arrays import ModelArrays
from auxo.flower.narrator import Narrator
from auxo.flower.post import Post
from auxo.flower.result import AuxoResult
from auxo.flower.roll_call import CheckInBy, RollCall
from auxo.flower.run_files import RunFiles
from auxo.flower.run_state import RunState
from auxo.flower.stopping import polite_stopping
from auxo.flower.train_round import GridRounds
from auxo.protocol.events import Event
from auxo.protocol.notes import renamed, why_no_partition
from auxo.runtime.server import Server

_WITHOUT_END = 10**9  # rounds of a federation that runs on: nothing waits for a part of them
_ARGUMENTS = {
    "training.participants": "participants of AuxoStrategy",
    "training.rounds": "num_rounds of start()",
}  # by the settings of a configuration file


class AuxoStrategy(Strategy):
    """Finds cohorts of alike clients while they train, with one strategy of yours for each.

    ``start`` has Flower's signature, and your ServerApp stays as it is. Cohorts train at their own pace over the one
    grid. The clients' app is an `AuxoClientApp`, or has an `AuxoMod`.
    """

    def __init__(  # noqa: PLR0913 - by name, all but the first
        self,
        base: Base,
        *,
        participants: int,
        method: CohortAlgorithm | None = None,
        seed: int = 0,
        check_in: CheckInBy = "piggyback",
        directory: Path | str | None = None,
        checkpoint: str = "1r",
        total_rounds: int | None = None,
        layers: Sequence[Layer] = (),
        on_event: Callable[[Event], None] | None = None,
        most_weight: float = MOST_WEIGHT,
        guard: Guard | None = None,
        signed: bool = True,
    ) -> None:
        """Wrap a strategy.

        Args:
            base: makes a strategy for a cohort: a callable without arguments, one that is told the cohort
                (`CohortSeen`: its name and its participants), or a strategy, of which every cohort gets a copy.
            participants: updates wanted in a round over all cohorts together. The base samples; what it samples beyond
                a cohort's share is left out.
            method: how cohorts are found; None: `Auxo` as it is, which needs no other settings for a handful of nodes.
            seed: of matching and clustering. The base samples by itself.
            check_in: affinity requests ride on the replies to train messages (``"piggyback"``), or nodes are asked
                before each round (``"query"``, as in the paper: fresher, and one more exchange a round).
            directory: checkpoints, events and at the end models by cohort and who is where go there, for `auxo.load`; a
                run that is there is gone on with. None: nothing is kept.
            checkpoint: how often one is written: after so many rounds (``"1r"``), or seconds of work (``"30s"``).
            total_rounds: of the whole federation, for a method that looks at the part that is done, as the paper's
                does; None: it runs on.
            layers: of the model's float arrays, in their order; none: each has its units along the first axis.
            on_event: is told what happens: see `auxo.protocol.events`.
            most_weight: share of a round's weight that one node may have by the examples it claims; see `Server`.
            guard: who of those that check in is refused; None: with a directory whoever `Watchful` bans, else nobody.
            signed: with a directory, nodes' claims count as far as the server has signed them; see docs/security.md.

        Raises:
            TypeError: the base makes no strategy of Flower's message API, or an argument is of another kind.
            ValueError: it is one that Auxo cannot work with; the message says why.
        """
        _check_whole("participants", participants)
        if total_rounds is not None:
            _check_whole("total_rounds", total_rounds)
        if method is not None:
            _check_method(method)
        self._base = BaseStrategy(base, participants)
        if isinstance(self._base.pattern, AuxoStrategy):
            raise ValueError(
                "base: expected a strategy for one cohort, got an AuxoStrategy; cohorts part by themselves"
            )
        warn_of_own_start(self._base.pattern)
        self._participants, self._seed = participants, seed
        self._method = Auxo() if method is None else method
        if check_in not in ("piggyback", "query"):
            raise ValueError(f"check_in: expected 'piggyback' or 'query', got {check_in!r}")
        self._check_in, self._total_rounds, self._layers = check_in, total_rounds, tuple(layers)
        self._directory = None if directory is None else Path(directory)
        self._checkpoint, self._on_event = parse_interval(checkpoint), on_event
        self._most_weight, self._signed = most_weight, signed
        self._guard = guard or (Unguarded() if directory is None or not signed else Watchful())

    def __getattr__(self, name: str) -> object:
        """Return what the base has of this name; see `BaseStrategy.read`."""
        if name.startswith("_"):
            raise AttributeError(f"AuxoStrategy has no attribute {name!r}")
        return self._base.read(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set what the base has of this name; see `BaseStrategy.write`."""
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self._base.write(name, value)

    def summary(self) -> None:
        """Log what it is."""
        LOG.info("\t├──> Auxo: %s, %d participants a round", type(self._method).__name__, self._participants)
        self._base.pattern.summary()

    def start(  # noqa: PLR0913, PLR0917 - Flower's own signature
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> AuxoResult:
        """Run all cohorts; see `Strategy.start`.

        ``num_rounds`` are those of each cohort, its ancestors' included. ``evaluate_fn`` is called for each cohort's
        model. With a directory, a run that was interrupted goes on from its last checkpoint, also to more rounds than
        it was meant for. SIGTERM and Ctrl-C let nodes that are at work finish first, for some seconds.

        Raises:
            ValueError: the model has no floats, or a checkpoint is of another model or of other settings.
            RunFailed: not a single round was trained, because no client can, or none came in time. What the strategy
                or ``evaluate_fn`` raises ends the run as it does in Flower.
            DirectoryInUse: another server works in the directory.
        """
        LOG.info("Starting %s strategy:", type(self).__name__)
        log_strategy_start_info(num_rounds, initial_arrays, train_config, evaluate_config)
        self.summary()
        LOG.info("")
        train_config, evaluate_config = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
        self._warn_of_what_cannot_be(num_rounds, grid)
        state, post = self._state(initial_arrays), Post(grid)
        with ExitStack() as stack:
            stopping = stack.enter_context(polite_stopping())
            files = stack.enter_context(RunFiles.open(self._directory, self._checkpoint, signed=self._signed))
            files.begin(state)
            narrator = Narrator(state, self._telling(files), num_rounds)
            result = CohortRun(
                state=state,
                post=post,
                roll_call=RollCall(state, post, narrator, self._check_in, timeout),
                training=GridRounds(state, post, narrator, train_config, evaluate_config, timeout),
                evaluation=Evaluation(state, post, narrator, evaluate_config, timeout, evaluate_fn),
                narrator=narrator,
                limits=Limits.over(grid, num_rounds, timeout),
                stopping=stopping,
                on_round=files.on_round,
            ).run()
            files.commit()
            files.finish(result.members)
        self._base.end(result.strategies)
        return result

    def _warn_of_what_cannot_be(self, rounds: int, grid: Grid) -> None:
        nodes = len(list(grid.get_node_ids()))  # others may come; none: nobody is there yet
        why_not = why_no_partition(self._method, self._participants, max(rounds, 1), nodes or None)
        if why_not is not None:
            LOG.warning("%s", renamed(why_not, _ARGUMENTS))

    def _state(self, arrays: ArrayRecord) -> RunState:
        """Return the state before the first round."""
        model, table = ModelArrays.of(arrays), StrategyTable(self._base.make, self._base.asks_cohort)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what cannot be is said in the log, in the names of arguments here
            server = self._server(arrays, model, table)
        half = self._method.client_half
        return RunState(server, table, model, AffinitySettings() if half is None else half.affinity)

    def _server(self, arrays: ArrayRecord, model: ModelArrays, table: StrategyTable) -> Server:
        return Server(
            [model.flat(arrays)],
            participants=self._participants,
            rounds=self._total_rounds or _WITHOUT_END,
            method=self._method,
            aggregator=ForeignStep(table, model, CohortSeen(ROOT, self._participants), arrays),
            seed=self._seed,
            shapes=self._layers or model.layers,
            most_weight=self._most_weight,
            guard=self._guard,
        )

    def _telling(self, files: RunFiles) -> Callable[[Event], None]:
        """Return what writes an event down and tells whoever wants to know."""

        def tell(event: Event) -> None:
            files.write(event)
            if self._on_event is not None:
                self._on_event(event)

        return tell

    def _refuse(self, *given: object, **named: object) -> NoReturn:
        """Refuse: cohorts have no round in common."""
        raise NotImplementedError(
            "AuxoStrategy runs cohorts at their own pace: call its start(). To put a wrapper around a strategy, such "
            "as one for differential privacy, put it inside: AuxoStrategy(lambda: Wrapper(FedAvg(...)), ...)"
        )

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _refuse


def _check_method(method: object) -> None:
    if isinstance(method, type) or not isinstance(method, CohortAlgorithm):
        raise TypeError(
            f"method: expected a method, such as auxo.Auxo(), got {method!r:.80}; leave it out for that one"
        )


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: expected a whole number, got {value!r:.80}")
    if value < 1:
        raise ValueError(f"{name}: expected at least 1, got {value}")

"""What a run's files say, gathered for the report: each method's evaluations and result, and how they compare."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.protocol.events import EmptyRound, Evaluated, Event, Partitioned, RoundClosed, StoppedLooking, UpdateRejected

_E = TypeVar("_E", RoundClosed, EmptyRound, Partitioned, StoppedLooking, UpdateRejected, Evaluated)


@dataclass(frozen=True)
class Outcome:
    """A method's last numbers; None for one that the run did not write."""

    accuracy: float | None
    worst_10: float | None
    best_10: float | None
    variance: float | None
    variance_beyond_binomial: float | None


@dataclass(frozen=True)
class MethodFacts:
    """One method's events by kind, in order, and its result (None before the first evaluation)."""

    method: str
    is_truncated: bool
    evaluations: tuple[Evaluated, ...]
    rounds: tuple[RoundClosed, ...]
    empty_rounds: tuple[EmptyRound, ...]
    partitions: tuple[Partitioned, ...]
    rejections: tuple[UpdateRejected, ...]
    outcome: Outcome | None
    clients: ClientScores | None
    stops: tuple[StoppedLooking, ...] = ()

    def reach(self, accuracy: float, progress: Callable[[Evaluated], float]) -> float | None:
        """Return where on ``progress`` mean accuracy first is this good; None when it never was."""
        # The metrics bring scikit-learn, which takes a second to import; `auxo --help` should not wait for it.
        from auxo.core.metrics import first_reach  # noqa: PLC0415

        places = [progress(evaluated) for evaluated in self.evaluations]
        return first_reach(places, [evaluated.accuracy for evaluated in self.evaluations], accuracy)

    def participations_at(self, time_s: float) -> int:
        """Return the updates aggregated up to a moment."""
        return sum(closed.participants for closed in self.rounds if closed.time_s <= time_s)


@dataclass(frozen=True)
class RunFacts:
    """All that the report tells. Numbers that need an end of the run are None before it."""

    name: str
    seed: int | None
    is_finished: bool
    methods: Mapping[str, MethodFacts]
    cohorts: int | None  # None before Auxo's first evaluation
    speedup: float | None
    resource_speedup: float | None
    ari: float | None
    oracle_gain_share: float | None
    config_text: str

    def outcome(self, method: str) -> Outcome | None:
        """Return a method's result; None when it has none."""
        facts = self.methods.get(method)
        return None if facts is None else facts.outcome

    @property
    def target(self) -> float | None:
        """Return the base's best accuracy, the mark the others are timed against."""
        base = self.methods.get("base")
        return max((evaluated.accuracy for evaluated in base.evaluations), default=None) if base else None


def gather(run: RunDirectory) -> RunFacts:
    """Read a run directory, finished or not."""
    summary = run.read_summary()
    written = summary or {}
    methods = {method: _method_facts(run, method, written.get(method)) for method in run.methods()}
    auxo = methods.get("auxo")
    last = auxo.evaluations[-1] if auxo and auxo.evaluations else None
    time_ratio, work_ratio = _ratios(methods)
    cohorts, seed = _number(written, "cohorts"), _number(written, "seed")
    if cohorts is None and last is not None:
        cohorts = len(last.cohorts)
    return RunFacts(
        name=str(written.get("population") or run.path.resolve().name),
        seed=None if seed is None else int(seed),
        is_finished=written.get("status") == "finished",
        methods=methods,
        cohorts=None if cohorts is None else int(cohorts),
        speedup=_number(written, "speedup") if summary else time_ratio,
        resource_speedup=_number(written, "resource_speedup") if summary else work_ratio,
        ari=_number(written, "ari") if summary else (last.ari if last else None),
        oracle_gain_share=_number(written, "oracle_gain_share"),
        config_text=run.config_text(),
    )


def _method_facts(run: RunDirectory, method: str, written: object) -> MethodFacts:
    recorded = run.events(method)
    evaluations = _of_kind(recorded.events, Evaluated)
    return MethodFacts(
        method=method,
        is_truncated=recorded.is_truncated,
        evaluations=evaluations,
        rounds=_of_kind(recorded.events, RoundClosed),
        empty_rounds=_of_kind(recorded.events, EmptyRound),
        partitions=_of_kind(recorded.events, Partitioned),
        rejections=_of_kind(recorded.events, UpdateRejected),
        outcome=_outcome(written, evaluations),
        clients=run.read_clients(method),
        stops=_of_kind(recorded.events, StoppedLooking),
    )


def _of_kind(events: tuple[Event, ...], kind: type[_E]) -> tuple[_E, ...]:
    return tuple(event for event in events if isinstance(event, kind))


def _outcome(written: object, evaluations: tuple[Evaluated, ...]) -> Outcome | None:
    if isinstance(written, dict):
        names = ("final_accuracy", "worst_10", "best_10", "variance", "variance_beyond_binomial")
        return Outcome(*(_number(written, name) for name in names))
    if not evaluations:
        return None
    last = evaluations[-1]
    return Outcome(last.accuracy, last.worst_10, last.best_10, last.variance, last.variance_beyond_binomial)


def _ratios(methods: Mapping[str, MethodFacts]) -> tuple[float | None, float | None]:
    base, auxo = methods.get("base"), methods.get("auxo")
    if base is None or auxo is None or not base.evaluations:
        return None, None
    target = max(evaluated.accuracy for evaluated in base.evaluations)
    return (
        _ratio(*(run.reach(target, lambda evaluated: evaluated.time_s) for run in (base, auxo))),
        _ratio(*(run.reach(target, lambda evaluated: evaluated.resource) for run in (base, auxo))),
    )


def _ratio(base: float | None, auxo: float | None) -> float | None:
    return base / auxo if base is not None and auxo else None


def _number(fields: Mapping[str, object], name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

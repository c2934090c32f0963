"""Live progress of a run: bars on a terminal, a few plain lines anywhere else, both fed by events alone."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from auxo.core.metric import ACCURACY
from auxo.core.settings import PositiveInt, checked
from auxo.experiments.config import Config
from auxo.protocol.cohorts_seen import CohortsSeen
from auxo.protocol.events import CohortEnded, Evaluated, Event, OnEvent, Partitioned, RoundClosed, StoppedLooking
from auxo.protocol.notes import TrialsSeen
from auxo.registry.registry import short_name
from auxo.reporting.number_format import counted, plain, score

_PLAIN_STEPS = 10  # plain lines a method, apart from partitions; our choice

_LEAST_WIDTH = 8  # of the column of names
_RUN_NUMBER = 2  # characters that a method's name gets where it has several runs
_UNKNOWN = "-"

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S


@dataclass(frozen=True)
@checked
class Budget:
    """How much there is to do in one method's run."""

    rounds: PositiveInt
    participants: PositiveInt  # a round, over all cohorts
    name_width: int = _LEAST_WIDTH  # characters of the longest name of a run

    @classmethod
    def of(cls, config: Config) -> "Budget":
        """Return the budget that every method of a run has."""
        longest = max(len(short_name(method)) for method in config.methods) + _RUN_NUMBER
        return cls(config.training.rounds, config.training.participants, max(_LEAST_WIDTH, longest))


@dataclass(frozen=True)
class MethodProgress:
    """How far one method is, as far as its events tell."""

    participations: int = 0
    seen: CohortsSeen = field(default_factory=CohortsSeen)
    trials: TrialsSeen = field(default_factory=TrialsSeen)
    training: frozenset[str] = frozenset()  # cohorts that open rounds
    ended: Mapping[str, int] = field(default_factory=dict)  # cohorts that train no more, and in which round they ended
    evaluation: Evaluated | None = None  # the last one
    time_s: float = 0.0

    def after(self, event: Event) -> "MethodProgress":
        """Return the progress once ``event`` has happened."""
        time_s = max(self.time_s, event.time_s)
        now = replace(self, time_s=time_s, seen=self.seen.after(event), trials=self.trials.after(event))
        match event:
            case RoundClosed():
                participations = self.participations + event.participants
                return replace(now, participations=participations, training=self.training | {event.cohort})
            case Partitioned():
                return replace(now, training=(self.training - {event.cohort}) | set(event.children))
            case CohortEnded():
                return replace(
                    now, training=self.training | {event.cohort}, ended={**self.ended, event.cohort: event.round}
                )
            case Evaluated():
                return replace(now, evaluation=event)
            case _:
                return now

    @property
    def is_over(self) -> bool:
        """Return whether every cohort has ended."""
        return bool(self.training) and self.training <= self.ended.keys()

    def rounds_done(self, budget: Budget) -> float:
        """Return participations in units of whole rounds; once every cohort has ended, the rounds that they trained.

        Drop-outs leave rounds short of participants, so the sum alone might never reach the end. A cohort that was
        given up has ended before it.
        """
        if self.is_over:
            return sum(self.ended[cohort] for cohort in self.training) / len(self.training)
        return min(self.participations / budget.participants, budget.rounds)


@contextmanager
def show_progress(budget: Budget, console: Console) -> Iterator[OnEvent]:
    """Yield the function to call with each event; it shows progress on ``console`` until the block ends."""
    # A build log may claim to be a terminal (forced colours), but nobody watches bars there.
    if console.is_interactive and not os.environ.get("CI"):
        with _bars(budget, console) as bars:
            yield LiveProgress(budget, bars).on_event
    else:
        yield PlainProgress(budget, console.file).on_event


class LiveProgress:
    """One bar for each method that has begun; a partition is printed above the bars."""

    def __init__(self, budget: Budget, bars: Progress) -> None:
        self._budget = budget
        self._bars = bars
        self._progress: dict[str, MethodProgress] = {}
        self._tasks: dict[str, TaskID] = {}

    def on_event(self, method: str, event: Event) -> None:
        """Show what the event changes."""
        before = self._progress.get(method, MethodProgress())
        now = self._progress[method] = before.after(event)
        if method not in self._tasks:
            self._tasks[method] = self._bars.add_task(method, total=self._budget.rounds, status="")
        if isinstance(event, Partitioned | StoppedLooking):
            self._bars.console.print(escape(f"{method}, {news_text(event, before.trials)}"), highlight=False)
        done = now.rounds_done(self._budget)
        self._bars.update(self._tasks[method], completed=done, status=_status(now, done, self._budget))


class PlainProgress:
    """A line for about each tenth of a method's rounds and for news of cohorts, without control characters."""

    def __init__(self, budget: Budget, stream: IO[str]) -> None:
        self._budget = budget
        self._stream = stream
        self._progress: dict[str, MethodProgress] = {}
        self._steps: dict[str, int] = {}
        self._waiting: dict[str, str] = {}  # lines by method

    def on_event(self, method: str, event: Event) -> None:
        """Write a line if the event is worth one."""
        before = self._progress.get(method, MethodProgress())
        now = self._progress[method] = before.after(event)
        if method in self._waiting and not isinstance(event, Evaluated):
            self._write(self._waiting.pop(method))
        if isinstance(event, Partitioned | StoppedLooking):
            self._write(f"{method}, {news_text(event, before.trials)}")
        done = now.rounds_done(self._budget)
        step = int(_PLAIN_STEPS * done / self._budget.rounds)
        # The last line waits for the last evaluation, so that it tells the result.
        is_news = step > self._steps.get(method, 0) or (now.is_over and isinstance(event, Evaluated))
        is_last = now.is_over or done >= self._budget.rounds
        if is_news and (not is_last or isinstance(event, Evaluated)):
            self._steps[method] = step
            self._waiting[method] = ""
        if method in self._waiting:
            # It waits for the event after it, which may be the evaluation of the same round.
            self._waiting[method] = f"{method:<{self._budget.name_width}}  {_status(now, done, self._budget)}"
            if isinstance(event, Evaluated):
                self._write(self._waiting.pop(method))

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def news_text(event: Partitioned | StoppedLooking, before: TrialsSeen | None = None) -> str:
    """Return one line about a partition, "round 41: cohort 0 -> 0.0 0.1, gain 0.42", or that there will be none."""
    if isinstance(event, StoppedLooking) and before is not None and event.cohort in before.rounds:
        return f"round {event.round}: nobody judged what cohort {event.cohort} had on trial, and it rests"
    if isinstance(event, StoppedLooking) and before is not None and before.is_unsure(event.cohort):
        return f"round {event.round}: judges were not sure of what cohort {event.cohort} had on trial, and it rests"
    if isinstance(event, StoppedLooking):
        return f"round {event.round}: cohort {event.cohort} has found no groups worth a partition, and rests"
    gain = "" if event.gain is None else f", gain {event.gain:.2f}"
    return f"round {event.round}: cohort {event.cohort} -> {' '.join(event.children)}{gain}"


def simulated_time_text(seconds: float) -> str:
    """Return a simulated time in the unit that suits it.

    >>> simulated_time_text(90), simulated_time_text(5400), simulated_time_text(200_000)
    ('2 min', '1.5 h', '2.3 days')
    """
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    if seconds < 2 * _DAY_S:
        return f"{seconds / _HOUR_S:.1f} h"
    return f"{seconds / _DAY_S:.1f} days"


def _status(progress: MethodProgress, done: float, budget: Budget) -> str:
    """Return rounds, cohorts, accuracy and simulated time, in columns that stand below each other."""
    last = progress.evaluation
    accuracy = _UNKNOWN if last is None else plain(score(last.accuracy, last.metric))
    return (
        f"{int(done):>{len(str(budget.rounds))}}/{budget.rounds} rounds  "
        f"{counted(len(progress.seen.leaves), 'cohort'):<9}  "
        f"{ACCURACY.name if last is None else last.metric.name} {accuracy:>6}  "
        f"sim {simulated_time_text(progress.time_s):>8}"
    )


def _bars(budget: Budget, console: Console) -> Progress:
    return Progress(
        TextColumn(f"{{task.description:<{budget.name_width}}}"),
        BarColumn(bar_width=None),  # whatever the other columns leave
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        console=console,
        expand=True,
    )

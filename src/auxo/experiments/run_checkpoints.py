"""Checkpoints of a run: the whole simulation and how far its events had come, and where a resumed run goes on.

A run directory's `checkpoints` folder holds them until the run has finished. What a checkpoint says of the methods that
are done is in their folders; of the one under way it holds every state, so the next step has the bits that it would
have had. When they are written follows the clock (`auxo.runtime.recorder`); what is in them does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.evaluation import Scores
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.sameness import (
    InputFiles,
    changed_inputs,
    changed_settings,
    changed_versions,
    input_files,
    settings_text,
    versions,
)
from auxo.files.atomic_write import write_whole
from auxo.files.checkpoint_store import Kept, Unusable
from auxo.protocol.codec import CodecError, from_parts, to_parts
from auxo.protocol.event_log import Mark, events_before, mark_of
from auxo.protocol.events import Event, RoundClosed
from auxo.runtime.recorder import Parts, Recorder
from auxo.simulation.virtual_time import SimulationState

_LONG = (".clients.", ".busy_until_s", ".coordinator.table", ".ended[")  # columns of clients, and what does not change


class ResumeRefused(ConfigError):  # noqa: N818 - it says what happened
    """A run cannot go on here with the same bits; the message says what is different."""


@dataclass(frozen=True)
class EndedRun:
    """A run of a method that came to its end before another one of the same method."""

    state: SimulationState
    scores: Scores


@dataclass(frozen=True)
class Reached:
    """How far a method has come: the state of the run under way, and those of the runs before it."""

    state: SimulationState
    ended: tuple[EndedRun, ...] = ()


@dataclass(frozen=True)
class FoundRun:
    """Where a run of a method goes on: with ``scores`` it has ended."""

    state: SimulationState
    events: tuple[Event, ...]
    scores: Scores | None
    mark: Mark  # the end of its events


@dataclass(frozen=True)
class Found:
    """Where a run goes on: methods that are done, with their events, and the runs of the next one."""

    finished: Mapping[str, tuple[Event, ...]]
    method: str
    runs: tuple[FoundRun, ...]

    @property
    def round(self) -> int:
        """Return the last round, counted along cohorts' lineages, that was closed."""
        closed = (event.round for event in self.runs[-1].events if isinstance(event, RoundClosed))
        return max(closed, default=0)


@dataclass
class RunCheckpoints:
    """Records one run, method by method: says what its checkpoints hold, and whether it can go on from one."""

    directory: RunDirectory
    config: Config
    recorder: Recorder
    data_sha256: str = ""  # of the clients' data, which need not come from a file

    def __post_init__(self) -> None:
        self._method, self._found = "", tuple[FoundRun, ...]()
        self._done, self._ended = dict[str, dict[str, int | str]](), list[EndedRun]()
        self._origin = {
            "versions": versions(),
            "settings": settings_text(self.config),
            "inputs": self._inputs(),
        }

    def find(self, own: Mapping[str, tuple[type, ...]]) -> Found | None:
        """Return where the run goes on; None: at its beginning.

        ``own`` says by method which kinds of states its parts bring along.

        Raises:
            ResumeRefused: another configuration, other files or other versions made what is there.
        """
        return self.recorder.find(lambda kept: self._read(kept, own))

    def begin(self, method: str, finished: Sequence[str], found: Found | None) -> None:
        """Begin with a method, after those that have ``finished``; ``found`` is where it goes on, if it has begun."""
        self.recorder.close_logs()
        self._method, self._ended = method, []
        self._done = {name: asdict(mark_of(self.directory.events_file(name))) for name in finished}
        self._found = () if found is None else found.runs

    def begin_run(self, number: int) -> FoundRun | None:
        """Begin with a run of the method, one after another; return where it goes on, if it has begun before."""
        found = self._found[number] if number < len(self._found) else None
        path = self.directory.events_file(self._method, number)
        self.recorder.open_log(path, Mark() if found is None else found.mark)
        return found

    def note(self, event: Event) -> None:
        """Record an event of the run under way."""
        self.recorder.event(event)
        if isinstance(event, RoundClosed):
            self.recorder.on_round()

    def reached(self, state: SimulationState) -> None:
        """Write a checkpoint if one is due; ``state`` is not over."""
        if self.recorder.is_due:
            self.write(state)

    def write(self, state: SimulationState) -> None:
        """Write a checkpoint of the run under way."""

        def is_long(name: str) -> bool:
            return any(part in name for part in _LONG)

        def parts(marks: tuple[Mark, ...]) -> Parts:
            under_way = {"finished": self._done, "method": self._method, "runs": [asdict(mark) for mark in marks]}
            return Parts({**self._origin, **under_way}, *to_parts(Reached(state, tuple(self._ended))), is_long)

        self.recorder.commit(parts)

    def end(self, state: SimulationState, scores: Scores) -> None:
        """Take note that the run under way has ended."""
        self._ended.append(EndedRun(state, scores))
        self.recorder.sync()

    def _inputs(self) -> InputFiles:
        return {**input_files(self.config), "the clients' data": [self.data_sha256]}

    def _check_origin(self, about: Mapping[str, object]) -> None:
        """Refuse to go on with anything else than what the checkpoint was made with."""
        settings, inputs, made_with = (about.get(name) for name in ("settings", "inputs", "versions"))
        if not isinstance(settings, str) or not isinstance(inputs, dict) or not isinstance(made_with, dict):
            raise Unusable("expected the settings, inputs and versions that it was made with")
        differences = {
            "other versions ({}), and would not end with the same bits; install those": "; ".join(
                changed_versions(made_with, versions())
            ),
            "another configuration ({}); put it back": ", ".join(
                changed_settings(settings, settings_text(self.config))
            ),
            "other content of {}; put it back": ", ".join(changed_inputs(inputs, self._inputs())),
        }
        for words, changed in differences.items():
            if changed:
                begun = f"the run was begun with {words.format(changed)}"
                raise ResumeRefused(f"{self.directory.path}: {begun}, or run again in another directory")

    def _read(self, kept: Kept, own: Mapping[str, tuple[type, ...]]) -> Found:
        self._check_origin(kept.about)
        try:
            about: Any = kept.about  # whatever else it is, is not usable
            method, marks = about["method"], [Mark(**mark) for mark in about["runs"]]
            finished = {
                name: events_before(self.directory.events_file(name), Mark(**mark))
                for name, mark in about["finished"].items()
            }
            reached = from_parts(Reached, kept.text, kept.arrays, own.get(method, ()))
            events = [self._events_of(method, number, mark) for number, mark in enumerate(marks)]
            states = [(run.state, run.scores) for run in reached.ended] + [(reached.state, None)]
            runs = tuple(
                FoundRun(state, told, scores, mark)
                for (state, scores), told, mark in zip(states, events, marks, strict=True)
            )
        except (CodecError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unusable(str(error)) from error
        return Found(finished, method, runs)

    def _events_of(self, method: str, number: int, mark: Mark) -> tuple[Event, ...]:
        """Return the events of a method's run; those of its first, if a better one has taken their place, are put back.

        Raises:
            ValueError: they are not those that were written.
        """
        path, aside = self.directory.events_file(method, number), self.directory.first_events_file(method)
        try:
            return events_before(path, mark)
        except ValueError:
            if number > 0 or not aside.is_file():
                raise
        found = events_before(aside, mark)
        write_whole(path, aside.read_bytes())
        return found

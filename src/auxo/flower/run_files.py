"""What a run leaves in a directory: checkpoints that it goes on from, and its events.

checkpoints/     the last two, see `auxo.files.checkpoint_store`
affinity.key     what it signs with, see `auxo.files.key_file`
bans.json        who is banned, see `auxo.runtime.ban_files`; where somebody was
events.jsonl     one line for each thing that happened, see `auxo.protocol.events`
models/          a safetensors file for each cohort, with the names of the app's own arrays; when the run ends
tree.json        every partition; then, too
clients.csv      which node is in which cohort, a row for each node that has said so; then, too
report.html      what became of it, on a page; written when the run ends, and again by `auxo report`
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors.numpy
from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result

from auxo.core.types import CohortId
from auxo.files.checkpoint_pace import CheckpointInterval
from auxo.files.checkpoint_store import Kept, Unusable
from auxo.files.errors import FileError
from auxo.flower.foreign_step import CohortSeen, StrategyEntry
from auxo.flower.logs import LOG
from auxo.flower.model_arrays import AppArray
from auxo.flower.run_state import RunState
from auxo.flower.strategy_state import Remembered, recall, remembered
from auxo.protocol.codec import CodecError, from_parts, to_parts
from auxo.protocol.event_log import Mark
from auxo.protocol.events import Event
from auxo.protocol.messages import AffinityFeedback, CheckIn
from auxo.runtime.ban_files import BanFiles
from auxo.runtime.recorder import EVENT, Parts, Recorder
from auxo.runtime.server_record import ServerRecord
from auxo.runtime.signing_keys import SigningKeys

_OURS = "strategy"  # before the names of arrays that are strategies'


@dataclass(frozen=True)
class RunRecord:
    """All of a run that must survive its process, but for the arrays of strategies."""

    server: ServerRecord
    strategies: str  # JSON: what is known of each but its arrays
    check_ins: tuple[CheckIn, ...]
    feedback: tuple[AffinityFeedback, ...]
    history: str  # JSON: metrics by cohort, kind and round
    ended: tuple[CohortId, ...]
    clock_s: float
    events: Mark


@dataclass
class RunFiles:
    """A run's directory, or nothing where it has none."""

    recorder: Recorder | None = None
    signed: bool = True  # claims of nodes count as far as the server has signed them
    _run: RunState | None = None
    _bans: BanFiles | None = None
    _keys: SigningKeys | None = None
    _not_held: set[str] = field(default_factory=set)  # what checkpoints do not hold, as far as it was said

    @staticmethod
    @contextmanager
    def open(folder: Path | None, interval: CheckpointInterval, *, signed: bool = True) -> "Iterator[RunFiles]":
        """Hold a directory for as long as a run lasts.

        Raises:
            DirectoryInUse: somebody else does.
        """
        if folder is None:
            yield RunFiles()
            return
        with Recorder(folder, interval, lambda problem: LOG.warning("%s", problem)) as recorder:
            files = RunFiles(recorder, signed)
            try:
                yield files
            finally:
                files.close()

    def begin(self, run: RunState) -> None:
        """Bring a new run to where the directory's checkpoint has it, if there is one.

        Raises:
            ValueError: it is of another model or of other settings.
        """
        if self.recorder is None:
            return
        found = self.recorder.find(lambda kept: _read(kept, run))
        mark = Mark()
        if found is not None:
            record, arrays = found
            _take_up(record, arrays, run)
            mark = record.events
            LOG.info("the run goes on from a checkpoint: %s", _where(run))
        self._bans, self._keys = BanFiles(self.recorder.directory), SigningKeys.of(self.recorder.directory)
        self._update(run, self._bans, self._keys)
        path = self.recorder.directory / "events.jsonl"
        try:
            self.recorder.open_log(path, mark)
        except ValueError as problem:
            LOG.warning("events are written anew: %s", problem)
            self.recorder.open_log(path, Mark())
        self._run = run

    def write(self, event: Event) -> None:
        """Append an event; where the disk has no room the federation goes on without."""
        if self.recorder is not None:
            try:
                self.recorder.event(event)
            except OSError as error:
                self.recorder.on_full_disk(EVENT, error, "the run goes on, and its record has a gap")

    def on_round(self) -> None:
        """Write a checkpoint if it is time for one."""
        if self.recorder is not None:
            self._update_safely()
            self.recorder.on_round()
            if self.recorder.is_due:
                self.commit()

    def _update(self, run: RunState, bans: BanFiles, keys: SigningKeys) -> None:
        """Have the server know what was done to its directory meanwhile: keys rotated, bans lifted."""
        if self.signed:
            keys.update(run.server)
        bans.update(run.server)

    def _update_safely(self) -> None:
        if self._run is not None and self._bans is not None and self._keys is not None:
            try:
                self._update(self._run, self._bans, self._keys)
            except (OSError, FileError) as error:  # who is banned is in the checkpoint, too; keys stay as they are
                LOG.warning("keys and bans could not be brought up to date: %s", error)

    def commit(self) -> None:
        """Write a checkpoint."""
        if self.recorder is not None and self._run is not None:
            run = self._run
            self.recorder.commit(lambda marks: _parts(run, marks[-1], self._say_not_held))

    def _say_not_held(self, kind: str, others: Sequence[str]) -> None:
        """Say once what of a strategy a checkpoint does not hold."""
        new = [f"{kind}.{name}" for name in others if f"{kind}.{name}" not in self._not_held]
        self._not_held.update(new)
        if new:
            LOG.warning(
                "checkpoints do not hold %s: it is neither numbers nor arrays; a run that goes on has it as new",
                ", ".join(new),
            )

    def finish(self, members: Mapping[str, Sequence[int]]) -> None:
        """Leave what can be used: the models of cohorts, the tree, and who is where; `auxo.load` takes it."""
        if self.recorder is None or self._run is None:
            return
        # Tables are for runs that are over: what knows their columns is not loaded before.
        from auxo.experiments.outcome_files import ClientRow, write_clients, write_models  # noqa: PLC0415

        run, folder, check_ins = self._run, self.recorder.directory, self._run.mailbox.check_ins
        leaves = run.server.tree.leaves
        rows = []
        for leaf in leaves:
            for node in members.get(leaf, ()):
                said = check_ins.get(node, CheckIn(node))
                reward = None if said.request is None else said.request.reward
                rows.append(ClientRow(str(node), leaf, None, None, 0, reward, said.participations, lost=False))
        try:
            write_models(folder, run.server.tree, ((leaf, _stored(run.arrays(leaf))) for leaf in leaves))
            write_clients(folder, rows)
        except (OSError, FileError) as error:
            LOG.warning("%s: models and memberships could not be written (%s); the result has them", folder, error)

    def close(self) -> None:
        """Close what is open; what has happened since the last checkpoint is kept if it can be."""
        if self.recorder is None or self._run is None:
            return
        try:
            if self.recorder.has_unsaved:
                self.commit()
        finally:
            self.recorder.close_logs()
            _write_report(self.recorder.directory)


def _write_report(folder: Path) -> None:
    # Pages are for people who look: what draws them is not loaded before.
    from auxo.reporting.federation_report import write_federation_report  # noqa: PLC0415

    try:
        LOG.info("report: %s", write_federation_report(folder))
    except (OSError, FileError) as error:
        LOG.warning("the report could not be written: %s", error)


def _stored(arrays: ArrayRecord) -> bytes:
    return safetensors.numpy.save({name: np.ascontiguousarray(array.numpy()) for name, array in arrays.items()})


def _where(run: RunState) -> str:
    return ", ".join(f"{cohort} at round {run.server.round(cohort)}" for cohort in run.server.cohorts)


def _parts(run: RunState, mark: Mark, on_not_held: Callable[[str, Sequence[str]], None]) -> Parts:
    arrays: dict[str, AppArray] = {}
    strategies = {}
    for number, entry in run.table.entries.items():
        state = remembered(entry.strategy, run.table.make(entry.made_for))
        on_not_held(type(entry.strategy).__name__, state.others)
        for name, array in entry.arrays.items():
            arrays[f"{_OURS}/{number}/model/{name}"] = np.ascontiguousarray(array.numpy())
        for path, found in state.arrays.items():
            for name, values in found.items():
                arrays[f"{_OURS}/{number}/state/{path}/{name}"] = np.ascontiguousarray(values)
        strategies[str(number)] = {
            "kind": type(entry.strategy).__name__,
            "cohort": entry.made_for.name,
            "participants": entry.made_for.participants,
            "round": entry.round,
            "names": list(entry.arrays),
            "plain": dict(state.plain),
        }
    record = RunRecord(
        server=run.server.record,
        strategies=json.dumps(strategies),
        check_ins=tuple(run.mailbox.check_ins.values()),
        feedback=tuple(run.mailbox.feedback.values()),
        history=json.dumps(_metrics(run.history)),
        ended=tuple(sorted(run.ended)),
        clock_s=run.clock_s,
        events=mark,
    )
    text, own = to_parts(record)
    return Parts({"rounds": _where(run)}, text, {**own, **arrays})


def _read(kept: Kept, run: RunState) -> tuple[RunRecord, Mapping[str, AppArray]]:
    """Return the record of a checkpoint, and the arrays of strategies; one of other settings is another matter.

    Raises:
        Unusable: it is no record of a run.
    """
    own = {name: array for name, array in kept.arrays.items() if not name.startswith(f"{_OURS}/")}
    try:
        return from_parts(RunRecord, kept.text, own, run.server.own_states), kept.arrays
    except CodecError as error:
        raise Unusable(str(error)) from error


def _take_up(record: RunRecord, arrays: Mapping[str, AppArray], run: RunState) -> None:
    known = json.loads(record.strategies)
    for number, said in known.items():
        prefix = f"{_OURS}/{number}/"
        model = ArrayRecord({name: Array(arrays[f"{prefix}model/{name}"]) for name in said["names"]})
        if run.model.floats(model) is None:
            raise ValueError(
                f"initial_arrays: expected the model of the checkpoint, with {', '.join(said['names'][:6])}, got "
                f"{run.model.described()}; start with the model that the run was started with, or another directory"
            )
        seen = CohortSeen(said["cohort"], said["participants"])
        strategy = run.table.make(seen)
        if type(strategy).__name__ != said["kind"]:
            raise ValueError(
                f"base: expected {said['kind']}, as in the checkpoint, got {type(strategy).__name__}; make the "
                "strategy that the run was started with, or use another directory"
            )
        recall(strategy, Remembered(_states(arrays, f"{prefix}state/"), dict(said["plain"])))
        run.table.put(int(number), StrategyEntry(strategy, model, seen, said["round"]))
    run.server.take_up(record.server)
    run.mailbox.check_ins = {int(one.client): one for one in record.check_ins}
    run.mailbox.feedback = {int(one.client): one for one in record.feedback}
    run.history = _results(json.loads(record.history))
    run.ended = {cohort for cohort in record.ended if cohort not in run.server.cohorts}
    run.elapsed_s = record.clock_s


def _states(arrays: Mapping[str, AppArray], prefix: str) -> dict[str, dict[str, AppArray]]:
    states: dict[str, dict[str, AppArray]] = {}
    for name, array in arrays.items():
        if name.startswith(prefix):
            path, _, place = name.removeprefix(prefix).partition("/")
            states.setdefault(path, {})[place] = array
    return states


def _metrics(history: Mapping[str, Result]) -> dict[str, list[dict[str, dict[str, object]]]]:
    return {
        cohort: [
            {str(number): dict(record) for number, record in kind.items()}
            for kind in (
                result.train_metrics_clientapp,
                result.evaluate_metrics_clientapp,
                result.evaluate_metrics_serverapp,
            )
        ]
        for cohort, result in history.items()
    }


def _results(said: Mapping[str, list[dict[str, dict[str, float]]]]) -> dict[str, Result]:
    results = {}
    for cohort, kinds in said.items():
        train, evaluate, central = (
            {int(number): MetricRecord(dict(record)) for number, record in kind.items()} for kind in kinds
        )
        results[cohort] = Result(ArrayRecord(), train, evaluate, central)
    return results

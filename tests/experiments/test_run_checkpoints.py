"""A run that was stopped anywhere and goes on leaves the same bytes as one that was not."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from auxo.experiments import run_checkpoints, runner
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.populations import make_population
from auxo.experiments.run_checkpoints import Found, ResumeRefused, RunCheckpoints
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment
from auxo.experiments.sameness import versions
from auxo.experiments.seeds import run_seeds
from auxo.experiments.summary import Summary
from auxo.files.checkpoint_store import Disk
from auxo.files.directory_lock import DirectoryInUse, locked_directory
from auxo.protocol.events import Event, Partitioned
from auxo.runtime.recorder import Recorder
from tests.experiments.test_runner import SMALL, ignore

CONFIG = (
    "training.rounds=24",
    "ifca.warm_start=1",
    "run.evaluate_every=3",
    'methods=["base", "auxo", "oracle", "ifca", "paper"]',
    "run.checkpoint_every=4r",
)


class Stopped(BaseException):
    """As if the process had died: nothing is tidied up on its way."""


def config(*overrides: str) -> Config:
    return parse_config(SMALL, (*CONFIG, *overrides))


def run(directory: RunDirectory, settings: Config, stop_at: int | None = None) -> tuple[int, list[str]]:
    """Run or go on, at most until so many events have come; return how many came, and what was told."""
    count = 0
    notes: list[str] = []

    def on_event(label: str, event: Event) -> None:
        nonlocal count
        count += 1
        if count == stop_at:
            raise Stopped

    run_experiment(settings, directory, on_event, notes.append)
    return count, [note for note in notes if "no partition is possible" not in note]  # some runs here are short


def left(directory: RunDirectory) -> dict[str, bytes]:
    # The stamp says when a run was made.
    files = (path for path in directory.path.rglob("*") if path.is_file() and path.name != "stamp.json")
    return {str(path.relative_to(directory.path)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, bytes]]:
    directory = RunDirectory.create(tmp_path_factory.mktemp("runs") / "undisturbed", to_toml(config()))
    count, notes = run(directory, config())
    assert notes == []
    events = directory.events("auxo").events
    assert any(isinstance(event, Partitioned) for event in events)
    files = left(directory)
    assert "summary.json" in files
    assert not any(name.startswith(("checkpoints", ".")) for name in files)
    return count, files


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_stopped_anywhere_and_resumed_it_leaves_the_same_bytes(
    tmp_path: Path, undisturbed: tuple[int, dict[str, bytes]], share: float
) -> None:
    count, expected = undisturbed
    directory = RunDirectory.create(tmp_path / "run", to_toml(config()))
    with pytest.raises(Stopped):
        run(directory, config(), 1 + int(share * (count - 1)))
    _, notes = run(directory, config())
    assert len(notes) == 1
    assert ("begins anew" in notes[0]) == (share == 0)
    assert left(directory) == expected


@pytest.mark.fault(3, 4)
@pytest.mark.slow
def test_stopped_again_and_again_it_leaves_the_same_bytes(
    tmp_path: Path, undisturbed: tuple[int, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    count, expected = undisturbed
    found: list[str] = []
    begin = RunCheckpoints.begin

    def noted(self: RunCheckpoints, method: str, finished: Sequence[str], where: Found | None) -> None:
        if where is not None:
            found.append(f"{method} {len(where.runs)}")
        begin(self, method, finished, where)

    monkeypatch.setattr(RunCheckpoints, "begin", noted)
    directory = RunDirectory.create(tmp_path / "run", to_toml(config()))
    seen: set[tuple[str, Event]] = set()

    def stop_at_news(label: str, event: Event) -> None:
        is_new = (label, event) not in seen
        seen.add((label, event))
        if is_new and len(seen) % 15 == 0:
            raise Stopped

    is_over = False
    while not is_over:
        try:
            run_experiment(config(), directory, stop_at_news)
            is_over = True
        except Stopped:
            continue
    assert len(seen) == count
    assert left(directory) == expected
    assert {"base 1", "auxo 1", "oracle 1", "oracle 2", "ifca 1", "paper 1"} <= set(found)


def test_stopped_soon_after_a_method_s_better_second_run_it_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    # With this seed the oracle's second run is the better one, whose events take the place of the first one's.
    settings = config('methods=["oracle", "base"]', "training.rounds=6", "seed=4", "run.checkpoint_every=7r")
    whole = RunDirectory.create(tmp_path / "whole", to_toml(settings))
    run(whole, settings)
    directory = RunDirectory.create(tmp_path / "run", to_toml(settings))

    def stop_at_next(label: str, event: Event) -> None:
        if label == "base":
            raise Stopped

    with pytest.raises(Stopped):
        run_experiment(settings, directory, stop_at_next)
    assert directory.first_events_file("oracle").is_file()
    _, notes = run(directory, settings)
    assert [note.partition("run ")[2] for note in notes] == ["goes on after round 6 of oracle"]
    assert left(directory) == left(whole)


def small(*overrides: str) -> Config:
    return config('methods=["base", "auxo"]', "training.rounds=6", *overrides)


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    """Return a run that was stopped in its second method."""
    directory = RunDirectory.create(tmp_path / "run", to_toml(small()))
    with pytest.raises(Stopped):
        run(directory, small(), stop_at=14)
    assert directory.methods() == ("base", "auxo")
    return directory


def test_the_note_says_where_it_goes_on(stopped: RunDirectory) -> None:
    _, notes = run(stopped, small())
    assert notes == [f"{stopped.path} goes on after round 2 of auxo; base finished before"]


def test_events_that_have_been_are_told_again(stopped: RunDirectory) -> None:
    told: list[tuple[str, Event]] = []
    run_experiment(small(), stopped, lambda label, event: told.append((label, event)))
    assert tuple(event for label, event in told if label == "auxo") == stopped.events("auxo").events


@pytest.mark.fault(35)
def test_another_configuration_is_refused_with_the_difference(stopped: RunDirectory) -> None:
    before = left(stopped)
    with pytest.raises(ResumeRefused, match=r"another configuration \(training\.learning_rate: 0\.1, now 0\.2\); put"):
        run(stopped, small("training.learning_rate=0.2"))
    assert left(stopped) == before


@pytest.mark.fault(10, 35)
def test_another_version_is_refused_with_the_difference(stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {**versions(), "numpy": "99.1"}
    monkeypatch.setattr(run_checkpoints, "versions", lambda: now)
    before = left(stopped)
    with pytest.raises(
        ResumeRefused, match=r"other versions \(numpy: .*, now 99\.1\), and would not end with the same"
    ):
        run(stopped, small())
    assert left(stopped) == before


@pytest.mark.fault(35)
def test_other_content_of_a_file_is_refused(tmp_path: Path) -> None:
    Path(tmp_path / "mine.py").write_text("from auxo.core.selectors import Uniform\n")
    settings = small(f'training.selector="{tmp_path / "mine.py"}:Uniform"')
    directory = RunDirectory.create(tmp_path / "run", to_toml(settings))
    with pytest.raises(Stopped):
        run(directory, settings, stop_at=12)
    Path(tmp_path / "mine.py").write_text("from auxo.core.selectors import Uniform  # better\n")
    with pytest.raises(ResumeRefused, match=r"other content of .*mine\.py; put it back"):
        run(directory, settings)


def test_it_may_go_on_with_more_workers_and_another_interval(tmp_path: Path, stopped: RunDirectory) -> None:
    whole = RunDirectory.create(tmp_path / "whole", to_toml(small()))
    run(whole, small())
    run(stopped, small("run.workers=2", "run.checkpoint_every=never"))
    assert left(stopped) == left(whole)


@pytest.mark.fault(9)
def test_a_damaged_checkpoint_is_put_aside_and_the_one_before_is_taken(tmp_path: Path, stopped: RunDirectory) -> None:
    whole = RunDirectory.create(tmp_path / "whole", to_toml(small()))
    run(whole, small())
    files = sorted(stopped.checkpoints.glob("*-whole.safetensors"), key=lambda path: path.name.split("-")[1])
    content = bytearray(files[-1].read_bytes())
    content[-1] ^= 1
    files[-1].write_bytes(content)
    _, notes = run(stopped, small())
    assert "cannot be used and was put aside" in notes[0]
    assert "goes on after round 4 of base" in notes[1]
    assert left(stopped) == left(whole)


def test_events_that_were_changed_make_a_checkpoint_unusable(tmp_path: Path, stopped: RunDirectory) -> None:
    whole = RunDirectory.create(tmp_path / "whole", to_toml(small()))
    run(whole, small())
    path = stopped.path / "base" / "events.jsonl"
    path.write_bytes(path.read_bytes()[10:])
    _, notes = run(stopped, small())
    assert len(notes) == 3
    assert all("events.jsonl: expected the" in note for note in notes[:2])
    assert "begins anew" in notes[2]
    assert left(stopped) == left(whole)


@pytest.mark.fault(6)
def test_a_directory_in_use_is_left_alone(stopped: RunDirectory) -> None:
    before = left(stopped)
    with locked_directory(stopped.path), pytest.raises(DirectoryInUse):
        run(stopped, small())
    assert left(stopped) == before


def test_no_checkpoints_are_written_where_nobody_wants_them(tmp_path: Path) -> None:
    settings = small("run.checkpoint_every=never")
    directory = RunDirectory.create(tmp_path / "run", to_toml(settings))
    with pytest.raises(Stopped):
        run(directory, settings, stop_at=14)
    assert not directory.checkpoints.exists()
    _, notes = run(directory, settings)
    assert notes == [f"{directory.path} has no checkpoint yet, and begins anew"]


class FullDisk(Disk):
    def write(self, path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))


@pytest.mark.fault(8)
def test_a_disk_without_room_for_checkpoints_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory.create(tmp_path / "run", to_toml(small()))
    monkeypatch.setattr(runner, "Recorder", partial(Recorder, disk=FullDisk()))
    _, notes = run(directory, small())
    (note,) = notes  # although more than one was due
    assert "could not be written (No space left on device: " in note
    assert not directory.checkpoints.exists()


def test_an_unknown_interval_is_told() -> None:
    with pytest.raises(
        ConfigError, match=r"run\.checkpoint_every: expected seconds, minutes or hours of work .* 'often'"
    ):
        small("run.checkpoint_every=often")


def test_a_comparison_goes_on_inside_a_seed(tmp_path: Path) -> None:
    notes: list[str] = []
    stops = iter([14])

    def run_seed(settings: Config, directory: RunDirectory) -> Summary:
        stop_at, count = next(stops, None), 0

        def on_event(label: str, event: Event) -> None:
            nonlocal count
            count += 1
            if count == stop_at:
                raise Stopped

        return run_experiment(settings, directory, on_event, notes.append)

    whole = run_seeds(small(), 2, tmp_path / "whole", lambda of, directory: run_experiment(of, directory, ignore))
    with pytest.raises(Stopped):
        run_seeds(small(), 2, tmp_path / "stopped", run_seed)
    assert run_seeds(small(), 2, tmp_path / "stopped", run_seed) == whole
    told = [note for note in notes if "no partition is possible" not in note]
    assert told == [f"{tmp_path / 'stopped' / 'seed-0'} goes on after round 2 of auxo; base finished before"]
    for seed in ("seed-0", "seed-1"):
        one, other = (RunDirectory.open(tmp_path / name / seed) for name in ("whole", "stopped"))
        assert left(one) == left(other)


def test_other_clients_that_come_from_no_file_are_refused(tmp_path: Path) -> None:
    data = make_population(small())
    directory = RunDirectory.create(tmp_path / "run", to_toml(small()))
    count = 0

    def stop(label: str, event: Event) -> None:
        nonlocal count
        count += 1
        if count == 12:
            raise Stopped

    with pytest.raises(Stopped):
        run_experiment(small(), directory, stop, data=data)
    with pytest.raises(ResumeRefused, match="other content of the clients' data; put it back"):
        run_experiment(small(), directory, ignore, data=replace(data, x=data.x + 1))
    assert run_experiment(small(), directory, ignore, data=data).status == "finished"

"""Traces in a configuration: which settings go together, and what a run makes of the files."""

from pathlib import Path

import numpy as np
import pytest

from auxo.engines.in_process import InProcess
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.method_runs import local_training
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment
from auxo.experiments.world import make_world
from auxo.simulation.virtual_time import World
from auxo.traces.availability import TraceAvailability
from auxo.traces.synthetic import synthetic_trace
from auxo.traces.trace import Trace
from auxo.traces.trace_file import read_trace, write_trace

pytest.importorskip("pyarrow")

SMALL = ("population.source=synthetic", "population.clients=30", "training.participants=5", "population.groups=1")


def made(*overrides: str) -> tuple[Config, World]:
    config = parse_config("", [*SMALL, *overrides])
    data = make_population(config)
    engine = InProcess(trainer_for(config, data), data, local_training(config), config.seed)
    return config, make_world(config, data, engine)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["devices.kind=trace"], 'devices.file: expected a path because devices.kind = "trace", got none; set it'),
        (["devices.file=a.arrow"], "devices.file: 'a.arrow' is given, but devices.kind = \"synthetic\""),
        (["devices.availability=trace"], "devices.availability_file: expected a path because devices.availability"),
        (["devices.availability_file=a.arrow"], 'is given, but devices.availability = "always"'),
        (["devices.kind=tracer"], 'did you mean "trace"?'),
    ],
)
def test_settings_of_traces_that_contradict_each_other_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", overrides)
    assert message in str(error.value)


def test_settings_of_traces_read_back() -> None:
    overrides = ["devices.kind=trace", "devices.file=a.arrow", "devices.availability=trace"]
    config = parse_config("", overrides)
    assert config.devices.sessions_file == Path("a.arrow")
    other = parse_config("", [*overrides, "devices.availability_file=b.arrow"])
    assert other.devices.sessions_file == Path("b.arrow")
    for one in (config, other):
        assert parse_config(to_toml(one)) == one


def test_a_run_takes_speeds_and_sessions_from_one_file(tmp_path: Path) -> None:
    trace = synthetic_trace(30, seed=8, share=0.3, days=1)
    assert trace.speeds is not None
    path = tmp_path / "a.arrow"
    write_trace(trace, path)
    settings = ("devices.kind=trace", f"devices.file={path}", "devices.availability=trace")
    _, plain = made(*settings)
    _, slow = made(*settings, "devices.slowdown=4")
    assert isinstance(plain.availability, TraceAvailability)
    assert sorted(plain.devices.download_bps.tolist()) == sorted(trace.speeds.download_bps.tolist())
    np.testing.assert_allclose(slow.devices.compute_s_per_sample, 4 * plain.devices.compute_s_per_sample)
    np.testing.assert_array_equal(slow.devices.download_bps, plain.devices.download_bps)
    # A client's habits and its speed are those of one device.
    speeds = trace.speeds.compute_s_per_sample[plain.availability.device]
    np.testing.assert_allclose(plain.devices.compute_s_per_sample, speeds)


def test_a_trace_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def noted(path: Path) -> Trace:
        read.append(path)
        return read_trace(path)

    monkeypatch.setattr("auxo.experiments.world.read_trace", noted)
    path = tmp_path / "both.arrow"
    write_trace(synthetic_trace(20, seed=8, share=0.3, days=1), path)
    made("devices.kind=trace", f"devices.file={path}", "devices.availability=trace")

    assert read == [path]


def test_a_file_without_what_is_asked_of_it_is_named(tmp_path: Path) -> None:
    trace = synthetic_trace(3, seed=8, days=1)
    write_trace(Trace(sessions=trace.sessions), tmp_path / "sessions.arrow")
    write_trace(Trace(speeds=trace.speeds), tmp_path / "speeds.arrow")
    with pytest.raises(ConfigError, match=r"devices\.file: .* has sessions and no speeds"):
        made("devices.kind=trace", f"devices.file={tmp_path / 'sessions.arrow'}")
    with pytest.raises(ConfigError, match=r"devices\.availability_file: .* has speeds and no sessions"):
        made("devices.availability=trace", f"devices.availability_file={tmp_path / 'speeds.arrow'}")
    config = parse_config("", [*SMALL, "devices.kind=trace", f"devices.file={tmp_path / 'sessions.arrow'}"])
    directory = RunDirectory.create(tmp_path / "run", to_toml(config))
    with pytest.raises(ConfigError, match="has sessions and no speeds"):  # before a run has begun
        run_experiment(config, directory, lambda label, event: None)
    assert directory.methods() == ()
    with pytest.raises(ConfigError, match=r"devices\.file: .*absent\.arrow: file: expected a trace file"):
        made("devices.kind=trace", f"devices.file={tmp_path / 'absent.arrow'}")

"""The world of a run: the clients' data, their devices and when they are on line, made once for all its methods."""

from dataclasses import replace
from pathlib import Path

from auxo.experiments.config import Config, DevicesConfig
from auxo.experiments.config_file import ConfigError
from auxo.experiments.private_clients import privacy_mods
from auxo.files.errors import FileError
from auxo.population.federated_data import FederatedData
from auxo.runtime.engine import Engine
from auxo.simulation.availability import AlwaysOnline, Availability, DayNightPattern
from auxo.simulation.devices import Devices, DeviceSource, EqualDevices, SyntheticDevices
from auxo.simulation.virtual_time import World
from auxo.traces.availability import draw_availability
from auxo.traces.devices import TraceDevices
from auxo.traces.flash import read_flash
from auxo.traces.trace import Trace
from auxo.traces.trace_file import read_trace

_Traces = dict[Path, Trace]  # those that have been read


def make_world(config: Config, data: FederatedData, engine: Engine, sends_partial_work: bool = False) -> World:
    """Return the devices, the availability and the clients' data; nothing in it knows the groups."""
    devices, clients = config.devices, data.n_clients
    traces: _Traces = {}
    return World(
        data=replace(data, groups=None),
        devices=_device_source(devices, traces).draw(clients, config.seed),
        availability=_availability(devices, traces, clients, config.seed),
        engine=engine,
        epochs=config.training.epochs,
        dropout=devices.dropout,
        deadline_s=float("inf") if devices.deadline_s is None else devices.deadline_s,
        patience_s=devices.patience_s,
        cooldown_s=devices.cooldown_s,
        forgets=devices.forgets,
        sends_partial_work=sends_partial_work,
        batch_size=config.training.batch_size,
        mods=privacy_mods(config, clients),
    )


def draw_devices(config: Config, clients: int) -> Devices:
    """Return devices for so many clients, as the configuration describes them."""
    return _device_source(config.devices, {}).draw(clients, config.seed)


def _device_source(devices: DevicesConfig, traces: _Traces) -> DeviceSource:
    if devices.file is not None:
        speeds = _trace("devices.file", devices.file, traces).speeds
        if speeds is None:
            raise ConfigError(
                f"devices.file: {devices.file} has sessions and no speeds; name it in devices.availability_file, and "
                "see `auxo traces convert --help` for files with speeds"
            )
        return TraceDevices(speeds, devices.slowdown)
    if devices.kind == "equal":
        equal = EqualDevices()
        return replace(equal, compute_s_per_sample=devices.slowdown * equal.compute_s_per_sample)
    source = SyntheticDevices(spread=devices.spread)
    return replace(source, training_factor=devices.slowdown * source.training_factor)


def _availability(devices: DevicesConfig, traces: _Traces, clients: int, seed: int) -> Availability:
    if devices.sessions_file is not None:
        sessions = _trace("devices.availability_file", devices.sessions_file, traces).sessions
        if sessions is None:
            raise ConfigError(
                f"devices.availability_file: {devices.sessions_file} has speeds and no sessions; name one that has, "
                "see `auxo traces convert --help`"
            )
        return draw_availability(sessions, clients, seed)
    if devices.availability == "always":
        return AlwaysOnline(clients)
    return DayNightPattern(share=devices.share_online).draw(clients, seed)


def _trace(setting: str, path: Path, traces: _Traces) -> Trace:
    """Return a trace, read once although speeds and sessions may come from the same file."""
    try:
        if path not in traces:
            traces[path] = Trace(sessions=read_flash(path)) if path.suffix == ".npz" else read_trace(path)
        return traces[path]
    except FileError as error:
        raise ConfigError(f"{setting}: {error}") from error

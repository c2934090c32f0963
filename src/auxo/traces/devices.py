"""Clients with the speeds of the devices of a trace."""

from dataclasses import dataclass
from typing import final

from auxo.core.settings import PositiveFloat, checked
from auxo.simulation.devices import Devices
from auxo.traces.device_assignment import assign_devices
from auxo.traces.trace import Speeds


@final
@dataclass(frozen=True)
@checked
class TraceDevices:
    """Each client is given a device of a trace, by `assign_devices`."""

    speeds: Speeds
    # Factor on the time training takes, for a model heavier than the one that was measured.
    slowdown: PositiveFloat = 1.0

    def draw(self, n_clients: int, seed: int) -> Devices:
        """Return a device for each client; more clients do not change the devices of the first ones."""
        rows = assign_devices(self.speeds.devices, n_clients, seed)
        return Devices(
            compute_s_per_sample=self.slowdown * self.speeds.compute_s_per_sample[rows],
            download_bps=self.speeds.download_bps[rows],
            upload_bps=self.speeds.upload_bps[rows],
        )

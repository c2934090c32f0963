"""Where the files are that do not come with the project: what --data says, or else the variable AUXO_DATA."""

import os
from pathlib import Path

from auxo.experiments.config import Config, DevicesConfig, PopulationConfig


def data_folder(population: PopulationConfig) -> Path | None:
    """Return the folder with the user's data; None if nobody has named one."""
    folder = population.data or os.environ.get("AUXO_DATA")
    return None if folder is None else Path(folder)


def devices_with_files(config: Config) -> DevicesConfig:
    """Return the devices, whose trace files may also lie in the data folder, with the paths at which they are."""
    folder, devices = data_folder(config.population), config.devices

    def found(path: Path | None) -> Path | None:
        if path is None or folder is None or path.exists() or not (folder / path).exists():
            return path
        return folder / path

    return devices.model_copy(
        update={"file": found(devices.file), "availability_file": found(devices.availability_file)}
    )

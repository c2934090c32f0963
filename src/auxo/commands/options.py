"""Arguments and options that several commands take, and the settings that they stand for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from auxo.registry.expectation import toml_value

ConfigFile = Annotated[Path | None, typer.Argument(metavar="[CONFIG.toml]")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be given many times."),
]
OutDirectory = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="New or empty directory for the run. Default: runs/NAME-SEED."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the main numbers as one JSON object.")
]
PopulationFile = Annotated[
    Path | None,
    typer.Option(
        "--population",
        metavar="FILE",
        help="Clients from a file (.arrow, .parquet, .csv, .npz): sets population.source and .file.",
    ),
]
EngineName = Annotated[
    Literal["local", "ray"] | None,
    typer.Option(
        "--engine",
        help="Where participants train: on this machine, or on a Ray cluster with the same result: sets run.engine.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT|auto",
        help="With --engine ray: a running cluster, instead of one on this machine for this run: sets run.ray_address.",
    ),
]


Cohorts = Annotated[
    Path | None,
    typer.Option(
        "--cohorts",
        metavar="RUN",
        help="Start from the cohorts that a finished run has found, with new models: sets training.cohorts.",
    ),
]
KeepModels = Annotated[
    bool,
    typer.Option(
        "--keep-models", help="With --cohorts: start from the cohorts' models, too: sets training.cohort_models."
    ),
]


def cohort_overrides(cohorts: Path | None, keeps_models: bool) -> list[str]:
    """Return --cohorts and --keep-models as the settings they stand for."""
    named = [] if cohorts is None else [f"training.cohorts={toml_value(cohorts)}"]
    return [*named, *(["training.cohort_models=true"] if keeps_models else [])]


def all_overrides(
    overrides: Sequence[str] | None,
    population: Path | None,
    engine: str | None = None,
    ray_address: str | None = None,
) -> list[str]:
    """Return --population and the like as the settings they stand for, then what --set says."""
    settings = []
    if population is not None:
        settings += ["population.source=file", f"population.file={toml_value(population)}"]
    if engine is not None:
        settings += [f"run.engine={engine}"]
    if ray_address is not None:
        settings += [f"run.ray_address={toml_value(ray_address)}"]
    return [*settings, *(overrides or ())]

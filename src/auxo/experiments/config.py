"""What an experiment is: typed, checked and complete settings, one model for each section of the TOML file.

A setting is one line here: its type, its default, its range, and the description that `auxo config show --explain`
prints. Defaults without a paper section behind them are our own choice.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Method = Literal["base", "auxo", "oracle"]
Source = Literal["digits", "synthetic", "file"]
Heterogeneity = Literal["rotation", "affine", "concept", "label", "none"]

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """What all sections share: frozen, no unknown keys, no silent conversions ("3" is not 3), no nan."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _lists_become_tuples(cls, values: object) -> object:
        # TOML has only lists, and a frozen model should hold nothing that can change.
        if not isinstance(values, dict):
            return values
        return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


class PopulationConfig(Section):
    """Who the clients are and how their data differ."""

    source: Source = Field(default="digits", description="Where the clients' data come from.")
    file: Annotated[Path, Field(strict=False)] | None = Field(
        default=None,
        description='Population file (.npz), relative to the working directory. Only with source = "file".',
    )
    clients: PositiveInt = Field(default=2000, description="Clients in the population. A file brings its own number.")
    groups: PositiveInt | Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = Field(
        default=4, description="Planted groups: how many of equal size, or a list of relative sizes."
    )
    heterogeneity: Heterogeneity = Field(
        default="rotation",
        description="How groups differ: inputs rotated, inputs mapped by an affine map, labels permuted (concept), "
        "other classes (label), or not at all (none; groups is then without effect).",
    )
    degree: Fraction = Field(
        default=0.5, description="How far apart groups are with heterogeneity = affine; 0: not at all."
    )
    client_label_concentration: PositiveFloat | None = Field(
        default=None,
        description="Dirichlet concentration of each client's own classes, smaller is more skewed. Not set: no skew.",
    )
    samples: tuple[PositiveInt, PositiveInt] = Field(
        default=(20, 60), description="Fewest and most training samples of a client."
    )
    test_samples: PositiveInt = Field(default=30, description="Test samples of each client.")
    features: PositiveInt = Field(default=32, description="Length of an input. Only with source = synthetic.")
    classes: int = Field(default=10, ge=2, description="Number of classes. Only with source = synthetic.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.source == "file" and self.file is None:
            raise ValueError('population.file: expected a path because population.source = "file", got none; set it')
        if self.source != "file" and self.file is not None:
            raise ValueError(
                f'population.file: {str(self.file)!r} is given, but population.source = "{self.source}"; '
                'set population.source = "file" or remove population.file'
            )
        if self.samples[0] > self.samples[1]:
            raise ValueError(f"population.samples: expected [fewest, most], got {list(self.samples)}; swap the two")
        if self.source != "file" and self.n_groups > self.clients:
            raise ValueError(
                f"population.groups: expected at most as many groups as clients ({self.clients}), got {self.n_groups}"
            )
        return self

    @property
    def group_sizes(self) -> tuple[float, ...]:
        """Return the groups' relative sizes, which sum to 1."""
        sizes = (1.0,) * self.groups if isinstance(self.groups, int) else self.groups
        return tuple(size / sum(sizes) for size in sizes)

    @property
    def n_groups(self) -> int:
        """Return how many groups are planted."""
        return self.groups if isinstance(self.groups, int) else len(self.groups)


class DevicesConfig(Section):
    """How fast clients' devices are, when they are on line and how often they fail."""

    kind: Literal["synthetic", "equal"] = Field(
        default="synthetic", description="Speeds drawn at random, or all the same."
    )
    spread: Fraction = Field(default=1.0, description="How much speeds differ with kind = synthetic; 0: not at all.")
    availability: Literal["always", "day-night"] = Field(default="always", description="When clients are on line.")
    share_online: float = Field(
        default=0.5, gt=0, le=1, description="Mean share of clients on line with availability = day-night."
    )
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Probability that a participant drops out of its round."
    )
    overcommit: float = Field(
        default=0.25,
        ge=0,
        description="Participants invited beyond those needed, as a share; the last to answer are wasted.",
    )
    deadline_s: PositiveFloat | None = Field(
        default=None, description="Simulated seconds after which a round closes with what it has. Not set: no deadline."
    )


class TrainingConfig(Section):
    """What is learned and how; the same for every method."""

    algorithm: Literal["fedavg", "fedyogi"] = Field(default="fedyogi", description="How updates are aggregated.")
    model: Literal["softmax", "mlp", "cnn"] = Field(
        default="softmax", description="What clients train; cnn needs images."
    )
    rounds: PositiveInt = Field(default=200, description="Rounds every cohort trains, counted from the root.")
    participants: PositiveInt = Field(default=200, description="Participants a round, over all cohorts together.")
    learning_rate: PositiveFloat = Field(default=0.05, description="Clients' learning rate (paper, section 7.1).")
    batch_size: PositiveInt = Field(default=6, description="Clients' batch size (paper, section 7.1).")
    epochs: PositiveInt = Field(default=1, description="Passes over a client's samples in one participation.")
    server_learning_rate: PositiveFloat | None = Field(
        default=None, description="Learning rate of the server step. Not set: the algorithm's own."
    )
    weighting: Literal["examples", "uniform"] = Field(
        default="examples", description="Weights of updates in the aggregate."
    )
    rate_scaling: Literal["none", "linear", "sqrt"] = Field(
        default="none", description="How the learning rate follows the share of participants a cohort has."
    )


class AuxoConfig(Section):
    """How Auxo clusters, rewards and partitions."""

    variant: Literal["auxo", "paper"] = Field(
        default="auxo", description="Formulas: with our corrections, or as the paper prints them."
    )
    max_children: int = Field(default=4, ge=2, description="Most children of one partition.")
    start_round: PositiveInt = Field(default=5, description="First round in which a cohort clusters its participants.")
    window: PositiveInt = Field(default=15, description="Rounds over which the gain of a partition is averaged.")
    min_gain: float = Field(default=0.03, ge=0, description="Gain a grouping must exceed for a partition.")
    partition_from: Fraction = Field(default=0.1, description="Part of the run before which no cohort is partitioned.")
    partition_until: Fraction = Field(default=0.7, description="Part of the run after which no cohort is partitioned.")
    min_participants: PositiveInt = Field(default=10, description="Fewest participants a round that a child may have.")
    exploration: Fraction = Field(default=0.2, description="Probability that a newcomer asks for a cohort at random.")
    exploration_decay: Fraction = Field(
        default=0.9, description="What a participation leaves of a client's exploration."
    )
    reward_decay: float = Field(
        default=0.2, gt=0, le=1, description="Weight of the newest reward in a client's record (paper, section 4.3)."
    )
    sketch_size: PositiveInt = Field(default=2048, description="Length of an update's fingerprint.")
    cross_fit: bool = Field(default=True, description="Label on one half of a client's samples, judge on the other.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.partition_from > self.partition_until:
            raise ValueError(
                f"auxo.partition_from: expected at most auxo.partition_until ({self.partition_until}), "
                f"got {self.partition_from}"
            )
        return self


class RunConfig(Section):
    """How the run is carried out; without effect on results, except for when they are measured."""

    workers: PositiveInt = Field(default=1, description="Processes that train participants; results are the same bits.")
    evaluate_every: PositiveInt = Field(default=5, description="Rounds between evaluations over all clients.")


class Config(Section):
    """A complete experiment."""

    seed: int = Field(default=0, ge=0, description="Everything random follows from it.")
    name: str = Field(default="run", description="Names the run directory: letters, digits, dot, dash and underscore.")
    methods: Annotated[tuple[Method, ...], Field(min_length=1)] = Field(
        default=("base", "auxo", "oracle"),
        description="What is compared: one model for all, Auxo, one model for each known group "
        "(skipped where no groups are known).",
    )
    population: PopulationConfig = Field(
        default=PopulationConfig(), description="Who the clients are and how they differ."
    )
    devices: DevicesConfig = Field(
        default=DevicesConfig(), description="How fast clients are and when they are on line."
    )
    training: TrainingConfig = Field(
        default=TrainingConfig(), description="What is learned; the same for every method."
    )
    auxo: AuxoConfig = Field(default=AuxoConfig(), description="How Auxo clusters, rewards and partitions.")
    run: RunConfig = Field(default=RunConfig(), description="How the run is carried out.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name) is None:
            raise ValueError(
                "name: expected letters, digits, dots, dashes and underscores, beginning with a letter or a digit, "
                f"got {self.name!r}"
            )
        if len(set(self.methods)) != len(self.methods):
            raise ValueError(f"methods: expected each at most once, got {list(self.methods)}")
        population, training = self.population, self.training
        if population.source != "file" and training.participants > population.clients:
            raise ValueError(
                f"training.participants: expected at most population.clients ({population.clients}), "
                f"got {training.participants}; lower it or add clients"
            )
        if population.source == "synthetic" and training.model == "cnn":
            raise ValueError(
                'training.model: "cnn" needs images, but population.source = "synthetic" has plain vectors; '
                'choose "softmax" or "mlp"'
            )
        return self

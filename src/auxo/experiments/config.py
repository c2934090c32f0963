"""What an experiment is: typed, checked and complete settings, one model for each section of the TOML file.

A setting is one line here: its type, its default, its range, and the description that `auxo config show --explain`
prints. Defaults without a paper section behind them are our own choice.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from auxo.attacks.attackers import Target
from auxo.core.concentration import MOST_UNPROVED
from auxo.core.usual_updates import MOST_WEIGHT
from auxo.experiments.parts import (
    AGGREGATORS,
    ATTACKS,
    CLIENTS,
    GUARDS,
    KINDS,
    METHODS,
    PERSONALISERS,
    SELECTORS,
    part_maker,
    registry_of,
    section_names,
)
from auxo.files.checkpoint_pace import parse_interval
from auxo.models.catalogue import MODELS, ModelArgument, check_model, inputs_of
from auxo.population.preparation import Missing
from auxo.privacy.spent import Promise
from auxo.privacy.terms import PAPER_FIGURES, PaperNoise, Wish
from auxo.registry.expectation import nearest
from auxo.registry.import_path import is_import_path
from auxo.registry.part_settings import PartMaker
from auxo.registry.registry import Registry, short_name
from auxo.training.trainer import MOST_EPOCHS, LocalTraining

Source = Literal["digits", "synthetic", "file", "given"]
HeterogeneityName = Literal["rotation", "affine", "concept", "swap", "nested", "label", "none"]

_PositiveInt = Annotated[int, Field(ge=1)]
_PositiveFloat = Annotated[float, Field(gt=0)]
_Fraction = Annotated[float, Field(ge=0, le=1)]

_LOCAL, _WISH = LocalTraining(), Wish()  # they own their defaults; a copy here would part from them


def _known_model(name: str) -> str:
    try:
        check_model(name)
    except ValueError as error:
        raise ValueError(f"training.{error}") from error
    return name


def _function_path(path: str) -> str:
    if not is_import_path(path):
        raise ValueError(f'training: expected a function as "file.py:name" or "package.module:name", got "{path}"')
    return path


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

    source: Source = Field(
        default="digits", description="Where the clients' data come from. given: from Python, by auxo.simulate."
    )
    file: Annotated[Path, Field(strict=False)] | None = Field(
        default=None,
        description="Clients' samples: a federated file (.arrow), a table (.parquet, .csv) or arrays (.npz), relative "
        'to the configuration. Only with source = "file".',
    )
    standardise: bool = Field(
        default=True,
        description="Shift and scale inputs: the columns of a table or of an array with one axis of features each by "
        "its own mean and deviation, images and hashed words by one of each; tokens stay. Only with source = file.",
    )
    missing: Missing = Field(
        default="error",
        description="Rows of a table (.parquet, .csv) with missing values: an error, left out, or filled with the "
        "columns' means. Only with source = file.",
    )
    plant: HeterogeneityName = Field(
        default="none",
        description="Groups planted among a file's own clients; heterogeneity is for drawn ones. "
        "Only with source = file.",
    )
    clients: _PositiveInt = Field(default=2000, description="Clients in the population. A file brings its own number.")
    groups: _PositiveInt | Annotated[tuple[_PositiveFloat, ...], Field(min_length=1)] = Field(
        default=4, description="Planted groups: how many of equal size, or a list of relative sizes."
    )
    heterogeneity: HeterogeneityName = Field(
        default="rotation",
        description="How groups differ: inputs rotated, inputs mapped by an affine map, labels permuted (concept), "
        "labels of two classes exchanged (swap), two halves whose labels are permuted, of groups that differ in a few "
        "classes (nested), other classes (label), or not at all (none; groups is then without effect).",
    )
    degree: _Fraction = Field(
        default=0.5, description="How far apart groups are with heterogeneity = affine; 0: not at all."
    )
    client_label_concentration: _PositiveFloat | None = Field(
        default=None,
        description="Dirichlet concentration of each client's own classes, smaller is more skewed. Not set: no skew.",
    )
    samples: tuple[_PositiveInt, _PositiveInt] = Field(
        default=(20, 60), description="Fewest and most training samples of a client."
    )
    test_samples: _PositiveInt = Field(default=30, description="Test samples of each client.")
    noise: float = Field(
        default=0.0,
        ge=0,
        description="Noise on each image, in deviations of its pixels: room for what cohorts gain. "
        "Only with source = digits.",
    )
    features: _PositiveInt = Field(default=32, description="Length of an input. Only with source = synthetic.")
    classes: int = Field(default=10, ge=2, description="Number of classes. Only with source = synthetic.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.source == "file" and self.file is None:
            raise ValueError(
                'population.file: expected a path because population.source = "file", got none; '
                "set it (--population FILE)"
            )
        if self.source != "file" and self.file is not None:
            raise ValueError(
                f'population.file: {str(self.file)!r} is given, but population.source = "{self.source}"; '
                'set population.source = "file" or remove population.file'
            )
        if self.is_drawn and self.plant != "none":
            raise ValueError(
                f'population.plant: "{self.plant}" is for files, but population.source = '
                f'"{self.source}" is drawn; set population.heterogeneity instead'
            )
        if self.source != "digits" and self.noise > 0:
            raise ValueError(
                f'population.noise: {self.noise} is given, but population.source = "{self.source}"; '
                "noise is made for digits only, remove it"
            )
        if self.source == "synthetic" and self.heterogeneity == "affine":
            raise ValueError(
                'population.heterogeneity: "affine" needs images, but population.source = "synthetic" has plain '
                'vectors; choose "rotation"'
            )
        if self.samples[0] > self.samples[1]:
            raise ValueError(f"population.samples: expected [fewest, most], got {list(self.samples)}; swap the two")
        if self.is_drawn and self.n_groups > self.clients:
            raise ValueError(
                f"population.groups: expected at most as many groups as clients ({self.clients}), got {self.n_groups}"
            )
        return self

    @property
    def is_drawn(self) -> bool:
        """Return whether clients are drawn, so that their number is a setting; a file brings its own."""
        return self.source in ("digits", "synthetic")

    @property
    def n_groups(self) -> int:
        """Return how many groups are planted."""
        return self.groups if isinstance(self.groups, int) else len(self.groups)


class DevicesConfig(Section):
    """How fast clients' devices are, when they are on line and how often they fail."""

    kind: Literal["synthetic", "equal", "trace"] = Field(
        default="synthetic", description="Speeds drawn at random, all the same, or those of the devices of a trace."
    )
    file: Annotated[Path, Field(strict=False)] | None = Field(
        default=None,
        description="Trace file with speeds (.arrow), relative to the configuration. Only with kind = trace.",
    )
    spread: _Fraction = Field(default=1.0, description="How much speeds differ with kind = synthetic; 0: not at all.")
    slowdown: _PositiveFloat = Field(
        default=1.0,
        le=1e6,
        description="Factor on the time training takes: above 1 for a model heavier than that of published speeds.",
    )
    availability: Literal["always", "day-night", "trace"] = Field(
        default="always",
        description="When clients are on line: always, mostly at night, or when the devices of a trace were.",
    )
    availability_file: Annotated[Path, Field(strict=False)] | None = Field(
        default=None,
        description="Trace file with sessions (.arrow, or FLASH's .npz), relative to the configuration. "
        "Only with availability = trace. Not set: devices.file.",
    )
    share_online: float = Field(
        default=0.5, gt=0, le=1, description="Mean share of clients on line with availability = day-night."
    )
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Probability that a participant drops out of its round."
    )
    overcommit: float = Field(
        default=0.25,
        ge=0,
        le=1000,
        description="Participants invited beyond those needed, as a share; the last to answer are wasted.",
    )
    deadline_s: _PositiveFloat | None = Field(
        default=None, description="Simulated seconds after which a round closes with what it has. Not set: no deadline."
    )
    patience_s: float = Field(
        default=600.0, ge=0, description="Simulated seconds a round waits for as many clients as it wants to invite."
    )
    cooldown_s: float = Field(
        default=0.0, ge=0, description="Simulated seconds a client stays away after it has taken part."
    )
    forgets: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the clients' affinity records that are lost in a round of all cohorts together, as "
        "devices are reset; their clients come back as newcomers. Methods without records have none to lose.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "trace" and self.file is None:
            raise ValueError('devices.file: expected a path because devices.kind = "trace", got none; set it')
        if self.kind != "trace" and self.file is not None:
            raise ValueError(
                f'devices.file: {str(self.file)!r} is given, but devices.kind = "{self.kind}"; '
                'set devices.kind = "trace" or remove devices.file'
            )
        if self.availability == "trace" and self.sessions_file is None:
            raise ValueError(
                'devices.availability_file: expected a path because devices.availability = "trace", got none; '
                'set it, or set devices.kind = "trace" and devices.file to a file that has sessions, too'
            )
        if self.availability != "trace" and self.availability_file is not None:
            raise ValueError(
                f"devices.availability_file: {str(self.availability_file)!r} is given, but "
                f'devices.availability = "{self.availability}"; set devices.availability = "trace" or remove '
                "devices.availability_file"
            )
        return self

    @property
    def sessions_file(self) -> Path | None:
        """Return the trace file that sessions come from; None without availability = trace."""
        if self.availability != "trace":
            return None
        return self.file if self.availability_file is None else self.availability_file


class TrainingConfig(Section):
    """What is learned and how; the same for every method."""

    aggregator: str = Field(
        default="fedyogi",
        description=f"How updates move a cohort's model: {', '.join(AGGREGATORS.names)}, or an aggregator of your own "
        "by its import path. Its settings are in the section of its name.",
    )
    selector: str = Field(
        default="uniform",
        description=f"Who of those on line takes part: {', '.join(SELECTORS.names)}, or a selector of your own.",
    )
    client: str = Field(
        default="sgd",
        description=f"How participants train: {', '.join(CLIENTS.names)}, or a client algorithm of your own.",
    )
    personaliser: str = Field(
        default="none",
        description="What each client does to its cohort's model before it is evaluated with it: "
        f"{', '.join(PERSONALISERS.names)}, or a personaliser of your own.",
    )
    model: Annotated[str, AfterValidator(_known_model)] = Field(
        default="softmax",
        description=f"What clients train: {', '.join(MODELS)}; or a torch module of your own by its import path, "
        "package.module:Name or file.py:Name (relative to the configuration).",
    )
    model_args: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ModelArgument] = Field(
        default_factory=dict,
        description="What the model is built with, such as {hidden = 200} for mlp, also as a table "
        "[training.model_args]. Shapes and classes come from the data.",
    )
    loss: Annotated[str, AfterValidator(_function_path)] | None = Field(
        default=None,
        description="A loss of your own by its import path, file.py:name: a function of outputs and labels (or "
        "targets) that returns a number for each sample. Not set: cross entropy, or squared error for regression.",
    )
    metric: Annotated[str, AfterValidator(_function_path)] | None = Field(
        default=None,
        description="A score of your own by its import path, as training.loss; larger is better. It takes the place "
        "of accuracy. Not set: accuracy, or for regression the variance explained.",
    )
    batching: Literal["auto", "stacked", "vmap", "one-by-one"] = Field(
        default="auto",
        description="How participants of a torch model train: several at once in stacked layers or by vmap, or one by "
        "one. auto: the fastest way that gives the right updates.",
    )
    rounds: _PositiveInt = Field(default=200, description="Rounds every cohort trains, counted from the root.")
    participants: _PositiveInt = Field(default=200, description="Participants a round, over all cohorts together.")
    learning_rate: _PositiveFloat = Field(
        default=_LOCAL.learning_rate, description="Clients' learning rate (paper, section 7.1)."
    )
    batch_size: _PositiveInt = Field(default=_LOCAL.batch_size, description="Clients' batch size (paper, section 7.1).")
    epochs: _PositiveInt = Field(
        default=_LOCAL.epochs, le=MOST_EPOCHS, description="Passes over a client's samples in one participation."
    )
    most_weight: float = Field(
        default=MOST_WEIGHT,
        gt=0,
        le=1,
        description="Share of a round's weight that one participant may have by its examples, if the others claim what "
        "is usual; ten times that count in any case. 1: as many as it claims, for silos that are trusted. Our choice.",
    )
    guard: str = Field(
        default="unguarded",
        description=f"Who of those that check in is refused: {', '.join(GUARDS.names)}, or a guard of your own.",
    )
    signed_claims: bool = Field(
        default=False,
        description="Clients' claims to a cohort count where the server has signed what it observed of them, as "
        "servers with a directory do. false: all are taken at their word, as where nobody lies.",
    )
    most_unproved: float = Field(
        default=MOST_UNPROVED,
        gt=0,
        le=1,
        description="With signed_claims: share of a cohort's round that newcomers, and those who cannot prove what "
        "they claim, may have where others are there. Our choice.",
    )
    sketch_size: _PositiveInt = Field(
        default=4096, description="Length of an update's fingerprint, which is all that is kept of it."
    )
    fingerprint_by_unit: bool = Field(
        default=True,
        description="Fingerprints know the model's layers, for methods that compare updates unit by unit. "
        "false: all methods compare whole updates.",
    )
    cohorts: Annotated[Path, Field(strict=False)] | None = Field(
        default=None,
        description="Directory of a finished run whose cohorts methods start from that keep records on clients, such "
        "as auxo; clients are known by their names. Not set: from one cohort.",
    )
    cohort_models: bool = Field(
        default=False,
        description="Cohorts of training.cohorts also start from the models they had: the same task goes on. "
        "false: from new models, for another task. Only with training.cohorts.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.cohort_models and self.cohorts is None:
            raise ValueError(
                "training.cohort_models: true is given, but training.cohorts is not set; name the run whose cohorts "
                "have the models (--cohorts RUN) or remove it"
            )
        return self


class PrivacyConfig(Section):
    """What clients keep to themselves: noise on all that they say, and a budget (docs/privacy.md)."""

    protocol: Literal["none", "local", "paper"] = Field(
        default="none",
        description="local: all that a client says is charged to its budget; paper: noise on updates as in the paper, "
        "which is no promise.",
    )
    promise: Promise = Field(
        default=_WISH.promise,
        description="What looks alike: any two data sets of a client, or two that differ in one sample. "
        "Only with protocol = local.",
    )
    epsilon: _PositiveFloat = Field(
        default=_WISH.epsilon,
        description="Budget of a client over all its visits; with protocol = paper the figure that the paper prints.",
    )
    delta: float = Field(default=_WISH.delta, gt=0, lt=1, description="Chance that the budget leaves out.")
    participations: _PositiveInt | None = Field(
        default=None,
        description="Visits that the budget lasts for; then a client says nothing more. Not set: twice the mean. "
        "Only with protocol = local.",
    )
    clip: _PositiveFloat = Field(
        default=_WISH.clip,
        description="Longest update; at sample level longest gradient of a sample. Our choice.",
    )
    choice_share: float = Field(
        default=_WISH.choice_share,
        ge=0,
        lt=1,
        description="Share of the budget for choices among models; 0: nobody compares models. Our choice.",
    )
    loss_bound: _PositiveFloat = Field(
        default=_WISH.loss_bound,
        description="That a sample's loss counts for at most where models are compared, at sample level. Our choice.",
    )
    questions: int = Field(
        default=_WISH.questions,
        ge=0,
        description="Questions of a cohort that a client says private words to, with auxo.clustering.reads = sketches; "
        "more have no answer.",
    )
    question_epsilon: _PositiveFloat = Field(
        default=_WISH.question_epsilon,
        description="Most that the words to one question may cost together: those that cost more are not said.",
    )
    sigma: _PositiveFloat | None = Field(
        default=None,
        description="Noise over clip. Not set: 1.0, .77 and .6, as the paper prints for epsilon 2, 4 and 8. "
        "Only with protocol = paper.",
    )
    noise: PaperNoise = Field(
        default="per_client",
        description="Each client adds all of the noise, or its part of what a round's participants add up to. "
        "Only with protocol = paper.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.protocol == "paper" and self.sigma is None and self.epsilon not in PAPER_FIGURES:
            raise ValueError(
                "privacy.sigma: expected a number because the paper prints none for privacy.epsilon = "
                f"{self.epsilon:g}; set it, or take an epsilon of {', '.join(f'{one:g}' for one in PAPER_FIGURES)}"
            )
        if self.protocol != "paper" and self.sigma is not None:
            raise ValueError(
                f'privacy.sigma: {self.sigma:g} is given, but privacy.protocol = "{self.protocol}"; the noise follows '
                'from the budget: remove it, or set privacy.protocol = "paper"'
            )
        return self


class AttackConfig(Section):
    """Who of the clients attacks, and how; what is reported is then how honest clients fare."""

    kinds: tuple[str, ...] = Field(
        default=(),
        description=f"What attackers do, all of it: {', '.join(ATTACKS.names)}, or an attack of your own by its import "
        "path; the first has the last word. Each has its settings in the section of its name. Empty: nobody attacks.",
    )
    share: _Fraction = Field(
        default=0.15,
        description="Share of the clients that attack, drawn at random; those of a smaller share are among those of a "
        "larger one. Accuracy is that of the others.",
    )
    start: int = Field(default=0, ge=0, description="Rounds before they begin; until then they are honest.")
    target: Target = Field(
        default="own",
        description="Cohort that attackers go for: their own, the smallest, or for each a random one. To get into "
        "another than their own they claim reward 1 there, unless one of the kinds says how they get there.",
    )


class RunConfig(Section):
    """How the run is carried out; without effect on results, except for when and on whom they are measured."""

    engine: Literal["local", "ray"] = Field(
        default="local", description="Where participants train: on this machine, or on a Ray cluster. The same bits."
    )
    ray_address: str | None = Field(
        default=None,
        description="A running Ray cluster: host:port of its head node, or auto for the one that this machine belongs "
        "to. Only with engine = ray. Not set: one is started on this machine, and stopped when the run ends.",
    )
    workers: _PositiveInt | None = Field(
        default=None,
        description="Processes that train participants; results are the same bits. "
        "Not set: one, or with engine = ray one for each CPU of the cluster.",
    )
    evaluate_every: _PositiveInt = Field(default=5, description="Rounds between evaluations.")
    evaluate_closely: int = Field(
        default=0,
        ge=0,
        description="Rounds at the start of which every second is evaluated besides, for times to an accuracy that is "
        "reached early.",
    )
    evaluate_clients: _PositiveInt | None = Field(
        default=None,
        description="Clients that are evaluated: a random sample, the same for every method and every evaluation. "
        "Not set: all.",
    )
    perplexity: bool = Field(
        default=False, description="Also measure perplexity, e to the mean cross entropy: for models of language."
    )
    checkpoint_every: str = Field(
        default="30s",
        description="Work between two checkpoints, which an interrupted run does again at most: time (30s, 5m, 1h), "
        "rounds (50r), or never. Results are the same bits.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            parse_interval(self.checkpoint_every)
        except ValueError as error:
            raise ValueError(f"run.checkpoint_every: {error}") from None
        if self.engine != "ray" and self.ray_address is not None:
            raise ValueError(
                f'run.ray_address: {self.ray_address!r} is given, but run.engine = "{self.engine}"; '
                'set run.engine = "ray" (--engine ray) or remove run.ray_address'
            )
        return self


class ServiceConfig(Section):
    """How a live service is reached, and how its rounds go in real time; `auxo serve` alone looks at it."""

    model: Annotated[Path, Field(strict=False)] | None = Field(
        default=None,
        description="Initial model: a safetensors file, relative to the configuration. Clients have its tensors as one "
        "flat array, in the order of their names.",
    )
    directory: Annotated[Path, Field(strict=False)] | None = Field(
        default=None,
        description="Where all is kept, and gone on from; relative to the configuration. Not set: runs/NAME-service.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on; loopback, unless you say otherwise.")
    port: int = Field(default=8640, ge=0, le=65535, description="Port of the coordinator; 0: a free one.")
    public_host: str | None = Field(
        default=None, description="Name or address by which clients reach this machine. Not set: the host."
    )
    cohort_ports: tuple[_PositiveInt, _PositiveInt] | None = Field(
        default=None,
        description="First and last port for cohorts, such as a firewall lets through. Not set: free ones.",
    )
    certificate: Annotated[Path, Field(strict=False)] | None = Field(
        default=None, description="Certificate of the service in PEM, for TLS; relative to the configuration."
    )
    key: Annotated[Path, Field(strict=False)] | None = Field(default=None, description="Key of that certificate.")
    client_ca: Annotated[Path, Field(strict=False)] | None = Field(
        default=None, description="Whose certificates clients must have, in PEM. Not set: tokens are enough."
    )
    deadline_s: _PositiveFloat = Field(default=600.0, description="Seconds after which a round closes.")
    window_s: float = Field(
        default=5.0,
        ge=0,
        description="Seconds that a round waits for as many clients as it wants to invite; then it takes who waits.",
    )
    overcommit: float = Field(
        default=0.25,
        ge=0,
        le=1000,
        description="Participants invited beyond those needed, as a share; the last to answer are too late.",
    )
    least_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of the updates wanted without which no round opens, and one that is over is abandoned.",
    )
    waiting: _PositiveInt = Field(default=10_000, description="Clients that may wait for a cohort at a time.")
    signed: bool = Field(
        default=True,
        description="Clients' claims count as far as the service has signed them, and with training.guard = unguarded "
        "the watchful one bans who persists in others; false: all are taken at their word.",
    )
    silent_s: _PositiveFloat = Field(
        default=6.0, description="Seconds after which a process that gives no sign of life is taken for dead."
    )
    stuck_s: _PositiveFloat = Field(
        default=300.0,
        description="Seconds after which one that makes no progress is; more than a round takes to close.",
    )
    linger_s: float = Field(
        default=20.0, ge=0, description="Seconds for which a cohort that is over still gives feedback."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("service.certificate, key: expected both for TLS, or none, got one; set the other, too")
        if self.client_ca is not None and self.certificate is None:
            raise ValueError("service.client_ca: expected TLS, got none; set service.certificate and service.key, too")
        if self.cohort_ports is not None and not self.cohort_ports[0] <= self.cohort_ports[1] <= 65535:
            raise ValueError(f"service.cohort_ports: expected [first, last], got {list(self.cohort_ports)}; mend it")
        return self


class Config(Section):
    """A complete experiment."""

    seed: int = Field(default=0, ge=0, description="Everything random follows from it.")
    name: str = Field(default="run", description="Names the run directory: letters, digits, dot, dash and underscore.")
    methods: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        default=("base", "auxo", "oracle"),
        description=f"What is compared: {', '.join(METHODS.names)}, or a method of your own by its import path "
        "(file.py:Name). Each has its settings in the section of its name; the oracle is left out where no groups are "
        "known.",
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
    privacy: PrivacyConfig = Field(default=PrivacyConfig(), description="What clients keep to themselves.")
    attack: AttackConfig = Field(default=AttackConfig(), description="Who of the clients attacks, and how.")
    run: RunConfig = Field(default=RunConfig(), description="How the run is carried out.")
    service: ServiceConfig = Field(default=ServiceConfig(), description="How a live service is reached.")
    parts: dict[str, Any] = Field(
        default_factory=dict,
        description="Settings of methods and other parts by their names: a section for each, or the part itself.",
        exclude=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _collect_parts(cls, values: object) -> object:
        """Take every section that is none of an experiment's own for that of a part."""
        if not isinstance(values, dict):
            return values
        of_parts = section_names()
        sections = {
            key: value
            for key, value in values.items()
            if key not in cls.model_fields and (key in of_parts or isinstance(value, dict))
        }
        own = {key: value for key, value in values.items() if key not in sections}
        given = own.get("parts", {})
        return {**own, "parts": {**given, **sections}} if sections and isinstance(given, dict) else own

    @property
    def maker(self) -> PartMaker:
        """Return what makes the parts that the configuration names."""
        return part_maker(self.parts)

    def parts_in_use(self) -> tuple[tuple[str, Registry, str], ...]:
        """Return the setting that names each part, its kind, and its name."""
        training = self.training
        return (
            *(("methods", METHODS, method) for method in self.methods),
            ("training.aggregator", AGGREGATORS, training.aggregator),
            ("training.selector", SELECTORS, training.selector),
            ("training.client", CLIENTS, training.client),
            ("training.personaliser", PERSONALISERS, training.personaliser),
            ("training.guard", GUARDS, training.guard),
            *(("attack.kinds", ATTACKS, kind) for kind in self.attack.kinds),
        )

    def unused_sections(self) -> dict[str, Registry]:
        """Return the sections of parts that are given but not in use, with the kind of each."""
        in_use = {short_name(name) for _, _, name in self.parts_in_use()}
        kinds = {section: registry_of(section) for section in self.parts if section not in in_use}
        return {section: kind for section, kind in kinds.items() if kind is not None}

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        for key, registry, name in self.parts_in_use():
            try:
                self.maker.default(registry, name)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
        self._check_short_names()
        made = {short_name(name): self._made(registry, name) for _, registry, name in self.parts_in_use()}
        known = {*section_names(), *(short_name(name) for _, _, name in self.parts_in_use())}
        for section in self.parts:
            if section not in known:
                near = nearest(section, [*known, *(key for key in type(self).model_fields if key != "parts")])
                hint = f"; did you mean [{near}]?" if near else "."
                raise ValueError(f"{section}: unknown key{hint} Sections of parts: {', '.join(sorted(known))}")
            kind = registry_of(section)
            if kind is not None:  # also of a part that is not in use
                made[section] = self._made(kind, section)
        self.__dict__["parts"] = made  # so that two configurations that say the same are equal
        return self

    def _made(self, registry: Registry, name: str) -> object:
        part = self.maker.make(registry, name)
        self.maker.check_written(registry, name, part)
        return part

    def _check_short_names(self) -> None:
        """Refuse names of which sections and folders would not say whose they are."""
        for key, names in (("methods", self.methods), ("attack.kinds", self.attack.kinds)):
            if len(set(names)) != len(names):
                raise ValueError(f"{key}: expected each at most once, got {list(names)}")
        built_in = {name: registry for registry in KINDS.values() for name in registry.names}
        before: dict[str, tuple[str, str]] = {}
        for key, _, name in self.parts_in_use():
            short = short_name(name)
            if short in before:
                other_key, other = before[short]
                raise ValueError(
                    f"{key}: expected parts of different names, because each has its section and its folder, got "
                    f'"{name}" and "{other}" ({other_key}), both called {short}; rename one'
                )
            before[short] = (key, name)
            if not is_import_path(name):
                continue
            if "." in short:
                raise ValueError(
                    f'{key}: expected a class at the top of its file, got "{name}"; '
                    f"give it a name there ({short.replace('.', '')} = {short})"
                )
            taken = (
                f"a key of every configuration is called {short}"
                if short in type(self).model_fields
                else f"{built_in[short].a_kind} of Auxo is called {short}"
                if short in built_in
                else None
            )
            if taken is not None:
                raise ValueError(f'{key}: expected a name that is not taken, got "{name}", but {taken}; rename it')

    @model_validator(mode="after")
    def _check(self) -> Self:
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name) is None:
            raise ValueError(
                "name: expected letters, digits, dots, dashes and underscores, beginning with a letter or a digit, "
                f"got {self.name!r}"
            )
        population, training = self.population, self.training
        if population.is_drawn and training.participants > population.clients:
            raise ValueError(
                f"training.participants: expected at most population.clients ({population.clients}), "
                f"got {training.participants}; lower it or add clients"
            )
        needed = inputs_of(training.model)
        if population.source == "synthetic" and needed not in ("numbers", None):
            raise ValueError(
                f'training.model: "{training.model}" needs {needed}, but population.source = "synthetic" has vectors; '
                'choose "softmax" or "mlp"'
            )
        if population.source == "digits" and needed == "tokens":
            raise ValueError(
                f'training.model: "{training.model}" needs tokens of a text, but population.source = "digits" has '
                'images; choose another model, such as "softmax" or "cnn"'
            )
        return self

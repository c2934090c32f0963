"""The plan of a population with planted groups, and what is drawn from it: who is in which group, and all classes.

Inputs follow elsewhere: images of digits, or points of a synthetic space.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.rng import stream
from auxo.core.settings import PositiveFloat, PositiveInt, checked
from auxo.core.types import FloatArray, IntArray
from auxo.population.heterogeneity import Heterogeneity, assign_groups, class_shares, label_maps, relative_sizes


@dataclass(frozen=True)
@checked
class PopulationPlan:
    """What is to be drawn, whatever the inputs are."""

    clients: PositiveInt
    groups: tuple[float, ...] | int  # relative sizes, or how many of the same size
    heterogeneity: Heterogeneity
    n_classes: int
    samples: tuple[int, int]  # fewest and most training samples of a client
    test_samples: PositiveInt
    client_label_concentration: PositiveFloat | None  # None: a client's classes are spread as its group's
    seed: int

    def __post_init__(self) -> None:
        relative_sizes(self.heterogeneity, self.groups)  # raises where they are none
        if not 1 <= self.samples[0] <= self.samples[1]:
            raise ValueError(f"samples: expected (fewest, most) with 1 <= fewest <= most, got {self.samples}")


@dataclass(frozen=True)
class DrawnClasses:
    """The class of every sample before labels are renamed; sorted by client, in random order within a client."""

    classes: IntArray  # (samples,)
    counts: IntArray  # (clients,)

    def client_rows(self) -> IntArray:
        """Return the client of every sample."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def offsets(self) -> IntArray:
        """Return where each client's samples begin, and where the last one's end."""
        return np.concatenate([[0], np.cumsum(self.counts)])


@dataclass(frozen=True)
class PlantedPopulation:
    """A population but for its inputs."""

    groups: IntArray  # (clients,)
    label_maps: IntArray  # (groups, classes)
    train: DrawnClasses
    test: DrawnClasses

    @property
    def n_groups(self) -> int:
        """Return the number of planted groups."""
        return len(self.label_maps)

    def labels(self, drawn: DrawnClasses) -> IntArray:
        """Return the label of every sample, as its client's group names it."""
        return self.label_maps[np.repeat(self.groups, drawn.counts), drawn.classes]


def draw_population(plan: PopulationPlan) -> PlantedPopulation:
    """Draw the population that ``plan`` describes."""
    sizes = relative_sizes(plan.heterogeneity, plan.groups)
    groups, n_groups = assign_groups(plan.clients, sizes, plan.seed), len(sizes)
    shares = class_shares(plan.heterogeneity, n_groups, plan.n_classes)[groups]
    if plan.client_label_concentration is not None:
        rng = stream(plan.seed, "population", "client-classes")
        shares = _dirichlet(plan.client_label_concentration * plan.n_classes * shares, rng)
    fewest, most = plan.samples
    train_counts = stream(plan.seed, "population", "counts").integers(fewest, most, size=plan.clients, endpoint=True)
    return PlantedPopulation(
        groups=groups,
        label_maps=label_maps(plan.heterogeneity, n_groups, plan.n_classes, plan.seed),
        train=_draw_classes(shares, train_counts, stream(plan.seed, "population", "train-classes")),
        test=_draw_classes(
            shares, np.full(plan.clients, plan.test_samples), stream(plan.seed, "population", "test-classes")
        ),
    )


def _dirichlet(alphas: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return one draw for each row of ``alphas``; a class of alpha 0 gets nothing."""
    # In logarithms (gamma(a) = gamma(a + 1) * u ** (1 / a)), because small alphas underflow to rows of nothing but 0.
    with np.errstate(divide="ignore"):
        log_weights = np.log(rng.standard_gamma(alphas + 1)) + np.log1p(-rng.random(alphas.shape)) / alphas
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    shares: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _draw_classes(shares: FloatArray, counts: IntArray, rng: np.random.Generator) -> DrawnClasses:
    cumulative = np.cumsum(shares, axis=1)
    cumulative /= cumulative[:, -1:]  # rounding must not leave room for a class of share 0 at the end
    level = rng.random(int(counts.sum()))
    classes = np.zeros(len(level), dtype=np.int64)
    for bound in cumulative[:, :-1].T:  # over classes, not over clients
        classes += level >= np.repeat(bound, counts)
    return DrawnClasses(classes=classes, counts=counts)

"""The terms of a promise: how much noise, of what, and what it may come to; worked out from what is wished for."""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from auxo.core.settings import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ProperFraction,
    checked,
    setting,
)
from auxo.privacy.accounting import Exponential, Gaussian, PrivacyBudget, Pure, Release, Releases, least_noise, rho_for
from auxo.privacy.spent import Promise

CLIPS_APART = 2.0
"""Clips that two updates, or the gradients of two samples, can lie apart."""


@dataclass(frozen=True)
@checked
class Terms:
    """What a client's mod goes by."""

    promise: Promise
    budget: PrivacyBudget | None  # None: noise without a promise, as the paper's
    clip: PositiveFloat  # longest update, or at sample level longest gradient of a sample
    noise: PositiveFloat  # deviation over the clip
    choice_epsilon: NonNegativeFloat = 0.0  # of one choice among models; 0: nobody chooses
    loss_bound: PositiveFloat = 4.0  # that a sample's loss counts for at most where models are compared
    participations: PositiveInt = 1  # visits that the budget lasts for

    @property
    def multiplier(self) -> float:
        """Return the deviation of the noise over how far apart two inputs can lie."""
        return self.noise / CLIPS_APART

    def a_visit(self, passes: int = 1) -> Releases:
        """Return the most that one visit releases, in which each sample is in so many steps."""
        releases: dict[Release, int] = {Gaussian(self.multiplier): passes if self.promise == "sample" else 1}
        if self.choice_epsilon > 0:
            releases[_choice(self.promise, self.choice_epsilon)] = 1
        return releases


@dataclass(frozen=True)
@checked
class Wish:
    """What is wished for."""

    promise: Promise = setting("client", "Any two data sets of a client look alike, or two that differ in a sample.")
    epsilon: PositiveFloat = setting(8.0, "What a client may come to over all its visits.")
    delta: PositiveFloat = setting(1e-6, "Chance that is left out of it.")
    participations: PositiveInt = setting(10, "Visits that it is to last for.")
    clip: PositiveFloat = setting(1.0, "Longest update; at sample level longest gradient of a sample. Our choice.")
    choice_share: ProperFraction = setting(
        0.2, "Share of it for choices among models; 0: nobody compares them. Our choice."
    )
    loss_bound: PositiveFloat = setting(4.0, "That a sample's loss counts for at most in comparisons. Our choice.")


PaperNoise = Literal["per_client", "shared"]
"""How the paper's noise is read: each client adds all of it, or its part of what a round's participants add up to."""

PAPER_FIGURES = {2.0: 1.0, 4.0: 0.77, 8.0: 0.6}
"""Noise over the clip that the paper prints for each epsilon (section 6.4)."""


def terms_of(wish: Wish, passes: int = 1) -> Terms:
    """Return the terms that a wish comes to, where each sample is in so many steps of a training.

    Raises:
        ValueError: no noise is enough.
    """
    budget = PrivacyBudget(wish.epsilon, wish.delta)
    choice = 0.0
    if wish.choice_share > 0:
        # Concentrated privacy adds up, so it can be shared out; the noise is then what the whole comes to.
        rho = wish.choice_share * rho_for(wish.epsilon, wish.delta) / wish.participations
        choice = sqrt((8 if wish.promise == "sample" else 2) * rho)
    steps = wish.participations * (passes if wish.promise == "sample" else 1)

    def releases(noise: float) -> Releases:
        some: dict[Release, int] = {Gaussian(noise / CLIPS_APART): steps}
        return {**some, _choice(wish.promise, choice): wish.participations} if choice else some

    noise = least_noise(budget, releases)
    if noise == float("inf"):
        raise ValueError(f"choice_share: expected a share that leaves something for updates, got {wish.choice_share}")
    return Terms(wish.promise, budget, wish.clip, noise, choice, wish.loss_bound, wish.participations)


def paper_terms(sigma: float, clip: float, noise: PaperNoise, participants: int) -> Terms:
    """Return the paper's own protocol: noise on updates, and nothing else leaves. It is no promise of ours.

    Args:
        sigma: noise over the clip; the paper has 1.0, .77 and .6 for what it calls epsilon 2, 4 and 8.
        clip: longest update.
        noise: whose it is.
        participants: of a round, who share it.
    """
    return Terms("client", None, clip, sigma / (sqrt(participants) if noise == "shared" else 1.0))


def _choice(promise: Promise, epsilon: float) -> Release:
    return Exponential(epsilon) if promise == "sample" else Pure(epsilon)  # nothing pure costs more, however many

"""A plan: what noise a budget means in a federation, or what a noise comes to, and what is left of the updates."""

from dataclasses import dataclass
from math import ceil, floor, sqrt

from auxo.core.settings import PositiveInt, checked
from auxo.privacy.accounting import epsilon_of
from auxo.privacy.mechanisms import said_truly
from auxo.privacy.terms import Terms

LEARNABLE = 0.5
"""Noise in a round's mean update, over the longest update, with which training goes on well; our choice."""

HOPELESS = 2.0
"""The same where next to nothing is left of an update; our choice."""

_FEWEST_NUMBERS = 50  # that are worth training; our choice
_TIMES_THE_MEAN = 2  # visits that a budget lasts for: by chance most clients have fewer; our choice


@dataclass(frozen=True)
@checked
class Circumstances:
    """What a plan is for."""

    numbers: PositiveInt = 10_000  # that are trained: the size of the model
    rounds: PositiveInt = 200
    participants: PositiveInt = 200  # of a round
    clients: PositiveInt = 2_000
    samples: PositiveInt = 40  # of a client
    batch_size: PositiveInt = 6
    epochs: PositiveInt = 1

    @property
    def mean_visits(self) -> float:
        """Return how often a client takes part."""
        return self.rounds * self.participants / self.clients

    @property
    def visits(self) -> int:
        """Return how often a budget should last for."""
        return ceil(_TIMES_THE_MEAN * self.mean_visits)

    @property
    def steps(self) -> int:
        """Return how many steps a training has."""
        return self.epochs * ceil(self.samples / self.batch_size)


@dataclass(frozen=True)
class Plan:
    """Terms where they are to be kept."""

    terms: Terms
    around: Circumstances

    def spent_after(self, visits: int) -> float:
        """Return the epsilon that a client has come to after so many visits."""
        a_visit = self.terms.a_visit(self.around.epochs)
        return epsilon_of({release: visits * count for release, count in a_visit.items()}, self.delta)

    @property
    def delta(self) -> float:
        """Return the delta that epsilons are told at."""
        return 1e-6 if self.terms.budget is None else self.terms.budget.delta

    def noise_in_mean(self, numbers: int | None = None, participants: int | None = None) -> float:
        """Return how long the noise in the mean of a round's updates is, over the longest that an update can be."""
        d, n = numbers or self.around.numbers, participants or self.around.participants
        return self._noise_of_one * sqrt(d) / sqrt(n)

    @property
    def _noise_of_one(self) -> float:
        """Return the noise on each number of one update over the longest update.

        At sample level each step has noise on the mean of its batch, and moves by at most a clip.
        """
        if self.terms.promise == "client":
            return self.terms.noise
        return self.terms.noise / (min(self.around.batch_size, self.around.samples) * sqrt(self.around.steps))

    @property
    def participants_needed(self) -> int:
        """Return how many participants of a round would make the noise `LEARNABLE`."""
        return ceil((self._noise_of_one / LEARNABLE) ** 2 * self.around.numbers)

    @property
    def numbers_learnable(self) -> int:
        """Return how many numbers could be trained instead."""
        return floor((LEARNABLE / self._noise_of_one) ** 2 * self.around.participants)

    @property
    def secure_sum(self) -> float:
        """Return the same noise as `noise_in_mean` if it were on the sum of a round's updates, and not on each."""
        return self._noise_of_one * sqrt(self.around.numbers) / self.around.participants

    def true_choices(self, models: int) -> float:
        """Return how often a client names the model that fits it best, of so many, at client level."""
        return said_truly(models, self.terms.choice_epsilon)

    def verdict(self) -> str:
        """Return in plain words what is left of the updates."""
        noise = self.noise_in_mean()
        left = (
            "Training should go on, at first a little more slowly."
            if noise <= LEARNABLE
            else "Little is left of them."
            if noise <= HOPELESS
            else "Nothing is left that can be learned from."
        )
        return (
            f"The noise in a round's mean update is {_clips(noise)} as long as the longest update, with "
            f"{self.around.numbers:,} numbers and {self.around.participants:,} participants. {left}"
        )

    def remedies(self) -> tuple[str, ...]:
        """Return what can be done where too little is left, each by itself enough, or a step."""
        if self.noise_in_mean() <= LEARNABLE:
            return ()
        is_client, found = self.terms.promise == "client", []
        if self.numbers_learnable >= _FEWEST_NUMBERS:
            found.append(f"train fewer numbers: at most {self.numbers_learnable:,}, a last layer or an adapter")
        found.append(f"have more participants in a round: {self.participants_needed:,}")
        if is_client:
            found.append("promise sample level (--promise sample), if a sample is to be hidden and not a client")
        else:
            found.append("have clients with more samples, take larger batches or fewer epochs")
        found.append(f"a secure sum, with noise on the sum alone: {_clips(self.secure_sum)}; it shows no cohorts")
        return (*found, "promise less: a larger epsilon, or fewer visits")


def _clips(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:,.0f} times"

"""What clients are scored by: its name, its unit, and whether more or less of it is better."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric for people. Wherever scores are kept larger is better; what is shown is what was measured."""

    name: str = "accuracy"
    unit: str = "%"  # scores are then fractions and shown times 100, in any other unit as they are; "": plain numbers
    smaller_is_better: bool = False  # it is kept with a minus, and shown without

    @property
    def is_fraction(self) -> bool:
        """Return whether it is shown in per cent."""
        return self.unit == "%"

    @property
    def sign(self) -> float:
        """Return what makes a score what was measured."""
        return -1.0 if self.smaller_is_better else 1.0

    @property
    def scale(self) -> float:
        """Return what a score is multiplied by before it is shown."""
        return self.sign * (100.0 if self.is_fraction else 1.0)

    @property
    def variance_scale(self) -> float:
        """Return the same for a variance over clients, which is kept as that of fractions in per cent."""
        return (self.scale / 100.0) ** 2

    @property
    def variance_unit(self) -> str:
        """Return the unit of a variance."""
        return f"{self.unit}²" if self.unit else ""


ACCURACY = Metric()
"""The share of a client's test samples whose class is right."""

VARIANCE_EXPLAINED = Metric("variance explained")
"""1 minus the squared error over the variance of what is to be predicted: below 0 if the mean would be closer."""

JACCARD_INDEX = Metric("Jaccard index")
"""Labels both told and true over labels told or true."""

"""FedProx: local steps are held near the model that was sent, and stragglers send what they have.

Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, Algorithm 2: a participant minimises its loss
plus mu / 2 * |w - w_sent|^2, so every step's gradient has mu * (w - w_sent) added to it. How exactly a participant
solves that is its own affair: one that is too slow for the deadline does fewer epochs, and counts all the same.
"""

from dataclasses import dataclass

from auxo.core.settings import NonNegativeFloat, checked, setting


@dataclass(frozen=True)
@checked
class FedProx:
    """Local SGD with a proximal term and partial work."""

    mu: NonNegativeFloat = setting(
        0.01, "How strongly participants are held; the authors try 0.001 to 1, and 0 is plain SGD."
    )
    sends_partial_work: bool = setting(
        True, "Who cannot do all epochs before devices.deadline_s does as many as it can, but one at least."
    )

    @property
    def proximal(self) -> float:
        """Return mu."""
        return self.mu

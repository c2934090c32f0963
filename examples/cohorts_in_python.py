"""Clients of one's own, a torch module and Auxo, all from Python; the plots go to the folder that is named.

Sixty shops forecast whether a day is good from the weather. In every second one people come when it rains.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from torch import Tensor, nn

import auxo

SHOPS, DAYS = 60, 60


class Forecast(nn.Module):
    """Two layers; the shape of an input and the classes come from the data."""

    def __init__(self, features: tuple[int, ...], classes: int) -> None:
        """Build it for inputs of this shape."""
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features[0], 16), nn.ReLU(), nn.Linear(16, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.layers(x)
        return logits


def shop(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the days of one shop: temperature, rain, wind; and whether each was good."""
    rng = np.random.default_rng(number)  # noqa: TID251 - data of one's own, drawn as in any script
    weather = np.stack([rng.normal(15, 8, DAYS), rng.gamma(1.0, 4.0, DAYS), rng.normal(20, 6, DAYS)], axis=1)
    likes_rain = number % 2 == 1  # nobody wrote that down
    mood = 0.1 * (weather[:, 0] - 15) + (0.4 if likes_rain else -0.4) * (weather[:, 1] - 4)
    return weather, np.where(mood + rng.normal(0, 0.3, DAYS) > 0, "good", "bad")


def main(plots: Path) -> float:
    """Find the cohorts, use them for a shop that is new, and return how often its forecast is right."""
    run = auxo.simulate(
        {f"shop {number}": shop(number) for number in range(SHOPS)},
        model=Forecast,
        rounds=60,
        participants=30,
        settings={"training.aggregator": "fedavg", "training.learning_rate": 0.1},
        name="shops",
    )
    for method, summary in run.summary.methods.items():
        print(f"{method}: {100 * summary.final_accuracy:.1f} % of days forecast right, {summary.cohorts} cohorts")
    scores = run.scores()
    for cohort in run.models:
        mine = scores["cohort"] == cohort
        print(f"cohort {cohort}: {mine.sum()} shops, {100 * scores['accuracy'][mine].mean():.1f} %")

    weather, days = shop(1001)
    place = run.place(weather[:30], days[:30])
    right = float((run.predict(weather[30:], place) == days[30:]).mean())
    print(f"a new shop is in cohort {place.cohort}; {100 * right:.0f} % of its days are forecast right")

    for name, figure in run.figures.items():
        (plots / f"{name}.svg").write_text(figure, encoding="utf-8")
        print(plots / f"{name}.svg")
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="plots-")))

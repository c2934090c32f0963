"""What does each departure from the paper buy? Auxo as it is, with one rule at a time put back, and to the letter.

    python benchmarks/departures.py --json build/departures.json
    python benchmarks/departures.py --sweep --json build/sweep.json

Prints a table in Markdown: for each population the part of the oracle's gain that is reached, or the gain over the base
where there are no groups, and the number of partitions. With --sweep the same of other values of the thresholds that
decide, on populations that judge nothing else: Gaussian classes.
Constants are chosen on seeds of 100 and above (--first-seed 100), which no table reports.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from workloads import EVERYBODY, TRAINING, WORKLOADS, Workload, planted

from auxo.core.metrics import oracle_gain_share
from auxo.experiments.config import PopulationConfig
from auxo.experiments.config_file import parse_config
from auxo.experiments.runner import has_groups, run_method
from auxo.protocol.events import Partitioned

LETTER = "the paper's rules, all of them"  # a method of its own
AS_IT_IS = "Auxo as it is"
_PRINTED = (
    "clustering.clusters=2",
    "clustering.pool_rounds=1",
    "affinity.label_memory=0.0",
    "affinity.label_trust=0.0",
    "affinity.accumulate_predictions=true",
    "affinity.confirmations=0",
    "rewards.leave_one_out=false",
    "rewards.weigh_length=false",
    "rewards.scale_by_known=false",
    "by_unit=false",
    "admit_misfits=true",
    "late_feedback=false",
    'sharing="equal"',
    'rate_scaling="linear"',
)
VARIANTS: dict[str, tuple[str, ...]] = {
    AS_IT_IS: (),
    LETTER: (),
    "the paper's rules, and a trial decides": _PRINTED,
    "the first look is at one round": ("clustering.pool_rounds=1",),
    "the first look is at ten rounds": ("clustering.pool_rounds=10",),
    "whole updates are compared": ("by_unit=false",),
    "two clusters, never more (K = 2)": ("clustering.clusters=2",),
    "a trial of eight rounds at most": ("trial.most_rounds=8",),
    "twenty judges a round at most": ("trial.judges=20",),
    "everybody judges, by a fifth of its samples": ("trial.judges=1000000000",),
    "any gain that is sure counts": ("trial.min_gain=0.0",),
    "nobody compares models": ("affinity.confirmations=0",),
    "equal shares": ('sharing="equal"',),
    "label of the last visit only": ("affinity.label_memory=0.0",),
    "margins of labels do not count": ("affinity.label_trust=0.0",),
    "the members' centre contains the client": ("rewards.leave_one_out=false",),
    "predicted rewards add up": ("affinity.accumulate_predictions=true", "affinity.label_trust=0.0"),
    "directions alone make rewards": ("rewards.weigh_length=false",),
    "avg + std over all participants": ("rewards.scale_by_known=false",),
    "newcomers that do not fit are aggregated": ("admit_misfits=true",),
    "late participants learn nothing": ("late_feedback=false",),
    "linear scaling of the server's rate": ('rate_scaling="linear"',),
}
"""Settings of [auxo] that put one rule back."""
POPULATIONS = (
    "label",
    "rotation-skew",
    "affine-skew",
    "units",
    "minority",
    "network",
    "classes-600",
    "homogeneous",
    "homogeneous-skew",
    "extra-low-availability",
    "extra-writers",
)
SWEPT = {
    "trial.alpha": (0.0001, 0.001, 0.01, 0.1),
    "trial.min_gain": (0.0, 0.01, 0.02, 0.05),
    "trial.most_rounds": (8, 16, 32, 64),
    "trial.judges": (20, 60, 180, 1_000_000_000),
    "clustering.clusters": (2, 4, 8),
    "clustering.pool_rounds": (1, 3, 6, 10),
    "affinity.confirmations": (0, 1, 2),
}
"""Settings of [auxo] that decide, with values around the default."""
_GAUSSIAN = PopulationConfig(source="synthetic", clients=1000, groups=3, client_label_concentration=1.0)
_SHORT = TRAINING.model_copy(update={"rounds": 120, "participants": 100})


def _gaussian(name: str, **changes: object) -> Workload:
    return Workload(name, 2, 0, planted(_GAUSSIAN.model_copy(update=changes), _SHORT, EVERYBODY))


SWEEP_WORKLOADS = (
    _gaussian("gaussian-swapped", heterogeneity="swap"),
    _gaussian("gaussian-label", heterogeneity="label", client_label_concentration=5.0),
    _gaussian("gaussian-minority", heterogeneity="concept", groups=(12.0, 1.0)),
    _gaussian("gaussian-none", heterogeneity="none", client_label_concentration=0.5),
)
"""Populations that thresholds may be chosen on, since no table judges by them."""


def swept() -> dict[str, tuple[str, ...]]:
    """Return the defaults, and one other value of one threshold at a time."""
    usual = parse_config("", []).parts["auxo"]

    def default(path: str) -> object:
        value: object = usual
        for name in path.split("."):
            value = getattr(value, name)
        return value

    others = {
        f"{path} = {value}": (f"{path}={value}",)
        for path, values in SWEPT.items()
        for value in values
        if value != default(path)
    }
    return {"the defaults": (), **others}


@dataclass(frozen=True)
class Outcome:
    """One variant on one population with one seed."""

    variant: str
    population: str
    seed: int
    accuracy: float
    gain: float  # over the base
    oracle_gain_share: float | None
    ari: float | None
    partitions: int


def run_population(name: str, seed: int, folder: Path | None, variants: Sequence[str]) -> list[Outcome]:
    """Run all variants on one population; the base and the oracle are run once."""
    made = next(one for one in (*WORKLOADS, *SWEEP_WORKLOADS) if one.name == name).make(seed, folder)
    if made is None:
        return []
    config, data = made
    base = run_method("base", config, data).final.accuracy
    oracle = run_method("oracle", config, data).final.accuracy if has_groups(data) else None
    outcomes = []
    for variant in variants:
        settings = {**VARIANTS, **swept()}[variant]
        auxo = parse_config("", [f"auxo.{setting}" for setting in settings]).parts["auxo"]
        changed = config.model_copy(update={"parts": {**config.parts, "auxo": auxo}})
        result = run_method("paper" if variant == LETTER else "auxo", changed, data)
        ours = result.final
        outcomes.append(
            Outcome(
                variant,
                name,
                seed,
                ours.accuracy,
                ours.accuracy - base,
                None if oracle is None else oracle_gain_share(base, ours.accuracy, oracle),
                ours.ari,
                sum(isinstance(event, Partitioned) for event in result.events),
            )
        )
    return outcomes


def markdown(outcomes: Sequence[Outcome], variants: Sequence[str], populations: Sequence[str]) -> str:
    """Return the table: a row for each variant, a column for each population."""
    lines = ["| | " + " | ".join(populations) + " |", "|---" * (len(populations) + 1) + "|"]
    for variant in variants:
        cells = [
            _cell([one for one in outcomes if one.variant == variant and one.population == p]) for p in populations
        ]
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(mine: Sequence[Outcome]) -> str:
    if not mine:
        return "-"
    partitions = " ".join(str(one.partitions) for one in mine)
    shares = [one.oracle_gain_share for one in mine if one.oracle_gain_share is not None]
    if shares:
        ari = np.mean([one.ari for one in mine if one.ari is not None])
        return f"{100 * np.mean(shares):.0f} %, ARI {ari:.2f}, partitions {partitions}"
    return f"{100 * np.mean([one.gain for one in mine]):+.2f} points, partitions {partitions}"


def main(argv: Sequence[str]) -> None:
    """Run the variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="0 to report, 100 to choose constants by")
    parser.add_argument("--sweep", action="store_true", help="other values of the thresholds, not other rules")
    parser.add_argument("--only", nargs="+", metavar="POPULATION", help="some of the populations (default: all)")
    parser.add_argument("--variant", nargs="+", metavar="VARIANT", help="some of the rows (default: all)")
    parser.add_argument("--data", type=Path, help="folder with the real data (default: the variable AUXO_DATA)")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments, console = parser.parse_args(argv), Console()
    populations = [one.name for one in SWEEP_WORKLOADS] if arguments.sweep else list(POPULATIONS)
    variants = list(swept() if arguments.sweep else VARIANTS)
    for option, given, known in (("--only", arguments.only, populations), ("--variant", arguments.variant, variants)):
        if unknown := sorted(set(given or ()) - set(known)):
            parser.error(f"{option}: expected some of {', '.join(known)}; got {', '.join(unknown)}")
    populations, variants = arguments.only or populations, arguments.variant or variants
    folder = arguments.data or (Path(os.environ["AUXO_DATA"]) if "AUXO_DATA" in os.environ else None)
    first, outcomes = arguments.first_seed, list[Outcome]()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        jobs = [
            pool.submit(run_population, name, seed, folder, variants)
            for seed in range(first, first + arguments.seeds)
            for name in populations
        ]
        for done, job in enumerate(as_completed(jobs), start=1):
            outcomes.extend(job.result())
            arguments.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1))
            console.print(f"{done} of {len(jobs)} done")
    outcomes.sort(key=lambda one: (one.population, one.seed))
    sys.stdout.write(markdown(outcomes, variants, populations) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])

"""Are groups found in private sketches, where nothing is told from updates? One line for each run.

    python benchmarks/private_sketches.py --only two four none --seeds 0 1 2
    python benchmarks/private_sketches.py --only two --seeds 0 --noise shared --choice-epsilon 2

2,000 clients of digits, 200 participants, softmax, 100 rounds. Words bear their noise (PrivUnit, randomised response,
the piecewise mechanism); updates are clean, or bear the paper's noise for its epsilon of 4 as participants share it.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from workloads import DIGITS, TRAINING, planted

from auxo.core.client_mod import ClientMod
from auxo.experiments.config_file import parse_config
from auxo.experiments.engines import make_engine
from auxo.experiments.runner import Stage, _in_process, _world, run_method
from auxo.privacy.local_privacy import LocalPrivacy
from auxo.privacy.private_words import PrivateWords
from auxo.privacy.terms import PAPER_FIGURES, paper_terms
from auxo.protocol.events import Partitioned

POPULATIONS: dict[str, dict[str, object]] = {
    "two": {"heterogeneity": "concept", "groups": 2},
    "four": {"heterogeneity": "concept"},
    "label": {"heterogeneity": "label", "noise": 0.6},
    "none": {"heterogeneity": "none", "noise": 0.6},
    "none-skew": {"heterogeneity": "none", "noise": 0.6, "client_label_concentration": 1.0},
}


def run(name: str, seed: int, arguments: argparse.Namespace) -> str:
    """Return what a run came to."""
    training = TRAINING.model_copy(update={"rounds": arguments.rounds})
    config, data = planted(DIGITS.model_copy(update=POPULATIONS[name]), training)(seed, None)
    wanted = ["auxo.clustering.reads=sketches", *(f"auxo.{one}" for one in arguments.set)]
    config = config.model_copy(update={"parts": {**config.parts, "auxo": parse_config("", wanted).parts["auxo"]}})
    mod: ClientMod = PrivateWords(seed)
    if arguments.noise == "shared":
        terms = paper_terms(PAPER_FIGURES[4.0], 1.0, "shared", training.participants)
        words = replace(terms, choice_epsilon=arguments.choice_epsilon, questions=4, question_epsilon=20.0)
        mod = LocalPrivacy.simulated(words, seed)
    inner = _in_process(config, data)
    with make_engine(config, inner, lambda note: None) as engine:
        stage = Stage(inner.trainer, replace(_world(config, data, engine), mods=(mod,)))
        base, ours = (run_method(method, config, data, stage=stage) for method in ("base", "auxo"))
    parted = [event.round for event in ours.events if isinstance(event, Partitioned)]
    leaves = len(ours.state.coordinator.tree.leaves)
    return (
        f"{name} seed {seed}: base {base.final.accuracy:.3f}, auxo {ours.final.accuracy:.3f}, ARI {ours.final.ari}, "
        f"parted in rounds {parted}, {leaves} cohorts"
    )


def main(argv: Sequence[str]) -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(POPULATIONS), choices=list(POPULATIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="0 to report, 100 to choose by")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--noise", choices=["none", "shared"], default="none", help="on updates")
    parser.add_argument("--choice-epsilon", type=float, default=0.0, help="of a comparison, with --noise shared")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of [auxo]")
    arguments = parser.parse_args(argv)
    for name in arguments.only:
        for seed in arguments.seeds:
            print(run(name, seed, arguments), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

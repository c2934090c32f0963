"""The parts that a configuration can name: those that come with Auxo, and those of one's own by import path."""

from collections.abc import Mapping

from auxo.attacks.attackers import Attack
from auxo.core.aggregators import Aggregator
from auxo.core.client_algorithms import ClientAlgorithm
from auxo.core.cohort_algorithm import CohortAlgorithm, NeedsGroups
from auxo.core.guard import Guard
from auxo.core.personalisers import Personaliser
from auxo.core.selectors import Selector
from auxo.registry.part_settings import PartMaker, Sections
from auxo.registry.registry import Entry, Registry

METHODS = Registry(
    "method",
    (
        Entry("base", "One model for everybody: plain federated learning.", "auxo.algorithms.base:OneCohort"),
        Entry("auxo", "Finds cohorts of alike clients while it trains.", "auxo.algorithms.auxo:Auxo"),
        Entry("paper", "Auxo with every rule as the paper prints it.", "auxo.algorithms.paper:Paper"),
        Entry("oracle", "A model for each known group, to see what there is to gain.", "auxo.algorithms.oracle:Oracle"),
        Entry(
            "random",
            "A model for each of K groups drawn at random: a reference.",
            "auxo.algorithms.random_groups:RandomGroups",
        ),
        Entry("cfl", "Everybody in every round; cohorts are cut in two by cosines (CFL).", "auxo.algorithms.cfl:Cfl"),
        Entry(
            "fl+hc", "One pass over everybody, clustered once by a dendrogram (FL+HC).", "auxo.algorithms.fl_hc:FlHc"
        ),
        Entry(
            "flexcfl",
            "K groups by pre-training; newcomers join the nearest (FlexCFL).",
            "auxo.algorithms.flex_cfl:FlexCfl",
        ),
        Entry("ifca", "Clients try K models in every round and train the best (IFCA).", "auxo.algorithms.ifca:Ifca"),
        Entry(
            "fesem", "Clients belong to the nearest of K models (FeSEM, multi-center).", "auxo.algorithms.fesem:FeSem"
        ),
        Entry("icfl", "Clusters that clients join one by one, and that split and merge.", "auxo.algorithms.icfl:Icfl"),
        Entry("kfed", "K groups by one-shot clustering of clients' inputs (k-FED).", "auxo.algorithms.kfed:KFed"),
    ),
    (CohortAlgorithm, NeedsGroups),
    "methods",
)
AGGREGATORS = Registry(
    "aggregator",
    (
        Entry("fedavg", "Adds the mean update to the model.", "auxo.core.aggregators.fedavg:FedAvg"),
        Entry(
            "fedyogi",
            "Adapts the rate of each parameter (Reddi et al., 2021).",
            "auxo.core.aggregators.adaptive:FedYogi",
        ),
        Entry("fedadam", "Adapts the rate of each parameter, as Adam does.", "auxo.core.aggregators.adaptive:FedAdam"),
        Entry(
            "fedadagrad", "Adapts rates, which only ever fall (Adagrad).", "auxo.core.aggregators.adaptive:FedAdagrad"
        ),
        Entry(
            "qfedavg",
            "Those with large losses count more (q-FedAvg, Li et al., 2020).",
            "auxo.core.aggregators.q_fedavg:QFedAvg",
        ),
        Entry("median", "Moves by the median of each parameter; robust.", "auxo.core.aggregators.robust:Median"),
        Entry(
            "trimmed_mean",
            "Moves by each parameter's mean without extremes; robust.",
            "auxo.core.aggregators.robust:TrimmedMean",
        ),
        Entry("krum", "Moves by the one update nearest to others; robust.", "auxo.core.aggregators.robust:Krum"),
        Entry("multi_krum", "Moves by the mean of such updates; robust.", "auxo.core.aggregators.robust:MultiKrum"),
        Entry(
            "clipped", "Shortens long updates, then any of the others.", "auxo.core.aggregators.norm_clipping:Clipped"
        ),
    ),
    (Aggregator,),
    "training.aggregator",
)
SELECTORS = Registry(
    "selector",
    (
        Entry("uniform", "Everybody who is there has the same chance.", "auxo.core.selectors.uniform:Uniform"),
        Entry(
            "oort", "Prefers high losses and the fast, explores (Lai et al., 2021).", "auxo.core.selectors.oort:Oort"
        ),
        Entry(
            "pyramidfl",
            "Oort; the fast do more, uploads drop out (Li, 2022).",
            "auxo.core.selectors.pyramidfl:PyramidFL",
        ),
    ),
    (Selector,),
    "training.selector",
)
CLIENTS = Registry(
    "client algorithm",
    (
        Entry("sgd", "Plain local SGD.", "auxo.core.client_algorithms.client_algorithm:LocalSgd"),
        Entry(
            "fedprox",
            "SGD held near the model sent; stragglers send less.",
            "auxo.core.client_algorithms.fedprox:FedProx",
        ),
    ),
    (ClientAlgorithm,),
    "training.client",
)
PERSONALISERS = Registry(
    "personaliser",
    (
        Entry("none", "Clients use the model of their cohort as it is.", "auxo.core.personalisers.personaliser:AsItIs"),
        Entry(
            "ftfa", "Clients fine-tune all layers once training is done (FTFA).", "auxo.core.personalisers.ftfa:Ftfa"
        ),
        Entry(
            "fine-tuning", "The same with all settings of its own.", "auxo.core.personalisers.fine_tuning:FineTuning"
        ),
    ),
    (Personaliser,),
    "training.personaliser",
)
GUARDS = Registry(
    "guard",
    (
        Entry("unguarded", "Nobody is refused.", "auxo.core.guard:Unguarded"),
        Entry("watchful", "Bans who claims again and again what is not so.", "auxo.core.watchful:Watchful"),
    ),
    (Guard,),
    "training.guard",
)
ATTACKS = Registry(
    "attack",
    (
        Entry("label-flip", "Trains on samples with wrong labels.", "auxo.attacks.label_flip:LabelFlip"),
        Entry("sign-flip", "Sends its update the other way round.", "auxo.attacks.sign_flip:SignFlip"),
        Entry("scaled", "Sends its update many times as long.", "auxo.attacks.scaled:Scaled"),
        Entry("alie", "Shifts its update by what others differ (ALIE).", "auxo.attacks.alie:Alie"),
        Entry("inner-product", "Sends a short step back (IPM).", "auxo.attacks.inner_product:InnerProduct"),
        Entry("noise", "Sends Gaussian noise.", "auxo.attacks.noise:Noise"),
        Entry("mimic", "All send what one honest client would.", "auxo.attacks.mimic:Mimic"),
        Entry("nan", "Sends what are no numbers.", "auxo.attacks.not_numbers:NotNumbers"),
        Entry("forged-reward", "Claims reward 1 for its target.", "auxo.attacks.forged_reward:ForgedReward"),
        Entry(
            "forged-cluster",
            "Claims an index that leads to its target.",
            "auxo.attacks.forged_cluster:ForgedCluster",
        ),
        Entry("hopping", "Claims another cohort at every visit.", "auxo.attacks.hopping:Hopping"),
        Entry("new-name", "Sheds its record: a newcomer at every visit.", "auxo.attacks.new_name:NewName"),
        Entry("lying-judge", "Lies for or against every partition.", "auxo.attacks.lying_judge:LyingJudge"),
    ),
    (Attack,),
    "attack.kinds",
)

KINDS: Mapping[str, Registry] = {
    "methods": METHODS,
    "aggregators": AGGREGATORS,
    "selectors": SELECTORS,
    "clients": CLIENTS,
    "personalisers": PERSONALISERS,
    "guards": GUARDS,
    "attacks": ATTACKS,
}
"""Every kind of part, by what a list of them is called."""

_CHOICES: Mapping[object, Registry] = {
    Aggregator: AGGREGATORS,
    Selector: SELECTORS,
    ClientAlgorithm: CLIENTS,
    Personaliser: PERSONALISERS,
    Guard: GUARDS,
}


def part_maker(sections: Sections) -> PartMaker:
    """Return what makes parts with these sections of a configuration."""
    return PartMaker(_CHOICES, sections, tuple(KINDS.values()))


def registry_of(section: str) -> Registry | None:
    """Return the kind of the part that comes with Auxo and has this section; None: there is none."""
    return next((registry for registry in KINDS.values() if section in registry.names), None)


def section_names() -> tuple[str, ...]:
    """Return the sections that parts which come with Auxo may have."""
    return tuple(name for registry in KINDS.values() for name in registry.names)

"""Private clients of an experiment: the mod that its section [privacy] describes."""

from functools import lru_cache
from math import ceil

from auxo.core.aggregators import asks_for_loss
from auxo.core.client_mod import ClientMod
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.parts import AGGREGATORS, SELECTORS
from auxo.privacy.local_privacy import LocalPrivacy
from auxo.privacy.terms import PAPER_FIGURES, Terms, Wish, paper_terms, terms_of

_TIMES_THE_MEAN = 2  # visits that a budget lasts for: most clients have fewer, by chance; our choice


def privacy_mods(config: Config, clients: int) -> tuple[ClientMod, ...]:
    """Return the mods of this many clients: one, or none without privacy.

    Raises:
        ConfigError: another part needs what private clients do not say.
    """
    terms = privacy_terms(config, clients)
    if terms is None:
        return ()
    training, maker = config.training, config.maker
    for key, registry, name in (
        ("training.aggregator", AGGREGATORS, training.aggregator),
        ("training.selector", SELECTORS, training.selector),
    ):
        part = maker.make(registry, name)
        if asks_for_loss(part):
            raise ConfigError(
                f'{key}: "{name}" goes by clients\' losses, which with privacy.protocol = "{config.privacy.protocol}" '
                "do not leave them; choose another, or leave [privacy] out"
            )
    return (LocalPrivacy.simulated(terms, config.seed),)


def privacy_terms(config: Config, clients: int) -> Terms | None:
    """Return the terms of this many clients; None: they keep nothing to themselves."""
    privacy, training = config.privacy, config.training
    if privacy.protocol == "none":
        return None
    if privacy.protocol == "paper":
        sigma = PAPER_FIGURES[privacy.epsilon] if privacy.sigma is None else privacy.sigma
        return paper_terms(sigma, privacy.clip, privacy.noise, training.participants)
    mean = training.rounds * training.participants / clients
    wish = Wish(
        promise=privacy.promise,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        participations=privacy.participations or ceil(_TIMES_THE_MEAN * mean),
        clip=privacy.clip,
        choice_share=privacy.choice_share,
        loss_bound=privacy.loss_bound,
    )
    try:
        return _terms(wish, training.epochs)
    except ImportError as error:
        raise ConfigError(f"privacy.protocol: {error}") from error


_terms = lru_cache(maxsize=64)(terms_of)  # every method of a run asks, and it takes a second

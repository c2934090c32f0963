"""Private clients of an experiment: the mod that its section [privacy] describes."""

from dataclasses import replace
from functools import lru_cache

from auxo.core.aggregators import asks_for_loss
from auxo.core.client_mod import ClientMod
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError
from auxo.experiments.parts import AGGREGATORS, SELECTORS
from auxo.privacy.local_privacy import LocalPrivacy
from auxo.privacy.plan import PlannedFederation, PrivacyPlan
from auxo.privacy.terms import PAPER_FIGURES, Terms, Wish, paper_terms, terms_of


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


def privacy_notes(config: Config, clients: int, numbers: int, samples: int) -> tuple[str, ...]:
    """Return what is promised to so many clients who train so many numbers, and what that leaves of their updates.

    A client has about so many samples.
    """
    terms = privacy_terms(config, clients)
    if terms is None:
        return ()
    plan = PrivacyPlan(terms, replace(_around(config, clients), numbers=numbers, samples=max(1, samples)))
    if terms.budget is None:
        return (
            f"privacy: noise of {terms.noise:.3g} clips on updates, as the paper reads it; this is no promise to "
            "clients (docs/privacy.md)",
        )
    hidden = (
        "any two data sets of a client" if terms.promise == "client" else "two data sets of which one sample differs"
    )
    return (
        f"privacy: {hidden} look alike to epsilon {terms.budget.epsilon:g} at delta {terms.budget.delta:g}, over "
        f"{terms.participations:,} visits of a client. {plan.verdict()}",
    )


def _around(config: Config, clients: int) -> PlannedFederation:
    training = config.training
    return PlannedFederation(
        rounds=training.rounds,
        participants=training.participants,
        clients=clients,
        batch_size=training.batch_size,
        epochs=training.epochs,
    )


def privacy_terms(config: Config, clients: int) -> Terms | None:
    """Return the terms of this many clients; None: they keep nothing to themselves."""
    privacy, training = config.privacy, config.training
    if privacy.protocol == "none":
        return None
    if privacy.protocol == "paper":
        sigma = PAPER_FIGURES[privacy.epsilon] if privacy.sigma is None else privacy.sigma
        terms = paper_terms(sigma, privacy.clip, privacy.noise, training.participants)
        return replace(terms, questions=privacy.questions, question_epsilon=privacy.question_epsilon)
    wish = Wish(
        promise=privacy.promise,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        participations=privacy.participations or _around(config, clients).visits,
        clip=privacy.clip,
        choice_share=privacy.choice_share,
        loss_bound=privacy.loss_bound,
        questions=privacy.questions,
        question_epsilon=privacy.question_epsilon,
    )
    try:
        return _terms(wish, training.epochs)
    except ImportError as error:
        raise ConfigError(f"privacy.protocol: {error}") from error


_terms = lru_cache(maxsize=64)(terms_of)  # every method of a run asks, and it takes a second

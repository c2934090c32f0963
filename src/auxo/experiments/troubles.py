"""What a method's run has to be asked about before its figures are believed: each trouble in words, with its cause.

A run whose model learns nothing still has an accuracy. What went wrong is in the events, in the data and in the
settings, and is looked for when the run has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auxo.core.aggregators import held_by_aggregator
from auxo.core.metrics import binomial_error
from auxo.core.types import FloatArray, IntArray
from auxo.core.validation import NOT_A_NUMBER, why
from auxo.experiments.config import Config
from auxo.experiments.parts import AGGREGATORS
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import CohortEnded, EmptyRound, Event, RoundClosed, UpdateRejected
from auxo.protocol.notes import refusals_in_words
from auxo.registry.registry import short_name
from auxo.training.trainer import Trainer

_MOST_LOOKED_INTO = 1000  # clients whose samples are searched for the cause; our choice
_CHANCE = 2.0  # standard errors above the most common class up to which a model may have learnt nothing; our choice
_CAN_TELL = 0.15  # what an accuracy may be above chance by chance alone, before test samples are too few; our choice
_NEVER_REFUSED = "no usable update"


@dataclass(frozen=True)
class Trouble:
    """Something that whoever reads a method's figures has to know."""

    words: str
    is_failure: bool = False  # the method has not done what it was asked to do, and its figures mean nothing


@dataclass(frozen=True)
class Look:
    """What the cause of a trouble is looked for in."""

    config: Config
    data: FederatedData
    trainer: Trainer


def troubles_of(events: Sequence[Event], look: Look) -> tuple[Trouble, ...]:
    """Return what the events of a run that has ended tell of trouble, failures first."""
    config = look.config
    ended = [event for event in events if isinstance(event, CohortEnded)]
    short = [event for event in ended if event.round < config.training.rounds]
    refused = [event for event in events if isinstance(event, UpdateRejected)]
    capped = [event for event in events if isinstance(event, RoundClosed) and event.capped]
    found = [_given_up(short, events, look, is_failure=len(short) == len(ended))] if short else []
    if refused and not found:
        found.append(Trouble(refusals_in_words(refused) + cause_of(refused, look)))
    if capped:
        found.append(
            Trouble(
                f"in {len(capped)} rounds somebody claimed so many more examples than is usual that, where updates are "
                "weighed by them, they did not all count: training.most_weight "
                f"({config.training.most_weight:g}) is the share of a round's weight that one participant may have; "
                "with 1 all count"
            )
        )
    return tuple(found)


def cause_of(refused: Sequence[UpdateRejected], look: Look) -> str:
    """Return why updates were refused, and what to do about it."""
    reasons = why([event.reason for event in refused])
    strange = [event.client for event in refused if event.reason in NOT_A_NUMBER]
    if not strange:
        return reasons
    config, names = look.config, list(dict.fromkeys(strange))[:_MOST_LOOKED_INTO]
    client = _without_numbers(names, look.data)
    if client is None and _gives_no_numbers(names[0], look):
        return (
            f"{reasons}. The clients' samples are finite, and the model returns what is no number for those of "
            f"{names[0]} before it has learnt anything: mend the model or its loss, in which something is divided by "
            "0, or is the logarithm or the root of what is not positive"
        )
    if client is not None:
        return (
            f"{reasons}. The training samples of client {client} hold NaN or infinite numbers, and perhaps those of "
            "others; `auxo data validate` finds them in a federated file"
        )
    return (
        f"{reasons}. The clients' samples are finite, so training has diverged: lower training.learning_rate "
        f"({config.training.learning_rate:g}) or the server_learning_rate of [{_rate_section(config)}]"
    )


def _rate_section(config: Config) -> str:
    """Return the section that sets the server's learning rate: that of the aggregator, or of one within it."""
    section, part = short_name(config.training.aggregator), config.maker.make(AGGREGATORS, config.training.aggregator)
    while (held := held_by_aggregator(part)) is not None:
        section, part = f"{section}.{held[0]}", held[1]
    return section


def at_chance(accuracy: float, clients: IntArray, data: FederatedData) -> Trouble | None:
    """Return that these clients' mean accuracy is no better than that of one answer for everybody; None: it is.

    The answer is the most common class of the training samples.
    """
    if data.train.y.ndim != 1 or data.train.y.dtype.kind not in "iu" or len(data.train.y) == 0:
        return None  # there are no classes to guess
    common = int(np.bincount(data.train.y).argmax())
    counts = data.test.counts(clients)
    hits = data.test.y[data.test.positions(clients)] == common
    owner = np.repeat(np.arange(len(clients)), counts)
    tested = counts > 0
    if not tested.any():
        return None
    guessed: FloatArray = np.bincount(owner, weights=hits, minlength=len(clients))[tested] / counts[tested]
    chance = float(guessed.mean())
    room = _CHANCE * binomial_error(chance, counts[tested])
    if accuracy > chance + room:
        return None
    if room > _CAN_TELL:
        return Trouble(
            f"{int(counts.sum())} test samples are too few to tell whether accuracy {100 * accuracy:.1f} % is better "
            f"than to answer class {common} always, which is right {100 * chance:.1f} % of the time; hold out more"
        )
    return Trouble(
        f"accuracy {100 * accuracy:.1f} % is no better than chance: to answer class {common} always is right "
        f"{100 * chance:.1f} % of the time. Try more rounds, another training.learning_rate or another model, and "
        "see whether labels belong to their inputs"
    )


def _given_up(short: Sequence[CohortEnded], events: Sequence[Event], look: Look, *, is_failure: bool) -> Trouble:
    cohorts = {event.cohort for event in short}
    last = {event.cohort: event.reason for event in events if isinstance(event, EmptyRound)}
    refused = [event for event in events if isinstance(event, UpdateRejected) and event.cohort in cohorts]
    closed = sum(isinstance(event, RoundClosed) for event in events)
    names = ", ".join(f"{event.cohort} in round {event.round + 1}" for event in short)
    what = f"cohort {names} of {look.config.training.rounds} was given up, with {closed} rounds closed in all: "
    if refused and any(last.get(cohort) == _NEVER_REFUSED for cohort in cohorts):
        return Trouble(f"{what}{len(refused)} updates were refused, {cause_of(refused, look)}", is_failure)
    if look.config.privacy.protocol == "local" and any(last.get(cohort) == _NEVER_REFUSED for cohort in cohorts):
        return Trouble(
            f"{what}clients' privacy budgets are spent; raise privacy.participations, for more noise, or lower "
            "training.rounds",
            is_failure,
        )
    if any(last.get(cohort) == _NEVER_REFUSED for cohort in cohorts):
        return Trouble(
            f"{what}no participant was in time; raise devices.deadline_s or lower devices.dropout", is_failure
        )
    return Trouble(f"{what}nobody was on line for it; raise devices.share_online or devices.patience_s", is_failure)


def _gives_no_numbers(name: str, look: Look) -> bool:
    """Return whether the model that a run starts from has a loss that is no number on a client's training samples."""
    data = look.data
    positions = data.train.positions(np.array([data.client_names.index(name)]))
    weights = look.trainer.initial_weights(look.config.seed)
    x, y = data.inputs(data.train.x_rows[positions]), data.answers(data.train.y[positions])
    return bool(np.isnan(look.trainer.losses(weights, x, y)).any())


def _without_numbers(names: Sequence[str], data: FederatedData) -> str | None:
    """Return the first of these clients whose training samples hold what is no number; None: none of them."""
    rows = {name: row for row, name in enumerate(data.client_names)} if names else {}
    for name in names:
        positions = data.train.positions(np.array([rows[name]]))
        inputs = data.inputs(data.train.x_rows[positions])
        if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
            return name
    return None

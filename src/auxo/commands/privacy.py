"""The command `auxo privacy plan`: a budget in noise and back, before anybody trains."""

import json
from collections.abc import Iterator
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from auxo.commands.command_group import examples
from auxo.commands.describing import bars
from auxo.files.errors import FileError
from auxo.privacy.accounting import PrivacyBudget, amplified_epsilon
from auxo.privacy.plan import Circumstances, Plan
from auxo.privacy.spent import Promise
from auxo.privacy.terms import Terms, Wish, terms_of
from auxo.reporting.number_format import number, percent

privacy_app = typer.Typer(
    no_args_is_help=True,
    epilog=examples(
        "auxo privacy plan  # what the defaults mean",
        "auxo privacy plan --epsilon 2 --numbers 650 --participants 200  # a smaller model, a stricter promise",
        "auxo privacy plan --promise sample --samples 200  # hide one sample, and not the client",
        "auxo privacy plan --noise 1.0 --participations 10  # the other way round: what a noise comes to",
        "auxo run --set privacy.protocol=local --set privacy.epsilon=8  # simulate it",
    ),
)

_SIZES = (100, 1_000, 10_000, 100_000)
_MODELS = (2, 4, 8)
_AROUND, _WISH = Circumstances(), Wish()


@privacy_app.callback()
def privacy() -> None:
    """Local privacy: what a budget means in noise, and what noise leaves of the updates."""


@privacy_app.command(
    epilog=examples(
        "auxo privacy plan --epsilon 2 --numbers 10000 --participations 1",
        "auxo privacy plan --promise sample --samples 200 --batch-size 50",
        "auxo privacy plan --noise 0.77 --participations 10  # the noise that the paper prints for epsilon 4",
        "auxo privacy plan --json",
    )
)
def plan(  # noqa: PLR0913, PLR0917 - one for each option
    epsilon: Annotated[
        float, typer.Option(help="What a client may come to over all its visits: 2 is strict, 8 is common.")
    ] = _WISH.epsilon,
    delta: Annotated[
        float, typer.Option(help="Chance that this leaves out; below one over the clients.")
    ] = _WISH.delta,
    promise: Annotated[
        Promise, typer.Option(help="client: any two data sets look alike. sample: two that differ in one sample.")
    ] = _WISH.promise,
    numbers: Annotated[int, typer.Option(min=1, help="Numbers that are trained: the size of the model.")] = (
        _AROUND.numbers
    ),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the whole training.")] = _AROUND.rounds,
    participants: Annotated[int, typer.Option(min=1, help="Participants of a round.")] = _AROUND.participants,
    clients: Annotated[int, typer.Option(min=1, help="Clients that take turns.")] = _AROUND.clients,
    participations: Annotated[
        int | None, typer.Option(min=1, help="Visits that the budget lasts for. Not given: twice the mean.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="The other way round: noise over clip, of which epsilon is told.")
    ] = None,
    choice_share: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of the budget for choices among models.")
    ] = _WISH.choice_share,
    samples: Annotated[int, typer.Option(min=1, help="Samples of a client, for sample level.")] = _AROUND.samples,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples of a step, for sample level.")] = _AROUND.batch_size,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them in a visit, for sample level.")] = _AROUND.epochs,
    is_json: Annotated[bool, typer.Option("--json", help="Print the figures as a JSON object.")] = False,
) -> None:
    """Turn a budget into noise, or a noise into a budget, and say what is left of the updates.

    The promise is against a curious server that sees each client's messages and knows who takes part. So nothing is
    gained by sampling, and every visit costs. Noise is told in clips: an update is cut to that length, and each of its
    numbers gets noise of so many times the clip. It averages out over a round's participants, and adds up over the
    numbers of the model: hence large models and few participants leave nothing.
    """
    around = Circumstances(numbers, rounds, participants, clients, samples, batch_size, epochs)
    visits = participations or around.visits
    try:
        if noise is None:
            wish = Wish(promise, epsilon, delta, visits, choice_share=choice_share)
            found = Plan(terms_of(wish, epochs), around)
        else:
            found = Plan(Terms(promise, PrivacyBudget(epsilon, delta), 1.0, noise, participations=visits), around)
    except (ValueError, ImportError) as error:
        raise FileError(str(error)) from error
    if is_json:
        typer.echo(json.dumps(_figures(found), indent=2))
        return
    console = Console()
    for picture in _pictures(found, is_turned=noise is not None, is_ascii=console.options.ascii_only):
        console.print(picture, highlight=False)
        console.print()
    console.print(found.verdict(), highlight=False, markup=False)
    for words in found.remedies():
        console.print(f"  - {words}", highlight=False, markup=False)


def _figures(found: Plan) -> dict[str, float | int | str | list[str]]:
    terms, around = found.terms, found.around
    return {
        "promise": terms.promise,
        "epsilon": found.spent_after(terms.participations),
        "delta": found.delta,
        "participations": terms.participations,
        "noise": terms.noise,
        "epsilon_of_a_choice": terms.choice_epsilon,
        "numbers": around.numbers,
        "participants": around.participants,
        "noise_in_mean": found.noise_in_mean(),
        "participants_needed": found.participants_needed,
        "numbers_learnable": found.numbers_learnable,
        "verdict": found.verdict(),
        "remedies": list(found.remedies()),
    }


def _pictures(found: Plan, is_turned: bool, is_ascii: bool) -> Iterator[Table]:
    """Yield what is promised, and how much of the updates is no noise for models of several sizes."""
    terms, around = found.terms, found.around
    table = Table("", box=box.SIMPLE_HEAD, show_header=False)
    hidden = "any two data sets of a client" if terms.promise == "client" else "one sample of a client"
    spent = found.spent_after(terms.participations)
    table.add_row("hidden", hidden)
    table.add_row("from", "a server that sees every message and knows who takes part")
    table.add_row("after so many visits", f"{terms.participations:,} (on average {number(around.mean_visits)})")
    table.add_row("epsilon, delta" if not is_turned else "epsilon it comes to", f"{number(spent)}, {found.delta:g}")
    table.add_row("after one visit", number(found.spent_after(1)))
    table.add_row("noise on each number", f"{number(terms.noise)} clips")
    if terms.promise == "sample":
        table.add_row("", f"on the sum of a batch's gradients, in each of {around.steps:,} steps")
    if terms.choice_epsilon:
        table.add_row("epsilon of a choice of model", number(terms.choice_epsilon))
        if terms.promise == "client":
            told = ", ".join(f"{percent(found.true_choices(k), 0)} of {k}" for k in _MODELS)
            table.add_row("says which model fits", told)
    if is_turned:
        share = min(1.0, around.participants / around.clients)
        amplified = amplified_epsilon(terms.noise, share, around.rounds, found.delta)
        table.add_row(
            "epsilon as papers count it", f"{number(amplified)}: a trusted server, noise on the sum; no promise"
        )
    yield table
    sizes = sorted({*_SIZES, around.numbers})
    headings = [f"{size:,}{' (yours)' if size == around.numbers else ''}" for size in sizes]
    columns = {
        f"{people:,} participants": np.array([_left(found, size, people) for size in sizes])
        for people in (around.participants, 10 * around.participants)
    }
    title = "share of a round's mean update that is no noise, by numbers that are trained"
    yield bars(title, headings, columns, lambda share: percent(share, 0), is_ascii)


def _left(found: Plan, numbers: int, participants: int) -> float:
    """Return the share of the squared length of a mean update that is no noise, where updates are as long as may be."""
    return 1 / (1 + found.noise_in_mean(numbers, participants) ** 2)

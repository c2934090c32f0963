"""A comparison over seeds as a table: on the terminal, and as Markdown for a document."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from auxo.core.metric import Metric
from auxo.experiments.comparison import FEWEST_SEEDS, BySeed, Comparison, Interval, Row, mean_speedup
from auxo.experiments.grid_comparison import GridComparison
from auxo.experiments.summary import BASE, ORACLE, Between
from auxo.reporting.below_zero import not_beyond_chance, worse_than_the_mean
from auxo.reporting.method_names import contenders, words_for
from auxo.reporting.number_format import OPEN, counted, open_to
from auxo.reporting.terminal import methods_table

_MINUS, _PLUS_MINUS = "\N{MINUS SIGN}", "\N{PLUS-MINUS SIGN}"
_UNKNOWN = "-"


def comparison_over_seeds(comparison: Comparison) -> RenderableType:
    """Return each measure of every method, and its paired difference from the base.

    What several contenders brought stands in a table of their own, above the verdicts.
    """
    title = f"{comparison.population}, {counted(len(comparison.seeds), 'seed')}"
    table = Table("", "", title=escape(title), caption_justify="left")
    table.add_column("mean", justify="right")
    if BASE in comparison.methods:
        is_enough = len(comparison.seeds) >= FEWEST_SEEDS
        table.add_column("difference (95 %)" if is_enough else "difference", justify="right")
    for row in comparison.rows:
        for place, method in enumerate(row.means):
            difference = [difference_of(row, method)] if BASE in comparison.methods else []
            name = escape(words_for(method).name)
            table.add_row("" if place else row.measure.title, name, value_of(row, method), *difference)
        if row is comparison.accuracy:
            for method in comparison.refused:
                table.add_row("", escape(words_for(method).name), "refused")
        table.add_section()
    names = contenders(comparison.methods)
    refused = [f"{words_for(method).name} was refused: it {why}" for method, why in comparison.refused.items()]
    lines = refused + troubles_in_words(comparison) + findings(comparison) + explained(comparison, names)
    lines += below_zero(comparison)
    last = table if len(names) < 2 else methods_table(names, brought(comparison, names))
    last.caption, last.caption_justify = escape("\n".join(lines)), "left"
    return table if last is table else Group(table, last)


def troubles_in_words(comparison: Comparison) -> list[str]:
    """Return what has to be known before the figures are believed, as on the pages of the runs."""
    return [f"{words_for(method).name}: {words}" for method, found in comparison.troubles.items() for words in found]


def below_zero(comparison: Comparison) -> list[str]:
    """Return what means over seeds that are below zero mean, in words."""
    means = {row.measure.key: row.means.values() for row in comparison.rows}
    told = worse_than_the_mean(comparison.metric, means.get("worst_10", ()))
    return told + not_beyond_chance(means.get("variance_beyond_binomial", ()))


def explained(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """Return what speed-ups in the table of several contenders mean that are below 1, or were never reached."""
    if len(names) < 2:
        return []
    means = [
        mean_speedup(speedups)
        for name in names
        for speedups in (comparison.by_seed[name].speedups, comparison.by_seed[name].resource_speedups)
    ]
    below = ["speed-up below 1: slower than the base"] if any(mean is not None and mean < 1 for mean in means) else []
    never = ["never: a seed missed the base's best"] if None in means else []
    return [*below, *never]


def brought(comparison: Comparison, names: Sequence[str]) -> dict[str, list[str]]:
    """Return by its heading each column of what several contenders brought, a cell for each of them."""
    by_seed = [comparison.by_seed[name] for name in names]
    columns = {
        "speed-up,\nin time": [_speedup(one.speedups, one.speedup_between) for one in by_seed],
        "speed-up, in\nparticipations": [
            _speedup(one.resource_speedups, one.resource_speedup_between) for one in by_seed
        ],
        "cohorts,\nby seed": [_cohorts(one) + (" in use" if one.are_cohorts_in_use else "") for one in by_seed],
        "share of the oracle's\ngain, by seed": [_shares(one) for one in by_seed],
    }
    return {heading: cells for heading, cells in columns.items() if any(cells)}


def findings(comparison: Comparison) -> list[str]:
    """Return what else is known of the only contender, one line each, and in a sentence each whether they pay."""
    names = contenders(comparison.methods)
    lines = _brought(comparison.by_seed[names[0]], comparison.metric) if len(names) == 1 else []
    for name in names:
        of_whom = "" if len(names) == 1 else f" of {words_for(name).name}"
        lines += [f"{what}{of_whom}, by seed: {values}" for what, values in _placed(comparison.by_seed[name])]
    is_open = any(one.speedup_between is not None for one in comparison.by_seed.values())
    return [*lines, *((OPEN,) if is_open else ()), *covered(comparison), *verdicts(comparison)]


def covered(comparison: Comparison | GridComparison) -> list[str]:
    """Return what intervals are about, and what they leave out; nothing where there are none."""
    if len(comparison.seeds) < FEWEST_SEEDS:
        return []
    if comparison.are_clients_drawn:
        return ["intervals are over seeds, each with clients and samples of its own"]
    return ["intervals leave out chance in clients and test samples: all seeds share them"]


def _brought(by_seed: BySeed, metric: Metric) -> list[str]:
    lines = [
        f"speed-up to the base's best {metric.name}, in time: "
        + _speedup_in_words(by_seed.speedups, by_seed.speedup_between),
        f"speed-up to the base's best {metric.name}, in participations: "
        + _speedup_in_words(by_seed.resource_speedups, by_seed.resource_speedup_between),
        f"cohorts{' in use' if by_seed.are_cohorts_in_use else ''}, by seed: {_cohorts(by_seed)}",
    ]
    if shares := _shares(by_seed):
        lines.append(f"share of the oracle's gain, by seed: {shares}")
    return lines


def _placed(by_seed: BySeed) -> list[tuple[str, str]]:
    """Return how well clients were placed and how many had to compare models, by seed; nothing of a single cohort."""
    if set(by_seed.cohorts) == {1}:
        return []
    told = [("lost clients", ", ".join(map(str, by_seed.lost)))]
    if None not in by_seed.aris:
        told.insert(0, ("ARI", _agreements(by_seed.aris)))
        if any(by_seed.lost):
            told.append(("ARI as matched", _agreements(by_seed.matched_aris)))
    return told


def _agreements(aris: Sequence[float | None]) -> str:
    return ", ".join(_UNKNOWN if ari is None else f"{ari:.2f}" for ari in aris)


def _cohorts(by_seed: BySeed) -> str:
    return ", ".join(map(str, by_seed.cohorts))


def _shares(by_seed: BySeed) -> str:
    return ", ".join(f"{100 * share:.0f} %" for share in by_seed.oracle_gain_shares if share is not None)


def verdicts(comparison: Comparison) -> list[str]:
    """Return in one sentence each whether the contenders pay."""
    if BASE not in comparison.methods:
        return [f'no method is called "{BASE}", so there are no differences']
    if len(comparison.seeds) == 1:
        return ["one seed says nothing about chance: run more (--seeds 3)"]
    if len(comparison.seeds) < FEWEST_SEEDS:
        return [f"two seeds say next to nothing about chance: run more (--seeds {FEWEST_SEEDS})"]
    differences, sign = comparison.accuracy.differences, comparison.metric.sign
    chance = "chance" if comparison.are_clients_drawn else "chance in training"
    return [_verdict(words_for(one).name, differences[one], sign, chance) for one in contenders(comparison.methods)]


def _verdict(name: str, difference: Interval, sign: float, chance: str) -> str:
    if not difference.is_beyond_chance:
        return f"{name} and the base do not differ beyond {chance}"
    return f"{name} is {'better' if sign * difference.mean > 0 else 'worse'} than the base, beyond {chance}"


def markdown_row(comparison: Comparison, method: str) -> tuple[str, ...]:
    """Return the cells that documents show of a method beside the base: accuracy or perplexity, bias, and speed.

    Raises:
        ValueError: there is no base, or no such method beside it.
    """
    if method not in comparison.accuracy.differences:
        raise ValueError(f"method: expected one that was run beside the base, got {method!r}; run both")
    by_key = {row.measure.key: row for row in comparison.rows}
    main = by_key.get("perplexity", comparison.accuracy)
    return (
        value_of(main, BASE),
        value_of(main, method),
        difference_of(main, method),
        value_of(main, ORACLE),
        *(_pair(by_key[key], method) for key in ("worst_10", "best_10", "variance")),
        _speedup(comparison.by_seed[method].speedups, comparison.by_seed[method].speedup_between),
    )


def _pair(row: Row, method: str) -> str:
    digits = max(0, row.measure.digits - 1)
    return f"{row.means[BASE]:.{digits}f} → {row.means[method]:.{digits}f}"


def value_of(row: Row, method: str) -> str:
    """Return the mean of a method, with its unit."""
    value = row.means.get(method)
    return _UNKNOWN if value is None else f"{value:.{row.measure.digits}f} {row.measure.unit}".strip()


def difference_of(row: Row, method: str) -> str:
    """Return by how much a method differs from the base; nothing for the base itself."""
    difference = row.differences.get(method)
    return "" if difference is None else signed(difference, row.measure.digits)


def signed(interval: Interval, digits: int) -> str:
    """Return a difference with its sign and how far it may be off.

    >>> signed(Interval(1.25, 0.5), 1)
    '+1.2 ± 0.5'
    """
    sign = _MINUS if interval.mean < 0 else "+"
    around = "" if interval.half_width is None else f" {_PLUS_MINUS} {interval.half_width:.{digits}f}"
    return f"{sign}{abs(interval.mean):.{digits}f}{around}"


def _speedup(speedups: tuple[float | None, ...], between: Between | None) -> str:
    mean = mean_speedup(speedups)
    return "never" if mean is None else f"{mean:.2f} x{open_to(between)}"


def _speedup_in_words(speedups: tuple[float | None, ...], between: Between | None) -> str:
    mean = mean_speedup(speedups)
    if mean is None:
        missed = f"{speedups.count(None)} of {counted(len(speedups), 'seed')}"
        return f"never in {missed}: it did not get as good as the base at its best"
    return f"{mean:.2f} x{open_to(between)}" + (" (slower than the base)" if mean < 1 else "")

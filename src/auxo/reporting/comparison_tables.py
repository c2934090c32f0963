"""A comparison over seeds as a table: on the terminal, and as Markdown for a document."""

from rich.table import Table

from auxo.experiments.comparison import Comparison, Interval, Row, mean_speedup

_MINUS, _PLUS_MINUS = "\N{MINUS SIGN}", "\N{PLUS-MINUS SIGN}"


def comparison_over_seeds(comparison: Comparison) -> Table:
    """Return the measures of the base and Auxo side by side, and their paired difference."""
    seeds = len(comparison.seeds)
    has_oracle = any(row.oracle is not None for row in comparison.rows)
    title = f"{comparison.population}, {seeds} seed{'s' if seeds > 1 else ''}"
    table = Table("", title=title, caption="\n".join(findings(comparison)), caption_justify="left")
    for heading in ("base", "Auxo", "difference (95 %)", *(["oracle"] if has_oracle else [])):
        table.add_column(heading, justify="right")
    for row in comparison.rows:
        oracle = [_value(row, row.oracle)] if has_oracle else []
        table.add_row(row.measure.title, _value(row, row.base), _value(row, row.auxo), _difference(row), *oracle)
    return table


def findings(comparison: Comparison) -> list[str]:
    """Return what else is known, one line each."""
    cohorts = [number for number in comparison.cohorts if number is not None]
    shares = [share for share in comparison.oracle_gain_shares if share is not None]
    lines = [
        f"speed-up to the base's best accuracy, in time: {_speedup(comparison.speedups)}",
        f"speed-up to the base's best accuracy, in participations: {_speedup(comparison.resource_speedups)}",
        f"cohorts, by seed: {', '.join(map(str, cohorts)) or '-'}",
    ]
    if shares:
        lines.append(f"share of the oracle's gain, by seed: {', '.join(f'{100 * share:.0f} %' for share in shares)}")
    return [*lines, verdict(comparison)]


def verdict(comparison: Comparison) -> str:
    """Return in one sentence whether Auxo pays."""
    row = comparison.accuracy
    if row.difference.half_width is None:
        return "one seed says nothing about chance: run more (--seeds 3)"
    if row.difference.is_above_zero:
        return "Auxo is better than the base, beyond chance"
    if row.difference.is_below_zero:
        return "Auxo is worse than the base, beyond chance"
    return "Auxo and the base do not differ beyond chance"


def markdown_row(comparison: Comparison) -> tuple[str, ...]:
    """Return the cells that documents show of a comparison: accuracy or perplexity, bias, and speed."""
    by_key = {row.measure.key: row for row in comparison.rows}
    main = by_key.get("perplexity", by_key["final_accuracy"])
    return (
        _value(main, main.base),
        _value(main, main.auxo),
        _difference(main),
        "-" if main.oracle is None else _value(main, main.oracle),
        _pair(by_key["worst_10"]),
        _pair(by_key["best_10"]),
        _pair(by_key["variance"]),
        _speedup(comparison.speedups),
    )


def _pair(row: Row) -> str:
    digits = max(0, row.measure.digits - 1)
    return f"{row.base:.{digits}f} → {row.auxo:.{digits}f}"


def _value(row: Row, value: float | None) -> str:
    return "-" if value is None else f"{value:.{row.measure.digits}f} {row.measure.unit}".strip()


def _difference(row: Row) -> str:
    return signed(row.difference, row.measure.digits)


def signed(interval: Interval, digits: int) -> str:
    """Return a difference with its sign and how far it may be off.

    >>> signed(Interval(1.25, 0.5), 1)
    '+1.2 ± 0.5'
    """
    sign = _MINUS if interval.mean < 0 else "+"
    around = "" if interval.half_width is None else f" {_PLUS_MINUS} {interval.half_width:.{digits}f}"
    return f"{sign}{abs(interval.mean):.{digits}f}{around}"


def _speedup(speedups: tuple[float | None, ...]) -> str:
    mean = mean_speedup(speedups)
    return "never" if mean is None else f"{mean:.2f} x"

"""The tables of documents in docs and of the README, from what was measured; no figure is typed.

    python benchmarks/bench_tables.py build/bench.json docs/performance.md
    python benchmarks/bench_tables.py build/identification.json README.md docs/departures.md
    python benchmarks/bench_tables.py --part looking build/looking_cost.json docs/departures.md
    python benchmarks/bench_tables.py build/checkpoints.json docs/resuming.md
    python benchmarks/bench_tables.py build/algorithms.json docs/performance.md
    python benchmarks/bench_tables.py build/flower_engine.json docs/flower-engine.md
    python benchmarks/bench_tables.py build/flower_overhead.json docs/flower.md
    python benchmarks/bench_tables.py benchmarks/results/methods.json docs/methods.md docs/comparing.md
    python benchmarks/bench_tables.py benchmarks/tuned.json docs/comparing.md
    python benchmarks/bench_tables.py benchmarks/results/privacy_cost.json docs/privacy.md
    python benchmarks/bench_tables.py benchmarks/results/guarding.json docs/security.md
    python benchmarks/bench_tables.py benchmarks/results/resilience.json docs/resilience.md docs/security.md
    python benchmarks/bench_tables.py benchmarks/results/service.json docs/service.md docs/faults.md
    python benchmarks/bench_tables.py benchmarks/results/ray_round.json docs/performance.md

replaces what stands between `<!-- figures: PART -->` and `<!-- end -->`, for every part that the file of records has.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_page import Records
from tuned_settings import METHOD_GRIDS, PART_GRIDS

PROTOCOL = frozenset({"clustered", "clustered-small"})  # populations of the paper's protocol, which have a table

_POLL_S = 3  # seconds between two looks of Flower's server for replies; a length to compare with, nobody has timed it

_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n)(?:(?!<!-- figures).)*?(\n<!-- end -->)", re.DOTALL)


def main() -> None:
    """Rewrite the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="what suite.py or identification.py has written")
    parser.add_argument("document", type=Path, nargs="+", help="where the tables stand")
    parser.add_argument("--part", help="the part that a list of records is for (default: what its fields say)")
    arguments = parser.parse_args()
    found = json.loads(arguments.records.read_text())
    kinds = () if isinstance(found, dict) else (arguments.part,) if arguments.part else _kinds(found)
    sections: dict[str, Records] = found if isinstance(found, dict) else dict.fromkeys(kinds, found)

    def fill(block: re.Match[str]) -> str:
        records = sections.get(block[2])
        return block[0] if records is None else f"{block[1]}\n{TABLES[block[2]](records)}{block[3]}"

    for document in arguments.document:
        document.write_text(_BLOCK.sub(fill, document.read_text(encoding="utf-8")), encoding="utf-8")


def _kinds(records: Records) -> tuple[str, ...]:
    """Return the tables that a script's list of records is for."""
    fields = records[0] if records else {}
    for field, kinds in (
        ("algorithm", ("algorithms",)),
        ("figure", (*RESILIENCE, "smallest", "bans")),
        ("refused", ("methods", "lifted", "protocol")),
        ("tried", ("tuned",)),
    ):
        if field in fields:
            return kinds
    return ("identification",)


def throughput(records: Records) -> str:
    """Return a row for each engine on each workload."""
    heading = "workload", "engine", "participants/s", "times fastest peer", "times loop", "share of limit"
    rows = [
        [
            record["workload"],
            f"`{record['engine']}`",
            _figure(record["participants_per_s"]),
            *(_figure(record[key], ".2f") for key in ("times_fastest_peer", "times_loop", "limit_share")),
            _figure(record["cohorts_participants_per_s"]),
            f"{record['loss']:.4f} ({record['rounds']})",
        ]
        for record in records
    ]
    return _table([*heading, "finding cohorts", "loss (after timed rounds)"], rows)


def algorithms(records: Records) -> str:
    """Return a row for each algorithm, and for each workload its rate and how that compares."""
    workloads = list(dict.fromkeys(record["workload"] for record in records))
    found = {(record["workload"], record["algorithm"]): record for record in records}
    rows = []
    for name in dict.fromkeys(record["algorithm"] for record in records):
        mine = [found[workload, name] for workload in workloads]
        cells = [cell for one in mine for cell in (_figure(one["participants_per_s"]), f"{one['ratio']:.2f}")]
        rows.append([name, *cells, mine[0]["against"]])
    heading = [text for workload in workloads for text in (f"{workload}: participants/s", "times")]
    return _table(["algorithm", *heading, "the rate of"], rows)


def scaling(records: Records) -> str:
    """Return a row for each point of the curves."""
    rows = [
        [
            record["workload"],
            _figure(record["participants"], ",.0f"),
            _figure(record["parameters"], ",.0f"),
            _figure(record["participants_per_s"]),
            _figure(record["limit_share"], ".2f"),
        ]
        for record in records
    ]
    return _table(["what grows", "participants", "parameters", "participants/s", "share of limit"], rows)


def population(records: Records) -> str:
    """Return a row for each size of the population, and what else was measured in a line."""
    rows = [
        [
            *(_figure(record[key], ",.0f") for key in ("clients", "online")),
            record["records"],
            _figure(record["seconds"], ".4f"),
        ]
        for record in records
        if record.get("part") == "all but training"
    ]
    said = [
        f"Matching {record['check_ins']:,} check-ins: {record['seconds']:.3f} s."
        for record in records
        if record["workload"] == "matching"
    ]
    peaks = ", ".join(
        f"{record['peak_gib']:.2f} GiB with {record['clients']:,} clients"
        for record in records
        if record["workload"] == "memory"
    )
    heading = ["clients", "on line", "have taken part", "seconds of a cohort's round but training"]
    return f"{_table(heading, rows)}\n{' '.join(said)} Memory at most: {peaks}.\n"


def checkpoints(records: Records) -> str:
    """Return a row for each thing measured, and a column for each workload."""
    mib = "{:,.1f} MiB".format
    lines: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        ("clients", lambda one: f"{one['clients']:,}"),
        ("that have taken part", lambda one: f"{one['taken_part']:,}"),
        ("parameters", lambda one: f"{one['parameters']:,}"),
        ("rounds in 30 s of work", lambda one: f"{one['rounds'] * 30 / one['worked_s']:,.0f}"),
        ("the whole state", lambda one: mib(one["state_mib"])),
        ("the first checkpoint", lambda one: f"{mib(one['first_mib'])}, {one['first_s']:.2f} s"),
        ("a later one", lambda one: f"{mib(one['later_mib'])}, {one['later_s']:.2f} s"),
        ("work between two at the default interval", lambda one: f"{one['between_s']:.0f} s"),
        ("share of the time", lambda one: f"{one['share']:.2%}"),
        ("two checkpoints on disk", lambda one: mib(one["disk_mib"])),
        ("reading one to go on", lambda one: f"{one['resume_s']:.2f} s"),
    ]
    names = {"small": "small model", "model": "large model", "clients": "many clients"}
    rows = [[about, *(said(record) for record in records)] for about, said in lines]
    return _table(["", *(names[record["workload"]] for record in records)], rows)


def flower_engine(records: Records) -> str:
    """Return a row for each app: medians over turns, in brackets their range."""
    names = {"numpy": "linear model in numpy, 16 weights", "torch": "network 784-64-10 in torch"}
    rows = []
    for record in records:
        rounds_ms = {engine: [1000 * one for one in some] for engine, some in record["round_s"].items()}
        loop_ms, app_ms = np.median(rounds_ms["loop"]), 1000 * np.median(record["loop_app_s"])
        rows.append(
            [
                names[record["app"]],
                *(_with_range(rounds_ms[engine], ".0f", " ms") for engine in ("auxo", "ray")),
                _with_range(record["ratios"], ".1f", " x"),
                f"{loop_ms:.0f} ms",
                f"{loop_ms - app_ms * (1 - 1 / record['workers']):.0f} ms",
                " and ".join(f"{1000 * np.median(record['cpu_s'][engine]):.0f} ms" for engine in ("auxo", "ray")),
            ]
        )
    heading = ["app", "a round here", "on Ray", "ratio", "bare loop, one core", "its limit on two", "CPU of a round"]
    return _table(heading, rows)


def flower_overhead(records: Records) -> str:
    """Return a row for each model and strategy: what Auxo adds to the server's CPU time of a round, by phase."""
    rows = []
    for (model, strategy), mine in _grouped(records, "model", "strategy").items():
        by_phase = {record["phase"]: record for record in mine}
        base_ms = 1000 * next(iter(by_phase.values()))["base_s"]
        added = [[100 * one for one in by_phase[phase]["overheads"]] for phase in ("pools", "tries")]
        rows.append([model, strategy, f"{base_ms:.0f} ms", *(_with_range(one, "+.1f", " %") for one in added)])
    return _table(["model", "strategy", "base", "while updates are pooled", "while a partition is on trial"], rows)


def clustering(records: Records) -> str:
    """Return a row for each thing done to a round's updates."""
    (record,) = records
    rows = [
        ["local training on both cores", _figure(record["training_s"]), "", ""],
        [
            "examining updates: checks, lengths, fingerprints",
            _figure(record["examining_s"], ".2f"),
            f"{record['examining_s'] / record['training_s']:.2%}",
            f"{record['fingerprints_mib']:.1f} MiB of fingerprints",
        ],
        [
            "a round's end with a look at a pool",
            _figure(record["clustering_s"], ".3f"),
            f"{record['clustering_s'] / record['training_s']:.3%}",
            f"{record['clustering_mib']:.0f} MiB at most",
        ],
        [
            "plain float32 K-means on the updates instead",
            _figure(record["plain_kmeans_s"]),
            f"{record['plain_kmeans_share']:.0%}",
            f"{record['plain_gib']:.1f} GiB of updates",
        ],
    ]
    return _table(["", "seconds a round", "share of training", "memory"], rows)


def identification(records: Records) -> str:
    """Return a row for each population, means over its seeds; errors are those of the mean."""
    rows = []
    for name in dict.fromkeys(record["population"] for record in records):
        mine = [record for record in records if record["population"] == name]
        base, auxo, matched = (np.array([record[key] for record in mine]) for key in ("base", "auxo", "matched"))
        difference = auxo - base
        error = f" ± {difference.std(ddof=1) / np.sqrt(len(mine)):.4f}" if len(mine) > 1 else ""
        shares = [record["oracle_gain_share"] for record in mine if record["oracle_gain_share"] is not None]
        late = [record["late_gain_share"] for record in mine if record["late_gain_share"] is not None]
        oracles = [record["oracle"] for record in mine if record["oracle"] is not None]
        aris = [record["ari"] for record in mine if record["ari"] is not None] if oracles else []
        partitions = sorted({record["partitions"] for record in mine})
        rows.append(
            [
                f"`{name}`",
                str(len(mine)),
                f"{base.mean():.4f}",
                f"{auxo.mean():.4f}",
                f"{np.mean(oracles):.4f}" if oracles else "-",
                f"{difference.mean():+.4f}{error}",
                f"{100 * np.mean(shares):.1f} % ({100 * min(shares):.1f})" if shares else "-",
                f"{100 * np.mean(late):.1f} %" if late else "-",
                f"{np.mean(aris):.3f} ({min(aris):.3f})" if aris else "-",
                f"{matched.mean():.4f}",
                "-".join(str(count) for count in dict.fromkeys((partitions[0], partitions[-1]))),
            ]
        )
    heading = ["population", "seeds", "base", "Auxo", "oracle", "Auxo - base"]
    return _table([*heading, "gain share (lowest)", "second half", "ARI (lowest)", "as matched", "partitions"], rows)


def looking(records: Records) -> str:
    """Return a row for each thing that looking for groups costs, and a column for each run."""
    lines: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        ("parameters, rounds", lambda one: f"{one['parameters']:,}, {one['rounds']}"),
        ("a round of the base", lambda one: f"{one['round_ms']:.0f} ms"),
        ("the longest look", lambda one: f"{one['longest_look_ms'] / 1000:.1f} s"),
        ("all looks, of Auxo's run", lambda one: f"{one['looking_share']:.0%}"),
        ("the pool, at most", lambda one: f"{one['pool_mib']:.1f} MiB"),
        ("a client's record at the end", lambda one: f"{one['record_bytes']:,.0f} bytes"),
        ("a check-in", lambda one: f"{one['check_in_bytes']:,.0f} bytes"),
        ("models sent, times the base's", lambda one: f"{one['downloads_ratio']:.2f}"),
    ]
    rows = [[about, *(said(record) for record in records)] for about, said in lines]
    return _table(["", *(record["run"] for record in records)], rows)


def privacy(records: Records) -> str:
    """Return a row for each promise, with the mean accuracy and the noise for each budget."""
    promises = dict.fromkeys(record["promise"] for record in records)
    epsilons = sorted({record["epsilon"] for record in records})
    seeds = len({record["seed"] for record in records})

    def cell(promise: str, epsilon: float) -> str:
        found = [one for one in records if one["promise"] == promise and one["epsilon"] == epsilon]
        if not found:
            return ""
        accuracy = f"{np.mean([one['accuracy'] for one in found]):.3f}"
        return accuracy if found[0]["noise"] is None else f"{accuracy} ({found[0]['noise']:.2g})"

    rows = [[promise, *(cell(promise, epsilon) for epsilon in epsilons)] for promise in promises]
    return _table(
        [f"accuracy, mean of {seeds} seeds (noise in clips)", *(f"epsilon {one:g}" for one in epsilons)], rows
    )


def privacy_time(records: Records) -> str:
    """Return a row for each size of a model."""
    columns = ("noise_ms", "accounting_ms", "ledger_ms")
    rows = [[f"{one['numbers']:,}", *(f"{one[column]:.1f} ms" for column in columns)] for one in records]
    return _table(["numbers", "noise", "accounting", "ledger, with the disk"], rows)


def guarding(records: Records) -> str:
    """Return a row for each number of participants: what signing and guarding cost, and how long 100 times that is."""
    rows = []
    for record in records:
        ours_s = record["signing_s"] + record["guarding_s"]
        of_a_round_s = ours_s / record["participations"] * record["participants"]
        rows.append(
            [
                f"{record['numbers']:,}",
                str(record["participants"]),
                *(f"{1e6 * record[name] / record['participations']:.0f} µs" for name in ("signing_s", "guarding_s")),
                f"{1000 * of_a_round_s:.1f} ms",
                f"{ours_s / (record['server_s'] + record['training_s']):.1%}",
                f"{100 * of_a_round_s:.1f} s",
                f"{of_a_round_s / _POLL_S:.2%}",
            ]
        )
    heading = [
        "numbers",
        "participants",
        "signing, each",
        "guarding, each",
        "both, a round",
        "of a round in one process",
    ]
    return _table([*heading, "1 % of a round that takes", f"of one that takes {_POLL_S} s"], rows)


def methods(records: Records) -> str:
    """Return a row for each clustered-FL method on each population, under FedAvg."""
    return _methods(
        [record for record in records if _algorithm(record) == "fedavg" and record["population"] not in PROTOCOL]
    )


def protocol(records: Records) -> str:
    """Return a row for each method on the populations of the paper's protocol."""
    return _methods([record for record in records if record["population"] in PROTOCOL])


def _methods(mine: Records) -> str:
    rows = []
    for (population, method), some in _grouped(mine, "population", "method").items():
        refused = next((record["refused"] for record in some if record["refused"]), None)
        found = [f"refused: {refused}", *[""] * 6] if refused else _compared(some, with_ari=True)
        rows.append([f"`{population}`", f"`{method}`", str(len(some)), *found])
    return _table(
        ["population", "method", "seeds", "accuracy", "- base", "hours to base", "participations to base", "device-h",
         "models sent", "ARI (lowest)"], rows,
    )  # fmt: skip


def lifted(records: Records) -> str:
    """Return a row for each FL algorithm: the base under it, and what Auxo brings beside that, on the same seeds.

    Where Auxo has not been run, the base is on all its seeds.
    """
    wanted = {"base", "auxo"}
    mine = [record for record in records if record["method"] in wanted and record["population"] not in PROTOCOL]
    rows = []
    for (population,), of_population in _grouped(mine, "population").items():
        names = list(dict.fromkeys(_algorithm(record) for record in of_population))
        for algorithm in names if len(names) > 1 else ():
            some = [record for record in of_population if _algorithm(record) == algorithm]
            ours = [record for record in some if record["method"] == "auxo"]
            seeds = {record["seed"] for record in ours or some}
            bases = [one["accuracy"] for one in some if one["method"] == "base" and one["seed"] in seeds]
            found = _compared(ours, with_ari=False) if ours else ["not run", *[""] * 5]
            rows.append([f"`{population}`", algorithm, str(len(seeds)), _mean(bases, ".4f"), *found])
    return _table(
        ["population", "FL algorithm", "seeds", "base", "Auxo", "Auxo - base", "hours to base",
         "participations to base", "device-h", "models sent"], rows,
    )  # fmt: skip


def _under(figure: str) -> Callable[[Records], str]:
    """Return what makes a table of a figure: a row for each population and condition, base and Auxo under the same."""

    def table(records: Records) -> str:
        mine, rows = [record for record in records if record["figure"] == figure], []
        for (population, condition), some in _grouped(mine, "population", "condition").items():
            ours = [record for record in some if record["method"] == "auxo"]
            # Where a condition means nothing to the base, its run without any stands for all.
            stands = [one for one in mine if (one["population"], one["method"]) == (population, "base")]
            bases = {one["seed"]: one["accuracy"] for one in stands if one["condition"] == stands[0]["condition"]}
            bases |= {one["seed"]: one["accuracy"] for one in some if one["method"] == "base"}
            pairs = [(bases[one["seed"]], one) for one in ours if one["seed"] in bases]
            if not pairs:
                continue
            gains = np.array([one["accuracy"] - base for base, one in pairs])
            error = f" ± {gains.std(ddof=1) / np.sqrt(len(gains)):.4f}" if len(gains) > 1 else ""
            rows.append(
                [
                    f"`{population}`",
                    condition,
                    str(len(pairs)),
                    f"{np.mean([base for base, _ in pairs]):.4f}",
                    f"{np.mean([one['accuracy'] for _, one in pairs]):.4f}",
                    f"{gains.mean():+.4f}{error}",
                    f"{gains.min():+.4f}",
                    _range_of([one["cohorts"] for _, one in pairs]),
                ]
            )
        return _table(["population", "", "seeds", "base", "Auxo", "Auxo - base", "lowest", "cohorts"], rows)

    return table


def attackers(records: Records) -> str:
    """Return a row for each attack: honest clients' accuracy with each method, without and with each defence."""
    mine = [record for record in records if record["figure"] == "attackers"]
    ways = list(dict.fromkeys((one["method"], one["defence"]) for one in mine))
    ways.sort(key=lambda way: (way[0] != "base", way[1]))
    rows = []
    for (population, condition), some in _grouped(mine, "population", "condition").items():
        cells = []
        for way in ways:
            found = [one["accuracy"] for one in some if (one["method"], one["defence"]) == way]
            cells.append(f"{np.mean(found):.4f} ({min(found):.4f})" if found else "-")
        rows.append([f"`{population}`", condition, str(len({one["seed"] for one in some})), *cells])
    names = {"base": "base", "auxo": "Auxo"}
    heading = [f"{names[method]}{f', {defence}' if defence else ''}" for method, defence in ways]
    return _table(["population", "attack", "seeds", *heading], rows)


def judges(records: Records) -> str:
    """Return a row for each share of judges that lie: what becomes of partitions."""
    rows = []
    mine = [record for record in records if record["figure"] == "judges"]
    for (population, condition, defence), some in _grouped(mine, "population", "condition", "defence").items():
        share, _, says = condition.partition(" ")
        aris = [one["ari"] for one in some if one["ari"] is not None] if says == "against" else []
        rows.append(
            [
                f"`{population}`",
                says,
                share,
                defence or "taken at their word",
                f"{sum(one['partitions'] > 0 for one in some)} of {len(some)}",
                _range_of([one["cohorts"] for one in some]),
                f"{np.mean(aris):.3f}" if aris else "-",
                f"{np.mean([one['accuracy'] for one in some]):.4f}",
            ]
        )
    heading = ["population", "judges lie", "share of clients that lie", "clients are", "seeds with a partition"]
    heading += ["cohorts", "ARI"]
    return _table([*heading, "accuracy of honest clients"], rows)


def smallest(records: Records) -> str:
    """Return a row for each share of liars that all go for the smallest cohort: what its group keeps, who is banned."""
    rows = []
    mine = [record for record in records if record["figure"] == "smallest"]
    without = {
        (one["population"], one["defence"], one["seed"]): one["smallest"]
        for one in mine
        if one["condition"].startswith("0%")
    }
    parts = {"twentieth": "5%", "tenth": "10%", "fifth": "20%"}
    in_order = sorted(mine, key=lambda one: list(parts).index(one["population"]))
    for (population, condition, defence), some in _grouped(in_order, "population", "condition", "defence").items():
        places = [(population, defence, one["seed"]) for one in some]
        kept = [one["smallest"] / without[at] for one, at in zip(some, places, strict=True) if at in without]
        rows.append(
            [
                parts[population],
                condition.partition(" ")[0],
                defence or "taken at their word",
                str(len(some)),
                f"{np.mean([one['smallest'] for one in some]):.3f}",
                f"{min(kept):.1%}" if kept else "-",
                f"{np.mean([one['accuracy'] for one in some]):.3f}",
                _soon(some),
                str(sum(one["honest_banned"] for one in some)),
            ]
        )
    heading = ["smallest group", "liars", "clients are", "seeds", "its accuracy", "of without liars, lowest"]
    return _table([*heading, "all honest clients", *_BANNED], rows)


_BANNED = ("banned within 5 participations as liars", "honest clients banned")


def _soon(records: Records) -> str:
    """Return how many of those who lie all the time were banned soon."""
    soon, persistent = (sum(one[name] for one in records) for name in ("banned_soon", "persistent"))
    return f"{soon} of {persistent}" if persistent else "-"


def bans(records: Records) -> str:
    """Return a row for each thing that clients do: who of them is banned, and who of the others."""
    mine = [record for record in records if record["figure"] == "bans"]
    rows = []
    for (population, condition), some in _grouped(mine, "population", "condition").items():
        honest, banned = (sum(one[name] for one in some) for name in ("honest", "honest_banned"))
        rows.append([f"`{population}`", condition, str(len(some)), _soon(some), f"{banned} of {honest}"])
    return _table(["population", "what clients do", "seeds", *_BANNED], rows)


def _range_of(counts: Sequence[int]) -> str:
    return "-".join(str(count) for count in dict.fromkeys((min(counts), max(counts))))


RESILIENCE: dict[str, Callable[[Records], str]] = {
    "dp": _under("dp"),
    "corrupted": _under("corrupted"),
    "affinity_loss": _under("affinity-loss"),
    "attackers": attackers,
    "judges": judges,
}
"""The tables of resilience.py."""


def tuned(records: Records) -> str:
    """Return a row for each method and part that was tuned, on each population: what was tried, and what was best."""
    grids = {**METHOD_GRIDS, **PART_GRIDS}
    rows = []
    for (part,), mine in _grouped(records, "part").items():
        for number, record in enumerate(mine):
            tried = "; ".join(_short(settings) for settings in grids[part])
            rows.append(
                [
                    *((f"`{part}`", tried) if number == 0 else ("", "")),
                    "others" if record["population"] == "*" else f"`{record['population']}`",
                    _short(record["settings"]),
                    f"{record['accuracy']:.4f}",
                ]
            )
    return _table(["part", "tried", "population", "best", "accuracy"], rows)


def _short(settings: Sequence[str]) -> str:
    """Return settings without their section, which is the part's name."""
    return ", ".join(f"`{setting.partition('.')[2]}`" for setting in settings)


def _algorithm(record: Mapping[str, Any]) -> str:
    """Return the FL algorithm of a record of methods.py in words."""
    parts = record["selector"], record["aggregator"], record["personaliser"]
    return " + ".join(part for part in parts if part not in {"uniform", "none"})


def _compared(records: Records, *, with_ari: bool) -> list[str]:
    """Return accuracy and gain, what it took to be as good as the base at its best, and what was spent."""
    gains = np.array([record["accuracy"] - record["base_accuracy"] for record in records])
    error = f" ± {gains.std(ddof=1) / np.sqrt(len(gains)):.4f}" if len(gains) > 1 else ""
    hours = [None if one["time_to_base_s"] is None else one["time_to_base_s"] / 3600 for one in records]
    aris = [record["ari"] for record in records if record["ari"] is not None]
    agreement = f"{np.mean(aris):.3f} ({min(aris):.3f})" if aris else "-"
    return [
        _mean([record["accuracy"] for record in records], ".4f"),
        f"{gains.mean():+.4f}{error}",
        _mean(hours, ".2f"),
        _mean([record["participations_to_base"] for record in records], ",.0f"),
        _mean([record["device_s"] / 3600 for record in records], ",.0f"),
        _mean([record["downloads"] for record in records], ",.0f"),
        *([agreement] if with_ari else []),
    ]


def _mean(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return "never" if not known or len(known) < len(values) else format(np.mean(known), form)


def _grouped(records: Records, *keys: str) -> dict[tuple[Any, ...], Records]:
    names = dict.fromkeys(tuple(record[key] for key in keys) for record in records)
    return {name: [record for record in records if tuple(record[key] for key in keys) == name] for name in names}


def service_check_ins(records: Records) -> str:
    """Return a row for plain connections and one for TLS: how long clients wait that all check in at a time."""
    heading = ["", "clients", "answered", "half within", "99 % within", "all within", "processor", "memory", "load"]
    rows = []
    for record in records:
        bursts = record["bursts"]
        answered = sum(count for burst in bursts for status, count in burst["statuses"].items() if status != "0")
        rows.append(
            [
                "TLS" if record["tls"] else "plain",
                f"{record['clients']:,}, {len(bursts)} times",
                f"{answered / (record['clients'] * len(bursts)):.0%}",
                *(
                    _with_range([one[name] for one in bursts], ".1f", " s")
                    for name in ("p50_s", "p99_s", "max_s", "cpu_s")
                ),
                f"{record['coordinator_mb']:.0f} MB",
                f"{record['load']:.0f}",
            ]
        )
    return _table(heading, rows)


def service_training(records: Records) -> str:
    """Return what clients and the service have done in some minutes."""
    heading = ["clients", "participants", "minutes", "rounds a minute", "counted a minute", "late", "carried", "errors"]
    rows = [
        [
            f"{one['clients']:,}",
            str(one["participants"]),
            f"{one['minutes']:.1f}",
            f"{one['rounds_a_minute']:.1f}",
            f"{one['visits_a_minute']:,.0f}",
            f"{_late(one['outcomes']):.0%}",
            f"{one['carried_mb'] / one['minutes']:.1f} MB a minute",
            str(one["errors"]),
            f"{one['coordinator_mb']:.0f} and {one['largest_cohort_mb']:.0f} MB",
            f"{one['load']:.0f}",
        ]
        for one in records
    ]
    return _table([*heading, "memory of coordinator and largest cohort", "load"], rows)


def service_cost(records: Records) -> str:
    """Return what a participation costs in one process and as processes, a row for each model."""
    heading = [
        "model",
        "parameters",
        "one process",
        "processes",
        "ratio",
        "processor: one",
        "processes",
        "ratio",
        "load",
    ]
    rows = []
    for one in records:
        row = [one["model"], f"{one['parameters']:,}"]
        for name in ("wall_ms", "cpu_ms"):
            alone, apart = one["alone"][name], one["apart"][name]
            row += [f"{alone:.1f} ms", f"{apart:.1f} ms", f"{apart / alone:.1f}"]
        rows.append([*row, f"{one['load']:.0f}"])
    return _table(heading, rows)


def recovery(records: Records) -> str:
    """Return a row for each process that was killed: how long it took until all trained again."""
    heading = ["where", "killed", "trains again after", "closed rounds done again", "load"]
    rows = [
        [
            one["where"],
            one["killed"],
            _with_range(one["seconds"], ".1f", " s"),
            f"up to {one['lost']}" if one["lost"] else "none",
            f"{one['load']:.0f}",
        ]
        for one in records
    ]
    return _table(heading, rows)


def ray_round(records: Records) -> str:
    """Return a row for each way to run a round: what each of its processes takes of the processor, and all of them."""
    parts = list(records[0]["parts"])
    one, *_ = records
    rows = [
        [
            record["where"],
            *(f"{record['parts'][part]:.0f}" if record["parts"][part] >= 0.5 else "" for part in parts),
            f"{sum(record['parts'].values()):.0f}",
            f"{record['clock_ms']:.0f}",
            f"{one['clock_ms'] / record['clock_ms']:.2f}",
        ]
        for record in records
    ]
    return _table(["ms a round", *parts, "all", "by the clock", "times one process"], rows)


def _late(outcomes: Mapping[str, int]) -> float:
    late = outcomes.get("LATE", 0) + outcomes.get("STALE_ROUND", 0)
    return late / (late + outcomes.get("counted", 0))


TABLES: dict[str, Callable[[Records], str]] = {
    "methods": methods,
    "lifted": lifted,
    "protocol": protocol,
    "tuned": tuned,
    "throughput": throughput,
    "algorithms": algorithms,
    "scaling": scaling,
    "population": population,
    "clustering": clustering,
    "flower_engine": flower_engine,
    "flower_overhead": flower_overhead,
    "identification": identification,
    "looking": looking,
    "checkpoints": checkpoints,
    "privacy": privacy,
    "privacytime": privacy_time,
    "guarding": guarding,
    "service_check_ins": service_check_ins,
    "service_training": service_training,
    "service_cost": service_cost,
    "recovery": recovery,
    "ray_round": ray_round,
    "smallest": smallest,
    "bans": bans,
    **RESILIENCE,
}


def _figure(value: float | None, form: str | None = None) -> str:
    if value is None:
        return ""
    return format(value, form or (",.0f" if value >= 100 else ".1f"))


def _with_range(values: Sequence[float], form: str, unit: str) -> str:
    """Return the median, and in brackets the least and the most where there are several."""
    middle, least, most = (format(one, form) for one in (np.median(values), min(values), max(values)))
    return f"{middle}{unit} ({least} to {most})" if len(values) > 1 else f"{middle}{unit}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()

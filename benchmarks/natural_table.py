"""The table of docs/real-data.md, from what `auxo compare` has left behind; no figure is typed.

`auxo compare writers --population build/writers.arrow --out build/natural/writers`, and so on for the others; then
`python benchmarks/natural_table.py build/natural`.
"""

import argparse
from pathlib import Path

from auxo.experiments.comparison import compare
from auxo.experiments.config_file import load_config
from auxo.experiments.run_directory import RunDirectory
from auxo.reporting.comparison_tables import markdown_row

HEAD = (
    *("clients", "model", "seeds", "base", "Auxo", "difference", "oracle"),
    *("worst 10 %", "best 10 %", "variance, %²", "speed-up", "cohorts"),
)


def main() -> None:
    """Print a row for each folder of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds a folder for each comparison")
    folders = sorted(path.parent for path in parser.parse_args().folder.glob("*/comparison.json"))
    lines = [HEAD, ("---",) * len(HEAD), *(_row(folder) for folder in folders)]
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))


def _row(folder: Path) -> tuple[str, ...]:
    runs = [RunDirectory.open(path) for path in sorted(folder.glob("seed-*"))]
    comparison = compare([summary for run in runs if (summary := run.read_summary()) is not None])
    config = load_config(runs[0].path / "config.toml")
    cohorts = sorted(set(comparison.by_seed["auxo"].cohorts))
    return (
        folder.name,
        config.training.model,
        str(len(comparison.seeds)),
        *markdown_row(comparison, "auxo"),
        "-".join(map(str, dict.fromkeys((cohorts[0], cohorts[-1])))),
    )


if __name__ == "__main__":
    main()

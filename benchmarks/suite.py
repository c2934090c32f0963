"""All benchmarks one after another: one file of records, and one page of figures.

    python benchmarks/suite.py --json build/bench.json --page build/bench.html --peers fedjax,pfl,flower
    python benchmarks/suite.py --only throughput clustering --json build/bench.json --page build/bench.html

Parts that were run earlier and are not run now keep their records in the file. What a part measures is told by its own
script; it also runs by itself. With peers all of it takes about half an hour, most of it theirs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_page import Records, bench_page
from rich.console import Console

from auxo.files.atomic_write import write_whole

HERE = Path(__file__).parent
# Each part's script and what it is given besides --json.
PARTS = {
    "throughput": ("throughput.py", []),
    "algorithms": ("algorithms.py", []),
    "scaling": ("scaling.py", []),
    "population": ("population.py", []),
    "clustering": ("clustering_cost.py", []),
    "identification": ("identification.py", ["--quick"]),
}


def main() -> None:
    """Run the parts and write what they found."""
    arguments = _arguments()
    console = Console()
    sections: dict[str, Records] = {}
    if arguments.json.exists():
        sections = json.loads(arguments.json.read_text())
    for part in arguments.only or PARTS:
        console.rule(part)
        sections[part] = _run(part, arguments.peers)
        # After every part, so that nothing is lost when a later one is stopped.
        _write(arguments.json, json.dumps(sections, indent=1) + "\n")
        _write(arguments.page, bench_page(sections))
    console.print(f"records: {arguments.json}\nfigures: {arguments.page}")


def _run(part: str, peers: str) -> Records:
    script, extra = PARTS[part]
    if part == "throughput":
        extra = ["--peers", peers]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "records.json"
        done = subprocess.run([sys.executable, HERE / script, "--json", found, *extra], check=False)  # noqa: S603 - ours
        if done.returncode:
            sys.exit(f"{script} ended with {done.returncode}; the parts before it are written")
        records: Records = json.loads(found.read_text())
        return records


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="where to write all records")
    parser.add_argument("--page", type=Path, required=True, help="where to write the page")
    parser.add_argument("--peers", default="", help="frameworks to compare with: fedjax,pfl,flower")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts to run (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""How fast are the rounds of a Flower app in our workers, beside Flower's own simulation on Ray?

    python benchmarks/flower_engine.py --json build/flower_engine.json
    python benchmarks/bench_tables.py build/flower_engine.json docs/flower-engine.md
    python benchmarks/flower_engine.py --apps numpy --rounds 5

Two apps (a linear model in numpy, a small network in torch), the same ClientApp and Flower's FedAvg in all engines: 200
nodes that all take part, two workers of one core beside two Ray actors of one CPU, and a bare loop: one process that
hands each message to the app and each reply to the strategy, with no copies and no isolation. That is what Flower's
own classes and the app cost; half of the app's part of it is the limit of two workers. Each engine runs in a process of
its own; the engines take turns. A turn's ratio is between the median rounds of Ray and ours; the result is the median
over turns, and their range. All must end with the same model.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import numpy as np

NODES, CORES, WARMUP = 200, 2, 2
ENGINES = ("auxo", "ray", "loop")
MARK = "AUXO_BENCHMARK_MARK"
TARGETS = {"numpy": 8.0, "torch": 3.0}
_SAME = 1e-5  # of a weight: Ray's replies are averaged in the order in which they come, in float32


@dataclass(frozen=True)
class Measured:
    """The rounds of one engine on one app."""

    engine: str
    app: str
    round_s: list[float]
    started_s: float  # until the first round
    cpu_s: float  # of all processes of the engine, for the timed rounds
    app_s: float  # in the app, in a round; of the bare loop only
    model: list[float]  # some weights of the last one


def measure(engine: str, name: str, rounds: int) -> Measured:
    """Run an app here, and time its rounds from the server's side."""
    from flower_engine_apps import client_app, initial_arrays  # noqa: PLC0415 - only where Flower is needed
    from flwr.app import ArrayRecord, Context, RecordDict  # noqa: PLC0415
    from flwr.serverapp import Grid, ServerApp  # noqa: PLC0415
    from flwr.serverapp.strategy import FedAvg  # noqa: PLC0415

    begin_s, ends_s, models, cpu_s, app_s = time.perf_counter(), [], [], [], 0.0
    server_app = ServerApp()

    def note(round: int, arrays: ArrayRecord) -> None:
        ends_s.append(time.perf_counter())
        if round in (WARMUP, WARMUP + rounds):
            cpu_s.append(_cpu_of_all_s())
        if round == WARMUP + rounds:
            models.append(np.concatenate([array.numpy().ravel() for array in arrays.values()])[:64].tolist())

    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=NODES, min_available_nodes=NODES)
        found = strategy.start(grid, initial_arrays(name), num_rounds=WARMUP + rounds, evaluate_fn=note)
        if len(found.train_metrics_clientapp) != WARMUP + rounds:
            raise RuntimeError("expected every round to have replies")

    server_app.main()(serve)
    if engine == "auxo":
        from auxo.flower.engine import FlowerApp, run_app  # noqa: PLC0415

        run_app(FlowerApp(server_app, client_app(name)), nodes=NODES, workers=CORES)
    elif engine == "loop":
        from flower_engine_apps import BareLoop  # noqa: PLC0415

        grid = BareLoop(client_app(name), NODES)
        server_app(grid, Context(1, 1, {}, RecordDict(), {}))
        app_s = grid.app_s
    else:
        from flwr.simulation import run_simulation  # noqa: PLC0415

        run_simulation(
            server_app,
            client_app(name),
            num_supernodes=NODES,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"num_cpus": CORES, "logging_level": "ERROR", "log_to_driver": False},
            },
        )
    timed = [end - start for start, end in pairwise(ends_s)][WARMUP:]
    return Measured(
        engine=engine,
        app=name,
        round_s=timed,
        started_s=ends_s[0] - begin_s,
        cpu_s=cpu_s[1] - cpu_s[0],
        app_s=app_s / (WARMUP + rounds),
        model=models[0],
    )


def _cpu_of_all_s() -> float:
    """Return the CPU time of this process and all that it has started, as far as they live: they share a mark."""
    mark, ticks = f"{MARK}={os.environ[MARK]}".encode(), 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                columns = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks += int(columns[11]) + int(columns[12])
        except OSError:  # it has ended since, or is somebody else's
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def in_process_of_its_own(engine: str, name: str, rounds: int) -> Measured:
    """Return what an engine measured in a process that ends afterwards."""
    folder = Path(__file__).parent
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        MARK: uuid4().hex,
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "OMP_NUM_THREADS": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    done = subprocess.run(  # noqa: S603 - this very script
        [sys.executable, __file__, "--one", engine, "--apps", name, "--rounds", str(rounds)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{engine} on {name} ended with code {done.returncode}:\n{done.stderr[-4000:]}")
    return Measured(**json.loads(done.stdout.strip().splitlines()[-1]))


def compare(apps: Sequence[str], rounds: int, turns: int) -> list[dict[str, object]]:
    """Measure all apps on all engines in turn, and return what came of it."""
    rows: list[dict[str, object]] = []
    for name in apps:
        found: dict[str, list[Measured]] = {engine: [] for engine in ENGINES}
        for _ in range(turns):
            for engine in ENGINES:
                found[engine].append(in_process_of_its_own(engine, name, rounds))
                _expect_same_model(found["auxo"][0], found[engine][-1])
        medians = {engine: [statistics.median(one.round_s) for one in some] for engine, some in found.items()}
        ratios = [ray / auxo for auxo, ray in zip(medians["auxo"], medians["ray"], strict=True)]
        row: dict[str, object] = {
            "app": name,
            "nodes": NODES,
            "workers": CORES,
            "rounds": rounds,
            "target": TARGETS[name],
            "ratios": ratios,
            "round_s": medians,
            "loop_app_s": [one.app_s for one in found["loop"]],
            "started_s": {engine: [one.started_s for one in some] for engine, some in found.items()},
            "cpu_s": {engine: [one.cpu_s / rounds for one in some] for engine, some in found.items()},
        }
        rows.append(row)
        print(
            f"{name}: {statistics.median(ratios):.1f} x ({min(ratios):.1f} to {max(ratios):.1f} in {turns} turns; "
            f"target {TARGETS[name]:.0f} x); a round takes "
            + ", ".join(f"{engine} {statistics.median(some):.3f} s" for engine, some in medians.items()),
            flush=True,
        )
    return rows


def _expect_same_model(one: Measured, other: Measured) -> None:
    apart = float(np.abs(np.subtract(one.model, other.model)).max())
    if apart > _SAME:
        raise RuntimeError(
            f"{one.app}: expected the same model of {one.engine} and {other.engine}, got {apart:.1e} apart"
        )


def main() -> None:
    """Read the command line, measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default="numpy,torch", help="of numpy, torch (default: both)")
    parser.add_argument("--rounds", type=int, default=10, help="timed rounds of each turn (default: 10)")
    parser.add_argument("--turns", type=int, default=5, help="of each engine (default: 5)")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--one", choices=ENGINES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(asdict(measure(asked.one, asked.apps, asked.rounds))), flush=True)
        return
    found = compare(asked.apps.split(","), asked.rounds, asked.turns)
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"flower_engine": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

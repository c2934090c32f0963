"""Measures a peer: its script in its own environment and process, and what it reports.

    PYTHONPATH=benchmarks python -m peers.run fedjax mlp --rounds 3

Peers are to be measured one at a time, on a machine that does nothing else.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from peers.environments import PEERS, Skipped, environment
from peers.workload import CORES, PARTICIPANTS, WORKLOADS

__all__ = ["PEERS", "PeerResult", "Skipped", "measure"]

WARMUP = 2  # rounds, our own choice: the first compiles and fills caches, the second shows that nothing is left of it
_START_S = 300.0  # to import, to start processes and to compile, our own choice
_ROUND_S = 120.0  # the slowest peer's CNN needs about a quarter of it on two cores
_GRACE_S = 20.0  # for a peer's processes to end by themselves

_MODULES = {"fedjax": "peers.fedjax_rounds", "pfl": "peers.pfl_rounds", "flower": "peers.flower_rounds"}
_TORCHRUN = ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={CORES}")
# Of the caller's settings none must reach a peer that would slow it down, nor must a peer report home.
_DROPPED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS", "RAY_ADDRESS")
_SETTINGS = {
    "fedjax": {"JAX_PLATFORMS": "cpu"},
    "pfl": {"OMP_NUM_THREADS": "1", "PFL_PYTORCH_DEVICE": "cpu"},
    "flower": {"OMP_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"},
}


@dataclass(frozen=True)
class PeerResult:
    """What a peer reported."""

    engine: str
    workload: str
    round_s: list[float]  # of each timed round
    loss: float  # of all training samples, after the warm-up and the timed rounds
    versions: dict[str, str]

    def participants_per_s(self) -> float:
        """Return the throughput over all timed rounds."""
        return PARTICIPANTS * len(self.round_s) / sum(self.round_s)


def measure(peer: str, workload: str, rounds: int, warmup: int = WARMUP) -> PeerResult | Skipped:
    """Run a peer for ``warmup`` rounds and then for ``rounds`` timed ones.

    A peer that cannot be installed, fails or takes far too long is skipped, with the reason.

    Raises:
        ValueError: no such peer or workload, or no round to time.
    """
    if workload not in WORKLOADS:
        raise ValueError(f"workload: expected one of {', '.join(WORKLOADS)}, got {workload!r}")
    if rounds < 1 or warmup < 1:
        raise ValueError(f"rounds, warmup: expected at least 1 of each, got {rounds} and {warmup}")
    python = environment(peer)
    if isinstance(python, Skipped):
        return python
    command = [
        str(python),
        *(_TORCHRUN if peer == "pfl" else ()),
        "-m",
        _MODULES[peer],
        f"--workload={workload}",
        f"--rounds={rounds}",
        f"--warmup={warmup}",
    ]
    timeout_s = _START_S + (rounds + warmup) * _ROUND_S
    done = _run(command, _variables(peer), timeout_s)
    if done is None:
        return Skipped(peer, f"{workload}: it was not done after {timeout_s:.0f} s")
    if done.returncode:
        return Skipped(peer, f"{workload}: it failed with status {done.returncode}: {_last_line(done.stderr)}")
    return _parse(peer, done.stdout)


def _variables(peer: str) -> dict[str, str]:
    """Return the environment variables of a peer: the caller's, but for what decides speed."""
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return {**kept, **_SETTINGS[peer], "PYTHONPATH": str(Path(__file__).parents[1])}


def _run(command: list[str], variables: dict[str, str], timeout_s: float) -> subprocess.CompletedProcess[str] | None:
    """Return how the command ended, or None if it had to be stopped, which its own processes are then, too."""
    with subprocess.Popen(  # noqa: S603 - an interpreter that we made, and arguments checked above
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables, start_new_session=True
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _stop(process)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _stop(process: subprocess.Popen[str]) -> None:
    """End what is still running: torchrun and Ray end their processes if they are asked and given some time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def _parse(peer: str, stdout: str) -> PeerResult | Skipped:
    """Return the report, which is the last line that is one: libraries print, too."""
    for line in reversed(stdout.splitlines()):
        if line.startswith('{"engine"'):
            return PeerResult(**json.loads(line))
    return Skipped(peer, "it ended well, but printed no report")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it gave no reason"


def main() -> None:
    """Measure one peer and print what it reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=WARMUP)
    arguments = parser.parse_args()
    result = measure(arguments.peer, arguments.workload, arguments.rounds, arguments.warmup)
    if isinstance(result, Skipped):
        sys.exit(f"{result.peer} is skipped: {result.reason}")
    print(f"{result.participants_per_s():.1f} participants/s, loss {result.loss:.4f}, {result.versions}")


if __name__ == "__main__":
    main()

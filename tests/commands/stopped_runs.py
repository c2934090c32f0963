"""Runs `auxo` in processes of their own, ends them at random moments by signals, and resumes them until they finish.

    python tests/commands/stopped_runs.py study.toml FOLDER --signals SIGKILL,SIGKILL,SIGTERM [--ray]

Everything is imported once, and each command is a fork of that: what is tried is the run, not the start of Python. The
result is printed as JSON: the moments, and whether what is left equals what an undisturbed run leaves.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import auxo.engines.worker_processes
import auxo.experiments.runner  # noqa: F401 - with the line above, what takes long to import
from auxo.cli import main
from auxo.core.rng import stream

_PATIENCE_S = 30.0  # that orphans may take to end


def start(arguments: Sequence[str], log: Path) -> int:
    """Run a command in another process; return its number."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.argv = ["auxo", *arguments]
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0 if end.code is None else 1)
    finally:
        os._exit(70)


def wait_for_events(child: int, log: Path, known: int) -> None:
    """Wait until a command has said that its first event has come; that may be long after its start."""
    while log.read_text().count("writing to ") <= known and Path(f"/proc/{child}/cmdline").read_bytes():
        time.sleep(0.02)


def session(leader: int) -> set[int]:
    """Return all processes of a command, those that have lost their parent included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.add(int(path.parent.name))
    return found


def wait_for_orphans(leader: int) -> int:
    """Wait for what a command that has ended started; return how many did not end by themselves."""
    deadline = time.monotonic() + _PATIENCE_S
    while (left := session(leader)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for orphan in left:
        os.kill(orphan, signal.SIGKILL)
    return len(left)


def content(run: Path) -> dict[str, bytes]:
    """Return all that a run has left, apart from what tells when, where and how it ran."""
    others = {"stamp.json", "report.html", "config.toml"}
    files = (path for path in run.rglob("*") if path.is_file() and path.name not in others)
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def trial(
    config: str, folder: Path, signals: Sequence[signal.Signals], more: Sequence[str], seed: int
) -> dict[str, object]:
    """Compare a run that was ended and resumed again and again with one that was not.

    The latter runs where its configuration says. Every other moment is counted from the first event on, and all of them
    with another engine, which takes long to start: on a busy machine no run would come anywhere else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    log.touch()
    begin_s = time.monotonic()
    child = start(["run", config, "--out", str(folder / "whole")], log)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(log.read_text())
    took_s = time.monotonic() - begin_s
    run, rng = folder / "stopped", stream(seed, "moments")
    stops: list[dict[str, object]] = []
    orphans = wait_for_orphans(child)
    for number in signals:
        begins = ["run", config, "--out", str(run), *more]
        events = log.read_text().count("writing to ")
        child = start(["resume", str(run)] if (run / "config.toml").exists() else begins, log)
        if more or len(stops) % 2:
            wait_for_events(child, log, events)
        after_s = float(rng.uniform(0, 2.0 * took_s / max(len(signals), 2)))
        deadline = time.monotonic() + after_s
        ended = 0
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, number)
            _, status = os.waitpid(child, 0)
        orphans += wait_for_orphans(child)
        left = sorted(path.name for path in run.rglob(".auxo-*")) if run.exists() else []
        code = os.waitstatus_to_exitcode(status)
        stops.append({"after_s": round(after_s, 2), "signal": number.name, "code": code, "left": left})
    child = start(["resume", str(run)], log)
    _, status = os.waitpid(child, 0)
    orphans += wait_for_orphans(child)
    whole, resumed = content(folder / "whole"), content(run)
    return {
        "took_s": round(took_s, 2),
        "stops": stops,
        "orphans": orphans,
        "code": os.waitstatus_to_exitcode(status),
        "files": sorted(whole),
        "differ": sorted(name for name in {*whole, *resumed} if whole.get(name) != resumed.get(name)),
        "goes_on": [line for line in log.read_text().splitlines() if "goes on after" in line or "begins anew" in line],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--signals", default="SIGKILL")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true")
    asked = parser.parse_args()
    numbers = [signal.Signals[name] for name in asked.signals.split(",")]
    told = trial(asked.config, asked.folder, numbers, ["--engine", "ray"] if asked.ray else [], asked.seed)
    print(json.dumps(told, indent=2))  # noqa: T201 - a script that talks to whoever runs it

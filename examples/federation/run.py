"""A Flower federation on this machine's loopback, with TLS and node keys: it finds cohorts, and survives what happens.

    python examples/federation/run.py
    python examples/federation/run.py --nodes 8 --keep build/federation

It starts a SuperLink and SuperNodes, runs the app beside this file until its nodes are partitioned into cohorts, kills
a SuperNode and starts it again, kills the ServerApp and goes on from its checkpoint, and takes everything down. It ends
with `federation: ok`, or says what failed, with exit code 1. docs/flower-deployment.md is the same as a recipe.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from loopback import FederationError, LoopbackFederation, Node
from loopback.looking import cohort_in, participations_in, partitions_in, rounds_in

from auxo.core.types import CohortId

APP = Path(__file__).parent / "app"
WITHOUT_END = 10_000  # rounds
# That a round waits for a node, and a cohort for rounds that come to something. The SuperLink needs a minute to notice
# that a process is dead, and nodes that were at work for one are started again: a cohort must not give up before.
TIMEOUT_S = 60.0
STEP_S = 240.0  # that a step of the script may take; our choice


class UnexpectedError(Exception):
    """What was expected did not happen."""


@dataclass
class Scenario:
    """What is done to the federation, step by step."""

    federation: LoopbackFederation
    count: int
    began_s: float = field(default_factory=time.monotonic)

    def say(self, words: str) -> None:
        """Print what has happened, and when."""
        print(f"{time.monotonic() - self.began_s:6.1f} s  {words}", flush=True)

    @property
    def directory(self) -> Path:
        """Return where the ServerApp keeps its checkpoints and events."""
        return self.federation.folder / "run"

    def bring_up(self) -> None:
        """Start all nodes, and one that nobody has registered."""
        for number in range(self.count):
            state = self.federation.folder / "state" / f"node-{number}"
            config: dict[str, str | int] = {
                "partition-id": number,
                "num-partitions": self.count,
                "auxo-state": str(state),
            }
            self.federation.add_node(f"node-{number}", config | {"auxo-state": str(state)})
        stranger = self.federation.add_node("stranger", {"partition-id": self.count}, registered=False)
        self.federation.wait_online(self.count, STEP_S)
        self.say(f"{self.count} SuperNodes are on line, over TLS and known by their keys")
        self.wait_for("the unregistered node to be refused", lambda: not stranger.is_running, "stranger")
        _expect("Exit Code: 305" in self.federation.log_of("stranger"), "the unregistered node to be refused")
        _expect(len(self.federation.online()) == self.count, f"{self.count} nodes on line, and no stranger")
        self.say("a node that is not registered was refused")

    def submit(self, rounds: int) -> str:
        """Start the app; where it has run before, it goes on."""
        run = self.federation.submit(
            APP, {"nodes": self.count, "rounds": rounds, "timeout": TIMEOUT_S, "directory": str(self.directory)}
        )
        self.wait_for("the ServerApp to start", lambda: len(self.federation.server_apps()) == 1, "superlink")
        return run

    def train_to_partition(self) -> None:
        """Train until the root is partitioned, and each half has closed a round."""
        self.wait_for("a partition", lambda: bool(partitions_in(self.directory)), "superlink")
        partition = partitions_in(self.directory)[0]
        children = partition.children
        self.say(f"round {partition.round}: partitioned into {' and '.join(children)}")
        _expect(len(children) == 2, f"two cohorts, got {children}")
        self.wait_for("a round of both cohorts", lambda: set(children) <= set(self.rounds()), "superlink")

    def kill_a_node(self) -> None:
        """Kill a SuperNode, start it again, and see that it has not forgotten where it belongs."""
        node = self.federation.nodes[0]
        self.wait_for("the node to be told its cohort", lambda: cohort_in(_state(node)) is not None, "superlink")
        before, cohort = participations_in(_state(node)), cohort_in(_state(node))
        self.federation.kill_node(node)
        self.say(f"{node.name} was killed, with {before} participations in its record, and wants cohort {cohort}")
        tries = self.federation.restart_node(node, STEP_S)
        self.say(f"{node.name} is back (start {tries}: the SuperLink takes no key twice, and notices deaths slowly)")
        self.wait_for("the node to train again", lambda: participations_in(_state(node)) > before, node.name)
        after = participations_in(_state(node))
        _expect(after == before + 1, f"the node to go on from its file, with {before + 1} participations, got {after}")
        wanted = cohort_in(_state(node))
        _expect(wanted == cohort, f"the node to want {cohort} as before, got {wanted}")
        self.say(f"{node.name} has trained again in cohort {cohort}: {after} participations")

    def kill_the_server(self) -> str:
        """Kill the ServerApp, and go on from its checkpoint for two more rounds of each cohort."""
        before = self.rounds()
        self.federation.kill_server_app()
        self.say(f"the ServerApp was killed, with {_listed(before)}")
        run = self.submit(max(before.values()) + 2)
        status = self.federation.wait_finished(run, STEP_S)
        _expect(status == "finished:completed", f"the run to complete, got {status}")
        _expect(len(partitions_in(self.directory)) == 1, "the run to go on, not to begin anew")
        after = self.rounds()
        _expect(set(after) == set(before), f"the same cohorts as before, got {sorted(after)}")
        _expect(min(after.values()) == max(before.values()) + 2, f"all rounds to be trained, got {_listed(after)}")
        self.say(f"a new ServerApp went on from the checkpoint: {_listed(after)}")
        return run

    def check_groups(self) -> None:
        """See that nodes are in the cohort of their group; nobody has told the server or the nodes."""
        found = [cohort_in(_state(node)) for node in self.federation.nodes[: self.count]]
        groups = [{found[place] for place in range(group, self.count, 2)} for group in (0, 1)]
        right = all(len(cohorts) == 1 for cohorts in groups) and groups[0] != groups[1] and None not in found
        _expect(right, f"nodes by turns in two cohorts, got {found}")
        self.say(f"all {self.count} nodes are with their likes: {', '.join(str(cohort) for cohort in found)}")

    def rounds(self) -> dict[CohortId, int]:
        """Return the last round that each cohort has closed, of those that train."""
        return rounds_in(self.directory)

    def wait_for(self, what: str, happens: Callable[[], bool], log: str) -> None:
        """Wait until something happens, as long as a step may take."""
        self.federation.wait_for(what, happens, STEP_S, log=log)


def _state(node: Node) -> Path:
    """Return where a node keeps its affinity record."""
    return Path(str(node.config["auxo-state"]))


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise UnexpectedError(f"expected {what}")


def _listed(rounds: dict[CohortId, int]) -> str:
    return ", ".join(f"{cohort} at round {number}" for cohort, number in sorted(rounds.items()))


def _stop(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="auxo-federation-") as made:
        yield Path(made)


def run(nodes: int, folder: Path) -> None:
    """Run the scenario.

    Raises:
        UnexpectedError: something did not come as it should.
        FederationError: a process did not do as it should.
    """
    federation = LoopbackFederation(folder)
    with federation:
        scenario = Scenario(federation, nodes)
        scenario.bring_up()
        scenario.submit(WITHOUT_END)
        scenario.train_to_partition()
        scenario.kill_a_node()
        scenario.kill_the_server()
        scenario.check_groups()
    left = federation.running()
    _expect(not left, f"no process to be left behind, got {left}")
    scenario.say("everything was taken down")


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line, run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=6, choices=range(6, 9), help="SuperNodes, 6 to 8 (default: 6)")
    parser.add_argument("--keep", type=Path, help="folder for logs and all files (default: a temporary one)")
    asked = parser.parse_args(words)
    signal.signal(signal.SIGTERM, _stop)  # so that the federation is taken down then, too
    try:
        with _folder(asked.keep) as folder:
            run(asked.nodes, folder)
    except (UnexpectedError, FederationError) as error:
        print(f"federation: failed: {error}", file=sys.stderr, flush=True)
        return 1
    print("federation: ok", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

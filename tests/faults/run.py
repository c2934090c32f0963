"""Run the tests that show faults, and tell of each fault in one line.

    python tests/faults/run.py [--quick] [what pytest takes]

Prints ``NN ok|FAIL|n/a name: outcome`` for all faults of `faults.toml`; exits with 1 if any failed, or if a place that
the list names has no test of it. With ``--quick`` tests marked `slow` are left out unless they are marked `quick`; what
then was not tried is n/a. Naming files does the same to all that is not in them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.faults.fault_list import Fault, faults, place_of  # noqa: E402 - found by the line above

WHOLE, QUICK = "fault or processes", "(fault or processes) and (quick or not slow)"


@dataclass(eq=False)  # pytest puts it into a set
class FaultsTold:
    """What became of each fault's tests, as pytest tells of them."""

    is_whole: bool
    tests: dict[str, set[tuple[int, str]]] = field(default_factory=dict)  # the faults that each shows, and where
    bad: dict[str, str] = field(default_factory=dict)  # why, of each that failed or was skipped
    done: set[str] = field(default_factory=set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn which test shows what."""
        for item in session.items:
            self.tests[item.nodeid] = {
                (number, mark.kwargs.get("where", place_of(item.nodeid.partition("::")[0])))
                for mark in item.iter_markers("fault")
                for number in mark.args
            }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Learn what became of a test."""
        if report.failed or report.skipped:
            self.bad[report.nodeid] = "failed" if report.failed else "skipped"
        elif report.when == "call":
            self.done.add(report.nodeid)

    def said_of(self, fault: Fault) -> tuple[str, str]:
        """Return ok, FAIL or n/a, and the reason where it is not ok."""
        mine = {test: place for test, shown in self.tests.items() for number, place in shown if number == fault.number}
        bad = [f"{test} {self.bad[test]}" for test in mine if test in self.bad]
        if bad:
            return "FAIL", bad[0] + (f" and {len(bad) - 1} more" if bad[1:] else "")
        done = {place for test, place in mine.items() if test in self.done}
        missing = [place for place in fault.where if place not in done]
        if missing and self.is_whole:
            return "FAIL", f"no test of it on: {', '.join(missing)}"
        return ("ok", "") if done else ("n/a", "not among the tests that were run")


def main(arguments: Sequence[str]) -> int:
    """Run; return the exit code."""
    is_quick = "--quick" in arguments
    more = [argument for argument in arguments if argument != "--quick"]
    told = FaultsTold(is_whole=not arguments)
    marks = [] if "-m" in more else ["-m", QUICK if is_quick else WHOLE]
    here = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-o", "testpaths=tests"]
    code = pytest.main([*here, *marks, *more], plugins=[told])
    bad = code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    for fault in faults():
        said, why = told.said_of(fault)
        bad |= said == "FAIL"
        print(f"{fault.number:02} {said:4} {fault.name}: {fault.outcome}" + (f" ({why})" if why else ""))  # noqa: T201
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

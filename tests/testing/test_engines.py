from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.core.asking import Answer
from auxo.core.cohort_algorithm import Closing
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.testing import ContractBroken, check_engine, engines
from auxo.testing.contract import Check
from auxo.testing.engines import MakeEngine, heard_in_process, troubled_population
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every


def in_process(inner: InProcess) -> AbstractContextManager[Engine]:
    return inner


def worker_processes(inner: InProcess) -> AbstractContextManager[Engine]:
    return WorkerProcesses(inner, workers=2)


CONTRACT: Mapping[str, MakeEngine] = {"in process": in_process, "worker processes": worker_processes}


@pytest.mark.parametrize("name", CONTRACT)
@every(engines.CONTRACT.checks)
def test_engines_keep_the_contract(check: Check[MakeEngine], name: str) -> None:
    check(CONTRACT[name])


def test_the_troubled_population_has_updates_that_are_refused_for_two_reasons() -> None:
    rounds = heard_in_process(OneCohort(), troubled_population())
    reasons = Counter(reason for heard in rounds for _, reason in heard.closed.gathered.rejected)
    assert set(reasons) == {"NON_FINITE", "BAD_WEIGHT"}


@dataclass(frozen=True)
class Bent:
    """Trains in this process, but for one thing."""

    inner: InProcess
    kind: str

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        inner = self.inner
        match self.kind:
            case "reseeded":
                inner = replace(inner, seed=inner.seed + 1)
            case "punctual":
                training = replace(training, late=np.zeros_like(training.late))
            case "first model":
                training = replace(
                    training, jobs=[replace(job, ask=replace(job.ask, model=0)) for job in training.jobs]
                )
            case "few":
                some = slice(0, 32)
                training = Training(training.rows[some], training.jobs[some], training.late[some], training.models)
        updates = list(inner.answers(training.models, training.jobs))
        if self.kind == "mends":
            updates = [
                replace(one, update=np.nan_to_num(one.update)) if isinstance(one, Answer) else one for one in updates
            ]
        return close_round(rules, closing, returned_by(training, updates))


@dataclass(frozen=True)
class MakeBent:
    """Makes a bent engine."""

    kind: str

    @contextmanager
    def __call__(self, inner: InProcess) -> Iterator[Engine]:
        yield Bent(inner, self.kind)


BROKEN: list[tuple[Check[MakeEngine], MakeEngine]] = [
    (engines.trains_one_model, MakeBent("reseeded")),
    (engines.hears_late_ones_and_halves, MakeBent("punctual")),
    (engines.offers_several_models, MakeBent("first model")),
    (engines.refuses_what_cannot_be_used, MakeBent("mends")),
    (engines.trains_nobody_and_many, MakeBent("few")),
]


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[MakeEngine], part: MakeEngine) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(engines.CONTRACT.checks, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    check_engine(MakeBent("not at all"))
    with pytest.raises(ContractBroken, match="MakeBent breaks a promise of an engine: Rounds of one model"):
        check_engine(MakeBent("reseeded"))

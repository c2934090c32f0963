"""What distinguishes the cohorts that a method has found: their clients, answers, inputs, and how both go together.

It is for the report; no method sees it. A client's *profile* are the means over its
training samples of its answers (which class or labels, or numbers), of its inputs, and of their products. A cohort's
centre is the mean of its clients' profiles.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import FloatArray, IntArray
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError
from auxo.files.typed_json import json_reader
from auxo.population.federated_data import FederatedData
from auxo.population.preparation import LearningTask

_FILE = "cohorts.json"
_REMEDY = "the file is damaged or of another version of Auxo: run the experiment again"

# Our choices, so that the largest populations are looked into in seconds.
_MOST_SAMPLES = 100  # of a client that are looked at: the first, whose order is random
_MOST_NUMBERS = 20_000_000  # of all clients' profiles together
_MOST_NAMED = 200  # inputs or classes that are told one by one, and members of a cohort that are named
_MOST_PAIRS = 2000  # of an answer and an input
_NEAREST = 5
_AT_ONCE = 1 << 22  # numbers of samples that are worked on at a time

_read = cache(lambda: json_reader(CohortProfiles))


@dataclass(frozen=True)
class CohortProfile:
    """One cohort. Inputs are in deviations of everybody's, from everybody's mean, and so are numbers to be learned."""

    cohort: str
    clients: int
    samples: int  # that were looked at
    nearest: tuple[str, ...]  # clients nearest to the cohort's centre, the nearest first
    members: tuple[str, ...]  # a few of them if they are many
    answers: tuple[float, ...]  # share of samples with each class or label; mean of each number to be learned
    inputs: tuple[float, ...]  # mean of each
    pairs: tuple[
        tuple[float, ...], ...
    ]  # by answer: mean of each input where it holds, or of its product with a number


@dataclass(frozen=True)
class CohortProfiles:
    """All cohorts of a method that have clients; what there would be too much of is left out."""

    task: LearningTask
    answers: tuple[str, ...]  # names of classes, labels or numbers
    inputs: tuple[str, ...]
    everybody: CohortProfile
    cohorts: tuple[CohortProfile, ...]


def profile_cohorts(data: FederatedData, scores: ClientScores) -> CohortProfiles:
    """Return what distinguishes the cohorts in which clients ended."""
    rows = np.arange(data.n_clients) if scores.client is None else scores.client
    look = _Look.at(data, rows)
    counts, sums = look.sums()
    owners = {str(cohort): np.flatnonzero(scores.cohort == cohort) for cohort in np.unique(scores.cohort).tolist()}
    everybody = np.arange(len(rows))
    return CohortProfiles(
        task=data.task,
        answers=_names(data.preparation.classes, [f"class {number}" for number in range(look.answers)]),
        inputs=_names(data.preparation.columns, _places(data.features) if look.inputs else []),
        everybody=look.profile("", everybody, counts, sums),
        cohorts=tuple(look.profile(cohort, mine, counts, sums) for cohort, mine in owners.items()),
    )


def write_profiles(run: RunDirectory, method: str, profiles: CohortProfiles) -> None:
    """Write them into a method's folder."""
    text = json.dumps(asdict(profiles), ensure_ascii=False, allow_nan=False)
    write_whole(run.method_folder(method) / _FILE, f"{text}\n".encode())


def read_profiles(run: RunDirectory, method: str) -> CohortProfiles | None:
    """Return what `write_profiles` wrote; None where there is nothing to distinguish, or the run has not ended."""
    path = run.method_folder(method) / _FILE
    try:
        return _read()(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError as error:
        raise FileError(f"{path}: expected what distinguishes cohorts, as JSON: {error}; {_REMEDY}") from error


@dataclass(frozen=True)
class _Look:
    """Clients of a population, and how many answers, inputs and pairs of both their profiles have."""

    data: FederatedData
    rows: IntArray
    answers: int
    inputs: int
    pairs: int
    shift: FloatArray  # (inputs,) everybody's mean
    scale: FloatArray  # (inputs,) everybody's deviation

    @staticmethod
    def at(data: FederatedData, rows: IntArray) -> "_Look":
        room = _MOST_NUMBERS // max(1, len(rows))
        answers = data.n_classes if data.n_classes <= min(_MOST_NAMED, room) else 0
        width = int(np.prod(data.features))
        inputs = width if not data.has_tokens and width <= min(_MOST_NAMED, room - answers) else 0
        pairs = answers * inputs
        pairs = pairs if pairs <= min(_MOST_PAIRS, room - answers - inputs) else 0
        look = _Look(data, rows, answers, inputs, pairs, np.zeros(inputs), np.ones(inputs))
        samples, total, squares = 0, np.zeros(inputs), np.zeros(inputs)
        for owner, x, _ in look._samples():
            samples, total, squares = samples + len(owner), total + x.sum(axis=0), squares + np.square(x).sum(axis=0)
        mean = total / max(1, samples)
        deviation = np.sqrt(np.maximum(0.0, squares / max(1, samples) - np.square(mean)))
        return replace(look, shift=mean, scale=np.where(deviation > 1e-6 * np.abs(mean), deviation, 1.0))

    def sums(self) -> tuple[IntArray, FloatArray]:
        """Return how many samples of each client were looked at, and the sums over them that profiles are made of."""
        counts = np.zeros(len(self.rows), dtype=np.int64)
        sums = np.zeros((len(self.rows), self.answers + self.inputs + self.pairs))
        for owner, x, answers in self._samples():
            counts += np.bincount(owner, minlength=len(counts))
            inputs = (x - self.shift) / self.scale
            columns = [answers, inputs]
            if self.pairs:
                columns.append((answers[:, :, np.newaxis] * inputs[:, np.newaxis]).reshape(len(owner), -1))
            firsts = np.flatnonzero(np.diff(owner, prepend=-1))  # samples come client by client
            sums[owner[firsts]] += np.add.reduceat(np.concatenate(columns, axis=1), firsts, axis=0)
        return counts, sums

    def profile(self, cohort: str, mine: IntArray, counts: IntArray, sums: FloatArray) -> CohortProfile:
        samples, total = int(counts[mine].sum()), sums[mine].sum(axis=0)
        answers, inputs, pairs = np.split(total, [self.answers, self.answers + self.inputs])
        pairs = pairs.reshape(self.answers if self.pairs else 0, self.inputs)
        often = samples if self.data.task == "regression" else np.maximum(answers, 1)[:, np.newaxis]
        means = sums[mine] / np.maximum(counts[mine], 1)[:, np.newaxis]
        distance = np.square(means - means.mean(axis=0)).sum(axis=1)
        names = self.data.client_names
        return CohortProfile(
            cohort=cohort,
            clients=len(mine),
            samples=samples,
            nearest=tuple(
                names[int(self.rows[mine[place]])] for place in np.argsort(distance, kind="stable")[:_NEAREST]
            ),
            members=tuple(names[int(self.rows[row])] for row in mine[:_MOST_NAMED]),
            answers=_rounded(answers / max(1, samples)),
            inputs=_rounded(inputs / max(1, samples)),
            pairs=tuple(map(_rounded, pairs / often)) if self.pairs else (),
        )

    def _samples(self) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Yield whose samples are looked at (place in rows), their inputs and their answers, some at a time."""
        train = self.data.train
        counts = np.minimum(train.counts(self.rows), _MOST_SAMPLES)
        before = np.cumsum(counts) - counts
        owner = np.repeat(np.arange(len(self.rows)), counts)
        positions = np.arange(len(owner)) + np.repeat(train.offsets[self.rows] - before, counts)
        width = 1 + self.answers + self.inputs + self.pairs
        for some in np.array_split(np.arange(len(owner)), max(1, len(owner) * width // _AT_ONCE)):
            at = positions[some]
            x = np.zeros((len(at), 0))
            if self.inputs:
                x = _finite(self.data.numbers(train.x_rows[at]).reshape(len(at), -1))
            yield owner[some], x, self._answers(train.y[at])

    def _answers(self, y: IntArray) -> FloatArray:
        if not self.answers:
            return np.zeros((len(y), 0))
        if self.data.task == "classification":
            return np.eye(self.answers)[y]
        return _finite(self.data.answers(y))


def _finite(values: NDArray[Any]) -> FloatArray:
    """Return numbers in double precision; those that are none, which other parts tell of, count for nothing."""
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _names(known: Sequence[str], numbered: Sequence[str]) -> tuple[str, ...]:
    return tuple(known if len(known) == len(numbered) else numbered)


def _places(features: tuple[int, ...]) -> list[str]:
    """Return what inputs without names are called: by their number, or those of an image by where they stand."""
    if len(features) == 1:
        return [f"input {number}" for number in range(features[0])]
    return [f"pixel {' '.join(map(str, place))}" for place in np.ndindex(*features)]


def _rounded(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(f"{value:.4g}") for value in values.tolist())

"""All samples of a data set as columns, and how the columns of a table become inputs once all rows are known."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.datasets.client_samples import SampleSource
from auxo.files.errors import file_error
from auxo.population.federated_data import StoredInputs, client_order
from auxo.population.preparation import LearningTask, Preparation, column_ranges, fit_columns

_ROWS_AT_ONCE = 1 << 16  # that are worked on at a time; our choice


@dataclass(frozen=True)
class Columns:
    """All samples of a data set, row aligned, with clients and groups as numbers of their names."""

    name: str
    x: StoredInputs  # (samples, *features)
    y: IntArray  # (samples,)
    client: IntArray  # (samples,) place in ``clients``
    is_test: BoolArray  # (samples,)
    clients: tuple[str, ...]
    classes: tuple[str, ...]
    group: IntArray | None = None  # (clients,) place in ``groups``
    groups: tuple[str, ...] = ()
    preparation: Preparation = field(default_factory=Preparation)
    task: LearningTask = "classification"
    targets: Float32Array | None = None  # (samples, targets); None exactly for classification, where ``y`` says it all

    def train_rows(self) -> IntArray:
        """Return the rows to train on, client by client in their order, as a population has them."""
        return train_rows(self.clients, self.client, self.is_test)


def train_rows(clients: Sequence[str], client: IntArray, is_test: BoolArray) -> IntArray:
    """Return the rows to train on, client by client in their order."""
    rows = np.argsort(np.argsort(client_order(clients))[client], kind="stable")
    kept: IntArray = rows[~is_test[rows]]
    return kept


def prepared(columns: Columns, x: FloatArray, source: SampleSource, out: Float32Array) -> Columns:
    """Return a table's columns with inputs made of ``x`` as the source's plan has it, written to ``out``.

    Means and deviations are those of the training samples: what is held out must not show in them.
    """
    plan = source.columns
    assert plan is not None  # noqa: S101 - the caller has checked it
    rows = columns.train_rows()
    means, deviations = fit_columns(x, rows)
    empty = [name for name, mean in zip(plan.names, means, strict=True) if np.isnan(mean)]
    if empty:
        remedy = "leave it out: name the columns of inputs with --features"
        raise file_error(source.path, f"column {empty[0]!r}", "a value in some training sample", "none", remedy)
    lows, highs = column_ranges(x, rows)
    done = replace(
        columns.preparation,
        columns=plan.names,
        lows=lows,
        highs=highs,
        means=tuple(means.tolist()) if plan.standardise else (),
        scales=tuple(deviations.tolist()) if plan.standardise else (),
        missing=plan.missing,
        fills=tuple(means.tolist()) if plan.missing == "mean" else (),
        client=plan.client,
        label=plan.label,
        categories=plan.categories,
    )
    for first in range(0, len(x), _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        out[some] = done.apply(x[some])
        if not np.isfinite(out[some]).all():
            name = done.columns[int(np.argwhere(~np.isfinite(out[some]))[0, 1])]
            remedy = "take the column out with --features, or scale it down"
            raise file_error(source.path, f"column {name!r}", "numbers that fit float32", "larger ones", remedy)
    return replace(columns, x=out, preparation=done)


def prepared_targets(targets: FloatArray, rows: IntArray, source: SampleSource) -> tuple[Float32Array, Preparation]:
    """Return targets as they are learned, and the record of it: numbers are standardised by ``rows``, flags are not."""
    done = Preparation(classes=source.classes, task=source.task)
    if source.task == "regression" and source.standardises_targets:
        means, deviations = fit_columns(targets, rows)
        targets = (targets - means) / deviations
        done = replace(done, target_means=tuple(means.tolist()), target_scales=tuple(deviations.tolist()))
    with np.errstate(over="ignore"):
        kept = targets.astype(np.float32)
    if not np.isfinite(kept).all():
        remedy = "scale them down"
        raise file_error(source.path, "targets", "numbers that fit float32", "larger ones", remedy)
    return kept, done

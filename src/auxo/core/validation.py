"""Every update is checked before anything looks at it; a refused one has a reason code and takes part in nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from auxo.core.types import Float32Array

Reason = Literal[
    "SCHEMA_MISMATCH",
    "NON_FINITE",
    "TOO_LARGE",
    "BAD_WEIGHT",
    "UNKNOWN_COHORT",
    "NOT_SELECTED",
    "UNUSUAL_LENGTH",
    "NO_LOSS",
]

_ELSEWHERE = "a reason of another version of Auxo"

NOT_A_NUMBER: tuple[Reason, ...] = ("NON_FINITE", "TOO_LARGE")
"""The reasons for which an update is refused whose training has diverged, or whose samples hold no numbers."""

_MEANS: Mapping[str, str] = {
    "SCHEMA_MISMATCH": "an update is not a float array with one number for each parameter",
    "NON_FINITE": "an update holds NaN or infinite numbers: training has diverged, or the data hold such numbers",
    "TOO_LARGE": "an update changes a parameter by more than 1e8: training has diverged",
    "BAD_WEIGHT": "the number of examples is not a whole number from 1 to 10^9",
    "UNKNOWN_COHORT": "the result names a cohort or a model that was not in the task",
    "NOT_SELECTED": "the sender had no task in this round, or sent different results",
    "UNUSUAL_LENGTH": "an update is far longer than those of the cohort's last rounds",
    "NO_LOSS": "the result tells no finite loss, by which the aggregator weighs updates: answer Ask.reports_loss",
}


AGAIN = 5
"""Refusals of one client from which on it is named; our choice: one or two may be a bad day."""


def why(reasons: Sequence[str]) -> str:
    """Return the reasons of refusals in words, the most frequent first.

    >>> why(["BAD_WEIGHT"])
    '1 x BAD_WEIGHT (the number of examples is not a whole number from 1 to 10^9)'
    """
    return "; ".join(
        f"{count} x {reason} ({_MEANS.get(reason, _ELSEWHERE)})" for reason, count in Counter(reasons).most_common()
    )


MAX_CHANGE = (
    1e8  # of one parameter by one update; a finite number beyond it would still make the model infinite; our choice
)
MAX_EXAMPLES = 10**9  # a device that claims more owns the model; our choice


def check_update(update: object, examples: object, n_params: int) -> tuple[Float32Array, int] | Reason:
    """Return the update as float32 and its examples as int, or the reason why it is refused.

    Arrays of another shape are refused even where numpy would broadcast them; integers, objects and complex numbers
    are refused as another dtype. An update that is float32 already comes back as it is, not as a copy.
    """
    if not isinstance(update, np.ndarray) or update.shape != (n_params,) or update.dtype.kind != "f":
        return "SCHEMA_MISMATCH"
    whole = isinstance(examples, int | np.integer) and not isinstance(examples, bool)
    if not whole or not 0 < int(examples) <= MAX_EXAMPLES:  # type: ignore[call-overload]  # whole says it is a number
        return "BAD_WEIGHT"
    with np.errstate(over="ignore"):
        values: Float32Array = update.astype(np.float32, copy=False)
    # What is not a number shows in both of them, and what is infinite in one.
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not np.isfinite(largest):
        return "NON_FINITE"
    if largest > MAX_CHANGE:
        return "TOO_LARGE"
    return values, int(examples)  # type: ignore[call-overload]

"""The words every module shares: ids and array aliases."""

from typing import NewType

import numpy as np
from numpy.typing import NDArray

ClientId = int | str
"""A client's identity: a number, or a name. Never a row number: rows belong to one array, ids to the federation."""

CohortId = NewType("CohortId", str)
"""A cohort's path in the cohort tree, "0.1.0"; never reused. The root is "0"."""

FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

InputArray = NDArray[np.float32 | np.int32]
"""What a model is given, (samples, *features): numbers, or the tokens of a text."""

ROOT = CohortId("0")

"""What a process that trains has found out about a chunk of participants, on its way to the one that gathers it.

Updates and directions are rows of two arrays, in shared memory or sent as they are; beside them goes the little that is
to be known of each participant.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from auxo.core.asking import Answer, Failure
from auxo.core.fingerprint import Fingerprint
from auxo.core.gathering import Examined, examine
from auxo.core.types import Float32Array, FloatArray
from auxo.core.validation import Reason

SeenAnswer = tuple[Answer, float, FloatArray, FloatArray] | Reason | Failure
"""An answer, all but its update, and what was found of that; or why it is refused, or there is none."""

_NOTHING = np.zeros(0, dtype=np.float32)  # in place of an update


def examined_into(
    updates: Float32Array,
    directions: FloatArray,
    answers: Iterable[Answer | Failure],
    fingerprint: Fingerprint,
    are_modded: bool,
) -> list[SeenAnswer]:
    """Examine answers; updates and directions are in rows of these arrays then, the rest is returned.

    Args:
        updates: where the answers' own are already, unless they are modded.
        directions: to be filled in.
        answers: in the order of the rows.
        fingerprint: of updates.
        are_modded: a mod may have put others in the place of updates.
    """
    found: list[SeenAnswer] = []
    for place, answer in enumerate(answers):
        examined = answer if isinstance(answer, Failure) else examine(answer, fingerprint)
        if not isinstance(examined, Examined):
            found.append(examined)
            continue
        if are_modded:
            updates[place] = examined.answer.update
        directions[place] = examined.direction
        about = (examined.length, examined.outputs, examined.inputs)
        found.append((replace(examined.answer, update=_NOTHING), *about))
    return found


def whole(seen: SeenAnswer, update: Float32Array, direction: FloatArray) -> Examined | Reason | Failure:
    """Return what was seen of a participant together with its rows; the direction is a copy, for rounds keep it."""
    if not isinstance(seen, tuple):
        return seen
    answer, length, outputs, inputs = seen
    return Examined(replace(answer, update=update), direction.copy(), length, outputs, inputs)

"""Halves of a client's samples: by which one a judge chooses among models, and by which one it judges its choice.

A choice that has seen the samples it is judged by would find groups where there is nothing but chance.
"""

CHOOSES_BY = 1  # half that judges who train on everything choose by; they are then asked the other way round, too


def chosen_by(fold: int | None) -> int:
    """Return the half to choose among models by: the one that is trained on, if one is."""
    return CHOOSES_BY if fold is None else fold


def kept_out(fold: int | None) -> int:
    """Return the half to judge models by: the other one."""
    return 1 - chosen_by(fold)

"""Halves of a client's samples: which one a judge's label comes from, and which one it judges models by.

A label that has seen the samples it is judged on would find groups where there is nothing but chance. So a judge trains
on one half when its label is made, and judges by the other.
"""

LABELLED_BY = 1  # half that judges train on when their label is made


def chosen_by(fold: int | None) -> int:
    """Return the half by which a judge would choose among models: the one that its label comes from."""
    return LABELLED_BY if fold is None else fold


def kept_out(fold: int | None) -> int:
    """Return the half to judge models by: the one that is not trained on, and of all samples the one without labels."""
    return 1 - chosen_by(fold)

"""Personalisers: what a client does to the model of its cohort before it uses it."""

from auxo.core.personalisers.fine_tuning import FineTuning
from auxo.core.personalisers.ftfa import Ftfa
from auxo.core.personalisers.personaliser import AsItIs, Personaliser, Tuning

__all__ = ["AsItIs", "FineTuning", "Ftfa", "Personaliser", "Tuning"]

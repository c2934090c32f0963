"""Auxo from Python: simulate a federation, and use what a run has left; the commands are a thin layer over it."""

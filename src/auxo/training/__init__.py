"""Local training: what a participant does with its samples, one by one or many side by side.

In it: the trainers, which samples in which order, several participants at once; `training/kernels` has the hand-written
steps, with a README of its own.
"""

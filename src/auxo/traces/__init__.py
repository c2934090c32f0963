"""Traces of real devices: when they were on line, how fast they are, and how a simulation uses them.

In it: the trace file, its converters, and its devices and sessions in place of drawn ones.
"""

"""Traces of real devices: when they were on line, how fast they are, and how a simulation uses them."""

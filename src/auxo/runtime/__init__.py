"""What carries a run from round to round: the coordinator, and what it asks of an engine.

In it: how a round opens, closes and is told, the coordinator, the recorder, and `Server` and `Client` for a loop of
your own.
"""

"""What carries a run from round to round: the coordinator, and what it asks of an engine."""

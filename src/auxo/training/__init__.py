"""Local training: what a participant does with its samples, one by one or many side by side."""

"""Files as every room reads and writes them: whole or not at all, with errors that name the remedy.

In it: checkpoints, a lock on a directory, and what is said of a file that cannot be used.
"""
